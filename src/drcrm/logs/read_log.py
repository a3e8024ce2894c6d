"""Read log files of all formats: a single file, or the files of a folder one after the other."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError, prefix_errors, refuse_errors
from drcrm.logs.batches import Batch, encode, fit_encoding, join_batches
from drcrm.logs.encoding.base import Encoding
from drcrm.logs.estimated_propensities import estimate_propensities
from drcrm.logs.readers import READERS
from drcrm.logs.readers.base import Reader, Select, open_file
from drcrm.logs.readers.frames import frame_batch, frame_mapping
from drcrm.logs.readers.npz_files import feedback_batch
from drcrm.logs.readers.tables import TableReader
from drcrm.mapping.log_mapping import LogMapping, as_mapping
from drcrm.progress import report_progress

ROWS = 2**17  # number of rows of a batch
PACKED = ".gz", ".bz2", ".xz", ".zst", ".zip"
START = 2**16  # bytes of a file that show its format

Source = str | Path | Sequence[str | Path]


def read_log(path: Source | pd.DataFrame | Mapping, mapping: Any = None) -> BanditLog:
    """Return the log in a file: CSV, Parquet, npz, dsjson, Vowpal Wabbit's text, or the Open Bandit Dataset's csv.

    Parameters
    ----------
    path : str, Path or sequence of them; DataFrame; or mapping
        Log file; or files and folders of one format other than npz; or a table in memory; or a dictionary of the Open
        Bandit Pipeline, see :meth:`BanditLog.from_obp`.
    mapping : dict, path of YAML or JSON, or LogMapping, optional
        Meaning of the columns of CSV and Parquet: see :meth:`BanditLog.from_frame`. Other formats need none.

    Returns
    -------
    BanditLog
        Log with encoded features. With ``propensity_model`` in the mapping, the propensities are estimated.

    Raises
    ------
    InputError
        If the file or the mapping is invalid. The message is one line that begins with the path of the invalid file.
    """
    log = read_raw_log(path, mapping)
    if log.propensity is None:
        log = estimate_propensities(log)
    return encode(log, fit_encoding(log))


@contextmanager
def written_log(log: Source | pd.DataFrame) -> Iterator[Source]:
    """Yield the files of a log: for a table in memory, a temporary file without the index, ``frame.csv``.

    If cells are lists of objects, it is ``frame.jsonl``. Errors about the file name the frame instead of it.
    """
    if not isinstance(log, pd.DataFrame):
        yield log
        return
    with TemporaryDirectory(prefix="drcrm-") as folder:
        path = Path(folder) / ("frame.jsonl" if has_lists(log) else "frame.csv")
        with refuse_errors(f"the frame cannot be written as {path.suffix}"):
            if has_lists(log):
                lines = (json.dumps(row, default=_plain) + "\n" for row in log.to_dict("records"))
                path.write_text("".join(lines), encoding="utf-8")
            else:
                log.to_csv(path, index=False)
        try:
            yield path
        except InputError as error:
            raise InputError(str(error).replace(str(path), "the frame")) from None


def has_lists(frame: pd.DataFrame) -> bool:
    """Return whether a frame has a column with a list of objects in its first row. Lists of numbers are weights."""
    lists = [cell for cell in frame.head(1).to_numpy(dtype=object).ravel() if isinstance(cell, list | np.ndarray)]
    return any(isinstance(part, dict) for cell in lists for part in cell)


def _plain(value: Any) -> Any:
    """Return an array or a number of NumPy as Python's, missing values as None, and times as texts."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return None if pd.isna(value) else str(value)


def read_raw_log(
    path: Source | pd.DataFrame | Mapping,
    mapping: Any = None,
    folder: Callable[[], Path] | None = None,
    most: int = 0,
) -> BanditLog:
    """Return a log whose X is a table of features, not yet encoded. Its propensities are None if not known.

    :func:`read_log` describes the first parameters and the errors. The files of a folder are read in the order of their
    names.

    Parameters
    ----------
    path, mapping
    folder : callable, optional
        It returns a folder for memory-mapped files. It is called if the rows of files take more bytes than ``most``. By
        default the rows are in memory.
    most : int
        Largest size in bytes of the rows in memory, if ``folder`` is given.
    """
    if isinstance(path, pd.DataFrame) and has_lists(path):
        with written_log(path) as file:
            return read_raw_log(file, frame_mapping(mapping))
    if isinstance(path, pd.DataFrame):
        return join_batches([frame_batch(path.set_axis(range(len(path))), frame_mapping(mapping), "frame")])
    mapping = as_mapping(mapping)
    if isinstance(path, Mapping):
        return join_batches([feedback_batch(path, mapping)])
    return join_batches(log_batches(path, mapping), folder, most, prefix_errors(name_of(path)))


def read_occurring_rows(path: Source, mapping: LogMapping, folder: Callable[[], Path] | None, most: int) -> BanditLog:
    """Return the log of :func:`read_raw_log` without rows of count 0, and without contexts that have no rows."""
    log = read_raw_log(path, mapping, folder, most)
    with prefix_errors(name_of(path)):
        return log.without_empty_rows()


def log_batches(path: Source, mapping: LogMapping, rows: int | None = None) -> Iterator[Batch]:
    """Yield the rows of a log. Files without rows are skipped, but one file must have rows.

    Parameters
    ----------
    path : str, Path or sequence of them
    mapping : LogMapping
    rows : int, optional
        Number of rows of a batch, by default ``ROWS``. The last batch of a file may be smaller. A batch of a text takes
        about as much memory as a batch of a table. An npz file is one batch.

    Raises
    ------
    InputError
        If a file is invalid. The message has its path and the row.
    """
    reader, before, summary = open_reader(path, mapping, rows or ROWS), 0, None
    for file in reader.files:
        start = before  # rows of earlier files
        with prefix_errors(file):
            for batch in reader.read_batches(file):
                before, expected, summary = start + reader.n_read, summary, batch.description.summary
                for content, earlier in zip(summary, expected or summary, strict=True):
                    if content != earlier:
                        raise InputError(f"has {content}, expected {earlier} like earlier rows")
                yield batch._replace(rows=batch.rows.assign(number=batch.rows.columns["number"] + start))
    if summary is None:
        reasons = "".join(f"; {count} {reason}" for reason, count in reader.skipped.items())
        raise InputError(f"{name_of(path)}: has no rows that can be read, expected at least one{reasons}")


def context_batches(
    path: Source, encoding: Encoding, rows: int, mapping: LogMapping | None = None, keep: Sequence[str] = ()
) -> Iterator[tuple]:
    """Yield the contexts of a log ``rows`` at a time; all at once for npz.

    ``mapping`` says how CSV is written. ``keep`` has the columns of a table to return.

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
    reader, is_empty = open_reader(path, mapping or LogMapping(), rows), True
    if not isinstance(encoding, reader.encodings):
        names = (known.name for known in reversed(READERS) if isinstance(encoding, known.encodings))
        raise InputError(f"{name_of(path)}: is {reader.name}, expected {' or '.join(names)} like the training log")
    for file in reader.files:
        with prefix_errors(file):
            for contexts, kept in reader.read_contexts(file, encoding, keep):
                is_empty = False
                features = contexts.features
                yield encoding.contexts(contexts), encoding.unseen(features), features.missing, kept
    if is_empty:
        raise InputError(f"{name_of(path)}: has no rows, expected at least one")


def first_frame(path: Source, select: Select, rows: int, mapping: LogMapping) -> pd.DataFrame:
    """Return the first rows of a table, from its first file with rows; InputError for a format without columns."""
    reader = make_reader(path, mapping, rows)
    if not isinstance(reader, TableReader):
        raise InputError(f"is {reader.name}, which needs no mapping: drcrm learn {path} --output policy.npz")
    for file in reader.files:
        for frame, _ in reader.read_frames(file, select):
            return frame
    raise InputError("has no rows, expected at least one")


def kept_types(path: Source, keep: Sequence[str]) -> dict[str, Any]:
    """Return the Arrow types of columns of a Parquet log, each the joint type of its files; empty for other formats."""
    with prefix_errors(name_of(path)):
        reader = make_reader(path, LogMapping(), ROWS)
    return reader.column_types(keep)


def open_reader(path: Source, mapping: LogMapping, rows: int) -> Reader:
    """Return the reader of a log's files, and report their size in bytes."""
    with prefix_errors(name_of(path)):
        reader = make_reader(path, mapping, rows)
    report_progress(0, "bytes", sum(os.path.getsize(file) for file in reader.files if os.path.exists(file)))
    return reader


def make_reader(path: Source, mapping: LogMapping, rows: int) -> Reader:
    """Return the reader of a log's files; InputError if their formats differ."""
    files = files_of(path)
    names: dict[type[Reader], str] = {}
    for file in files:
        with prefix_errors(file.name) if len(files) > 1 else nullcontext():
            names.setdefault(_reader_of_file(file), file.name)
    if len(names) > 1:
        raise InputError(f"has files of more than one format, such as {', '.join(names.values())}")
    [reader] = names
    if reader.is_single_file and len(files) > 1:
        raise InputError(f"has {len(files)} files of {reader.name}, expected a single file")
    return reader(files, mapping, rows)


def _reader_of_file(file: Path) -> type[Reader]:
    """Return the reader of a file by its suffix, or by its first bytes if no reader has the suffix."""
    suffix = next((suffix for suffix in reversed(file.suffixes) if suffix.lower() not in PACKED), "").lower()
    for reader in READERS:
        if suffix in reader.suffixes:
            return reader
    with open_file(file) as stream:
        start = stream.read(START).removeprefix(b"\xef\xbb\xbf").lstrip()
    for reader in READERS:
        if reader.recognises(start):
            return reader
    *titles, last = (reader.title for reader in reversed(READERS))
    raise InputError(f"has no known format, expected {', '.join(titles)} or {last}")


def files_of(path: Source) -> list[Path]:
    """Return the files of a log: of a folder by name, except those that begin with a dot or underscore.

    Folders in it, such as ``day=2024-05-01``, name columns. Among several files, those without a byte are left out.
    """
    if not isinstance(path, str | Path):
        files = [file for part in path for file in files_of(part)]
    elif Path(path).is_dir():
        files = [*_files_below(Path(path))]
    else:
        return [Path(path)]
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


def first_path(path: Source) -> Path:
    """Return the first path of a log; InputError unless it is a path or a list of paths."""
    paths: Any = [path] if isinstance(path, str | Path) else path
    if not isinstance(paths, list | tuple):
        raise InputError(f"the log is of type {type(path).__name__}, expected a path, a list of paths or a DataFrame")
    if not paths or not all(isinstance(part, str | Path) for part in paths):
        raise InputError(f"the log must be a path or a list of at least one path, got {paths!r}")
    return Path(paths[0])


def name_of(path: Source) -> str:
    """Return the paths of a log as one text."""
    return str(path) if isinstance(path, str | Path) else ", ".join(map(str, path))


def short_name(path: Source) -> str:
    """Return the names of a log's files and folders, at most three, as one text."""
    paths = [Path(path)] if isinstance(path, str | Path) else [*map(Path, path)]
    return ", ".join([path.name for path in paths[:3]] + ["…"] * (len(paths) > 3))
