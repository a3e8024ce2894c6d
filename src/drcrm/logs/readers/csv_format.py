"""The delimiter and the decimal sign of a CSV file, detected from its first lines."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from drcrm.errors import InputError

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
DETECTED = ",", ";", "\t"
LINES = 20  # number of rows in which a delimiter is tested
ROWS = 1000  # number of rows in which the decimal sign is looked for
WITH_COMMA = re.compile(r"\s*[+-]?\d*,\d*(?:[eE][+-]?\d+)?\s*")
WITH_POINT = re.compile(r"\s*[+-]?\d*\.\d*(?:[eE][+-]?\d+)?\s*")
MAYBE_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2},\d{3}\s*")


@dataclass
class CsvFormat:
    """How the files of a log are written.

    Attributes
    ----------
    delimiter : str, optional
        By default it is detected for each file.
    decimal : "." or ",", optional
        By default it is detected in the first file with decimals; later files must agree.
    encoding : str, optional
        By default UTF-8, or UTF-16 if a file begins with its byte order mark.
    """

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None

    def header_of(self, text: str) -> tuple[list[str], str]:
        """Return the columns' names and the delimiter of a file that begins with ``text``."""
        delimiters = DETECTED if self.delimiter is None else (self.delimiter,)
        headers = {delimiter: next(_lines(text, delimiter), []) for delimiter in delimiters}
        several = [delimiter for delimiter in delimiters if len(headers[delimiter]) > 1]
        if len(several) > 1:
            several = [delimiter for delimiter in several if _is_even(text, delimiter)] or several
        if len(several) > 1:
            names = " or ".join(DELIMITERS[delimiter] for delimiter in several)
            raise InputError(f"may have {names} between its columns; set delimiter in the mapping")
        [delimiter] = several or delimiters[:1]
        if not headers[delimiter]:
            most = csv.field_size_limit()
            raise InputError(f"has no line of column names; a name may have at most {most} characters")
        return headers[delimiter], delimiter

    def decimal_of(self, text: str, header: list[str], delimiter: str, numeric: list[str]) -> str:
        """Return the decimal sign of the numeric columns of a file that begins with ``text``."""
        if delimiter == ",":
            if self.decimal == ",":
                raise InputError("has commas between its columns, so decimal must be '.', but the mapping has ','")
            return "."
        if self.decimal is None:
            self.decimal = _decimal(text, header, delimiter, numeric)
        return self.decimal or "."


def _lines(text: str, delimiter: str) -> Iterator[list[str]]:
    """Yield the nonempty lines of a text as lists of cells. Stop at a line that cannot be read."""
    with suppress(csv.Error):
        yield from filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=False))


def _rows(text: str, delimiter: str, most: int) -> list[list[str]]:
    """Return the header and about ``most`` rows, without a last row that may be cut off."""
    rows = list(islice(_lines(text, delimiter), most + 2))
    return rows if text.endswith(("\n", "\r")) or len(rows) < 3 else rows[:-1]


def _is_even(text: str, delimiter: str) -> bool:
    """Return whether there are rows, and the first ones have as many cells as the header."""
    rows = _rows(text, delimiter, LINES)
    return len(rows) > 1 and len({len(row) for row in rows}) == 1


def _decimal(text: str, header: list[str], delimiter: str, numeric: list[str]) -> str | None:
    """Return the decimal sign in the first rows; None if no number has one; InputError if both occur."""
    commas: list[str] = []
    points: list[str] = []
    unclear: list[str] = []
    places = {name: header.index(name) for name in numeric}
    for number, row in enumerate(_rows(text, delimiter, ROWS)[1:]):
        for name, place in places.items():
            cell = row[place] if place < len(row) else ""
            kinds = points if WITH_POINT.fullmatch(cell) else unclear if MAYBE_THOUSANDS.fullmatch(cell) else commas
            if kinds is points or WITH_COMMA.fullmatch(cell):
                kinds.append(f"{name} is {cell!r} in row {number}")
    if points and (commas or unclear):
        raise InputError(
            f"must have one decimal sign, but {points[0]} and {(commas + unclear)[0]}; remove thousands separators, "
            "or write all numbers with the same sign"
        )
    if unclear and not commas:
        raise InputError(
            f"{unclear[0]}: its comma may be a decimal sign or a thousands separator; set decimal in the mapping, "
            "or remove thousands separators"
        )
    return "," if commas else "." if points else None
