"""CSV and Parquet files, read as frames with the needed columns."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pandas as pd

from drcrm.data.listeners import report_progress
from drcrm.errors import InputError, prefix_errors
from drcrm.logs.encoding.tables import find_columns
from drcrm.logs.mapping import import_extra
from drcrm.logs.readers.csv_format import ESCAPES, CsvFormat, Head, check_quotes, wrong_encoding
from drcrm.logs.readers.packed_files import one_line, opened

HEADER = 2**20  # bytes of a CSV file that contain its first line
BLOCK = 2**22  # bytes of a CSV file that are read at once
OPTIONS = {"integer_object_nulls": True, "split_blocks": True}  # whole numbers stay whole next to missing values
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


class Columns(NamedTuple):
    """The columns to read, and those among them that have numbers."""

    names: list[str]
    numeric: list[str]


Choose = Callable[[list[str]], Columns]


def table_chunks(
    path: Path,
    form: str,
    select: Callable[[list[str]], Columns],
    rows: int,
    csv_format: CsvFormat | None = None,
    list_id: str | None = None,
) -> Iterator[tuple[pd.DataFrame, Any]]:
    """Yield the selected columns of a table twice: as a frame with decimal points, and as Arrow columns as written.

    Parameters
    ----------
    path : Path
    form : "csv", "parquet" or "json"
    select : callable
        It maps the columns of the file to the columns to read.
    rows : int
        Number of rows of a frame; the last one may be smaller.
    csv_format : CsvFormat, optional
        Format of CSV; by default it is detected.
    list_id : str, optional
        A column. Consecutive rows with the same value are in one frame, so frames may have fewer or more rows.
    """
    arrow = import_extra("pyarrow")
    partition, columns, found = partition_of(path), Columns([], []), {}

    def choose(header: list[str]) -> Columns:
        nonlocal columns, found
        known = {name: value for name, value in partition.items() if name not in header}
        columns = select([*header, *known])
        found = find_columns([*header, *known], columns.names)
        names = [name for name in found.values() if name not in known]
        return Columns(names, [found[name] for name in columns.numeric if found[name] not in known])

    csv_format, first = csv_format or CsvFormat(), 0
    if form == "csv":
        tables = _csv_tables(path, choose, csv_format)
    else:
        tables = _parquet_tables(path, choose, rows) if form == "parquet" else _json_tables(path, choose)
    for table in _rechunked(tables, rows, lambda: found.get(list_id or "")):
        constants = {
            name: arrow.repeat(arrow.scalar(value, arrow.string()), len(table)) for name, value in partition.items()
        }
        read = constants | dict(zip(table.column_names, table.columns, strict=True))
        written = arrow.table({name: read[column] for name, column in found.items()} or table)
        table = csv_format.with_points(written, columns.numeric, first) if form == "csv" else written
        yield table.to_pandas(**OPTIONS), written
        first += len(table)
    arrow.default_memory_pool().release_unused()


def partition_of(path: Path) -> dict[str, str | None]:
    """Return the columns that the folders above a file name, like Hive: ``day=2024-05-01``."""
    pairs = [folder.name.split("=", 1) for folder in takewhile(lambda folder: "=" in folder.name, path.parents)]
    return {unquote(name): None if value == HIVE_NULL else unquote(value) for name, value in reversed(pairs)}


def _rechunked(tables: Iterable[Any], rows: int, list_column: Callable[[], str | None]) -> Iterator[Any]:
    """Yield Arrow tables of about ``rows`` rows, which end with the last row of a list; the last one may be smaller."""
    arrow = import_extra("pyarrow")
    waiting: list[Any] = []
    for table in tables:
        waiting.append(table)
        while sum(map(len, waiting)) >= rows:
            table = arrow.concat_tables(waiting)
            if not (end := _end_of_list(table, rows, list_column())):
                waiting = [table]
                break
            yield table.slice(0, end)
            waiting = [table.slice(end)]
    if sum(map(len, waiting)):
        yield arrow.concat_tables(waiting)


def _end_of_list(table: Any, rows: int, list_column: str | None) -> int:
    """Return the last end of a list in the first rows of a table, else the first one after them; 0 if there is none."""
    if list_column not in table.column_names:
        return rows
    codes, _ = pd.factorize(table[list_column].to_pandas(**OPTIONS), use_na_sentinel=False)
    ends = np.flatnonzero(np.diff(codes)) + 1
    return int(ends[max(np.searchsorted(ends, rows, "right") - 1, 0)]) if len(ends) else 0


def _csv_tables(path: Path, choose: Choose, csv_format: CsvFormat) -> Iterator[Any]:
    """Yield the rows of a CSV file, block by block."""
    with opened(path) as file:
        start = file.read(HEADER)
    text = csv_format.decode(start)
    if text.strip():
        head = csv_format.head_of(text)
        yield from _csv_rows(path, head, *choose(head.names), csv_format.encoding_of(start))


def _parquet_tables(path: Path, choose: Choose, rows: int) -> Iterator[Any]:
    """Yield the rows of a Parquet file, batch by batch."""
    arrow = import_extra("pyarrow")
    with _open_parquet(path) as file:
        if not file.metadata.num_rows:
            return
        header = file.schema_arrow.names
        columns = choose(header).names or header[:1]  # a table without columns has no rows
        for batch in file.iter_batches(rows, columns=columns, use_threads=False):
            report_progress(path.stat().st_size * batch.num_rows // file.metadata.num_rows, "bytes")
            yield arrow.table(batch.select(columns)).replace_schema_metadata()


def _json_tables(path: Path, choose: Choose) -> Iterator[Any]:
    """Yield the rows of a table in JSON, an object on each line, block by block."""
    arrow, reader = import_extra("pyarrow"), import_extra("pyarrow.json")
    try:
        with opened(path, reported=True) as file:
            for batch in reader.open_json(file, reader.ReadOptions(use_threads=False, block_size=BLOCK)):
                columns = choose(batch.schema.names).names or batch.schema.names[:1]
                yield arrow.table(batch).select(columns)
    except arrow.ArrowException as error:
        raise InputError(f"is not a readable table in JSON: {one_line(error)}") from None


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
        raise InputError(f"is not a readable Parquet file: {one_line(error)}") from None


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


class LineCounter(io.BufferedIOBase):
    """File that counts the line breaks that are read, and remembers whether a quotation mark was read."""

    def __init__(self, file: io.BufferedIOBase):
        self.file, self.n_lines, self.has_quotes, self._is_in_line = file, 0, False, False

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        block = self.file.read(size)
        self.n_lines += block.count(b"\n") if block else self._is_in_line
        self.has_quotes = self.has_quotes or b'"' in block
        self._is_in_line = bool(block) and not block.endswith((b"\n", b"\0"))
        return block


def _csv_rows(path: Path, head: Head, columns: list[str], numeric: list[str], encoding: str) -> Iterator[Any]:
    """Yield the rows of a CSV file as texts, block by block."""
    arrow, reader = import_extra("pyarrow"), import_extra("pyarrow.csv")
    is_single = len(head.names) == 1
    options = {
        "read_options": reader.ReadOptions(
            use_threads=False, block_size=BLOCK, skip_rows=head.n_skipped, encoding=encoding
        ),
        "parse_options": reader.ParseOptions(
            delimiter=head.delimiter, newlines_in_values=True, ignore_empty_lines=not is_single
        ),
        "convert_options": reader.ConvertOptions(
            include_columns=columns or head.names[:1],  # a table without columns has no rows
            column_types={name: arrow.string() for name in head.names},
            strings_can_be_null=True,
            null_values=["", r"\N"],
        ),
    }
    rows, error = 0, None
    with opened(path, reported=True) as file:
        counter = LineCounter(file)
        try:
            for batch in reader.open_csv(counter, **options):
                yield arrow.table(batch)
                rows += batch.num_rows
        except InputError:
            raise
        except (arrow.ArrowException, UnicodeError) as failure:
            error = InputError(_unreadable(failure, head, encoding))
    if counter.has_quotes and (error or counter.n_lines > rows + head.n_skipped + 1):
        with opened(path) as file, suppress(UnicodeError), io.TextIOWrapper(file, encoding, newline="") as lines:
            check_quotes(lines, head, numeric)
    if error:
        raise error


def _unreadable(error: Exception, head: Head, encoding: str) -> str:
    """Return a message of pyarrow with rows counted from 0."""
    text, before = one_line(error), head.n_skipped + 2
    if isinstance(error, UnicodeError):
        return wrong_encoding(encoding, f"text: {text}")
    if place := re.match(r"In CSV column #(\d+): Row #(\d+): .*UTF8", text):
        return wrong_encoding(encoding, f"in row {int(place[2]) - before}, column {head.names[int(place[1])]!r}")
    if place := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", text):
        return f"has {place[3]} columns in row {int(place[1]) - before}, expected {place[2]}" + ESCAPES * (
            r"\"" in text
        )
    return f"is not readable CSV: {text}"
