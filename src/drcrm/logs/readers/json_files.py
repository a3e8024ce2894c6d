"""Reader of tables in JSON, with an object on each line: its values become texts, like the cells of CSV."""

import json
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from drcrm.errors import InputError, import_extra
from drcrm.logs.encoding.columns import EXACT, as_text
from drcrm.logs.readers.base import Select, one_line, open_file
from drcrm.logs.readers.tables import TableReader

BLOCK = 2**22  # bytes that are read at once
MARK = b"\xef\xbb\xbf"  # byte order mark
TEXTS = {str, type(None)}


class JsonReader(TableReader):
    """Reader of tables in JSON, with an object on each line."""

    name, title = "json", "a table in JSON"

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        return start.startswith(b"{")

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
                yield arrow.table({name: _array(name, cells, types[name]) for name, cells in columns.items()})


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


def _array(name: str, cells: list, kind: Any) -> Any:
    """Return cells as an Arrow array."""
    arrow = import_extra("pyarrow")
    try:
        return arrow.array(cells, kind)
    except (arrow.ArrowException, TypeError):
        raise InputError(f"column {name!r} has lists and other values, expected one kind") from None
    except UnicodeError as error:
        raise InputError(f"column {name!r} has a text that is not Unicode: {one_line(error)}") from None


def _blocks(stream: BufferedIOBase) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of consecutive lines as dicts of cells."""
    number = 0
    decoder = json.JSONDecoder(
        object_pairs_hook=_row, parse_int=_integer, parse_float=_decimal, parse_constant=_constant
    )
    while lines := stream.readlines(BLOCK):
        rows = []
        for line in lines:
            number += 1
            try:
                if text := line.removeprefix(MARK).decode().strip():
                    rows.append(decoder.decode(text))
            except (InputError, ValueError, RecursionError) as error:
                message = f"is not a readable table in JSON: line {number}: {one_line(error)}"
                raise InputError(message) from None
            if rows and type(rows[-1]) is not dict:
                raise InputError(f"is not a readable table in JSON: line {number} is not an object")
        if rows:
            yield rows


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


def _integer(text: str) -> str:
    """Return the text of a whole number."""
    return "0" if text == "-0" else text


def _decimal(text: str) -> str:
    """Return a number as a plain decimal. A text with an exponent would be a code."""
    if "e" not in text and "E" not in text:
        return text
    plain = as_text(float(text))
    return f"{plain}.0" if abs(float(text)) >= EXACT and "." not in plain else plain  # it may be rounded: no id


def _constant(text: str) -> str | None:
    """Return NaN as a missing value, and the infinities as texts that are no finite numbers."""
    return None if text == "NaN" else text
