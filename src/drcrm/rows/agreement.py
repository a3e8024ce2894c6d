"""Evidence that pairs of rows have equal values more often than independent rows would."""

from typing import NamedTuple

import numpy as np

BETS = 0.03, 0.1, 0.3, 0.9


class Agreement(NamedTuple):
    """How often pairs of rows have equal values.

    Attributes
    ----------
    log_capital : float
        The evidence: see :func:`log_capital`.
    pairs : int
        Number of pairs.
    ratio : float
        Mean of 1(values are equal)/propensity over all pairs, with an expectation of at most 1 if rows are independent;
        0 without pairs.
    """

    log_capital: float
    pairs: int
    ratio: float


def measure_agreement(values: np.ndarray, propensity: np.ndarray, first: np.ndarray, second: np.ndarray) -> Agreement:
    """Return how often disjoint pairs of rows have equal values.

    If two rows are independent, their values are equal with a probability of at most the propensity of the later row.

    Parameters
    ----------
    values, propensity : array (n,)
    first, second : integer array (m,)
        Rows of the pairs, in an order that does not depend on whether they agree.
    """
    agrees = values[first] == values[second]
    chance = propensity[np.maximum(first, second)]
    ratio = float((agrees / chance).mean()) if len(agrees) else 0.0
    return Agreement(log_capital(agrees, chance), len(agrees), ratio)


def log_capital(agrees: np.ndarray, chance: np.ndarray) -> float:
    """Return the largest log capital of a player who bets on agreement.

    The player starts with capital 1 and bets on one pair after another. Assume that each pair, given the earlier ones,
    agrees with a probability of at most its ``chance``. Then the probability that the capital ever exceeds 1/α is at
    most α. Sources: Ville's inequality; Waudby-Smith & Ramdas 2024.

    Parameters
    ----------
    agrees : bool array (m,)
        Whether each pair agrees. Pairs are disjoint, and their order does not depend on whether they agree.
    chance : array (m,)
        Bound on the probability that a pair agrees, for example the propensity of the later row.
    """
    if not len(agrees):
        return 0.0
    ratio = agrees / chance
    capital = np.full(len(ratio), -np.inf)
    for bet in BETS:
        np.logaddexp(capital, np.cumsum(np.log1p(bet * (ratio - 1))), out=capital)
    return float(capital.max() - np.log(len(BETS)))


def pair_equal_values(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return disjoint pairs of positions with equal values: a value's first and second position, third and fourth, …

    The second position of a pair is the later one. Pairs are sorted by their first position.
    """
    order = np.argsort(values, kind="stable")
    ordered, rows = values[order], np.arange(len(values))
    starts = np.append(True, ordered[1:] != ordered[:-1])[: len(values)]
    later = np.flatnonzero((rows - np.maximum.accumulate(np.where(starts, rows, 0))) % 2)
    later = later[np.argsort(order[later - 1])]
    return order[later - 1], order[later]
