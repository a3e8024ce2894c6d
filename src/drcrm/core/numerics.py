"""Arithmetic and reprs that the policy, the risks, the weights and the objective share."""

from collections.abc import Iterable
from inspect import signature

import numpy as np
from scipy import sparse

TINY = -200.0


def exp(x: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Write e^x to ``out``, which may be x itself, and return it; what is less than e^−200 becomes 0.

    Beside e^0 that is nothing; and products of two such numbers are denormal, on which matrix products take several
    times as long.
    """
    vanishing = x < TINY if x.min() < TINY else None
    np.exp(x, out=out)
    if vanishing is not None:
        out[vanishing] = 0
    return out


def crossed(left: np.ndarray, X) -> np.ndarray:
    """Return leftᵀ X of many rows, X dense or CSR; unlike @, numpy's dot lets other threads go on meanwhile."""
    return left.T @ X if sparse.issparse(X) else np.dot(left.T, X)


def twofold(values: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum of arrays, and what it lost to rounding: together they have twice the digits.

    So a sum of such sums is the same number in whatever groups it was taken. Source: Møller 1965, Knuth 1969.
    """
    high = low = 0.0
    for each in values:
        high, lost = _two_sum(high, each)
        low = low + lost
    return high, low


def total(sums: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
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


def constructor_repr(self: object) -> str:
    """A repr: the class with what its constructor stores and is no default, ``KLBall(radius=0.1)``; nothing fitted."""
    arguments = signature(type(self)).parameters
    stored = {name: value for name, value in vars(self).items() if name in arguments}
    given = (f"{name}={value!r}" for name, value in stored.items() if value != arguments[name].default)
    return f"{type(self).__name__}({', '.join(given)})"
