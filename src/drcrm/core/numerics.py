"""Arithmetic that the policy, the risks and the objective share."""

from __future__ import annotations

import numpy as np

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
