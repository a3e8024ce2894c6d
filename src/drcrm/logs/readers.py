"""Files of users' logs, read by their format: CSV, Parquet, npz, Vowpal Wabbit's text and dsjson, Open Bandit's."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..errors import InputError, located
from .arrays import ArrayEncoding, Arrays
from .dsjson import dsjson_contexts, read_dsjson
from .encoding import Encoding
from .mapping import LogMapping, as_mapping
from .named import ListEncoding
from .obp import dataset_mapping, lists_or_contexts, records_of_arrays
from .records import Records
from .table_files import csv_frame, lines_of, parquet_frame
from .table_records import records_of_frame
from .tables import Table, TableEncoding
from .vw_text import read_vw, vw_contexts

FORMATS = {
    **dict.fromkeys((".csv",), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".npz",), "npz"),
    **dict.fromkeys((".dsjson", ".json", ".jsonl"), "dsjson"),
    **dict.fromkeys((".vw", ".dat", ".txt"), "vw"),
}
PACKED = (".gz", ".bz2")
FRAMES = {"csv": csv_frame, "parquet": parquet_frame}


def read_records(path, mapping=None, limit: int | None = None) -> Records:
    """Return the rows of a log file.

    Parameters
    ----------
    path : str or Path
        CSV, Parquet, npz, dsjson (.dsjson, .json, .jsonl) or Vowpal Wabbit's text (.vw, .dat, .txt), by suffix; CSV
        and text packed by gzip or bzip2 too.
    mapping : dict, path or LogMapping, optional
        What the columns of CSV and Parquet are; other files, and the Open Bandit Dataset's csv, say so themselves.
    limit : int, optional
        How many rows are read at most, of what is not an array.

    Raises
    ------
    InputError
        A file that cannot be read, or what is wrong in it, in one line that begins with its path.
    """
    mapping, path = as_mapping(mapping), Path(path)
    with located(path):
        form = format_of(path)
        if form in FRAMES:
            return _of_table(path, form, mapping, limit)
        if form == "npz":
            return records_of_arrays(npz_arrays(path), mapping)
        read = read_dsjson if form == "dsjson" else read_vw
        return read(lines_of(path), mapping, limit)


def read_contexts(path, encoding: Encoding, limit: int | None = None):
    """Return contexts to choose for, as an encoding makes them, and what in them it does not know.

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
    path = Path(path)
    with located(path):
        data = _data(path, format_of(path), encoding, limit)
        return encoding.contexts(data), encoding.unseen(data)


def format_of(path: Path) -> str:
    """Return the format that a file's suffix tells."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in PACKED]
    if not suffixes or suffixes[-1] not in FORMATS:
        raise InputError(f"is of no known format, expected one of {', '.join(FORMATS)}")
    return FORMATS[suffixes[-1]]


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


def _of_table(path: Path, form: str, mapping: LogMapping, limit: int | None) -> Records:
    def needed(header: list[str]) -> list[str]:
        nonlocal mapping
        mapping = dataset_mapping(header, mapping).require_table()
        return mapping.columns

    frame = FRAMES[form](path, needed, limit)
    return records_of_frame(frame, mapping, form)


def _data(path: Path, form: str, encoding: Encoding, limit: int | None):
    """The features of a file's contexts, where it is of the encoding's kind."""
    if isinstance(encoding, TableEncoding) and form in FRAMES:
        columns = [*encoding.scales, *encoding.known]
        frame = FRAMES[form](path, lambda header: columns, limit)
        return Table.of(frame, encoding.scales, encoding.known)
    if isinstance(encoding, ArrayEncoding) and form == "npz":
        return Arrays(lists_or_contexts(npz_arrays(path)))
    if not isinstance(encoding, TableEncoding | ArrayEncoding) and form in ("dsjson", "vw"):
        of_lists = isinstance(encoding, ListEncoding)
        if form == "vw":
            return vw_contexts(lines_of(path), of_lists, limit)
        return dsjson_contexts(lines_of(path), limit)
    raise InputError(f"is {form}, expected a file as that which was learned from")
