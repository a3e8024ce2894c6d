"""What is fitted to the features of a table: the scales of its numbers, and the values of its categories."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from drcrm.errors import InputError
from drcrm.logs.encoding.columns import MISSING
from drcrm.logs.encoding.timestamps import hour_of, weekday_of

ONE_HOT = 100  # values of a column up to which each has a feature of its own
HASHED = 2**12  # features of a column with more
ALL_MISSING = "{} is missing in all training rows, expected at least one value; or remove it from features"


def fitted_numbers(columns: Iterable[tuple[str, np.ndarray]]) -> tuple[dict[str, tuple[float, float]], tuple[str, ...]]:
    """Return the scales of numeric columns, and the names of those with missing values, which are NaN."""
    scales, indicators = {}, []
    for name, values in columns:
        lacking = np.isnan(values)
        if lacking.any():
            indicators.append(name)
            values = values[~lacking]
        scales[name] = scale(values, name)
    return scales, tuple(indicators)


def fitted_categories(columns: Iterable[tuple[str, list[str]]], times: Iterable[str]) -> dict[str, list]:
    """Return what is kept of each categorical column; the hours of columns that have dates only are left out."""
    values = {name: known(occurring) for name, occurring in columns}
    for name in times:
        if values[weekday_of(name)] == [MISSING]:
            raise InputError(ALL_MISSING.format(name))
        if values[hour_of(name)] == [MISSING]:
            del values[hour_of(name)]
    return values


def scale(values: np.ndarray, name: str) -> tuple[float, float]:
    """Return the mean and deviation of a column; of a constant one, 1 in place of the deviation."""
    if not len(values):
        raise InputError(ALL_MISSING.format(name))
    if values.min() == values.max():
        return float(values[0]), 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(values.mean()), float(values.std())
    if not np.isfinite([mean, deviation]).all():
        raise InputError(f"{name} reaches {abs(values).max():.3g}, expected numbers whose squares are numbers")
    return mean, deviation or 1.0


def known(values: list[str]) -> list[str] | list[int]:
    """Return the distinct values of a column in order; if they are many, the features that they are hashed to."""
    return sorted(values) if len(values) <= ONE_HOT else sorted({at for at, _ in hashed(values)})


def hashed(values: list[str]) -> list[tuple[int, float]]:
    """Return the feature and the sign that each value is hashed to."""
    if not values:
        return []
    from sklearn.feature_extraction import FeatureHasher  # takes half a second, and most logs do without

    found = FeatureHasher(HASHED, input_type="string").transform([[value] for value in values])
    return list(zip(found.indices.tolist(), found.data.tolist(), strict=True))
