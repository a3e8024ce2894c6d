"""Log files of all formats, read batch by batch: a single file, or the files of a folder one after the other."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from drcrm.data.bandit_log import BanditLog
from drcrm.data.listeners import report_progress
from drcrm.errors import InputError, prefix_errors
from drcrm.logs.collection import collect
from drcrm.logs.description import Batch
from drcrm.logs.encoding.arrays import ArrayEncoding
from drcrm.logs.encoding.base import Contexts, Encoding
from drcrm.logs.encoding.listed_tables import ListedTableEncoding, ListIds
from drcrm.logs.encoding.tables import TableEncoding
from drcrm.logs.mapping import LogMapping, as_mapping
from drcrm.logs.readers import dsjson, vw_text
from drcrm.logs.readers.csv_format import CsvFormat
from drcrm.logs.readers.decisions import batch_of, batches, contexts_of
from drcrm.logs.readers.npz_files import feedback_batch, npz_batch, npz_contexts, read_arrays
from drcrm.logs.readers.packed_files import format_of_file, opened
from drcrm.logs.readers.table_files import Columns, joint_types, table_chunks
from drcrm.logs.readers.table_records import dataset_mapping, frame_batch, frame_mapping

ROWS = 2**17  # number of rows of a batch
TABLES = "csv", "parquet", "json"
TEXTS = {"dsjson": dsjson, "vw": vw_text}  # modules with ``detect_variant``, ``decisions`` and ``contexts``


Source = str | Path | Sequence[str | Path]


def read_raw_log(
    source: Source | pd.DataFrame | Mapping,
    mapping: Any = None,
    folder: Callable[[], Path] | None = None,
    most: int = 0,
) -> BanditLog:
    """Return a log whose X is a table of features, not yet encoded. Its propensities are None if not known.

    Parameters
    ----------
    source : str, Path or sequence of them, DataFrame or mapping
        A file, or a folder whose files are read in the order of their names; or several of them. All files have one
        format. CSV and text may be compressed. Or a table in memory, or OBP's dictionary.
    mapping : dict, path or LogMapping, optional
        Meaning of the columns of CSV and Parquet. Other formats, and the Open Bandit Dataset's csv, need none.
    folder : callable, optional
        It returns a folder for memory-mapped files. It is called if the rows take more bytes than ``most``. By
        default the rows are in memory.
    most : int
        Largest size in bytes of the rows in memory, if ``folder`` is given.

    Raises
    ------
    InputError
        If a file cannot be read or is invalid. The message is one line that begins with its path.
    """
    if isinstance(source, pd.DataFrame):
        return collect([frame_batch(source, frame_mapping(mapping), "frame")])
    if isinstance(source, Mapping):
        return collect([feedback_batch(source, as_mapping(mapping))])
    return collect(log_batches(source, as_mapping(mapping)), folder, most, prefix_errors(name_of(source)))


def log_batches(source: Source, mapping: LogMapping, rows: int | None = None) -> Iterator[Batch]:
    """Yield the rows of a log. Files without rows are skipped, but one file must have rows.

    Parameters
    ----------
    source : str, Path or sequence of them
    mapping : LogMapping
    rows : int, optional
        Number of rows of a batch, by default ``ROWS``. The last batch of a file may be smaller. A batch of a text takes
        about as much memory as a batch of a table. An npz file is one batch.

    Raises
    ------
    InputError
        If a file is invalid. The message has its path and the row.
    """
    form, files = _opened(source)
    before, last, csv_format = 0, None, mapping.csv_format
    skipped: Counter[str] = Counter()
    for file in files:
        start = before  # rows of earlier files
        with prefix_errors(file):
            for batch, end in _batches_of(file, form, files, mapping, rows or ROWS, csv_format, skipped):
                before = start + end
                if last is not None:
                    summaries = batch.description.summary, last.description.summary
                    for content, expected in zip(*summaries, strict=True):
                        if content != expected:
                            raise InputError(f"has {content}, expected {expected} like earlier rows")
                    yield last
                last = batch._replace(rows=batch.rows.assign(number=batch.rows.columns["number"] + start))
    if last is None:
        reasons = "".join(f"; {count} {reason}" for reason, count in skipped.items())
        raise InputError(f"{name_of(source)}: has no rows that can be read, expected at least one{reasons}")
    yield last._replace(description=replace(last.description, skipped=dict(skipped)))


def context_batches(
    source: Source, encoding: Encoding, rows: int, csv_format: CsvFormat | None = None, keep: Sequence[str] = ()
) -> Iterator[tuple]:
    """Yield the contexts of a log ``rows`` at a time; all at once for npz.

    ``csv_format`` is the format of CSV, by default detected. ``keep`` has the columns of a table to return.

    Yields
    ------
    contexts : array or CSR (m, d), or ActionLists
        The encoded contexts.
    unseen : dict of int
        Number of rows with a value that did not occur in training, by reason, for example a new category.
    missing : dict of int
        Number of missing values by column.
    kept : Arrow table or None
        The columns ``keep`` as written; None unless the file is a table.

    Raises
    ------
    InputError
        If the file is invalid, or its format differs from that of the training log.
    """
    form, files = _opened(source)
    tables = dict.fromkeys((TableEncoding, ListedTableEncoding), TABLES)
    forms = (tables | {ArrayEncoding: ("npz",)}).get(type(encoding), tuple(TEXTS))
    if form not in forms:
        raise InputError(f"{name_of(source)}: is {form}, expected {' or '.join(forms)} like the training log")
    csv_format, is_empty = csv_format or CsvFormat(), True
    for file in files:
        with prefix_errors(file):
            for contexts, kept in _contexts_of(file, form, encoding, rows, csv_format, keep):
                is_empty = False
                features = contexts.features
                yield encoding.contexts(contexts), encoding.unseen(features), features.missing, kept
    if is_empty:
        raise InputError(f"{name_of(source)}: has no rows, expected at least one")


def first_frame(
    source: Source, select: Callable[[list[str]], Columns], rows: int, csv_format: CsvFormat | None = None
) -> pd.DataFrame:
    """Return the first rows of a table, from its first file with rows."""
    for file in files_of(source):
        for frame, _ in table_chunks(file, format_of([file]), select, rows, csv_format):
            return frame
    raise InputError("has no rows, expected at least one")


def kept_types(source: Source, keep: Sequence[str]) -> dict[str, Any]:
    """Return the Arrow types of columns of a Parquet log, each the joint type of its files; empty for other formats."""
    with prefix_errors(name_of(source)):
        files = files_of(source)
        form = format_of(files)
    return joint_types(files, keep) if form == "parquet" else {}


def format_of(files: Sequence[Path]) -> str:
    """Return the format of files; InputError if they differ."""
    formats: dict[str, str] = {}
    for file in files:
        with prefix_errors(file.name) if len(files) > 1 else nullcontext():
            formats.setdefault(format_of_file(file), file.name)
    if len(formats) > 1:
        raise InputError(f"has files of more than one format, such as {', '.join(formats.values())}")
    if "npz" in formats and len(files) > 1:
        raise InputError(f"has {len(files)} files of npz, expected a single file")
    return next(iter(formats))


def files_of(source: Source) -> list[Path]:
    """Return the files of a log: of a folder by name, except those that begin with a dot or underscore.

    Folders in it, such as ``day=2024-05-01``, name columns. Among several files, those without a byte are left out.
    """
    if not isinstance(source, str | Path):
        files = [file for path in source for file in files_of(path)]
    elif Path(source).is_dir():
        files = [*_files_below(Path(source))]
    else:
        return [Path(source)]
    if not files:
        raise InputError("is a folder without files")
    return [file for file in files if not file.exists() or file.stat().st_size] or files[:1]


def _files_below(folder: Path) -> Iterator[Path]:
    for path in sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_"))):
        if path.suffix == ".crc":  # checksums of Hadoop
            continue
        if not path.is_dir():
            yield path
        elif "=" in path.name:
            yield from _files_below(path)
        else:
            raise InputError(f"has the folder {path.name!r}, expected only files, or folders such as day=2024-05-01")


def name_of(source: Source) -> str:
    """Return the paths of a log as one text."""
    return str(source) if isinstance(source, str | Path) else ", ".join(map(str, source))


def short_name(source: Source) -> str:
    """Return the names of a log's files and folders, at most three, as one text."""
    paths = [Path(source)] if isinstance(source, str | Path) else [*map(Path, source)]
    return ", ".join([path.name for path in paths[:3]] + ["…"] * (len(paths) > 3))


def _opened(source: Source) -> tuple[str, list[Path]]:
    """Return the format and the files of a log, and report their size in bytes."""
    with prefix_errors(name_of(source)):
        files = files_of(source)
        form = format_of(files)
    report_progress(0, "bytes", sum(os.path.getsize(file) for file in files if os.path.exists(file)))
    return form, files


def _batches_of(
    file: Path,
    form: str,
    files: list[Path],
    mapping: LogMapping,
    rows: int,
    csv_format: CsvFormat,
    skipped: Counter[str],
) -> Iterator[tuple[Batch, int]]:
    """Yield the batches of a file, and how many of its rows or lines were read so far; count lines that are skipped."""
    if form in TABLES:
        yield from _table_batches(file, form, mapping, rows, csv_format)
    elif form in TEXTS:
        yield from _text_batches(file, form, mapping, rows, files, skipped)
    else:
        batch = npz_batch(read_arrays(file), mapping)
        yield batch, batch.rows.size


def _table_batches(
    file: Path, form: str, mapping: LogMapping, rows: int, csv_format: CsvFormat
) -> Iterator[tuple[Batch, int]]:
    row, lists = 0, ListIds(mapping.list) if mapping.list else None

    def select(header: list[str]) -> Columns:
        nonlocal mapping
        mapping = dataset_mapping(header, mapping).require_table()
        return Columns(mapping.columns, mapping.number_columns)

    for frame, _ in table_chunks(file, form, select, rows, csv_format, mapping.list):
        batch = frame_batch(frame, mapping, form, row, lists)
        row += len(frame)
        report_progress(len(frame), "rows")
        yield batch, row
    if lists:
        lists.finish()


def _text_batches(
    file: Path, form: str, mapping: LogMapping, rows: int, files: list[Path], skipped: Counter[str]
) -> Iterator[tuple[Batch, int]]:
    text, lines = TEXTS[form], _Lines(file, reported=True)
    mapping = mapping.require_no_columns(text.DESCRIPTION)
    decisions = text.decisions(lines, _variant(file, form, files), skipped)
    for decided in batches(decisions, rows):
        yield batch_of(decided, form, mapping), lines.row


def _contexts_of(
    file: Path, form: str, encoding: Encoding, rows: int, csv_format: CsvFormat, keep: Sequence[str]
) -> Iterator[tuple[Contexts, Any]]:
    """Yield the features of a file's contexts batch by batch, and the columns of a table to keep."""
    if form == "npz":
        yield encoding.read(npz_contexts(read_arrays(file))), None
    elif isinstance(encoding, TableEncoding | ListedTableEncoding):
        list_id = getattr(encoding, "list_id", None)
        names, lists = dict.fromkeys([*encoding.inputs, *keep]), ListIds(list_id)
        row, columns = 0, Columns([*names], [*encoding.scales])
        for frame, table in table_chunks(file, form, lambda header: columns, rows, csv_format, list_id):
            numbers = np.arange(row, row + len(frame))
            yield encoding.read(frame, numbers, lists), table.select([*keep])
            row += len(frame)
        lists.finish()
    else:
        contexts = TEXTS[form].contexts(_Lines(file, reported=True), encoding)
        for batch in batches(contexts, rows):
            yield contexts_of(batch), None


def _variant(file: Path, form: str, files: list[Path]) -> int | bool:
    """Return the variant of a text format, from the file itself or the first file of the folder that shows it."""
    variant = TEXTS[form].detect_variant(_Lines(file))
    for sibling in files:
        if variant is None and sibling != file:
            with prefix_errors(sibling.name):
                variant = TEXTS[form].detect_variant(_Lines(sibling))
    return TEXTS[form].DEFAULT_VARIANT if variant is None else variant


class _Lines:
    """The numbered lines of a file; ``row`` is the number of the next line.

    With ``reported``, reading them counts as progress.
    """

    def __init__(self, path: Path, reported: bool = False):
        self.row, self._path, self._reported = 0, path, reported

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        with opened(self._path, self._reported) as file:
            for line in file:
                self.row += 1
                yield self.row - 1, line
