"""Evidence that pairs of rows agree more often than independent rows would."""

from __future__ import annotations

import numpy as np
import pandas as pd

BETS = 0.03, 0.1, 0.3, 0.9


def log_capital(agrees: np.ndarray, chance: np.ndarray) -> tuple[float, int]:
    """Return the largest logarithm of the capital that bets on agreement make of 1, and after how many pairs.

    If the expectation of 1(agrees)/chance is at most 1, whatever the pairs before it show, then the capital ever
    exceeds 1/α with probability at most α. Source: Ville's inequality; Waudby-Smith & Ramdas 2024.

    Parameters
    ----------
    agrees : bool array (m,)
        Disjoint pairs, in an order that does not depend on whether they agree.
    chance : array (m,)
        The propensity of the later row, or another bound on the probability that a pair agrees.
    """
    if not len(agrees):
        return 0.0, 0
    ratio = agrees / chance
    capital = np.full(len(ratio), -np.inf)
    for bet in BETS:
        np.logaddexp(capital, np.cumsum(np.log1p(bet * (ratio - 1))), out=capital)
    best = int(capital.argmax())
    return float(capital[best] - np.log(len(BETS))), best + 1


def pair_equal_values(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return disjoint pairs of rows with equal values: the first and the second, the third and the fourth, …

    The later row of a pair is the second one.
    """
    order = np.argsort(values, kind="stable")
    ordered, rows = values[order], np.arange(len(values))
    starts = np.append(True, ordered[1:] != ordered[:-1])[: len(values)]
    later = np.flatnonzero((rows - np.maximum.accumulate(np.where(starts, rows, 0))) % 2)
    later = later[np.argsort(order[later - 1])]
    return order[later - 1], order[later]


def count_earlier_equals(values: np.ndarray) -> np.ndarray:
    """Return how many equal values precede each value, (n,)."""
    return pd.Series(values).groupby(values, sort=False).cumcount().to_numpy()
