"""What is fitted to the features of a table, some rows at a time: the scales of numbers, the values of categories."""

from __future__ import annotations

import numpy as np
from sklearn.feature_extraction import FeatureHasher

from ..errors import InputError

ONE_HOT = 100  # values of a column up to which each has a feature of its own
HASHED = 2**12  # features of a column with more


class Scale:
    """The mean and the deviation of a column, of parts that are joined by the formula of Chan, Golub & LeVeque 1979."""

    def __init__(self):
        self._n, self._mean, self._squares = 0, 0.0, 0.0
        self._least, self._most, self._first = np.inf, -np.inf, 0.0

    def add(self, values: np.ndarray) -> None:
        """Take some rows in."""
        if not len(values):
            return
        if not self._n:
            self._first = float(values[0])
        self._least, self._most = min(self._least, values.min()), max(self._most, values.max())
        with np.errstate(over="ignore", invalid="ignore"):
            mean, share = values.mean(), len(values) / (self._n + len(values))
            self._squares += np.square(values - mean).sum()
            if self._n:
                self._squares += (mean - self._mean) ** 2 * self._n * share
            self._mean = self._mean + (mean - self._mean) * share if self._n else mean
        self._n += len(values)

    def found(self, name: str) -> tuple[float, float]:
        """Return both; of a constant column, 1 in place of the deviation."""
        if self._least == self._most:
            return self._first, 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            mean, deviation = float(self._mean), float(np.sqrt(self._squares / self._n))
        if not np.isfinite([mean, deviation]).all():
            most = max(-self._least, self._most)
            raise InputError(f"{name} reaches {most:.3g}, expected numbers whose squares are numbers")
        return mean, deviation or 1.0


class Known:
    """The values of a column that occur; where they are many, the features that they are hashed to."""

    def __init__(self):
        self._values: set[str] = set()
        self._hashed: set[int] | None = None

    def add(self, values: list[str]) -> None:
        """Take in some values."""
        if not values:
            return
        self._values.update(values)
        if self._hashed is None and len(self._values) > ONE_HOT:
            self._hashed = set()
        if self._hashed is not None:
            self._hashed.update(at for at, _ in hashed(list(self._values)))
            self._values = set()

    def found(self) -> list[str] | list[int]:
        return sorted(self._values if self._hashed is None else self._hashed)


def hashed(values: list[str]) -> list[tuple[int, float]]:
    """Return the feature and the sign that each value is hashed to."""
    found = FeatureHasher(HASHED, input_type="string").transform([[value] for value in values])
    return list(zip(found.indices.tolist(), found.data.tolist(), strict=True))
