"""Sums over rows that may lie anywhere, and that are the same number in whatever groups they were taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np

Sums = tuple[np.ndarray, np.ndarray]  # a sum, and what it lost to rounding


class InPieces(Protocol):
    """z of all rows, and the share of the log that each has: see :mod:`drcrm.core.pieces`."""

    def summed(self, function: Callable[..., np.ndarray], *given) -> np.ndarray:
        """Return Σ function(z, share, *given) over blocks of rows."""

    def gathered(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all z and shares, (n,)."""


def twofold(values: Iterable[np.ndarray]) -> Sums:
    """Return the sum of arrays, and what it lost to rounding: together they have twice the digits.

    So a sum of such sums is the same number in whatever groups it was taken. Source: Møller 1965, Knuth 1969.
    """
    high = low = 0.0
    for each in values:
        high, lost = _two_sum(high, each)
        low = low + lost
    return high, low


def total(sums: Iterable[Sums]) -> np.ndarray:
    """Return the sum of :func:`twofold` sums, rounded once."""
    high, low = zip(*sums, strict=True)
    high, lost = twofold(high)
    low = lost + sum(low)
    return np.where(np.isfinite(low), high + low, high)


def _two_sum(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """one + other as it is rounded, and what rounding took."""
    rounded = one + other
    part = rounded - one
    return rounded, (one - (rounded - part)) + (other - part)
