"""Files of users' logs, read by their format: CSV, Parquet, npz, Vowpal Wabbit's text and dsjson, Open Bandit's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..errors import InputError, located
from .arrays import ArrayEncoding, Arrays
from .chunks import TABLES, chunks, features, format_of
from .csv_format import CsvFormat
from .encoding import Encoding
from .joining import joined
from .mapping import as_mapping
from .obp import lists_or_contexts, records_of_arrays
from .records import Records
from .tables import Table, TableEncoding


def read_records(path, mapping=None) -> Records:
    """Return the rows of a log file.

    Parameters
    ----------
    path : str or Path
        CSV (.csv, .tsv), Parquet, npz, dsjson (.dsjson, .json, .jsonl) or Vowpal Wabbit's text (.vw, .dat, .txt), by
        suffix; CSV and text packed by gzip or bzip2 too; or a folder of files of one format but npz, which are read by
        name.
    mapping : dict, path or LogMapping, optional
        What the columns of CSV and Parquet are; other files, and the Open Bandit Dataset's csv, say so themselves.

    Raises
    ------
    InputError
        A file that cannot be read, or what is wrong in it, in one line that begins with its path.
    """
    mapping, path = as_mapping(mapping), Path(path)
    with located(path):
        form = format_of(path)
    if form == "npz":
        with located(path):
            return records_of_arrays(npz_arrays(path), mapping)
    parts = [each.records for each in chunks(path, mapping)]
    with located(path):
        return joined(parts)


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
    parts = [*_data(Path(path), encoding, None, csv_format)]
    data = type(parts[0]).joined(parts)
    with located(path):
        return encoding.contexts(data), encoding.unseen(data)


def context_chunks(path, encoding: Encoding, at_once: int, csv_format: CsvFormat | None = None) -> Iterator[tuple]:
    """Give what :func:`read_contexts` returns, and missing values by column, ``at_once`` rows at a time; all of npz."""
    for data in _data(Path(path), encoding, at_once, csv_format):
        with located(path):
            missing = data.missing() if isinstance(data, Table) else {}
            yield encoding.contexts(data), encoding.unseen(data), missing


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


def _data(path: Path, encoding: Encoding, at_once: int | None, csv_format: CsvFormat | None) -> Iterator:
    """The features of a file's contexts, where it is of the encoding's kind."""
    with located(path):
        form = format_of(path)
        for kind, forms in ((TableEncoding, TABLES), (ArrayEncoding, ("npz",))):
            if isinstance(encoding, kind) != (form in forms):
                raise InputError(f"is {form}, expected a file as that which was learned from")
        if form == "npz":
            yield Arrays(lists_or_contexts(npz_arrays(path)))
            return
    yield from features(path, encoding, at_once, csv_format)
