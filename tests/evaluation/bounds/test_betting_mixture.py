"""The mixture of bets: few evaluations of the capital, running bounds, and extreme terms."""

import numpy as np
import pytest

from drcrm.evaluation.bounds.betting_mixture import MOST_EVALUATIONS, BettingMixture

PI0, PI = np.array([0.98, 0.01, 0.01]), np.array([0.1, 0.2, 0.7])
RATES = {"rare": [0.01, 0.02, 0.03], "usual": [0.3, 0.5, 0.6], "none": [0.0] * 3, "all": [1.0] * 3, "most": [0.98] * 3}


@pytest.fixture
def evaluations(monkeypatch):
    """Count the evaluations of the capital."""
    counts, compute = [0], BettingMixture.log_capital

    def count(self, m, n=None):
        counts[0] += 1
        return compute(self, m, n)

    monkeypatch.setattr(BettingMixture, "log_capital", count)
    return counts


def mixture(n: int, rate: list[float], delta: float, is_every_look: bool, *, factor: float = 0.0, known: bool = True):
    """Return the bets for three actions, with weights up to 70."""
    rng = np.random.default_rng(n)
    action = rng.choice(3, n, p=PI0)
    weight, reward = (PI / PI0)[action], (rng.random(n) < np.array(rate)[action]) * 1.0
    total, seen = np.cumsum(weight * reward), np.cumsum(weight)
    centre = np.array([0.0, 0.5, 1.0] if known else [0.0])[:, None] * np.append(
        0.5, (0.5 + total[:-1]) / (1 + seen[:-1])
    )
    terms = weight * (reward - centre) + centre - factor * reward
    return BettingMixture(terms, np.maximum(factor - centre, 69 * centre), delta, is_every_look, least=-factor)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("is_every_look", [False, True])
def test_few_evaluations_of_the_capital_find_the_root(rate, is_every_look, evaluations):
    for n in (1, 2, 10, 100, 1000, 8000):
        for delta in (0.3, 0.05, 1e-3):
            for options in ({}, {"known": False}, {"factor": 1.0}, {"factor": 1.0, "known": False}):
                bets = mixture(n, RATES[rate], delta, is_every_look, **options)
                evaluations[0] = 0
                bound = bets.lower_bound()
                assert evaluations[0] <= MOST_EVALUATIONS
                if bound > bets.least:
                    assert bets.log_capital(bound - 1e-9).max() >= bets.goal
                assert bound == bets.most or bets.log_capital(bound + 1e-9).max() < bets.goal


def test_a_search_that_ends_early_is_not_too_high(monkeypatch):
    monkeypatch.setattr("drcrm.evaluation.bounds.betting_mixture.MOST_EVALUATIONS", 4)
    for n in (100, 1000):
        bets = mixture(n, RATES["usual"], 0.05, False, factor=1.0)
        assert bets.log_capital(bets.lower_bound()).max() >= bets.goal or bets.lower_bound() == bets.least


@pytest.mark.parametrize("known", [False, True])
def test_bounds_of_later_looks_continue_those_of_earlier_ones(known):
    bets, last = mixture(2000, RATES["usual"], 0.05, True, known=known), None
    for n in (1, 5, 60, 500, 501, 2000):
        found = bets.lower_bound(n, last)
        assert found == pytest.approx(bets.lower_bound(n), abs=1e-9)
        assert last is None or found >= last
        last = found


def test_the_first_unit_that_rejects_a_mean_is_that_of_the_bounds():
    bets = mixture(2000, RATES["all"], 0.05, True)
    for m in (0.02, 0.1):
        first = bets.first_reached(m)
        assert bets.lower_bound(first - 1) < m <= bets.lower_bound(first) + 1e-9
    assert bets.first_reached(0.9) is None


def test_a_capital_of_many_units_is_finite():
    bets = mixture(200_000, RATES["most"], 1e-9, True)
    assert np.isfinite(bets.log_capital(0.0)).all()
    assert 0.9 < bets.lower_bound() < 0.98
