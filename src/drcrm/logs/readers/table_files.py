"""CSV and Parquet files, read as frames with the needed columns; decompressed lines of text files."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from drcrm.data.listeners import report_progress
from drcrm.errors import InputError, prefix_errors
from drcrm.logs.encoding.tables import require_columns
from drcrm.logs.mapping import import_extra
from drcrm.logs.readers.csv_format import CsvFormat

PACKED: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open}
HEADER = 2**20  # bytes of a CSV file that contain its first line
BLOCK = 2**22  # bytes of a CSV file that are read at once
OPTIONS = {"integer_object_nulls": True, "split_blocks": True}  # whole numbers stay whole next to missing values
REPORTED = 1000  # lines of text between two reports of progress


class Columns(NamedTuple):
    """The columns to read, and those among them that have numbers."""

    names: list[str]
    numeric: list[str]


def opened(path: Path) -> io.BufferedIOBase:
    """Open a file, decompressed according to its first bytes; InputError if it cannot be opened."""
    try:
        with path.open("rb") as file:
            start = file.read(3)
        for magic, unpack in PACKED.items():
            if start.startswith(magic):
                return unpack(path, "rb")
        return path.open("rb")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}") from None


def lines_of(path: Path, reported: bool = False) -> Iterator[bytes]:
    """Yield the lines of a file; with ``reported``, report the progress. InputError for a truncated file."""
    with opened(path) as file:
        lines, position = iter(partial(_read, file.readline), b""), 0
        for number, line in enumerate(lines, 1):
            yield line
            if reported and number % REPORTED == 0:
                position = _report(file, position)


def _report(file: io.BufferedIOBase, before: int) -> int:
    """Report the bytes of a file, packed or not, that were read since the position ``before``; return the position."""
    position = os.lseek(file.fileno(), 0, os.SEEK_CUR)
    report_progress(position - before, "bytes")
    return position


def table_frames(
    path: Path,
    form: str,
    select: Callable[[list[str]], Columns],
    rows: int,
    csv_format: CsvFormat | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield the selected columns of a CSV file, as texts, or of a Parquet file: see :func:`table_chunks`."""
    return (frame for frame, _ in table_chunks(path, form, select, rows, csv_format))


def table_chunks(
    path: Path, form: str, select: Callable[[list[str]], Columns], rows: int, csv_format: CsvFormat | None = None
) -> Iterator[tuple[pd.DataFrame, Any]]:
    """Yield the selected columns of a table twice: as a frame with decimal points, and as Arrow columns as written.

    Parameters
    ----------
    path : Path
    form : "csv" or "parquet"
    select : callable
        It maps the columns of the file to the columns to read.
    rows : int
        Number of rows of a frame; the last one may be smaller.
    csv_format : CsvFormat, optional
        Format of CSV; by default it is detected.
    """
    arrow = import_extra("pyarrow")
    with_commas: list[str] = []
    if form == "csv":
        tables, with_commas = _csv_tables(path, select, csv_format or CsvFormat())
    else:
        tables = _parquet_tables(path, select, rows)
    for number, table in enumerate(_rechunked(tables, rows)):
        yield _with_points(table, with_commas, number * rows).to_pandas(**OPTIONS), table
    arrow.default_memory_pool().release_unused()


def _rechunked(tables: Iterable[Any], rows: int) -> Iterator[Any]:
    """Yield Arrow tables of ``rows`` rows; the last one may be smaller."""
    arrow = import_extra("pyarrow")
    waiting: list[Any] = []
    for table in tables:
        waiting.append(table)
        while sum(map(len, waiting)) >= rows:
            table = arrow.concat_tables(waiting)
            yield table.slice(0, rows)
            waiting = [table.slice(rows)]
    if sum(map(len, waiting)):
        yield arrow.concat_tables(waiting)


def _csv_tables(
    path: Path, select: Callable[[list[str]], Columns], csv_format: CsvFormat
) -> tuple[Iterator[Any], list[str]]:
    """Return the rows of a CSV file, block by block, and the numeric columns with decimal commas."""
    with opened(path) as file:
        text = _first_text(_read(file.read, HEADER))
    header, delimiter = csv_format.header_of(text)
    columns, numeric = select(header)
    require_columns(header, columns)
    has_commas = csv_format.decimal_of(text, header, delimiter, numeric) == ","
    return _csv_rows(path, header, columns, delimiter), numeric if has_commas else []


def _with_points(table: Any, numeric: list[str], first: int) -> Any:
    """Return a table with decimal points instead of decimal commas; InputError for points and thousands separators."""
    compute = import_extra("pyarrow.compute")
    for name in numeric:
        texts = table[name]
        odd = compute.match_substring_regex(texts, r"\d\.|\.\d|,.*,").fill_null(False)
        if compute.any(odd).as_py():
            at = compute.index(odd, True).as_py()
            raise InputError(
                f"{name} is {texts[at].as_py()!r} in row {first + at}, expected a number with a decimal comma, like "
                "in other rows, without thousands separators"
            )
        place = table.column_names.index(name)
        table = table.set_column(place, name, compute.replace_substring(texts, ",", "."))
    return table


def _parquet_tables(path: Path, select: Callable[[list[str]], Columns], rows: int) -> Iterator[Any]:
    """Yield the rows of a Parquet file, batch by batch."""
    arrow = import_extra("pyarrow")
    with _open_parquet(path) as file:
        header = file.schema_arrow.names
        columns = select(header).names or header[:1]  # a table without columns has no rows
        require_columns(header, columns)
        for batch in file.iter_batches(rows, columns=columns, use_threads=False):
            report_progress(path.stat().st_size * batch.num_rows // file.metadata.num_rows, "bytes")
            yield arrow.table(batch.select(columns)).replace_schema_metadata()


@contextmanager
def _open_parquet(path: Path) -> Iterator[Any]:
    """Yield an open Parquet file; raise InputError if it is damaged."""
    arrow, parquet = import_extra("pyarrow"), import_extra("pyarrow.parquet")
    try:
        with parquet.ParquetFile(path, pre_buffer=False) as file:  # with a buffer, the file would stay in memory
            yield file
    except InputError:
        raise
    except (arrow.ArrowException, OSError, ValueError, TypeError) as error:
        raise InputError(f"is not a readable Parquet file: {_one_line(error)}") from None


def joint_types(files: Iterable[Path], names: Iterable[str]) -> dict[str, Any]:
    """Return the Arrow type that represents a column of Parquet files whose types differ, such as null and int64.

    Categories of different widths become texts. Raise InputError if a column has no such type.
    """
    arrow, schemas = import_extra("pyarrow"), []
    for file in files:
        with prefix_errors(file), _open_parquet(file) as parquet:
            schemas.append(parquet.schema_arrow)
    types: dict[str, Any] = {}
    for name in names:
        found = {schema.field(place).type for schema in schemas for place in schema.get_all_field_indices(name)}
        if len(found) > 1:
            plain = {kind.value_type if arrow.types.is_dictionary(kind) else kind for kind in found}
            parts = [arrow.schema([(name, kind)]) for kind in sorted(plain, key=str)]
            try:
                found = {arrow.unify_schemas(parts, promote_options="permissive").field(0).type}
            except arrow.ArrowException:
                kinds = " and ".join(sorted(map(str, found)))
                raise InputError(f"column {name!r} is {kinds} in its files, expected one type; write CSV") from None
        types |= dict(zip([name], found, strict=False))  # empty if no file has the column
    return types


def _read(read: Callable[..., bytes], *size: int) -> bytes:
    try:
        return read(*size)
    except (EOFError, OSError, zlib.error, ValueError) as error:
        raise InputError(f"is truncated or damaged: {_one_line(error)}") from None


def _first_text(start: bytes) -> str:
    """Return the first bytes of a CSV file as text."""
    if not start.strip():
        raise InputError("is empty, expected a line with the names of the columns")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError("is UTF-16, expected UTF-8")
    try:
        text = start.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start < len(start) - 4:  # otherwise the last character is incomplete
            row = start[: error.start].count(b"\n") - 1
            place = f"row {row}" if row >= 0 else "the names of the columns"
            raise InputError(f"is not UTF-8 in {place}: byte {start[error.start]:#04x}") from None
        text = start[: error.start].decode("utf-8-sig")
    if "\0" in text:
        raise InputError("is not text, expected CSV")
    return text


def _csv_rows(path: Path, header: list[str], columns: list[str], delimiter: str) -> Iterator[Any]:
    """Yield the rows of a CSV file as texts, block by block."""
    arrow, reader = import_extra("pyarrow"), import_extra("pyarrow.csv")
    options = {
        "read_options": reader.ReadOptions(use_threads=False, block_size=BLOCK),
        "parse_options": reader.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        "convert_options": reader.ConvertOptions(
            include_columns=list(dict.fromkeys([*columns, header[-1]])),  # an unclosed quote ends in the last column
            column_types={name: arrow.string() for name in header},
            strings_can_be_null=True,
            null_values=[""],
        ),
    }
    rows, position = 0, 0
    last: Any = None
    try:
        with opened(path) as file:
            for batch in reader.open_csv(file, **options):
                yield arrow.table(batch)
                rows, position = rows + batch.num_rows, _report(file, position)
                last = batch[header[-1]][-1] if batch.num_rows else last
    except InputError:
        raise
    except (arrow.ArrowException, EOFError, OSError, zlib.error, ValueError) as error:
        raise InputError(_unreadable(error, header)) from None
    if rows and (last.as_py() or "").endswith("\n"):
        raise InputError(f"has a quote without an end in row {rows - 1}")


def _unreadable(error: BaseException, header: list[str]) -> str:
    """Return a message of pyarrow with rows counted from 0."""
    text = _one_line(error)
    if place := re.match(r"In CSV column #(\d+): Row #(\d+): .*UTF8", text):
        return f"is not UTF-8 in row {int(place[2]) - 2}, column {header[int(place[1])]!r}"
    if place := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", text):
        return f"has {place[3]} columns in row {int(place[1]) - 2}, expected {place[2]}"
    return f"is not readable CSV: {text}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
