"""Arithmetic that the policy, the risks and the objective share."""

from __future__ import annotations

import numpy as np

TINY = -200.0


def exp_in_place(x: np.ndarray) -> np.ndarray:
    """Turn x into e^x and return it; what is less than e^−200 becomes 0.

    Beside e^0 that is nothing; and products of two such numbers are denormal, on which matrix products take several
    times as long.
    """
    if x.min() < TINY:
        x[x < TINY] = -np.inf
    return np.exp(x, out=x)
