"""Convert columns of a table to numbers, categories, times or marks of identifiers; escape names for spreadsheets."""

import datetime
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd

from drcrm.errors import InputError, import_extra
from drcrm.logs.row_identity import hash_texts

MISSING = ""  # category of missing values
WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,14}")  # floats represent it exactly
WHOLE = re.compile(r"^(0|-?[1-9]\d*)\.0+$")  # a whole number with a decimal point
BOOLEANS = {"true": 1.0, "false": 0.0}  # numbers of the texts of booleans, in lower case
BOOLEAN_PAIRS = "yes/no", "y/n", "t/f", "on/off"  # other common texts for 1 and 0
MISSING_TEXTS = {  # the texts that pandas reads as missing values, and Hive's and MySQL's
    *("", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None"),
    *("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN", r"\N"),
}
TIME_ADVICE = "; list dates and times in features: {time: [...]}"
DATE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2}\.\d{1,2}\.\d{4}")
THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:([,.' \u2019\u00a0\u202f])\d{3})(?:\1\d{3})*(?:[.,]\d+)?")
PERCENT = re.compile(r"[+-]?[\d.,]+\s*%")
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+")
DECIMAL = re.compile(r"-?(?:0|[1-9]\d*)\.\d+", re.ASCII)
BOOLEAN_TEXTS = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}  # of Python, R and spreadsheets
DIGITS = 17  # a decimal number with more significant digits may differ from the nearest float
LARGEST = 10**15  # floats represent smaller whole numbers exactly
FORMULA = re.compile(r"[=+\-@\t\r]")  # start of a text that a spreadsheet would run
NUMBER = re.compile(r"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?")
CODE = re.compile(r"[+-]?[0-9]+([eE][0-9]+)?")  # a whole number, or a code: programs write floats as 1e+20 or 1.0E20
OUTCOMES = "reward", "cost"  # the start of their names in messages
EXACT = 2**53  # floats represent all integers below
NONE = 2**64 - 1  # mark of a missing id
ISO_DATE, CLOCK, ZONE = (
    r"\d{4}-\d{2}-\d{2}",
    r"\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?",
    r"Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?",
)
ISO = rf"^\s*({ISO_DATE})(?:[T ]({CLOCK}))?\s*({ZONE})?\s*$"
DAY_FIRST = re.compile(r"^\s*(\d{1,2})\.(\d{1,2})\.(\d{4})(?!\d),?")
EXPECTED = "a date, or date and time, such as 2024-05-01T13:45+02:00 or 01.05.2024 13:45"
HOURS = [MISSING, *(f"{hour:02d}" for hour in range(24))]
WEEKDAYS = [MISSING, "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MICROSECOND = "datetime64[us]"


def numbers(
    column: pd.Series,
    name: str,
    expected: str = "a finite number",
    optional: bool = False,
    booleans: Mapping[str, float] = BOOLEANS,
) -> np.ndarray:
    """Return a column as floats, (n,); InputError names the first row without a finite number.

    The keys of ``booleans`` are read as its values. If ``optional``, missing values become NaN: empty cells, nulls,
    NaN, and the texts in ``MISSING_TEXTS``.
    """
    kind = column.dtype
    is_number = kind.kind == "b" or (pd.api.types.is_numeric_dtype(kind) and kind.kind != "c")
    if not (is_number or pd.api.types.is_string_dtype(kind) or kind in ("object", "category")):
        raise InputError(f"{name} is a column of {kind}, expected numbers{TIME_ADVICE if kind.kind == 'M' else ''}")
    values = _cast(column)
    if values is None:
        try:
            codes, distinct = pd.factorize(column)
        except TypeError:  # lists and maps
            raise InputError(f"{name} is not a column of numbers") from None
        values = np.array([*(as_number(value, booleans) for value in distinct), np.nan])[codes]
    bad = np.isinf(values) if optional else ~np.isfinite(values)
    if bad.any():
        expected += _advice(column.iloc[int(np.argmax(bad))], name)
    reject_values(bad, column, name, expected)
    return values


def boolean_numbers(pairs: Iterable[str]) -> dict[str, float]:
    """Return the numbers of texts in lower case: of ``True`` and ``False``, and 1 and 0 for each pair like yes/no."""
    texts = [text.strip().lower() for pair in pairs for text in pair.split("/")]
    return BOOLEANS | dict.fromkeys(texts[::2], 1.0) | dict.fromkeys(texts[1::2], 0.0)


def is_missing(column: pd.Series) -> np.ndarray:
    """Return which values are null, NaN, or one of ``MISSING_TEXTS``, (n,)."""
    if column.dtype.kind in "biufMm":
        return column.isna().to_numpy(dtype=bool)
    return (column.isna() | column.astype(object).map(str).str.strip().isin(MISSING_TEXTS)).to_numpy(dtype=bool)


def _advice(value: object, name: str) -> str:
    """Return advice on how to correct a value of a column that is not a number."""
    text = str(value).strip()
    if is_missing(pd.Series([value])).all():
        late = ", and if outcomes arrive late, all rows that are as new" if name.startswith(OUTCOMES) else ""
        return f"; only features may be missing: remove such rows{late}"
    if isinstance(value, datetime.date) or DATE.match(text):
        return TIME_ADVICE
    if THOUSANDS.fullmatch(text):
        return " without thousands separators: write 1234.5"
    if pairs := [pair for pair in BOOLEAN_PAIRS if text.lower() in pair.split("/")]:
        return f"; to read such texts as 1 and 0, set booleans: {pairs[0]} in the mapping, or add it to the list there"
    if PERCENT.fullmatch(text):
        return "; write 0.2 for 20 %"
    if DECIMAL_COMMA.fullmatch(text):
        return ' with a decimal point; if commas are decimal signs and not delimiters, set decimal: "," in the mapping'
    return ""


def as_number(value: object, booleans: Mapping[str, float]) -> float:
    """Return the number of a value or its text: NaN if it is missing, infinity if it is not a number."""
    text = str(value).strip()
    if text in MISSING_TEXTS:
        return np.nan
    if text.lower() in booleans:
        return booleans[text.lower()]
    try:
        return np.inf if "_" in text else float(text)
    except ValueError:
        return np.inf


def _cast(column: pd.Series) -> np.ndarray | None:
    """Return a column of numbers or of their texts as floats; None if it has other values."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        return column.to_numpy(dtype=float)
    arrow = import_extra("pyarrow")
    try:
        texts = arrow.array(
            column, None if isinstance(column.dtype, pd.StringDtype) else arrow.string(), from_pandas=True
        )
        return texts.cast(arrow.float64()).to_numpy(zero_copy_only=False)
    except arrow.ArrowException:
        return None


def reject_values(bad: np.ndarray, values: Any, name: str, expected: str, rows: Any = None) -> None:
    """Raise InputError if ``bad`` is true anywhere. The message has the number of the first such row in the file.

    ``rows`` are the numbers of the rows, by default the index of ``values``.
    """
    if not bad.any():
        return
    at = int(np.argmax(bad))
    value = values.iloc[at] if isinstance(values, pd.Series) else values[at]
    value = value.item() if isinstance(value, np.generic) else value
    text = repr(value)
    text = text if len(text) <= 60 else f"{text[:57]}…"
    if np.ndim(value) == 0 and pd.isna(value):
        text = "nan" if values.dtype.kind == "f" else "missing"
    row = (values.index if rows is None else rows)[at]
    raise InputError(f"{name} is {text} in row {row}, expected {expected}")


def categories(column: pd.Series, name: str) -> tuple[np.ndarray, list[str]]:
    """Return the code of each row, (n,), and the distinct values as texts; a code is a place among the values.

    The text of a missing value is empty. The whole numbers 1, 1.0 and "1" have the same text. :func:`canonical_text`
    decides which other texts are one category.
    """
    try:
        if column.dtype == object and pd.api.types.infer_dtype(column).startswith("mixed"):
            if not column.map(pd.api.types.is_scalar).all():
                raise TypeError
            column = column.map(as_text, na_action="ignore")  # True, 1 and 1.0 are equal, but True is another category
        codes, distinct = pd.factorize(column, use_na_sentinel=True)
    except TypeError:
        raise InputError(f"{name} has values such as lists or maps, expected texts or numbers") from None
    texts = [*map(as_text, distinct), MISSING]
    values = list(dict.fromkeys(texts[:-1] if (codes >= 0).all() else texts))
    place = {value: at for at, value in enumerate(values)}
    return np.array([place.get(text, -1) for text in texts], dtype=np.intp)[codes], values


def as_text(value: object) -> str:
    """Return a categorical value as text: a number as a plain decimal, a boolean in lower case, a text as written.

    Only a text of a whole number with a decimal point, such as 3.0, loses its point.
    """
    if isinstance(value, np.float32 | np.float16):
        value = float(str(value))  # 0.1, not 0.10000000149011612
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | Decimal) and isfinite(value):
        return _without_zeros(f"{Decimal(str(value)):f}")
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    return WHOLE.sub(r"\1", text)


def canonical_text(text: str) -> str:
    """Return the text that equal categories share: 2.5 for the plain decimal 2.50, true for True; others unchanged.

    A text with an exponent is a code, and other texts of whole numbers keep leading zeros and all digits. So this text
    of a number's ``as_text`` is the same for a value in Python or JSON, and for its text in a CSV file.
    """
    if not DECIMAL.fullmatch(text):
        return BOOLEAN_TEXTS.get(text, text)
    text = _without_zeros(text)
    is_float = "." in text and len(text.replace(".", "").lstrip("-0")) <= DIGITS
    return as_text(float(text)) if is_float else text


def _without_zeros(text: str) -> str:
    """Return a plain decimal without zeros at its end, and without a decimal point if it is a whole number."""
    text = text.rstrip("0").removesuffix(".") if "." in text else text
    return "0" if text == "-0" else text


def escape_formula(value: object) -> object:
    """Return a text with an apostrophe in front if a spreadsheet would run it as a formula; other values unchanged.

    A formula, by OWASP's rule, begins with ``= + - @``, a tab or a carriage return, and is not a number.
    """
    runs = isinstance(value, str) and FORMULA.match(value) and not NUMBER.fullmatch(value)
    return f"'{value}" if runs else value


def as_names(values: list[str]) -> list[str] | list[int]:
    """Return sorted names: as integers if all are whole numbers, otherwise as texts."""
    are_whole = all(WHOLE_NUMBER.fullmatch(value) for value in values)
    return sorted(map(int, values)) if are_whole else sorted(values)


def id_marks(column: pd.Series, label: str, optional: bool = False) -> np.ndarray:
    """Return a mark of each row's id, a hash, (n,); InputError for a rounded integer, and for a missing id.

    If ``optional``, the mark of a missing id is ``NONE``.
    """
    if not optional:
        reject_values(is_missing(column), column, label, "an id in every row")
    reject_rounded(column, label)
    codes, values = categories(column, label)
    marks = hash_texts(values)
    marks[[value == MISSING for value in values]] = NONE
    return marks[codes]


def number_marks(marks: np.ndarray) -> np.ndarray:
    """Return the number of each row's group, (n,). A row without a group becomes a separate group."""
    codes, distinct = pd.factorize(marks)
    return np.where(marks == NONE, len(distinct) + np.arange(len(codes)), codes)


def reject_rounded(column: pd.Series, label: str) -> None:
    """Raise InputError if an identifier is a float beyond 2⁵³, because other identifiers may be the same float."""
    if column.dtype.kind in "biuMm":
        return
    codes, texts = pd.factorize(column.astype(object).map(str))
    is_rounded = [NUMBER.fullmatch(text) and not CODE.fullmatch(text) and abs(float(text)) >= EXACT for text in texts]
    expected = "an integer or a text: a float represents several integers above 2⁵³"
    reject_values(np.array(is_rounded, dtype=bool)[codes], column, label, expected)


def hour_of(name: str) -> str:
    """Return the name of the feature with the hours of a column."""
    return f"{name}: hour"


def weekday_of(name: str) -> str:
    """Return the name of the feature with the weekdays of a column."""
    return f"{name}: weekday"


def calendar(column: pd.Series, name: str) -> dict[str, tuple[np.ndarray, list[str]]]:
    """Return hours and weekdays as categories: codes (n,) and values. A missing time has the value ""."""
    wall, has_hour, _ = times_of(column, name)
    times = pd.DatetimeIndex(wall)
    hours = np.where(has_hour, np.nan_to_num(times.hour, nan=-1) + 1, 0).astype(np.intp)
    weekdays = (np.nan_to_num(times.day_of_week, nan=-1) + 1).astype(np.intp)
    return {hour_of(name): (hours, HOURS), weekday_of(name): (weekdays, WEEKDAYS)}


def order_of(column: pd.Series, name: str) -> tuple[np.ndarray, str]:
    """Return numbers (n,) that order the rows by a column, and their kind: numbers, times, or times with zone.

    Times are in microseconds since 1970. Raise InputError for a missing value, and for values of more than one kind.
    """
    label = name if name == "time" else f"time {name!r}"
    reject_values(is_missing(column), column, label, f"a number, or {EXPECTED}; remove rows without one")
    if column.dtype.kind != "M" and pd.notna(pd.to_numeric(column[:1].astype(object), errors="coerce")).all():
        return numbers(column, label), "numbers"
    wall, _, offset = times_of(column, label)
    has_zone = ~np.isnat(offset)
    if has_zone.any():
        reject_values(~has_zone, column, label, "a time with a time zone, like in other rows")
    instants = wall - np.where(has_zone, offset, np.timedelta64(0, "us"))
    return instants.astype(MICROSECOND).astype(np.int64).astype(float), "times with zone" if has_zone.any() else "times"


def times_of(column: pd.Series, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the n times of a column as they are written, without conversion to another time zone.

    Raise InputError for an invalid time; the message names the first such row.

    Returns
    -------
    wall : datetime64 array (n,)
        NaT if missing.
    has_hour : bool array (n,)
        False for a date without time of day.
    offset : timedelta64 array (n,)
        Offset from UTC; NaT if the text has none.
    """
    kind = column.dtype
    if kind.kind == "M":
        wall = column.dt.tz_localize(None).to_numpy(dtype=MICROSECOND)
        offset = np.full(len(wall), "NaT", dtype="timedelta64[us]")
        if isinstance(kind, pd.DatetimeTZDtype):
            offset = wall - column.dt.tz_convert(None).to_numpy(dtype=MICROSECOND)
        return wall, ~np.isnat(wall), offset
    if pd.api.types.is_numeric_dtype(kind) and column.notna().any():
        raise InputError(f"{name} is a column of {kind}, expected {EXPECTED}")
    texts = column.astype(object).map(as_iso)
    missing = is_missing(texts)
    date, clock, zone = (part for _, part in texts.where(~missing).astype("str").str.extract(ISO).items())
    wall = pd.to_datetime(date + "T" + clock.fillna("00:00"), format="ISO8601", errors="coerce")
    wall = wall.to_numpy(dtype=MICROSECOND)
    reject_values(np.isnat(wall) & ~missing, column, name, EXPECTED)
    zone = zone.str.replace("^(?:Z|UTC|GMT)$", "+00", regex=True)
    clocks = zone.str[:3] + ":" + zone.str[3:].str.strip(":").replace("", "00") + ":00"
    offset = pd.to_timedelta(clocks.astype(object)).to_numpy(dtype="timedelta64[us]")
    return wall, clock.notna().to_numpy(dtype=bool), offset


def as_iso(value: Any) -> Any:
    """Return a date, a datetime, or a text such as ``01.05.2024 13:45:00,5`` in ISO 8601; other values unchanged."""
    if isinstance(value, str):
        return DAY_FIRST.sub(lambda match: f"{match[3]}-{match[2]:0>2}-{match[1]:0>2}", value).replace(",", ".")
    return value.isoformat() if isinstance(value, datetime.date) and value is not pd.NaT else value
