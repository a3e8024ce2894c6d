"""Feature columns of a table, and their encoding: standardised numbers, categories one-hot or hashed, a constant 1."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import sparse

from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.tables import Table
from drcrm.errors import InputError
from drcrm.logs.encoding.base import Contexts, Encoding, hash_names
from drcrm.logs.encoding.columns import (
    MISSING,
    boolean_numbers,
    calendar,
    canonical_text,
    categories,
    hour_of,
    numbers,
    weekday_of,
)
from drcrm.policies.trees.encoded_columns import CATEGORY, NUMBER, EncodedColumn

ONE_HOT = 100  # categorical columns with more values are hashed
N_COLUMNS = 2**12  # number of hashed features of such a column
ALL_MISSING = "{} is missing in all training rows, expected at least one value; otherwise remove it from features"
MISSING_INDICATOR = "missing "  # before the name of a feature
SPARSE = 0.1  # X is sparse if a smaller share of its entries differs from 0


def table_features(
    frame: pd.DataFrame,
    numeric: Iterable[str],
    categorical: Iterable[str],
    times: Iterable[str] = (),
    booleans: Iterable[str] = (),
) -> Table:
    """Return the features of a frame; InputError names the column, and the row, of an invalid value.

    A missing number is NaN. The hours and weekdays of ``times`` become categories. The pairs of texts ``booleans``,
    such as yes/no, are read as 1 and 0. The frame's index has the row numbers in messages.
    """
    frame = select_columns(frame, dict.fromkeys([*numeric, *categorical, *times]))
    coded = {name: categories(frame[name], name) for name in categorical}
    for name in times:
        parts = calendar(frame[name], name)
        if taken := parts.keys() & {*coded, *numeric}:
            raise InputError(f"{min(taken)!r} is a column and a feature made from {name!r}; rename the column")
        coded |= parts
    words = boolean_numbers(booleans)
    arrays = {name: numbers(frame[name], name, optional=True, booleans=words) for name in numeric}
    missing = {name: int(np.isnan(column).sum()) for name, column in arrays.items()}
    missing |= {name: int((coded[weekday_of(name)][0] == 0).sum()) for name in times}
    return Table(
        len(frame),
        arrays | {name: codes for name, (codes, _) in coded.items()},
        {name: values for name, (_, values) in coded.items()},
        missing={name: count for name, count in missing.items() if count},
    )


@dataclass(frozen=True)
class TableEncoding(Encoding):
    """Rows of a table ↦ X: numbers (x − mean)/scale, indicators, categories one-hot or hashed, and a constant 1.

    A missing number becomes 0, the mean of the training rows, and its indicator 1. A category that does not occur in
    training becomes zeros.

    Parameters
    ----------
    kind : "single" or "labels"
    names : list of str or int
    scales : dict of [mean, scale]
        Mean and scale of each numeric column.
    known : dict of list
        For each categorical column, hours and weekdays included, its values in training; or, if it is hashed, the
        features in use.
    indicators : list of str
        Numeric columns with missing values in training.
    times : list of str
        Columns of dates and times.
    booleans : list of str
        Pairs of texts that are read as 1 and 0, such as yes/no.
    has_number_texts : bool
        Whether categories are texts of ``canonical_text``. It is true; older files, which lack it, are refused.
    """

    kind: str
    names: list
    scales: dict[str, list[float]]
    known: dict[str, list]
    indicators: list[str] = field(default_factory=list)
    times: list[str] = field(default_factory=list)
    booleans: list[str] = field(default_factory=list)
    has_number_texts: bool = False
    places: dict[str, dict] = field(default_factory=dict, init=False, repr=False, compare=False)
    _lookups: dict[str, tuple] = field(default_factory=dict, init=False, repr=False, compare=False)

    type_name, list_id = "table", None

    def __post_init__(self) -> None:
        for name, known in self.known.items():  # older files have other texts
            if self.is_hashed(name) and not self.has_number_texts:
                raise ValueError("an older version of drcrm hashed its numbers: learn the policy again")
            by_text = {canonical_text(value): place for place, value in enumerate(known) if isinstance(value, str)}
            self.places[name] = by_text | {feature: place for place, feature in enumerate(known)}

    @classmethod
    def fit(
        cls,
        features: Table,
        kind: str,
        names: list,
        rows: np.ndarray | None = None,
        starts: np.ndarray | None = None,
        *,
        times: tuple[str, ...] = (),
        booleans: tuple[str, ...] = (),
    ) -> Self:
        """Return the encoding fitted to selected rows; only one of their columns at a time is copied."""
        selected = slice(None) if rows is None else rows
        scales, indicators = {}, []
        for name, column in features.numbers.items():
            numbers = column[selected]
            missing = np.isnan(numbers)
            if missing.any():
                indicators.append(name)
                numbers = numbers[~missing]
            scales[name] = _fit_scale(numbers, name)
        known = {
            name: _fit_categories(values, features.columns[name][selected]) for name, values in features.values.items()
        }
        for name in times:
            if known[weekday_of(name)] == [MISSING]:
                raise InputError(ALL_MISSING.format(name))
            if known[hour_of(name)] == [MISSING]:  # only dates
                del known[hour_of(name)]
        return cls(kind, names, scales, known, indicators, [*times], [*booleans], True)

    @property
    def n_features(self) -> int:  # type: ignore[override]
        return len(self.scales) + len(self.indicators) + sum(map(len, self.known.values())) + 1

    @property
    def categorical(self) -> list[str]:
        """Return the categorical columns, without hours and weekdays of times."""
        derived = {derive(name) for name in self.times for derive in (hour_of, weekday_of)}
        return [name for name in self.known if name not in derived]

    def places_of(self, name: str, values: Sequence[str]) -> list[tuple[int, float]]:
        """Return, for each value of a categorical column, its place in ``known``, −1 if it is unknown, and its sign."""
        places = self.places[name]
        if self.is_hashed(name):
            hashed = hash_categories([*map(canonical_text, values)])
            return [(places.get(feature, -1), sign) for feature, sign in hashed]
        return [(places[value] if value in places else places.get(canonical_text(value), -1), 1.0) for value in values]

    def is_hashed(self, name: str) -> bool:
        """Return whether a categorical column is hashed."""
        return not all(isinstance(feature, str) for feature in self.known[name])

    @property
    def columns(self) -> dict[str, slice]:
        """Return the columns of X of each feature."""
        widths = dict.fromkeys([*self.scales, *(f"{MISSING_INDICATOR}{name}" for name in self.indicators)], 1)
        widths |= {name: len(values) for name, values in self.known.items()}
        ends = np.cumsum([*widths.values()], dtype=int).tolist()
        return {name: slice(end - widths[name], end) for name, end in zip(widths, ends, strict=True)}

    @property
    def readable_columns(self) -> list[EncodedColumn]:
        columns, hours = self.columns, {hour_of(name) for name in self.times}
        readable = []
        for name, (mean, scale) in self.scales.items():
            indicator = columns[f"{MISSING_INDICATOR}{name}"].start if name in self.indicators else -1
            readable.append(
                EncodedColumn(name, places=[columns[name].start], indicator=indicator, mean=mean, scale=scale)
            )
        for name, values in self.known.items():
            if self.is_hashed(name):
                continue
            known = [value for value in values if value != MISSING]
            places = [columns[name].start + values.index(value) for value in known]
            if known:
                kind = NUMBER if name in hours else CATEGORY
                readable.append(EncodedColumn(name, kind, known, places=places))
        return readable

    def encode(self, features: Table) -> Features:
        """Return X, (n, d), as CSR if few of its entries differ from 0."""
        self._require_columns(features)
        numeric = chain(self._standardised(features), (np.isnan(features.columns[name]) for name in self.indicators))
        constant = np.ones(features.size)
        blocks = [self._one_hot(features, name) for name in self.known]
        if len(self.scales) + len(self.known) + 1 < SPARSE * self.n_features:
            first = [sparse.csr_array(np.column_stack([*numeric]).astype(float))] if self.scales else []
            parts = [*first, *blocks, sparse.csr_array(constant[:, None])]
            return sparse.csr_array(sparse.hstack(parts, format="csr"))
        X, start = np.empty((features.size, self.n_features)), 0
        for block in chain(numeric, (block.toarray() for block in blocks), [constant]):
            width = block.shape[1] if block.ndim == 2 else 1
            X[:, start : start + width] = block.reshape(-1, width)
            start += width
        return X

    def unseen(self, features: Table) -> dict[str, int]:
        """Return the number of rows with an unknown category, or a missing number without an indicator, by column."""
        self._require_columns(features)
        counts = {}
        for name in self.known:
            columns, _ = self._lookup(name, features.values[name])
            occurrences = np.bincount(features.columns[name], minlength=len(columns))
            counts[f"new value of {name!r}"] = int(occurrences[columns < 0].sum())
        for name in self.scales:
            if name not in self.indicators:
                counts[f"missing value of {name!r}"] = int(np.isnan(features.columns[name]).sum())
        return {reason: count for reason, count in counts.items() if count}

    @property
    def inputs(self) -> list[str]:
        """Return the columns of a table that are features."""
        return list(dict.fromkeys([*self.scales, *self.categorical, *self.times]))

    def read(self, data: pd.DataFrame, lists: Any = None) -> Contexts:
        """Return the contexts of a frame, whose index has the row numbers in messages."""
        return Contexts(table_features(data, self.scales, self.categorical, self.times, self.booleans))

    def _require_columns(self, features: Table) -> None:
        """Raise InputError unless the table has all features, of the same kinds as in training."""
        for kind, names, columns in (
            ("numeric", self.scales, features.numbers),
            ("categorical", self.known, features.values),
        ):
            if missing := [name for name in names if name not in columns]:
                raise InputError(f"{missing[0]!r} is not a {kind} feature of this log, but it was one in training")

    def _standardised(self, features: Table) -> Iterator[np.ndarray]:
        for name, (mean, scale) in self.scales.items():
            values = (features.columns[name] - mean) / scale
            values[np.isnan(values)] = 0.0
            yield values

    def _one_hot(self, features: Table, name: str) -> sparse.csr_array:
        """Return the columns of X of a categorical feature, CSR (n, number of columns)."""
        columns, signs = self._lookup(name, features.values[name])
        column, sign = columns[features.columns[name]], signs[features.columns[name]]
        is_known = column >= 0
        ends = np.append(0, np.cumsum(is_known))
        return sparse.csr_array((sign[is_known], column[is_known], ends), (features.size, len(self.known[name])))

    def _lookup(self, name: str, values: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the column of X of each value, −1 if it is unknown, and its sign; cached for blocks of one table."""
        entry = self._lookups.get(name)
        if entry is None or entry[0] is not values:
            places, signs = np.array(self.places_of(name, values)).reshape(-1, 2).T
            entry = values, places.astype(np.intp), signs
            self._lookups[name] = entry  # another thread may replace it at any time
        return entry[1:]


def _fit_scale(values: np.ndarray, name: str) -> list[float]:
    """Return the mean and the standard deviation of a numeric column; for a constant column, its value and 1."""
    if not len(values):
        raise InputError(ALL_MISSING.format(name))
    if values.min() == values.max():
        return [float(values[0]), 1.0]
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(values.mean()), float(values.std())
    if not np.isfinite([mean, deviation]).all():
        raise InputError(f"{name} reaches {abs(values).max():.3g}, expected numbers whose squares are finite")
    return [mean, deviation or 1.0]


def _fit_categories(values: list[str], codes: np.ndarray) -> list[str] | list[int]:
    """Return the sorted values that occur in a categorical column, or their hashed features if the column is hashed."""
    in_use = np.zeros(len(values), dtype=bool)
    in_use[codes] = True
    texts = sorted({canonical_text(values[code]) for code in np.flatnonzero(in_use)})
    return texts if len(texts) <= ONE_HOT else sorted({feature for feature, _ in hash_categories(texts)})


def hash_categories(values: Sequence[str]) -> list[tuple[int, float]]:
    """Return a pair for each value: its hashed feature, an integer, and its sign, 1 or −1."""
    features, signs = hash_names(values, N_COLUMNS)
    return list(zip(features.tolist(), signs.tolist(), strict=True))


def find_columns(header: Iterable[str], needed: Iterable[str]) -> dict[str, str]:
    """Return the column of a file for each needed name; InputError if it is missing or occurs twice.

    Without a column of the same name, it is the only column whose name differs only by blanks or its Unicode form.
    """
    header, column_of = list(header), {}
    for name in needed:
        alike = [name] if name in header else [column for column in header if _plain(column) == _plain(name)]
        if len(alike) != 1:
            first = ", ".join(map(str, header[:12])) + (", …" if len(header) > 12 else "")
            raise InputError(f"column {name!r} is missing, expected one of the file's columns: {first}")
        [column_of[name]] = alike
        if header.count(column_of[name]) > 1:
            raise InputError(f"column {name!r} occurs {header.count(column_of[name])} times, expected once")
    return column_of


def _plain(name: object) -> str:
    return "".join(unicodedata.normalize("NFKC", str(name)).replace("\ufeff", "").split())


def select_columns(frame: pd.DataFrame, needed: Iterable[str]) -> pd.DataFrame:
    """Return a frame with the needed columns, found by :func:`find_columns`."""
    column_of = find_columns(frame.columns, needed)
    if all(name == column for name, column in column_of.items()):
        return frame
    return frame[[*column_of.values()]].set_axis([*column_of], axis=1)
