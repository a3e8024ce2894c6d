"""The features of a table as arrays, and what encodes them: standardised numbers, categories one-hot or hashed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import pandas as pd
from scipy import sparse

from drcrm.arrays.validation import Features
from drcrm.errors import InputError
from drcrm.logs.encoding.columns import categories, numbers
from drcrm.logs.encoding.fitting import fitted_categories, fitted_numbers, hashed
from drcrm.logs.encoding.timestamps import calendar, hour_of, weekday_of
from drcrm.logs.records import Data

SPARSE = 0.1  # share of entries that are not 0, below which X is sparse


@dataclass(frozen=True)
class Table(Data):
    """The feature columns of n rows.

    Attributes
    ----------
    numbers : dict of array (n,)
        NaN if missing.
    codes : dict of integer array (n,)
        Of each categorical column, the places in its ``values``.
    values : dict of list of str
    size : int
        n.
    times : tuple of str
        The columns of dates and times; ``codes`` and ``values`` have their hour and weekday.
    """

    numbers: dict[str, np.ndarray]
    codes: dict[str, np.ndarray]
    values: dict[str, list[str]]
    size: int
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
            len(frame),
            tuple(times),
        )

    def __len__(self) -> int:
        return self.size

    def take(self, rows: np.ndarray | slice) -> Table:
        return replace(
            self,
            numbers={name: values[rows] for name, values in self.numbers.items()},
            codes={name: codes[rows] for name, codes in self.codes.items()},
            size=len(np.broadcast_to(True, self.size)[rows]),
        )

    def fit(self, kind: str, names: list, rows: np.ndarray | None = None) -> TableEncoding:
        """Return the encoding that is fitted to rows, by a mask (n,); one column of them at a time is copied."""
        rows = slice(None) if rows is None else rows
        scales, indicators = fitted_numbers((name, values[rows]) for name, values in self.numbers.items())
        values = fitted_categories(((name, self._seen(name, rows)) for name in self.codes), self.times)
        return TableEncoding(kind, names, scales, values, indicators, self.times)

    def missing(self) -> dict[str, int]:
        """Return how many values are missing, by column, of numbers and times."""
        counts = {name: int(np.isnan(values).sum()) for name, values in self.numbers.items()}
        counts |= {name: int((self.codes[weekday_of(name)] == 0).sum()) for name in self.times}
        return {name: count for name, count in counts.items() if count}

    def arrays(self) -> dict[object, np.ndarray]:
        return {("number", name): values for name, values in self.numbers.items()}

    def coded(self) -> dict[str, tuple[np.ndarray, list[str]]]:
        return {name: (codes, self.values[name]) for name, codes in self.codes.items()}

    def with_arrays(self, size, arrays, codes, values) -> Table:
        return Table({name: array for (_, name), array in arrays.items()}, codes, values, size, self.times)

    def _seen(self, name: str, rows: np.ndarray | slice) -> list[str]:
        """The values of a column that occur in some rows."""
        occurs = np.zeros(len(self.values[name]), dtype=bool)
        occurs[self.codes[name][rows]] = True
        return [self.values[name][code] for code in np.flatnonzero(occurs)]


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
    _lookups: dict[str, tuple] = field(default_factory=dict, init=False, repr=False, compare=False)

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
        blocks = [self._one_hot(table, name) for name in self.known]
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
        counts = {f"new value of {name!r}": self._count_unknown(table, name) for name in self.known}
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

    def _one_hot(self, table: Table, name: str) -> sparse.csr_array:
        """The features of a column, (n, its features)."""
        columns, signs = self._lookup(name, table.values[name])
        column, sign = columns[table.codes[name]], signs[table.codes[name]]
        is_known = column >= 0
        at = np.append(0, np.cumsum(is_known))
        return sparse.csr_array((sign[is_known], column[is_known], at), (len(table), len(self.known[name])))

    def _count_unknown(self, table: Table, name: str) -> int:
        """How many rows have a value of a column that is not known."""
        columns, _ = self._lookup(name, table.values[name])
        return int(np.bincount(table.codes[name], minlength=len(columns))[columns < 0].sum())

    def _lookup(self, name: str, values: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """The feature of each value of a column, −1 if it is not known, and its sign; kept for blocks of one table."""
        if name not in self._lookups or self._lookups[name][0] is not values:
            place = {feature: at for at, feature in enumerate(self.known[name])}
            pairs = [(value, 1.0) for value in values] if _are_texts(self.known[name]) else hashed(values)
            columns = np.array([place.get(feature, -1) for feature, _ in pairs], dtype=np.intp)
            self._lookups[name] = values, columns, np.array([sign for _, sign in pairs])
        return self._lookups[name][1:]


def require_columns(found, needed: list[str]) -> None:
    """Raise InputError where a column is missing, or stands twice."""
    found = list(found)
    for name in needed:
        if name not in found:
            shown = ", ".join(map(str, found[:12])) + (", …" if len(found) > 12 else "")
            raise InputError(f"column {name!r} is missing, expected one of those it has: {shown}")
        if found.count(name) > 1:
            raise InputError(f"column {name!r} stands {found.count(name)} times, expected once")


def _are_texts(known: list) -> bool:
    return all(isinstance(each, str) for each in known)
