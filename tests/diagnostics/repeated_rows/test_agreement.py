"""Evidence of agreement, and pairs of equal values."""

from __future__ import annotations

import numpy as np
import pytest

from drcrm.diagnostics.repeated_rows.agreement import BETS, log_capital, measure_agreement, pair_equal_values


def test_capital_is_the_mean_of_the_bets():
    agrees, chance = np.array([True, True, False]), np.array([0.5, 0.25, 0.5])
    capital = np.mean([np.cumprod([1 + bet, 1 + 3 * bet, 1 - bet]) for bet in BETS], axis=0)
    assert log_capital(agrees, chance) == (pytest.approx(np.log(capital.max())), 2)


def test_the_chance_of_a_pair_is_the_propensity_of_its_later_row():
    agreement = measure_agreement(np.array([7, 7]), np.array([0.1, 0.8]), np.array([1]), np.array([0]))
    assert (agreement.pairs, agreement.share, agreement.expected) == (1, 1.0, 0.8)


def test_pairs_are_disjoint_and_sorted():
    first, second = pair_equal_values(np.array([3, 1, 3, 1, 3, 3, 2, 1]))
    assert [first.tolist(), second.tolist()] == [[0, 1, 4], [2, 3, 5]]
