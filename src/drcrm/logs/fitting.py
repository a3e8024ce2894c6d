"""What is fitted to the features of a table: the scales of its numbers, and the values of its categories."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from sklearn.feature_extraction import FeatureHasher

from ..errors import InputError

ONE_HOT = 100  # values of a column up to which each has a feature of its own
HASHED = 2**12  # features of a column with more


def scale(values: np.ndarray, name: str) -> tuple[float, float]:
    """Return the mean and deviation of a column; of a constant one, 1 in place of the deviation."""
    if values.min() == values.max():
        return float(values[0]), 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(values.mean()), float(values.std())
    if not np.isfinite([mean, deviation]).all():
        raise InputError(f"{name} reaches {abs(values).max():.3g}, expected numbers whose squares are numbers")
    return mean, deviation or 1.0


def known(parts: Iterable[list[str]]) -> list[str] | list[int]:
    """Return the values that occur in parts of a column; where they are many, the features that they are hashed to."""
    values: set[str] = set()
    features: set[int] = set()
    for part in parts:
        values.update(part)
        if features or len(values) > ONE_HOT:
            features.update(at for at, _ in hashed([*values]))
            values = set()
    return sorted(features or values)


def hashed(values: list[str]) -> list[tuple[int, float]]:
    """Return the feature and the sign that each value is hashed to."""
    if not values:
        return []
    found = FeatureHasher(HASHED, input_type="string").transform([[value] for value in values])
    return list(zip(found.indices.tolist(), found.data.tolist(), strict=True))
