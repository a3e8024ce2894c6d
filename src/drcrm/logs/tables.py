"""The features of a table as arrays, and what encodes them: standardised numbers, categories one-hot or hashed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pandas as pd
from scipy import sparse

from ..core.validation import Features
from ..errors import InputError
from .columns import categories, numbers
from .fitting import fitted_categories, fitted_numbers, hashed
from .timestamps import calendar, hour_of, weekday_of

SPARSE = 0.1  # share of entries that are not 0, below which X is sparse


@dataclass(frozen=True)
class Table:
    """The feature columns of n rows.

    Attributes
    ----------
    numbers : dict of array (n,)
        NaN if missing.
    codes : dict of integer array (n,)
        Of each categorical column, the places in its ``values``.
    values : dict of list of str
    rows : integer array (n,)
        The number of each row in its file.
    times : tuple of str
        The columns of dates and times; ``codes`` and ``values`` have their hour and weekday.
    """

    numbers: dict[str, np.ndarray]
    codes: dict[str, np.ndarray]
    values: dict[str, list[str]]
    rows: np.ndarray
    times: tuple[str, ...] = ()

    @classmethod
    def of(cls, frame: pd.DataFrame, numeric, categorical, times=(), rows: np.ndarray | None = None) -> Table:
        """Return the features of a frame; InputError names the column, and the row, of what is none."""
        rows = np.arange(len(frame)) if rows is None else rows
        require_columns(frame.columns, [*numeric, *categorical, *times])
        coded = {name: categories(frame[name], name) for name in categorical}
        for name in times:
            parts = calendar(frame[name], name, rows)
            if taken := coded.keys() & parts:
                raise InputError(f"{min(taken)!r} is a column and a part of {name!r}, expected another column's name")
            coded |= parts
        return cls(
            {name: numbers(frame[name], name, rows, optional=True) for name in numeric},
            {name: codes for name, (codes, _) in coded.items()},
            {name: values for name, (_, values) in coded.items()},
            rows,
            tuple(times),
        )

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: np.ndarray) -> Table:
        return replace(
            self,
            numbers={name: each[rows] for name, each in self.numbers.items()},
            codes={name: each[rows] for name, each in self.codes.items()},
            rows=self.rows[rows],
        )

    def fit(self, kind: str, names: list) -> TableEncoding:
        """Return the encoding that is fitted to these rows."""
        scales, indicators = fitted_numbers(self.numbers.items())
        values = fitted_categories(((name, [self._seen(name)]) for name in self.codes), self.times)
        return TableEncoding(kind, names, scales, values, indicators, self.times)

    def missing(self) -> dict[str, int]:
        """Return how many values are missing, by column, of numbers and times."""
        counts = {name: int(np.isnan(values).sum()) for name, values in self.numbers.items()}
        counts |= {name: int((self.codes[weekday_of(name)] == 0).sum()) for name in self.times}
        return {name: count for name, count in counts.items() if count}

    def _seen(self, name: str) -> list[str]:
        """The values of a column that occur."""
        return [self.values[name][code] for code in np.unique(self.codes[name])]

    @classmethod
    def joined(cls, tables: list[Table]) -> Table:
        """Return the rows of tables of the same columns, one after the other."""
        [first, *others] = tables
        if not others:
            return first
        coded = {
            name: _joined_codes([(each.codes[name], each.values[name]) for each in tables]) for name in first.codes
        }
        return cls(
            {name: np.concatenate([each.numbers[name] for each in tables]) for name in first.numbers},
            {name: codes for name, (codes, _) in coded.items()},
            {name: values for name, (_, values) in coded.items()},
            np.concatenate([each.rows for each in tables]),
            first.times,
        )

    def stored(self) -> tuple[dict, dict]:
        """Return arrays, and what is kept as JSON, of which ``restored`` makes the same, with the records' rows."""
        arrays = {number_name(at): each for at, each in enumerate(self.numbers.values())}
        arrays |= {code_name(at): each.astype(np.int32) for at, each in enumerate(self.codes.values())}
        return arrays, {"numeric": list(self.numbers), "values": self.values, "times": self.times}

    @classmethod
    def restored(cls, arrays: Mapping, said: Mapping) -> Table:
        numbers = {name: arrays[number_name(at)] for at, name in enumerate(said["numeric"])}
        codes = {name: arrays[code_name(at)] for at, name in enumerate(said["values"])}
        return cls(numbers, codes, said["values"], arrays["rows"], tuple(said["times"]))


@dataclass(frozen=True)
class TableEncoding:
    """Rows of a table ↦ X: (x − mean)/scale of numbers, indicators, categories one-hot or hashed, and a constant 1.

    A missing number is 0, the mean of the training rows, and its indicator is 1. A category that no training row has is
    all zeros.

    Parameters
    ----------
    kind : "single" or "labels"
    names : list of str or int
        Of the actions, or labels.
    scales : dict of (mean, scale)
        Of the numeric columns.
    known : dict of list
        Of the categorical columns, their values; or, hashed, the features kept. Hours and weekdays are categories.
    indicators : tuple of str
        The numeric columns with missing values in the training rows.
    times : tuple of str
        The columns of dates and times.
    """

    kind: str
    names: list
    scales: dict[str, tuple[float, float]]
    known: dict[str, list]
    indicators: tuple[str, ...] = ()
    times: tuple[str, ...] = ()

    @property
    def n_features(self) -> int:
        return len(self.scales) + len(self.indicators) + sum(map(len, self.known.values())) + 1

    @property
    def categorical(self) -> list[str]:
        """Return the categorical columns, without hours and weekdays of times."""
        derived = {derive(name) for name in self.times for derive in (hour_of, weekday_of)}
        return [name for name in self.known if name not in derived]

    @property
    def read(self) -> list[str]:
        """Return the columns that are read."""
        return [*self.scales, *self.categorical, *self.times]

    @property
    def columns(self) -> dict[str, slice]:
        """Return where the columns of X are that belong to each feature."""
        widths = dict.fromkeys([*self.scales, *(f"missing {name}" for name in self.indicators)], 1)
        widths |= {name: len(values) for name, values in self.known.items()}
        ends = np.cumsum([*widths.values()], dtype=int).tolist()
        return {name: slice(end - widths[name], end) for name, end in zip(widths, ends, strict=True)}

    def contexts(self, data: Table | pd.DataFrame) -> Features:
        """Return X, (n, d), dense or CSR by how much of it is 0."""
        table = self._table(data)
        numeric = chain(self._standardised(table), (np.isnan(table.numbers[name]) for name in self.indicators))
        constant = np.ones(len(table))
        blocks = [self._one_hot(table, name)[0] for name in self.known]
        if len(self.scales) + len(self.known) + 1 < SPARSE * self.n_features:
            numeric = sparse.csr_array(np.column_stack([*numeric]).astype(float)) if self.scales else None
            parts = [numeric, *blocks, sparse.csr_array(constant[:, None])]
            return sparse.csr_array(sparse.hstack([part for part in parts if part is not None], format="csr"))
        X, at = np.empty((len(table), self.n_features)), 0
        for block in chain(numeric, (block.toarray() for block in blocks), [constant]):
            width = block.shape[1] if block.ndim == 2 else 1
            X[:, at : at + width] = block.reshape(-1, width)
            at += width
        return X

    def unseen(self, data: Table | pd.DataFrame) -> dict[str, int]:
        """Count the rows with a new category, or with a missing number in a column without an indicator, by column."""
        table = self._table(data)
        counts = {f"new value of {name!r}": int(self._one_hot(table, name)[1].sum()) for name in self.known}
        without = [name for name in self.scales if name not in self.indicators]
        counts |= {f"missing value of {name!r}": int(np.isnan(table.numbers[name]).sum()) for name in without}
        return {what: count for what, count in counts.items() if count}

    def as_dict(self) -> dict:
        scales = {name: list(each) for name, each in self.scales.items()}
        fitted = {"scales": scales, "known": self.known, "indicators": list(self.indicators), "times": list(self.times)}
        return {"of": "table", "kind": self.kind, "names": self.names, **fitted}

    @classmethod
    def of_dict(cls, given: dict) -> TableEncoding:
        scales = {name: (float(mean), float(scale)) for name, (mean, scale) in given["scales"].items()}
        later = (tuple(given.get(key, ())) for key in ("indicators", "times"))  # which older files lack
        return cls(given["kind"], given["names"], scales, given["known"], *later)

    def _table(self, data: Table | pd.DataFrame) -> Table:
        table = data if isinstance(data, Table) else Table.of(data, self.scales, self.categorical, self.times)
        for kind, names, found in (("numeric", self.scales, table.numbers), ("categorical", self.known, table.values)):
            if missing := [name for name in names if name not in found]:
                raise InputError(f"{missing[0]!r} is no {kind} feature here, as it was in learning")
        return table

    def _standardised(self, table: Table) -> Iterator[np.ndarray]:
        for name, (mean, scale) in self.scales.items():
            values = (table.numbers[name] - mean) / scale
            values[np.isnan(values)] = 0.0
            yield values

    def _one_hot(self, table: Table, name: str) -> tuple[sparse.csr_array, np.ndarray]:
        """The features of a column, (n, its features), and which rows have a value that is not known."""
        values, known = table.values[name], self.known[name]
        place = {each: at for at, each in enumerate(known)}
        pairs = [(value, 1.0) for value in values] if _are_texts(known) else hashed(values)
        column = np.array([place.get(key, -1) for key, _ in pairs], dtype=np.intp)[table.codes[name]]
        sign = np.array([sign for _, sign in pairs])[table.codes[name]]
        is_known = column >= 0
        at = np.append(0, np.cumsum(is_known))
        return sparse.csr_array((sign[is_known], column[is_known], at), (len(table), len(known))), ~is_known


def number_name(place: int) -> str:
    """Return what the array of a numeric column is called where a table is stored, by its place among them."""
    return f"number {place}"


def code_name(place: int) -> str:
    """Return the same of the codes of a categorical column."""
    return f"code {place}"


def require_columns(found, needed: list[str]) -> None:
    """Raise InputError where a column is missing, or stands twice."""
    found = list(found)
    for name in needed:
        if name not in found:
            shown = ", ".join(map(str, found[:12])) + (", …" if len(found) > 12 else "")
            raise InputError(f"column {name!r} is missing, expected one of those it has: {shown}")
        if found.count(name) > 1:
            raise InputError(f"column {name!r} stands {found.count(name)} times, expected once")


def _joined_codes(coded: list[tuple[np.ndarray, list[str]]]) -> tuple[np.ndarray, list[str]]:
    """The codes of parts of a column, and their values, as those of one."""
    values = list(dict.fromkeys(value for _, some in coded for value in some))
    place = {value: at for at, value in enumerate(values)}
    parts = [np.array([place[value] for value in some], dtype=np.intp)[codes] for codes, some in coded]
    return np.concatenate(parts), values


def _are_texts(known: list) -> bool:
    return all(isinstance(each, str) for each in known)
