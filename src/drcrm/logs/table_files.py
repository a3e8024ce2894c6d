"""CSV and Parquet: the columns that are needed, as a frame."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd

from ..errors import InputError
from .mapping import import_extra
from .tables import require_columns

PACKED = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open}
HEADER = 2**20  # bytes among which a CSV's first line is
BLOCK = 2**22


def opened(path: Path) -> io.BufferedIOBase:
    """Open a file, unpacked by its first bytes, whatever its name; InputError where it cannot be."""
    try:
        with path.open("rb") as file:
            start = file.read(3)
        for magic, unpack in PACKED.items():
            if start.startswith(magic):
                return unpack(path, "rb")
        return path.open("rb")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}") from None


def lines_of(path: Path) -> Iterator[bytes]:
    """Give the lines of a file; InputError for one that is cut off."""
    with opened(path) as file:
        while line := _read(file.readline):
            yield line


def csv_frame(path: Path, needed: Callable[[list[str]], list[str]], limit: int | None) -> pd.DataFrame:
    """Return columns of a CSV file as texts; ``needed`` says which, of the columns that it has."""
    with opened(path) as file:
        header = _header(_read(file.read, HEADER))
    columns = needed(header)
    require_columns(header, columns)
    with opened(path) as file:
        return _csv_rows(file, header, columns, limit)


def parquet_frame(path: Path, needed: Callable[[list[str]], list[str]], limit: int | None) -> pd.DataFrame:
    """Return columns of a Parquet file."""
    arrow, parquet = import_extra("pyarrow"), import_extra("pyarrow.parquet")
    try:
        with parquet.ParquetFile(path) as file:
            header = file.schema_arrow.names
            columns = needed(header)
            require_columns(header, columns)
            batches, rows = [], 0
            for batch in file.iter_batches(columns=columns):
                batches.append(batch)
                rows += batch.num_rows
                if limit is not None and rows >= limit:
                    break
            schema = file.schema_arrow
            schema = arrow.schema([schema.field(name) for name in columns])
            found = arrow.Table.from_batches([batch.select(columns) for batch in batches], schema)
            return found.slice(0, limit).to_pandas()
    except (arrow.ArrowException, OSError, ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"is not a readable Parquet file: {_one_line(error)}") from None


def _read(read: Callable[..., bytes], *size: int) -> bytes:
    try:
        return read(*size)
    except (EOFError, OSError, zlib.error, ValueError) as error:
        raise InputError(f"is cut off, or damaged: {_one_line(error)}") from None


def _header(start: bytes) -> list[str]:
    """The names of a CSV's columns."""
    if not start.strip():
        raise InputError("is empty, expected a line with the columns' names")
    text = _first_lines(start)
    if "\0" in text:
        raise InputError("is not text, expected CSV")
    try:
        header = next((row for row in csv.reader(io.StringIO(text, newline=""), strict=False) if row), [])
    except csv.Error as error:
        raise InputError(f"has no line with the columns' names: {error}") from None
    for separator, called in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and separator in header[0]:
            raise InputError(f"has columns parted by {called}, expected commas")
    return header


def _first_lines(start: bytes) -> str:
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError("is UTF-16, expected UTF-8")
    try:
        return start.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start < len(start) - 4:
            row = start[: error.start].count(b"\n") - 1
            place = f"row {row}" if row >= 0 else "the columns' names"
            raise InputError(f"is not UTF-8 in {place}: byte {start[error.start]:#04x}") from None
        return start[: error.start].decode("utf-8-sig")


def _csv_rows(file, header: list[str], columns: list[str], limit: int | None) -> pd.DataFrame:
    arrow, reader = import_extra("pyarrow"), import_extra("pyarrow.csv")
    options = {
        "read_options": reader.ReadOptions(use_threads=False, block_size=BLOCK),
        "parse_options": reader.ParseOptions(newlines_in_values=True),
        "convert_options": reader.ConvertOptions(
            include_columns=list(dict.fromkeys([*columns, header[-1]])),
            column_types={name: arrow.string() for name in header},
            strings_can_be_null=True,
            null_values=[""],
        ),
    }
    batches, rows = [], 0
    try:
        stream = reader.open_csv(file, **options)
        for batch in stream:
            batches.append(batch)
            rows += batch.num_rows
            if limit is not None and rows >= limit:
                break
        found = arrow.Table.from_batches(batches, stream.schema)
    except (arrow.ArrowException, EOFError, OSError, zlib.error, ValueError) as error:
        raise InputError(_unreadable(error, header)) from None
    if limit is None and rows and (found[header[-1]][-1].as_py() or "").endswith("\n"):
        raise InputError(f"has a quote in row {rows - 1} that does not end")
    return found.slice(0, limit).to_pandas()


def _unreadable(error: BaseException, header: list[str]) -> str:
    """What pyarrow says, with row and column as they are counted here."""
    text = _one_line(error)
    if place := re.match(r"In CSV column #(\d+): Row #(\d+): .*UTF8", text):
        return f"is not UTF-8 in row {int(place[2]) - 2}, column {header[int(place[1])]!r}"
    if place := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", text):
        return f"has {place[3]} columns in row {int(place[1]) - 2}, expected {place[2]}"
    return f"is not readable CSV: {text}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
