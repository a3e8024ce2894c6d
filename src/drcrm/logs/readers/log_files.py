"""Files of users' logs, read batch by batch: CSV, Parquet, npz, Vowpal Wabbit's text and dsjson, Open Bandit's; a file,
or all files of a folder one after the other.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from drcrm.data.listeners import report_progress
from drcrm.errors import InputError, prefix_errors
from drcrm.logs.encoding.arrays import ArrayEncoding, Arrays
from drcrm.logs.encoding.named_features import Lists, Named
from drcrm.logs.encoding.registry import Encoding
from drcrm.logs.encoding.tables import Table, TableEncoding
from drcrm.logs.mapping import LogMapping, as_mapping
from drcrm.logs.readers import dsjson, vw_text
from drcrm.logs.readers.csv_format import CsvFormat
from drcrm.logs.readers.decisions import batches, data_of, records_of
from drcrm.logs.readers.obp import dataset_mapping, lists_or_contexts, records_of_arrays
from drcrm.logs.readers.table_files import Columns, lines_of, table_frames
from drcrm.logs.readers.table_records import part_of_frame
from drcrm.logs.record_collector import DataSink, RecordSink
from drcrm.logs.records import KINDS, Data, Records

ROWS = 2**17  # of a batch
TABLES = "csv", "parquet"
TEXTS = {"dsjson": dsjson, "vw": vw_text}  # each with ``way_of``, ``decisions`` and ``contexts`` of lines
FORMATS = {
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".npz",), "npz"),
    **dict.fromkeys((".dsjson", ".json", ".jsonl"), "dsjson"),
    **dict.fromkeys((".vw", ".dat", ".txt"), "vw"),
}
PACKED = (".gz", ".bz2")


def read_records(path, mapping=None, folder: Callable[[], Path] | None = None, most: int = 0) -> Records:
    """Return the rows of a log file.

    Parameters
    ----------
    path : str or Path
        CSV (.csv, .tsv), Parquet, npz, dsjson (.dsjson, .json, .jsonl) or Vowpal Wabbit's text (.vw, .dat, .txt), by
        suffix; CSV and text packed by gzip or bzip2 too; or a folder of files of one format but npz, which are read by
        name.
    mapping : dict, path or LogMapping, optional
        What the columns of CSV and Parquet are; other files, and the Open Bandit Dataset's csv, say so themselves.
    folder : callable, optional
        It returns a folder for memory-mapped files, and is called if the rows take more bytes than ``most``; by default
        the rows are in memory.
    most : int

    Raises
    ------
    InputError
        A file that cannot be read, or what is wrong in it, in one line that begins with its path.
    """
    mapping, path = as_mapping(mapping), Path(path)
    with RecordSink(folder, most) as sink:
        for batch in record_batches(path, mapping):
            sink.append(batch)
        with prefix_errors(path):
            return sink.finish()


def read_contexts(path, encoding: Encoding, csv_format: CsvFormat | None = None):
    """Return contexts to choose for, as an encoding makes them, and what in them it does not know.

    ``csv_format`` is that of CSV, by default as detected.

    Returns
    -------
    contexts : array or CSR (m, d), or ActionLists
    unseen : dict of int
        How many rows have a value that was not among those learned from, by what it is.

    Raises
    ------
    InputError
        As :func:`read_records`; or a file of another kind than the one that was learned from.
    """
    path, sink = Path(path), DataSink()
    for data in _data_batches(path, encoding, ROWS, csv_format):
        sink.append(data)
    data = sink.finish()
    with prefix_errors(path):
        return encoding.contexts(data), encoding.unseen(data)


def context_batches(path, encoding: Encoding, rows: int, csv_format: CsvFormat | None = None) -> Iterator[tuple]:
    """Yield what :func:`read_contexts` returns, and missing values by column, ``rows`` at a time; all of npz."""
    for data in _data_batches(Path(path), encoding, rows, csv_format):
        with prefix_errors(path):
            yield encoding.contexts(data), encoding.unseen(data), data.missing()


def format_of(path: Path) -> str:
    """Return the format that a file's suffix tells, or those of the files in a folder; InputError where they differ."""
    if not path.is_dir():
        suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in PACKED]
        if not suffixes or suffixes[-1] not in FORMATS:
            raise InputError(f"is of no known format, expected one of {', '.join(FORMATS)}")
        return FORMATS[suffixes[-1]]
    formats = {}
    for file in files_of(path):
        with prefix_errors(file.name):
            formats.setdefault(format_of(file), file.name)
    if len(formats) > 1:
        raise InputError(f"has files of more than one format, such as {', '.join(formats.values())}")
    [form] = formats
    if form == "npz":
        raise InputError("is a folder of npz, expected a single file")
    return form


def files_of(path: Path) -> list[Path]:
    """Return the file itself, or those of a folder by name, without those that begin with a point or an underscore."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if not file.name.startswith((".", "_")))
    if not files:
        raise InputError("is a folder without files")
    if folders := [file.name for file in files if file.is_dir()]:
        raise InputError(f"has the folder {folders[0]!r}, expected files alone")
    return files


def record_batches(path: Path, mapping: LogMapping, rows: int | None = None) -> Iterator[Records]:
    """Yield the rows of a log as :func:`drcrm.logs.record_collector.collect` takes them.

    Parameters
    ----------
    path : Path
        Of a file, or a folder.
    mapping : LogMapping
    rows : int, optional
        How many rows a batch has, except for the last one of a file; of text, what takes about as much memory. By
        default ``ROWS``; an npz file is one batch.

    Raises
    ------
    InputError
        What is wrong with a file, with its path and the row in it.
    """
    form, files = _opened(path)
    read, before, first = _reader_of(form, files, mapping, rows or ROWS), 0, None
    for file in files:
        start = before
        with prefix_errors(file):
            for records, end in read(file):
                first = first or records
                _require_same_kind(records, first)
                before = start + end
                yield replace(records, rows=records.rows + start) if start else records


def npz_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an npz file, which has no pickles."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise InputError(f"cannot be read: {error.strerror}") from None
    except Exception as error:  # whatever damaged bytes make of it
        message = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"is not a readable npz file: {message}") from None


def _opened(path: Path) -> tuple[str, list[Path]]:
    """Return the format and the files of a log, and report how many bytes they have."""
    with prefix_errors(path):
        form, files = format_of(path), files_of(path)
    report_progress(0, "bytes", sum(os.path.getsize(file) for file in files if os.path.exists(file)))
    return form, files


def _reader_of(form: str, files: list[Path], mapping: LogMapping, rows: int):
    """Return a function that yields the batches of a file, and how many rows or lines of it were read."""
    if form in TABLES:
        return partial(_rows_of_table, form=form, mapping=mapping, rows=rows, csv_format=mapping.csv_format)
    if form in TEXTS:
        return partial(_rows_of_text, form=form, mapping=mapping, rows=rows, files=files)
    return partial(_rows_of_arrays, mapping=mapping)


def _require_same_kind(records: Records, first: Records) -> None:
    """Raise InputError unless records fit to the first ones of the same log."""
    if records.mapping != first.mapping:
        raise InputError("has other columns than the files before")
    if records.kind != first.kind:
        raise InputError(f"is of {KINDS[records.kind]}, the files before are of {KINDS[first.kind]}")
    if records.clock != first.clock:
        raise InputError(f"{records.mapping.time!r} has {records.clock}, the rows before have {first.clock}")


def _rows_of_table(
    file: Path, form: str, mapping: LogMapping, rows: int, csv_format: CsvFormat
) -> Iterator[tuple[Records, int]]:
    needed, row = _Needed(mapping), 0
    for frame in table_frames(file, form, needed, rows, csv_format):
        records = part_of_frame(frame, needed.mapping, form, row)
        row += len(frame)
        report_progress(len(frame), "rows")
        yield records, row
    if not row:
        raise InputError("has no rows, expected at least one")


def _rows_of_text(
    file: Path, form: str, mapping: LogMapping, rows: int, files: list[Path]
) -> Iterator[tuple[Records, int]]:
    text, lines, skipped = TEXTS[form], _Lines(file, reported=True), Counter()
    mapping = mapping.require_no_columns(text.CALLED)
    decisions = text.decisions(lines, _way_of([file, *files], form), skipped)
    for number, batch in enumerate(batches(decisions, rows)):
        if batch or not number:
            yield records_of(batch, form, mapping, skipped), lines.row
        skipped.clear()


def _rows_of_arrays(file: Path, mapping: LogMapping) -> Iterator[tuple[Records, int]]:
    records = records_of_arrays(npz_arrays(file), mapping)
    yield records, records.size


def _data_batches(path: Path, encoding: Encoding, rows: int, csv_format: CsvFormat | None) -> Iterator[Data]:
    """Yield the features of contexts, as ``record_batches`` yields rows, if the file is of the encoding's kind."""
    form, files = _opened(path)
    with prefix_errors(path):
        for kind, forms in ((TableEncoding, TABLES), (ArrayEncoding, ("npz",))):
            if isinstance(encoding, kind) != (form in forms):
                raise InputError(f"is {form}, expected a file as that which was learned from")
        if form == "npz":
            yield Arrays(lists_or_contexts(npz_arrays(path)))
            return
    csv_format = csv_format or CsvFormat()
    for file in files:
        with prefix_errors(file):
            if form in TABLES:
                yield from _features_of_table(file, form, encoding, rows, csv_format)
            else:
                yield from _features_of_text(file, form, encoding, rows)


def _features_of_table(
    file: Path, form: str, encoding: TableEncoding, rows: int, csv_format: CsvFormat
) -> Iterator[Table]:
    columns, row = Columns(encoding.read, [*encoding.scales]), 0
    for frame in table_frames(file, form, lambda header: columns, rows, csv_format):
        numbers = np.arange(row, row + len(frame))
        yield Table.of(frame, encoding.scales, encoding.categorical, encoding.times, numbers)
        row += len(frame)
    if not row:
        raise InputError("has no rows, expected at least one")


def _features_of_text(file: Path, form: str, encoding: Encoding, rows: int) -> Iterator[Named | Lists]:
    contexts = TEXTS[form].contexts(_Lines(file, reported=True), encoding.kind == "lists")
    for batch in batches(contexts, rows):
        if not batch:
            raise InputError("has no contexts, expected at least one")
        yield data_of(batch)


def _way_of(files: list[Path], form: str) -> int:
    """What in text can mean two things, as the first of some files says that can tell."""
    for file in files:
        with prefix_errors(file):
            way = TEXTS[form].way_of(_Lines(file))
        if way is not None:
            return way
    return TEXTS[form].USUAL


class _Lines:
    """The lines of a file, with their numbers; ``row`` is the number of the line that comes next.

    With ``reported``, reading them counts as progress.
    """

    def __init__(self, path: Path, reported: bool = False):
        self.row, self._lines = 0, lines_of(path, reported)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for line in self._lines:
            self.row += 1
            yield self.row - 1, line


class _Needed:
    """The columns that are read of those that a file has, and the mapping that says so."""

    def __init__(self, mapping: LogMapping):
        self.mapping = mapping

    def __call__(self, header: list[str]) -> Columns:
        self.mapping = dataset_mapping(header, self.mapping).require_table()
        return Columns(self.mapping.columns, self.mapping.number_columns)
