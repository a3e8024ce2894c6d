"""Read dates and times of a table: hours and weekdays as features, and numbers that order the rows."""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np
import pandas as pd

from drcrm.errors import InputError
from drcrm.logs.encoding.columns import MISSING, is_missing, numbers, reject_values

DATE, CLOCK, ZONE = r"\d{4}-\d{2}-\d{2}", r"\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?", r"Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?"
ISO = rf"^\s*({DATE})(?:[T ]({CLOCK}))?\s*({ZONE})?\s*$"
DAY_FIRST = re.compile(r"^\s*(\d{1,2})\.(\d{1,2})\.(\d{4})(?!\d),?")
EXPECTED = "a date, or date and time, such as 2024-05-01T13:45+02:00 or 01.05.2024 13:45"
HOURS = [MISSING, *(f"{hour:02d}" for hour in range(24))]
WEEKDAYS = [MISSING, "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MICROSECOND = "datetime64[us]"


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
