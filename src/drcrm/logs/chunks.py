"""Tables a chunk at a time: of a file, or of all files of a folder, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import InputError, located
from .mapping import LogMapping
from .obp import dataset_mapping
from .records import Records
from .table_files import numbers_in, table_frames
from .table_records import part_of_frame
from .tables import Table, TableEncoding

ROWS = 2**17  # of a chunk
TABLES = "csv", "parquet"
FORMATS = {
    **dict.fromkeys((".csv",), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".npz",), "npz"),
    **dict.fromkeys((".dsjson", ".json", ".jsonl"), "dsjson"),
    **dict.fromkeys((".vw", ".dat", ".txt"), "vw"),
}
PACKED = (".gz", ".bz2")


def format_of(path: Path) -> str:
    """Return the format that a file's suffix tells, or those of the files in a folder; InputError where they differ."""
    if not path.is_dir():
        suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in PACKED]
        if not suffixes or suffixes[-1] not in FORMATS:
            raise InputError(f"is of no known format, expected one of {', '.join(FORMATS)}")
        return FORMATS[suffixes[-1]]
    formats = {}
    for each in files_of(path):
        with located(each.name):
            formats.setdefault(format_of(each), each.name)
    if len(formats) > 1:
        raise InputError(f"has files of more than one format, such as {', '.join(formats.values())}")
    [found] = formats
    if found not in TABLES:
        raise InputError(f"is a folder of {found}, expected CSV or Parquet, or a single file")
    return found


def files_of(path: Path) -> list[Path]:
    """Return the file itself, or those of a folder by name, without those that begin with a point or an underscore."""
    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.iterdir() if not each.name.startswith((".", "_")))
    if not found:
        raise InputError("is a folder without files")
    if folders := [each.name for each in found if each.is_dir()]:
        raise InputError(f"has the folder {folders[0]!r}, expected files alone")
    return found


class Place(NamedTuple):
    """Where reading goes on: in which file, at which row of it, and how many rows the files before have."""

    file: int = 0
    row: int = 0
    before: int = 0


class Chunk(NamedTuple):
    """Rows of a log, as :func:`drcrm.logs.table_records.joined` takes them, and where the next ones are."""

    records: Records
    next: Place


def chunks(
    path: Path, mapping: LogMapping, at_once: int | None = None, start: Place | None = None, limit: int | None = None
) -> Iterator[Chunk]:
    """Give the rows of a log of CSV or Parquet.

    Parameters
    ----------
    path : Path
        Of a file, or a folder.
    mapping : LogMapping
    at_once : int, optional
        How many rows a chunk has, but the last one of a file; by default a chunk is a file.
    start : Place, optional
        By default the first row.
    limit : int, optional
        How many rows of a file are read at most.

    Raises
    ------
    InputError
        What is wrong with a file, with its path and the row in it.
    """
    with located(path):
        form, files = format_of(path), files_of(path)
    (first, row, before), known = start or Place(), None
    for place, file in enumerate(files[first:], first):
        with located(file):
            found = _Needed(mapping)
            for frame in table_frames(file, form, found, at_once, row, limit):
                known = known or found.mapping
                if found.mapping != known:
                    raise InputError("has other columns than the files before")
                records = part_of_frame(frame, found.mapping, form, row)
                row += len(frame)
                yield Chunk(replace(records, rows=records.rows + before), Place(place, row, before))
            if not row:
                raise InputError("has no rows, expected at least one")
        before, row = before + row, 0


def tables(
    path: Path, encoding: TableEncoding, at_once: int | None = None, limit: int | None = None
) -> Iterator[Table]:
    """Give the contexts of CSV or Parquet, as ``chunks`` gives rows."""
    with located(path):
        form, files = format_of(path), files_of(path)
    columns = [*encoding.scales, *encoding.known]
    for file in files:
        with located(file):
            row = 0
            for frame in table_frames(file, form, lambda header: columns, at_once, limit=limit):
                yield Table.of(frame, encoding.scales, encoding.known, np.arange(row, row + len(frame)))
                row += len(frame)
            if not row:
                raise InputError("has no rows, expected at least one")


def bytes_in_memory(path: Path, mapping: LogMapping) -> int:
    """Return about how many bytes the numbers of CSV or Parquet take in memory."""
    with located(path):
        form, files = format_of(path), files_of(path)
    found = 0
    for file in files:
        with located(file):
            found += numbers_in(file, form, _Needed(mapping))
    return found


class _Needed:
    """The columns that are read of those that a file has, and the mapping that says so."""

    def __init__(self, mapping: LogMapping):
        self.mapping = mapping

    def __call__(self, header: list[str]) -> list[str]:
        self.mapping = dataset_mapping(header, self.mapping).require_table()
        return self.mapping.columns
