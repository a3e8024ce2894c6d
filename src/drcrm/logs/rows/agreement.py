"""Test whether pairs of rows have equal values more often than independent rows would."""

import numpy as np
from scipy.special import logsumexp

BETS = 0.03, 0.1, 0.3, 0.9


def agreement_p_value(agrees: np.ndarray, chance: np.ndarray) -> float:
    """Return a p-value of pairs that agree too often; 1 without pairs.

    A player with capital 1 bets the share b of it on each pair, which pays 1/chance if the pair agrees. Assume that a
    pair, given the earlier ones, agrees with a probability of at most its chance. Then the capital
    Π (1 + b (agrees/chance − 1)) has an expectation of at most 1, and so has its mean over several b. By Markov's
    inequality, the inverse of this mean is a p-value. Source: Waudby-Smith & Ramdas 2024.

    Parameters
    ----------
    agrees : bool array (m,)
        Whether each pair agrees. Pairs are disjoint.
    chance : array (m,)
        For a pair that agrees, a bound on the probability of this, for example the propensity of the later row.
    """
    capital = np.log1p(np.outer(BETS, agrees / chance - 1)).sum(axis=1)
    return float(np.exp(min(np.log(len(BETS)) - logsumexp(capital), 0.0)))


def pair_equal_values(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return disjoint pairs of positions with equal values: a value's first and second position, third and fourth, …

    The second position of a pair is the later one.
    """
    order = np.argsort(values, kind="stable")
    ordered, rows = values[order], np.arange(len(values))
    starts = np.append(True, ordered[1:] != ordered[:-1])[: len(values)]
    later = np.flatnonzero((rows - np.maximum.accumulate(np.where(starts, rows, 0))) % 2)
    return order[later - 1], order[later]
