"""Evidence that pairs of rows agree more often than independent rows would."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

BETS = 0.03, 0.1, 0.3, 0.9


class Agreement(NamedTuple):
    """Pairs of rows with equal values, up to the pair where the evidence is largest.

    Attributes
    ----------
    log_capital : float
        The evidence: see :func:`log_capital`.
    pairs : int
        Number of pairs.
    share, expected : float
        Share of pairs that agree, and the largest share expected from independent rows.
    """

    log_capital: float
    pairs: int
    share: float
    expected: float


def measure_agreement(values: np.ndarray, propensity: np.ndarray, first: np.ndarray, second: np.ndarray) -> Agreement:
    """Return how often disjoint pairs of rows have equal values.

    Given its features, the later of two independent rows equals the earlier one with at most its propensity.

    Parameters
    ----------
    values, propensity : array (n,)
    first, second : integer array (m,)
        Rows of the pairs, in an order that does not depend on whether they agree.
    """
    agrees = values[first] == values[second]
    chance = propensity[np.maximum(first, second)]
    capital, pairs = log_capital(agrees, chance)
    if not pairs:
        return Agreement(0.0, 0, 0.0, 0.0)
    return Agreement(capital, pairs, float(agrees[:pairs].mean()), float(chance[:pairs].mean()))


def log_capital(agrees: np.ndarray, chance: np.ndarray) -> tuple[float, int]:
    """Return the largest log capital that bets on agreement make of 1, and the number of pairs after which they do.

    If the expectation of 1(agrees)/chance is at most 1, whatever the earlier pairs show, the capital ever exceeds 1/α
    with probability at most α. Sources: Ville's inequality; Waudby-Smith & Ramdas 2024.

    Parameters
    ----------
    agrees : bool array (m,)
        Disjoint pairs, in an order that does not depend on whether they agree.
    chance : array (m,)
        Bound on the probability that a pair agrees, for example the propensity of the later row.
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
    """Return disjoint pairs of positions with equal values: the first and second of a value, the third and fourth, …

    The second position of a pair is the later one. Pairs are sorted by their first position.
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
