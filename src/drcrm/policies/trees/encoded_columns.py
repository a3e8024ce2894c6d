"""Columns by which a policy tree splits contexts: those of a table, and the same columns in the encoded features X.

Values are floats. A category becomes its place in an order that the training rows determine; a time becomes seconds
since 1970. A missing value, and a category that the training rows lack, is NaN. A split of encoded features compares
encoded values with the encoded cut. Encoding is monotone, so the result is that of the table's values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd

from drcrm.arrays.formats import typeset_sign
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.validation import as_float_array
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError

NUMBER, BOOLEAN, TIME, CATEGORY = "number", "boolean", "time", "category"
KINDS = {"integer": NUMBER, "floating": NUMBER, "mixed-integer-float": NUMBER, "decimal": NUMBER, "boolean": BOOLEAN}


KINDS |= dict.fromkeys(("datetime64", "datetime", "date"), TIME)  # by the names of pandas; all others are categories
DIGITS = 17  # that are enough to tell any two floats apart


@dataclass(frozen=True)
class Column:
    """A column of contexts.

    Attributes
    ----------
    name : str or int
        Name in a DataFrame, or place in an array.
    kind : "number", "boolean", "time" or "category"
    values : list of str
        The categories in their order.
    has_missing : bool
        Whether a training row lacks the value.
    """

    name: Any
    kind: str = NUMBER
    values: tuple[str, ...] | list[str] = ()
    has_missing: bool = False

    def read(self, column: Any) -> np.ndarray:
        """Return the values of the column as floats, (n,); InputError if a value is not of its kind."""
        if isinstance(column, np.ndarray) and column.dtype == float:
            return column
        if self.kind == CATEGORY:
            place = pd.Index(self.values, dtype=object).get_indexer(pd.Index(_texts(column)))
            return np.where(place < 0, np.nan, place)
        try:
            if self.kind != TIME:
                return pd.to_numeric(column).to_numpy(float, na_value=np.nan)
            times = pd.DatetimeIndex(pd.to_datetime(column, utc=True)).as_unit("us")
        except (ValueError, TypeError) as error:
            raise InputError(f"column {self.name!r} must have values of kind {self.kind!r}: {error}") from None
        return np.where(times.isna(), np.nan, times.asi8 / 1e6)

    def decode(self, values: np.ndarray) -> np.ndarray:
        """Return values that ``read`` returned, in the units of the column."""
        return values

    def encode(self, cuts: Any) -> Any:
        """Return cuts in the units of the column in those of the values that ``read`` returns."""
        return cuts

    def missing_side(self, cut: float) -> bool | None:
        """Return whether missing values go left at a cut; None if they differ from all other values."""
        return None

    def describe(self, cut: float, is_left: bool, missing_left: bool) -> str:
        """Return the condition of one side of a split as a text."""
        or_missing = " or missing" if self.has_missing and missing_left == is_left else ""
        if cut == np.inf:
            return f"{self.name} is {'not ' if is_left else ''}missing"
        if self.kind == CATEGORY:
            n_left = int(cut) + 1
            texts = self.values[:n_left] if is_left else self.values[n_left:]
            return f"{self.name} in {{{', '.join(texts)}}}{or_missing}"
        if self.kind == BOOLEAN:
            return f"{self.name} is {'false' if is_left else 'true'}{or_missing}"
        text = typeset_sign(f"{cut:g}" if float(f"{cut:g}") == cut else repr(cut))
        if self.kind == TIME:
            text = str(np.datetime64(int(cut * 1e6), "us").astype("datetime64[s]"))
        return f"{self.name} {'≤' if is_left else '>'} {text}{or_missing}"


def find_columns(X: Any, scores: np.ndarray) -> list[Column]:
    """Return the columns of a DataFrame or an array; categories are ordered by their mean scores, (n, K).

    With two actions, the order is that of the mean difference of the scores. With more, it is that of the first
    principal component of the mean scores, each minus the mean over the actions.
    """
    if not isinstance(X, pd.DataFrame):
        return [Column(number) for number in range(X.shape[1])]
    columns = []
    for number, name in enumerate(X.columns):
        column = X.iloc[:, number]
        kind, values = _kind_of(column), []
        if kind == CATEGORY:
            codes, texts = pd.factorize(_texts(column), sort=True)
            values = [str(texts[place]) for place in order_categories(codes, scores)]
        columns.append(Column(name, kind, values))
    return columns


def read_table(X: Any, columns: list[Column]) -> list[np.ndarray]:
    """Return the values of each column as floats; InputError unless X has the columns."""
    if isinstance(X, pd.DataFrame):
        if absent := [column.name for column in columns if column.name not in X.columns]:
            raise InputError(f"X has no column {absent[0]!r}, which the tree was fitted to")
        return [column.read(X[column.name]) for column in columns]
    if any(column.kind != NUMBER for column in columns):
        raise InputError("X must be a DataFrame with the columns that the tree was fitted to, got an array")
    if X.shape[1] != len(columns):
        raise InputError(f"X has {X.shape[1]} columns, expected {len(columns)}, those that the tree was fitted to")
    return [*np.ascontiguousarray(X.T)]


def as_table(X: Any) -> Any:
    """Return a DataFrame unchanged, and anything else as a float array (n, d); NaN is a missing value."""
    if isinstance(X, pd.DataFrame):
        if not X.columns.is_unique:
            raise InputError("the columns of X must have different names")
        return X
    X = as_float_array(X.toarray() if hasattr(X, "toarray") else X, "X")
    if X.ndim != 2 or not X.shape[1]:
        raise InputError(f"X has shape {X.shape}, expected (contexts, columns) with at least one column")
    return X


def _kind_of(column: pd.Series) -> str:
    by_dtype = {"i": NUMBER, "u": NUMBER, "f": NUMBER, "b": BOOLEAN, "M": TIME}
    kind = by_dtype.get(getattr(column.dtype, "kind", ""))
    return kind or KINDS.get(pd.api.types.infer_dtype(column, skipna=True), CATEGORY)


def _texts(column: Any) -> np.ndarray:
    """Return values as texts, and None for a missing value."""
    texts = [None if is_missing else str(value) for value, is_missing in zip(column, pd.isna(column), strict=True)]
    return np.array(texts, dtype=object)


def order_categories(codes: np.ndarray, scores: np.ndarray, counts: np.ndarray | None = None) -> list[int]:
    """Return the categories 0, 1, … of rows, −1 for a missing one, in the order of their mean scores.

    ``counts``, (n,), are numbers of occurrences, over which the scores are sums; by default 1.
    """
    is_known = codes >= 0
    codes, scores, n_values = codes[is_known], scores[is_known], codes.max(initial=-1) + 1
    if not n_values:
        return []
    sizes = np.bincount(codes, None if counts is None else counts[is_known], n_values)
    sums = np.stack([np.bincount(codes, of_action, n_values) for of_action in scores.T], axis=1)
    means = sums / np.maximum(sizes, 1)[:, None]
    means -= means.mean(axis=1, keepdims=True)
    spread = (means - sizes @ means / sizes.sum()) * np.sqrt(sizes)[:, None]
    direction = np.linalg.svd(spread, full_matrices=False)[2][0]
    direction *= np.sign(direction[np.argmax(np.abs(direction))]) or 1.0  # the same on every machine
    return np.argsort(means @ direction, kind="stable").tolist()


def choose_cuts(values: np.ndarray, thresholds: int) -> np.ndarray:
    """Return increasing cuts between different values, at quantiles if there are more than ``thresholds``.

    The rule is value ≤ cut. A cut has as few digits as its two neighbours allow.
    """
    ordered = np.sort(values[~np.isnan(values)])
    starts = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1
    if len(starts) > thresholds:
        targets = len(ordered) * np.arange(1, thresholds + 1) / (thresholds + 1)
        starts = np.unique(starts[np.searchsorted(starts, targets).clip(max=len(starts) - 1)])
    return np.array([_short_number(ordered[start - 1], ordered[start]) for start in starts])


def _short_number(low: float, high: float) -> float:
    """Return the number in [low, high) next to the middle with the fewest digits."""
    middle = low / 2 + high / 2  # the sum could overflow
    for digits in range(1, DIGITS):
        if low <= (rounded := float(f"{middle:.{digits}g}")) < high:
            return rounded
    return float(low)


@dataclass(frozen=True)
class EncodedColumn(Column):
    """A column of a table, of which X has the number (v − mean)/scale, or an indicator of each value.

    Attributes
    ----------
    places : list of int
        Its columns of X: one for a number, and one for each of ``values`` otherwise. The values of a ``NUMBER`` are
        then the texts of whole numbers, such as hours.
    indicator : int
        Column of X that is not 0 if the number is missing; −1 without one. A missing number then counts as the mean.
    mean, scale : float
    """

    places: tuple[int, ...] | list[int] = ()
    indicator: int = -1
    mean: float = 0.0
    scale: float = 1.0

    def read(self, column: Features) -> np.ndarray:
        """Return the encoded values of the column in X, (m,). A value that no column of X has is NaN."""
        block = _dense(column, self.places)
        if self.values:
            place = block.argmax(axis=1)
            numbers = place if self.kind == CATEGORY else np.array([*map(float, self.values)])[place]
            return np.where(block.any(axis=1), numbers, np.nan)
        values = block[:, 0].astype(float)
        if self.indicator >= 0:
            values[_dense(column, [self.indicator])[:, 0] != 0] = np.nan
        return values

    def decode(self, values: np.ndarray) -> np.ndarray:
        return values * self.scale + self.mean

    def encode(self, cuts: Any) -> Any:
        return (cuts - self.mean) / self.scale

    def missing_side(self, cut: float) -> bool | None:
        is_mean = not self.values and self.indicator < 0
        return bool(self.encode(cut) >= 0) if is_mean else None

    def fit(self, X: Features, scores: np.ndarray, counts: np.ndarray) -> tuple[Self, np.ndarray]:
        """Return the column with its categories in the order of their mean scores, and its values.

        ``scores``, (m, K), are sums over ``counts``, (m,), occurrences. Numbers 0 and 1 are booleans.
        """
        column, values = self, self.read(X)
        if self.kind == CATEGORY:
            order = order_categories(np.nan_to_num(values, nan=-1).astype(int), scores, counts)
            order += [place for place in range(len(self.values)) if place not in order]
            ordered: dict[str, Any] = {name: [getattr(self, name)[i] for i in order] for name in ("values", "places")}
            column = replace(self, **ordered)
            values = column.read(X)
        elif self.kind == NUMBER and not self.values and self._is_boolean(values):
            column = replace(self, kind=BOOLEAN)
        return column, values

    def _is_boolean(self, values: np.ndarray) -> bool:
        known = values[~np.isnan(values)]
        return bool(np.isin(known, self.encode(np.array([0.0, 1.0]))).all())


def number_columns(n_features: int, names: Sequence[Any] | None = None) -> list[EncodedColumn]:
    """Return the columns of features that are numbers without encoding."""
    return [
        EncodedColumn(f"x{place}" if names is None else names[place], places=[place]) for place in range(n_features)
    ]


def _dense(X: Features, places: Sequence[int]) -> np.ndarray:
    selected = X[:, list(places)]
    return selected.toarray() if hasattr(selected, "toarray") else np.asarray(selected)


def readable_columns(log: BanditLog) -> list[EncodedColumn]:
    """Return the columns of a log's table that a tree can split; without a table, the features."""
    return number_columns(log.X.shape[1]) if log.encoding is None else log.encoding.readable_columns
