"""Logs a chunk at a time: of a file, or of all files of a folder, one after the other."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..data.listeners import advance
from ..errors import InputError, located
from . import dsjson, vw_text
from .csv_format import CsvFormat
from .decisions import batches, data_of, records_of
from .encoding import Encoding
from .mapping import LogMapping
from .named import Lists, Named
from .obp import dataset_mapping
from .records import KINDS, Data, Records
from .table_files import Columns, lines_of, numbers_in, table_frames, unpacked
from .table_records import part_of_frame
from .tables import Table, TableEncoding

ROWS = 2**17  # of a chunk
TABLES = "csv", "parquet"
TEXTS = {"dsjson": dsjson, "vw": vw_text}  # each with ``way_of``, ``decisions`` and ``contexts`` of lines
FEW, ENTRY = 1000, 12  # decisions that tell how large a text is in memory, and bytes of each of their hashed features
FORMATS = {
    **dict.fromkeys((".csv", ".tsv"), "csv"),
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
    if found == "npz":
        raise InputError("is a folder of npz, expected a single file")
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
    """Rows of a log, as :func:`drcrm.logs.joining.joined` takes them, and where the next ones are."""

    records: Records
    next: Place


def chunks(path: Path, mapping: LogMapping, at_once: int | None = None, start: Place | None = None) -> Iterator[Chunk]:
    """Give the rows of a log.

    Parameters
    ----------
    path : Path
        Of a file, or a folder.
    mapping : LogMapping
    at_once : int, optional
        How many rows a chunk has, but the last one of a file; of text, what takes about as much memory. By default
        all of a table, and of text what ``ROWS`` take.
    start : Place, optional
        By default the first row.

    Raises
    ------
    InputError
        What is wrong with a file, with its path and the row in it.
    """
    with located(path):
        form, files = format_of(path), files_of(path)
    (first, row, before), known = start or Place(), None
    advance(0, "bytes", _bytes_of(files[first:]))
    if form in TABLES:
        rows_of = partial(_rows_of_table, csv_format=mapping.csv_format)
    else:
        rows_of = partial(_rows_of_text, files=files)
    for place, file in enumerate(files[first:], first):
        following = row
        with located(file):
            for records, following in rows_of(file, form, mapping, at_once, row):
                known = known or (records.mapping, records.kind, records.clock)
                if records.mapping != known[0]:
                    raise InputError("has other columns than the files before")
                if records.kind != known[1]:
                    raise InputError(f"is of {KINDS[records.kind]}, the files before are of {KINDS[known[1]]}")
                if records.clock != known[2]:
                    raise InputError(f"{mapping.time!r} has {records.clock}, the rows before have {known[2]}")
                yield Chunk(replace(records, rows=records.rows + before), Place(place, following, before))
        before, row = before + following, 0


def features(
    path: Path, encoding: Encoding, at_once: int | None = None, csv_format: CsvFormat | None = None
) -> Iterator[Data]:
    """Give the features of contexts, as ``chunks`` gives rows."""
    with located(path):
        form, files = format_of(path), files_of(path)
    advance(0, "bytes", _bytes_of(files))
    if form in TABLES:
        features_of = partial(_features_of_table, csv_format=csv_format or CsvFormat())
    else:
        features_of = _features_of_text
    for file in files:
        with located(file):
            yield from features_of(file, form, encoding, at_once)


def _bytes_of(files: list[Path]) -> int:
    return sum(os.path.getsize(file) for file in files if os.path.exists(file))


def bytes_in_memory(path: Path, mapping: LogMapping) -> int:
    """Return about how many bytes the numbers of a log take in memory."""
    with located(path):
        form, files = format_of(path), files_of(path)
    found = 0
    for file in files:
        with located(file):
            if form == "parquet":
                found += numbers_in(file, _Needed(mapping))
            elif form in TEXTS:
                found += int(_numbers_for_a_byte(file, form) * unpacked(file))
            else:
                found += unpacked(file)
    return found


def _numbers_for_a_byte(file: Path, form: str) -> float:
    """How many bytes of hashed features a byte of text is, in its first decisions."""
    lines, way = _Lines(file), _way_of([file], form)
    entries = sum(each.size for each in islice(TEXTS[form].contexts(lines, way), FEW))
    return ENTRY * entries / max(lines.bytes, 1)


def _way_of(files: list[Path], form: str) -> int:
    """What in text can mean two things, as the first of some files says that can tell."""
    for file in files:
        with located(file):
            way = TEXTS[form].way_of(_Lines(file))
        if way is not None:
            return way
    return TEXTS[form].USUAL


def _rows_of_table(
    file: Path, form: str, mapping: LogMapping, at_once: int | None, row: int, csv_format: CsvFormat
) -> Iterator[tuple[Records, int]]:
    """The rows of a file from one on, some at a time, and which row comes next."""
    needed = _Needed(mapping)
    for frame in table_frames(file, form, needed, at_once, row, csv_format):
        records = part_of_frame(frame, needed.mapping, form, row)
        row += len(frame)
        yield records, row
    if not row:
        raise InputError("has no rows, expected at least one")


def _rows_of_text(
    file: Path, form: str, mapping: LogMapping, at_once: int | None, row: int, files: list[Path]
) -> Iterator[tuple[Records, int]]:
    text, lines, skipped = TEXTS[form], _Lines(file, row, reported=True), Counter()
    mapping = mapping.require_no_columns(text.CALLED)
    found = text.decisions(lines, _way_of([file, *files], form), skipped)
    for some, following in batches(found, at_once or ROWS):
        if some or not row:
            yield records_of(some, form, mapping, skipped), lines.row if following is None else following
        skipped.clear()


def _features_of_table(
    file: Path, form: str, encoding: TableEncoding, at_once: int | None, csv_format: CsvFormat
) -> Iterator[Table]:
    columns, row = Columns(encoding.read, [*encoding.scales]), 0
    for frame in table_frames(file, form, lambda header: columns, at_once, csv_format=csv_format):
        rows = np.arange(row, row + len(frame))
        yield Table.of(frame, encoding.scales, encoding.categorical, encoding.times, rows)
        row += len(frame)
    if not row:
        raise InputError("has no rows, expected at least one")


def _features_of_text(file: Path, form: str, encoding: Encoding, at_once) -> Iterator[Named | Lists]:
    found = TEXTS[form].contexts(_Lines(file, reported=True), encoding.kind == "lists")
    for some, _ in batches(found, at_once or ROWS):
        if not some:
            raise InputError("has no contexts, expected at least one")
        yield data_of(some)


class _Lines:
    """The lines of a file from one on, with their numbers; ``row`` is that of the line that comes next.

    ``bytes`` are those of the lines that were given. With ``reported``, reading them counts as progress.
    """

    def __init__(self, path: Path, row: int = 0, reported: bool = False):
        self.row, self.bytes, self._lines = row, 0, islice(lines_of(path, reported), row, None)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for line in self._lines:
            self.row += 1
            self.bytes += len(line)
            yield self.row - 1, line


class _Needed:
    """The columns that are read of those that a file has, and the mapping that says so."""

    def __init__(self, mapping: LogMapping):
        self.mapping = mapping

    def __call__(self, header: list[str]) -> Columns:
        self.mapping = dataset_mapping(header, self.mapping).require_table()
        return Columns(self.mapping.columns, self.mapping.number_columns)
