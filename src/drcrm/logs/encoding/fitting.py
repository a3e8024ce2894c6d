"""Parameters of a table's encoding: mean and scale of numeric columns, values or hashed features of categories."""

from __future__ import annotations

import numpy as np

from drcrm.errors import InputError
from drcrm.logs.encoding.hashing import hash_names

ONE_HOT = 100  # columns with more values are hashed
N_COLUMNS = 2**12  # of the hashed features of a categorical column
ALL_MISSING = "{} is missing in all training rows, expected at least one value; otherwise remove it from features"


def fit_scale(values: np.ndarray, name: str) -> tuple[float, float]:
    """Return the mean and the standard deviation of a numeric column; for a constant column, its value and 1."""
    if not len(values):
        raise InputError(ALL_MISSING.format(name))
    if values.min() == values.max():
        return float(values[0]), 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(values.mean()), float(values.std())
    if not np.isfinite([mean, deviation]).all():
        raise InputError(f"{name} reaches {abs(values).max():.3g}, expected numbers whose squares are finite")
    return mean, deviation or 1.0


def fit_categories(values: list[str]) -> list[str] | list[int]:
    """Return the sorted values of a categorical column; if they are many, the hashed features in use."""
    return sorted(values) if len(values) <= ONE_HOT else sorted({feature for feature, _ in hash_categories(values)})


def hash_categories(values: list[str]) -> list[tuple[int, float]]:
    """Return the hashed feature and the sign of each value."""
    if not values:
        return []
    features, signs = hash_names(values, N_COLUMNS)
    return list(zip(features.tolist(), signs.tolist(), strict=True))
