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


def transposed_product(left: np.ndarray, X) -> np.ndarray:
    """Return leftᵀ X of many rows, X dense or CSR; unlike @, numpy's dot lets other threads go on meanwhile."""
    return left.T @ X if sparse.issparse(X) else np.dot(left.T, X)


def compensated_sum(values: Iterable[np.ndarray]) -> np.ndarray:
    """Return the sum of arrays as if taken with twice the digits, then rounded. Source: Møller 1965, Knuth 1969."""
    [first, *others] = values
    total, lost = first, 0.0
    for value in others:
        rounded = total + value
        part = rounded - total
        lost = lost + ((total - (rounded - part)) + (value - part))
        total = rounded
    return np.where(np.isfinite(lost), total + lost, total) if others else total


def constructor_repr(self: object) -> str:
    """A repr: the class with what its constructor stores and is no default, ``KLBall(radius=0.1)``; nothing fitted."""
    arguments = signature(type(self)).parameters
    stored = {name: value for name, value in vars(self).items() if name in arguments}
    given = (f"{name}={value!r}" for name, value in stored.items() if value != arguments[name].default)
    return f"{type(self).__name__}({', '.join(given)})"
