"""Readers of tables: their base, which yields frames with the needed columns, and the readers of Parquet and JSON."""

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import BufferedIOBase
from itertools import islice, takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd

from drcrm.errors import InputError, import_extra, prefix_errors, refuse_errors
from drcrm.logs.batches import Batch
from drcrm.logs.encoding.base import Contexts
from drcrm.logs.encoding.columns import (
    EXACT,
    as_text,
)
from drcrm.logs.encoding.listed_tables import (
    PANDAS_OPTIONS,
    ListedTableEncoding,
    ListIds,
    explode_lists,
    flatten_objects,
    nested_fields,
)
from drcrm.logs.encoding.tables import TableEncoding, find_columns
from drcrm.logs.readers.base import Columns, Reader, Select, one_line, open_file
from drcrm.logs.readers.frames import frame_batch, map_open_bandit_columns
from drcrm.progress import report_progress

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


class TableReader(Reader):
    """Reader of tables with named columns; a mapping gives their meaning."""

    encodings = (TableEncoding, ListedTableEncoding)

    @abstractmethod
    def read_tables(self, file: Path, select: Select) -> Iterator[Any]:
        """Yield the rows of a file as Arrow tables with the selected columns."""

    def with_decimal_points(self, table: Any, numeric: list[str], first: int) -> Any:
        """Return a table with decimal points in numeric columns; ``first`` is the number of its first row."""
        return table

    def read_batches(self, file: Path) -> Iterator[Batch]:
        mapping, list_id = self.mapping, self.mapping.list
        self.n_read, lists = 0, ListIds(list_id) if list_id else None

        def select(header: list[str]) -> Columns:
            nonlocal mapping
            mapping = map_open_bandit_columns(header, mapping).require_table()
            return Columns(mapping.columns, mapping.number_columns)

        for frame, _ in self.read_frames(file, select, list_id):
            batch = frame_batch(frame, mapping, self.name, lists)
            self.n_read += len(frame)
            report_progress(len(frame), "rows")
            yield batch._replace(description=replace(batch.description, skipped=self.skipped))
        if lists:
            lists.finish()

    def read_contexts(self, file: Path, encoding: Any, keep: Sequence[str]) -> Iterator[tuple[Contexts, Any]]:
        lists = ListIds(encoding.list_id)
        columns = Columns([*dict.fromkeys([*encoding.inputs, *keep])], [*encoding.scales])
        for frame, table in self.read_frames(file, lambda header: columns, encoding.list_id):
            yield encoding.read(frame, lists), table.select([*keep])
        lists.finish()

    def read_frames(self, file: Path, select: Select, list_id: str | None = None) -> Iterator[tuple[pd.DataFrame, Any]]:
        """Yield the selected columns of a table twice: as a frame with decimal points, and as Arrow columns as written.

        The index of the frames has the row numbers in the file.
        Consecutive rows with the same value of ``list_id`` are in one frame, so frames may have fewer or more rows.
        """
        arrow, first = import_extra("pyarrow"), 0
        partition, columns, column_of, fields = partition_of(file), Columns([], []), {}, []

        def choose(header: list[str]) -> Columns:
            nonlocal columns, column_of, fields
            known = {name: value for name, value in partition.items() if name not in header}
            columns = select([*header, *known])
            fields = nested_fields([*header, *known], columns.names, list_id)
            column_of = find_columns([*header, *known, *fields], columns.names)
            names = [name for name in column_of.values() if name not in known and name not in fields]
            return Columns(names, [column_of[name] for name in columns.numeric if column_of[name] in names])

        tables = self.read_tables(file, choose)
        if list_id is not None:
            tables = explode_lists(tables, list_id, lambda: fields, [self.mapping.chosen, self.mapping.rule])
        for table in _cut_after_lists(tables, self.rows, lambda: column_of.get(list_id or "")):
            rows = range(first, first + len(table))
            for name in partition.keys() - {*table.column_names}:
                table = table.append_column(
                    name, arrow.repeat(arrow.scalar(partition[name], arrow.string()), len(rows))
                )
            table = arrow.table({name: table[column] for name, column in column_of.items()} or table)
            yield (
                self.with_decimal_points(table, columns.numeric, first).to_pandas(**PANDAS_OPTIONS).set_axis(rows),
                table,
            )
            first = rows.stop
        arrow.default_memory_pool().release_unused()


def partition_of(path: Path) -> dict[str, str | None]:
    """Return the columns that the folders above a file name, like Hive: ``day=2024-05-01``."""
    pairs = [folder.name.split("=", 1) for folder in takewhile(lambda folder: "=" in folder.name, path.parents)]
    return {unquote(name): None if value == HIVE_NULL else unquote(value) for name, value in reversed(pairs)}


def _cut_after_lists(tables: Iterable[Any], rows: int, list_column: Callable[[], str | None]) -> Iterator[Any]:
    """Yield Arrow tables of about ``rows`` rows, which end with the last row of a list; the last one may be smaller."""
    arrow = import_extra("pyarrow")
    rest: list[Any] = []
    for table in tables:
        table = arrow.concat_tables([*rest, table])
        while len(table) >= rows and (end := _end_of_list(table, rows, list_column())):
            yield table.slice(0, end)
            table = table.slice(end)
        rest = [table]
    yield from (table for table in rest if len(table))


def _end_of_list(table: Any, rows: int, list_column: str | None) -> int:
    """Return the last end of a list in the first rows of a table, else the first one after them; 0 if there is none."""
    if list_column not in table.column_names:
        return rows
    codes, _ = pd.factorize(table[list_column].to_pandas(**PANDAS_OPTIONS), use_na_sentinel=False)
    ends = np.flatnonzero(np.diff(codes)) + 1
    return int(ends[max(np.searchsorted(ends, rows, "right") - 1, 0)]) if len(ends) else 0


class ParquetReader(TableReader):
    """Reader of Parquet."""

    name, title, suffixes = "parquet", "Parquet", (".parquet", ".pq")

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        return start.startswith(b"PAR1")

    def read_tables(self, file: Path, select: Select) -> Iterator[Any]:
        arrow = import_extra("pyarrow")
        with _open_parquet(file) as table:
            if not table.metadata.num_rows:
                return
            header = flatten_objects(table.schema_arrow.empty_table()).column_names
            columns = select(header).names or header[:1]  # a table without columns has no rows
            for batch in table.iter_batches(self.rows, columns=columns, use_threads=False):
                report_progress(file.stat().st_size * batch.num_rows // table.metadata.num_rows, "bytes")
                yield flatten_objects(arrow.table(batch)).select(columns).replace_schema_metadata()

    def column_types(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the Arrow type that represents a column of files whose types differ, such as null and int64.

        Categories count as their values. Raise InputError if a column has no such type.
        """
        arrow, schemas = import_extra("pyarrow"), []
        for file in self.files:
            with prefix_errors(file), _open_parquet(file) as parquet:
                flat = flatten_objects(parquet.schema_arrow.empty_table()).schema
            kinds = {field.name: field.type for field in flat if field.name in names}
            is_category = arrow.types.is_dictionary
            schemas.append(arrow.schema({n: k.value_type if is_category(k) else k for n, k in kinds.items()}))
        try:
            joint = arrow.unify_schemas(schemas, promote_options="permissive")
        except arrow.ArrowException as error:
            raise InputError(f"expected one type of a column in all files; write CSV ({one_line(error)})") from None
        return dict(zip(joint.names, joint.types, strict=True))


@contextmanager
def _open_parquet(path: Path) -> Iterator[Any]:
    """Yield an open Parquet file; raise InputError if it is damaged."""
    open_parquet = import_extra("pyarrow.parquet").ParquetFile
    with refuse_errors("is not a readable Parquet file"), open_parquet(path, pre_buffer=False) as file:
        yield file  # with a buffer, the file would stay in memory


JSON_BLOCK, JSON_ROWS = 2**22, 2**14  # bytes that are read at once, and rows of a list of objects
OBJECTS = re.compile(rb"(\[\s*)?\{|\[\s*\]")  # the start of a table in JSON
MARK = b"\xef\xbb\xbf"  # byte order mark
TEXTS = {str, type(None)}


class JsonReader(TableReader):
    """Reader of tables in JSON, with an object on each line, or with a list of objects, which it holds in memory."""

    name, title = "json", "a table in JSON"

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        return bool(OBJECTS.match(start))

    def read_tables(self, file: Path, select: Select) -> Iterator[Any]:
        arrow = import_extra("pyarrow")
        with open_file(file) as stream:
            names = _find_columns(_blocks(stream), select)
        types: dict[str, Any] = {}
        with open_file(file, reported=True) as stream:
            for rows in _blocks(stream):
                columns = {name: [row.get(name) for row in rows] for name in names}
                for name, cells in columns.items():
                    has_lists = any(type(cell) is list for cell in cells)
                    types.setdefault(name, arrow.list_(arrow.string()) if has_lists else arrow.string())
                yield arrow.table({name: _arrow_array(name, cells, types[name]) for name, cells in columns.items()})


def _find_columns(blocks: Iterator[list[dict]], select: Select) -> list[str]:
    """Return the selected columns. Objects may lack a key, so rows are read until all selected columns were found."""
    header: dict[str, None] = {}
    error = None
    for rows in blocks:
        for row in rows:
            header |= dict.fromkeys(row)
        try:
            return select([*header]).names or [*header][:1]
        except InputError as missing:
            error = missing
    if error is not None:
        raise error
    return []


def _arrow_array(name: str, cells: list, kind: Any) -> Any:
    """Return cells as an Arrow array."""
    arrow = import_extra("pyarrow")
    try:
        return arrow.array(cells, kind)
    except (arrow.ArrowException, TypeError):
        raise InputError(f"column {name!r} has lists and other values, expected one kind") from None
    except UnicodeError as error:
        raise InputError(f"column {name!r} has a text that is not Unicode: {one_line(error)}") from None


def _blocks(stream: BufferedIOBase) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of consecutive lines, or of parts of a list of objects, as dicts of cells."""
    number = 0
    while lines := stream.readlines(JSON_BLOCK):
        if not number and b"".join(lines).removeprefix(MARK).lstrip().startswith(b"["):
            objects = enumerate(_decode(b"".join([*lines, *stream]), ""), 1)
            while rows := [_checked(value, f"element {place}") for place, value in islice(objects, JSON_ROWS)]:
                yield rows
            return
        rows = []
        for line in lines:
            number += 1
            if line.removeprefix(MARK).strip():
                rows.append(_checked(_decode(line, f": line {number}"), f"line {number}"))
        if rows:
            yield rows


def _decode(content: bytes, place: str) -> Any:
    """Return a value of JSON whose objects are dicts of cells; InputError names the place."""
    decoder = json.JSONDecoder(
        object_pairs_hook=_row,
        parse_int=lambda text: "0" if text == "-0" else text,
        parse_float=_decimal,
        parse_constant=lambda text: None if text == "NaN" else text,  # infinities are texts that are no numbers
    )
    try:
        return decoder.decode(content.removeprefix(MARK).decode().strip())
    except (InputError, ValueError, RecursionError) as error:
        raise InputError(f"is not a readable table in JSON{place}: {one_line(error)}") from None


def _checked(value: Any, place: str) -> dict[str, Any]:
    """Return an object; InputError if the value is another one."""
    if type(value) is not dict:
        raise InputError(f"is not a readable table in JSON: {place} is not an object")
    return value


def _row(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the cells of an object by column. The fields of nested objects are columns such as ``user.age``.

    A field is left out if the object has another column of this name. InputError if a key occurs twice.
    """
    row = dict(members)
    if len(row) < len(members):
        raise InputError("a key occurs twice in one object, expected once")
    if {*map(type, row.values())} <= TEXTS:
        return row
    row = {}
    for key, value in members:
        if type(value) is dict:
            for name, cell in value.items():
                row.setdefault(f"{key}.{name}", cell)
        else:
            row[key] = _cell(value)
    return row


def _cell(value: Any) -> Any:
    """Return a value as a text, a list as a list of texts, and null as None."""
    if type(value) is bool:
        return as_text(value)
    if type(value) is list:
        return [part if part is None or type(part) is str else json.dumps(part) for part in value]
    return value


def _decimal(text: str) -> str:
    """Return a number as a plain decimal. A text with an exponent would be a code."""
    if "e" not in text and "E" not in text:
        return text
    plain = as_text(float(text))
    return f"{plain}.0" if abs(float(text)) >= EXACT and "." not in plain else plain  # it may be rounded: no id
