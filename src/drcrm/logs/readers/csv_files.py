"""Reader of CSV: cells as texts, delimiter and decimal sign detected from the first rows, stray quotation marks."""

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from drcrm.errors import InputError, import_extra
from drcrm.logs.readers.base import Select, one_line, open_file
from drcrm.logs.readers.tables import TableReader

HEADER = 2**20  # bytes of a CSV file that contain its first line
BLOCK = 2**22  # bytes of a CSV file that are read at once
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
DETECTED = ",", ";", "\t"
LINES = 20  # number of rows in which a delimiter is tested
UNCLEAR = r"\s*[+-]?[1-9]\d{0,2},\d{3}\s*"  # a number with a comma that may be a thousands separator
NUMBERS = (  # numbers with a decimal point, with a comma, and with an unclear comma
    r"\s*[+-]?\d*\.\d*([eE][+-]?\d+)?\s*",
    r"\s*[+-]?\d*,\d*([eE][+-]?\d+)?\s*",
    UNCLEAR,
)
SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)  # written by Excel
BYTE_ORDER_MARKS = b"\xff\xfe", b"\xfe\xff"
NUMBER = re.compile(r"\s*([+-]?[\d.,]+([eE][+-]?\d+)?|nan|null|na|true|false|)\s*", re.IGNORECASE)
EMPTY = "empty rows at the end"  # reason to skip rows
MANY = 10  # lines of a quoted text that is a sequence of rows even if the table has no numbers
ESCAPES = r"; \" is not read as a quotation mark inside a quoted text: write it twice (in Spark, set escape to it)"


class Head(NamedTuple):
    """The beginning of a CSV file.

    Attributes
    ----------
    names : list of str
        Names of the columns.
    delimiter : str
    n_skipped : int
        Number of lines before the header.
    """

    names: list[str]
    delimiter: str
    n_skipped: int


class CsvReader(TableReader):
    """Reader of CSV, also with other delimiters, decimal commas and encodings."""

    name, title, suffixes = "csv", "CSV", (".csv", ".tsv")

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.decimal = self.mapping.decimal

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        return b"\0" not in start or start.startswith(BYTE_ORDER_MARKS)

    def read_tables(self, file: Path, select: Select) -> Iterator[Any]:
        with open_file(file) as stream:
            start = stream.read(HEADER)
        encoding = self.mapping.encoding or ("utf-16" if start.startswith(BYTE_ORDER_MARKS) else "utf8")
        text = decode(start, encoding)
        if text.strip():
            head = head_of(text, self.mapping.delimiter)
            columns, numeric = select(head.names)
            tables = _read_csv(
                file, head, columns or head.names[:1], numeric, encoding
            )  # without columns, pyarrow's tables have no rows
            if len(head.names) == 1:  # an empty line is a missing value
                yield from tables
            else:
                yield from self._without_empty_end(tables, lambda: _read_csv(file, head, [], numeric, encoding))

    def _without_empty_end(self, tables: Iterable[Any], read_all: Callable[[], Iterable[Any]]) -> Iterator[Any]:
        """Yield Arrow tables without the empty rows at the end.

        ``read_all`` yields all columns, to check that these rows are empty in each of them.
        """
        waiting: list[Any] = []  # rows that are empty in the selected columns, with only such rows after them
        for table in tables:
            if n_filled := len(table) - _n_empty_at_end(table):
                yield from waiting
                waiting = []
                yield table.slice(0, n_filled)
            waiting.append(table.slice(n_filled))
        if n_waiting := sum(map(len, waiting)):
            n_empty = 0
            for table in read_all():
                n = _n_empty_at_end(table)
                n_empty = n_empty + n if n == len(table) else n
            if n_skipped := min(n_waiting, n_empty):
                self.skipped[EMPTY] += n_skipped
            yield import_extra("pyarrow").concat_tables(waiting).slice(0, n_waiting - n_skipped)

    def with_decimal_points(self, table: Any, numeric: list[str], first: int) -> Any:
        """Return an Arrow table with decimal points instead of decimal commas.

        The first rows with decimals show the decimal sign, unless the mapping names it. Raise InputError for another
        sign in later rows and files, and for thousands separators. ``first`` is the number of the table's first row.
        """
        compute = import_extra("pyarrow.compute")
        if self.decimal is None:
            self.decimal = _decimal(table, numeric, first)
        for name in numeric if self.decimal == "," else ():
            texts = table[name]
            at = compute.index(compute.match_substring_regex(texts, r"\d\.|\.\d|,.*,"), True).as_py()
            if at >= 0:
                raise InputError(
                    f"{name} is {texts[at].as_py()!r} in row {first + at}, expected a number with a decimal comma, "
                    "like in other rows, without thousands separators"
                )
            place = table.column_names.index(name)
            table = table.set_column(place, name, compute.replace_substring(texts, ",", "."))
        return table


def decode(start: bytes, encoding: str) -> str:
    """Return the first bytes of a file as text, without a byte order mark and an incomplete last character."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(start).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        row = start[: error.start].count(b"\n") - 1
        place = f"in row {row}" if row >= 0 else "in the names of the columns"
        raise InputError(wrong_encoding(encoding, f"{place}: byte {start[error.start]:#04x}")) from None
    if "\0" in text:
        raise InputError("is not text, expected CSV; if it is UTF-16, set encoding: utf-16 in the mapping")
    return text


def head_of(text: str, delimiter: str | None = None) -> Head:
    """Return the names of the columns and the delimiter of a file that begins with ``text``."""
    start = len(text) - len(text.lstrip("\r\n"))
    separator = SEPARATOR_LINE.match(text, start)
    n_skipped = len(text[:start].splitlines()) + bool(separator)
    text = text[separator.end() if separator else start :]
    chosen = delimiter or (separator and separator[1])
    delimiters = DETECTED if chosen is None else (chosen,)
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
    return Head(headers[delimiter], delimiter, n_skipped)


def wrong_encoding(encoding: str, place: str) -> str:
    """Return a message about text in another encoding than expected."""
    return (
        f"is not {codecs.lookup(encoding).name.upper()} {place}; set its encoding in the mapping, such as encoding: "
        "cp1252 (Windows) or utf-16; `drcrm init` has --encoding"
    )


def check_quotes(lines: Iterable[str], head: Head, numeric: list[str]) -> None:
    """Raise InputError for a quoted text that contains rows of the table, because of stray quotation marks.

    The lines of such a text have as many cells as the header, and numbers in the numeric columns.
    """
    recent: list[str] = []  # the lines of a row

    def recorded() -> Iterator[str]:
        for line in lines:
            recent.append(line)
            yield line

    reader = csv.reader(recorded(), delimiter=head.delimiter)
    first, places = 1, [head.names.index(name) for name in numeric]
    while True:
        try:
            row = next(reader, None)
            is_stray = row is not None and len(recent) > 1 and _has_rows(row, recent, head, places)
        except csv.Error:  # strict parsing fails, or the text is longer than any cell
            is_stray = True
        if is_stray:
            last = first + len(recent) - 1
            raise InputError(
                f"has a quoted text from line {first} to line {last} that contains rows of the table: remove the "
                "stray quotation marks in these two lines, or write each twice inside a quoted text"
                + ESCAPES
                * any('\\"' in line for line in recent)
            )
        if row is None:
            return
        first += len(recent)
        recent.clear()


def _has_rows(row: list[str], lines: list[str], head: Head, places: list[int]) -> bool:
    """Return whether a cell of a row that spans several lines contains other rows."""
    list(csv.reader(lines, delimiter=head.delimiter, strict=True))
    n = len(head.names)
    for at, cell in enumerate(row):
        first, *later = [line.split(head.delimiter) for line in cell.split("\n")]
        sizes = [len(first), *map(len, later)]
        if later and sizes == [n - at, *[n] * (len(later) - 1), at + 1]:
            cells = [line[place] for line in later for place in places if place < len(line)]
            if all(map(NUMBER.fullmatch, cells)) and (cells or (n > 1 and len(later) >= MANY)):
                return True
    return False


def _lines(text: str, delimiter: str) -> Iterator[list[str]]:
    """Yield the nonempty lines of a text as lists of cells. Stop at a line that cannot be read."""
    with suppress(csv.Error):
        yield from filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=False))


def _is_even(text: str, delimiter: str) -> bool:
    """Return whether there are rows, and the first ones have as many cells as the header."""
    rows = list(islice(_lines(text, delimiter), LINES + 2))
    rows = rows if text.endswith(("\n", "\r")) or len(rows) < 3 else rows[:-1]  # the last one may be cut off
    return len(rows) > 1 and len({len(row) for row in rows}) == 1


def _decimal(table: Any, numeric: list[str], first: int) -> str | None:
    """Return the decimal sign of numeric columns; None if no number has one; InputError if both occur."""
    compute, cells = import_extra("pyarrow.compute"), {}
    for name in numeric:
        texts = table[name]
        points, commas, unclear = (compute.match_substring_regex(texts, f"^{form}$") for form in NUMBERS)
        masks = {"point": points, "comma": compute.and_not(commas, unclear), "unclear": unclear}
        for kind, mask in masks.items():
            if (at := compute.index(mask, True).as_py()) >= 0:
                cells.setdefault(kind, f"{name} is {texts[at].as_py()!r} in row {first + at}")
    if "point" in cells and len(cells) > 1:
        raise InputError(
            f"must have one decimal sign, but {cells['point']} and {cells.get('comma') or cells['unclear']}; remove "
            "thousands separators, or write all numbers with the same sign"
        )
    if cells.keys() == {"unclear"}:
        raise InputError(
            f"{cells['unclear']}: its comma may be a decimal sign or a thousands separator; set decimal in the mapping"
            ", or remove thousands separators"
        )
    return "." if "point" in cells else "," if cells else None


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


def _read_csv(path: Path, head: Head, columns: list[str], numeric: list[str], encoding: str) -> Iterator[Any]:
    """Yield the rows of a CSV file as texts, block by block; of all columns if ``columns`` is empty."""
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
            include_columns=columns,
            column_types={name: arrow.string() for name in head.names},
            strings_can_be_null=True,
            null_values=["", r"\N"],
        ),
    }
    rows, error = 0, None
    with open_file(path, reported=True) as file:
        counter = LineCounter(file)
        try:
            for batch in reader.open_csv(counter, **options):
                yield arrow.table(batch)
                rows += batch.num_rows
        except (arrow.ArrowException, UnicodeError) as failure:
            error = InputError(_unreadable(failure, head, encoding))
    if counter.has_quotes and (error or counter.n_lines > rows + head.n_skipped + 1):
        with open_file(path) as file, suppress(UnicodeError), io.TextIOWrapper(file, encoding, newline="") as lines:
            check_quotes(lines, head, numeric)
    if error:
        raise error


def _n_empty_at_end(table: Any) -> int:
    """Return the number of the last rows of an Arrow table in which all cells are empty."""
    if not len(table) or any(column[-1].is_valid for column in table.columns):
        return 0
    has_value = np.logical_or.reduce([column.is_valid().to_numpy() for column in table.columns])
    return int(np.argmax(has_value[::-1])) if has_value.any() else len(table)


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
