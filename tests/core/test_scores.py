"""The held-out scores, choosing by them, and the fit along a grid."""

from __future__ import annotations

import numpy as np
import pytest

from drcrm import ExponentialPolicy
from drcrm.core import optimiser
from drcrm.core.log import clipping_constant
from drcrm.core.risks import BoltzmannRisk, MeanRisk, VariancePenalizedRisk
from drcrm.core.scores import SCORES as core_scores
from drcrm.core.scores import choose, log_weights, off_policy_scores
from drcrm.core.selection import fit_grid
from drcrm.core.terms import Terms
from drcrm.registry import SCORES

SELF_NORMALISED = {"snips", "clipped_snips"}  # of the others a translation of the costs changes what they compare
every_score = pytest.mark.parametrize("score", SCORES)


def test_scores_of_four_rows():
    """r = [1, 0, 1, 1], w = [1, 1.6, 7, 1.25], M = 2."""
    expected = {
        "ips": 2.3125,
        "clipped_ips": 1.0625,
        "snips": 9.25 / 10.85,
        "clipped_snips": (1 + 2 + 1.25) / (1 + 1.6 + 2 + 1.25),
    }
    scores = off_policy_scores([1, 1.6, 7, 1.25], [1, 0, 1, 1], clip=2)
    assert scores == pytest.approx(expected)
    assert tuple(scores) == tuple(SCORES) == core_scores


@every_score
def test_counts_are_repetitions(score):
    rng = np.random.default_rng(3)
    rows, count = (rng.exponential(1, 30), rng.normal(size=30)), rng.integers(0, 4, 30)
    repeated = off_policy_scores(*(np.repeat(row, count) for row in rows), 1.5)
    assert off_policy_scores(*rows, 1.5, count)[score] == pytest.approx(repeated[score])


@every_score
def test_the_logging_policy_scores_what_it_lost(score):
    cost = np.random.default_rng(4).normal(size=30)
    assert off_policy_scores(np.ones(30), cost, 2.0)[score] == pytest.approx(cost.mean())


@every_score
def test_only_the_self_normalised_ignore_a_translation(score):
    rng = np.random.default_rng(0)
    weight, cost = rng.exponential(1, 30), rng.normal(size=30)
    here, there = (off_policy_scores(weight, each, 2.0)[score] for each in (cost, cost - 5))
    assert (abs(there - here + 5) < 1e-9) == (score in SELF_NORMALISED)


def test_ips_is_unbiased_and_clipped_is_not(labelled, logged, random_policy):
    log, policy = logged(1, n=30, passes=4000, scale=1), random_policy(2)
    X, labels = labelled(1, n=30)
    scores = off_policy_scores(np.exp(log_weights(policy, log)), log.cost, 1.5)
    truth = np.abs(labels - policy.marginals(X)).sum(axis=1).mean() - 2
    assert scores["ips"] == pytest.approx(truth, abs=0.02)
    assert scores["snips"] == pytest.approx(truth, abs=0.02)
    assert scores["clipped_ips"] > truth + 0.05


@every_score
def test_no_weight_at_all_is_no_score(score):
    of_nothing = off_policy_scores([0.0, 0.0], [-1.0, -2.0], 2.0)[score]
    assert np.isnan(of_nothing) if score in SELF_NORMALISED else of_nothing == 0
    assert np.isnan(off_policy_scores([1.0], [-1.0], 2.0, count=[0])[score])


@pytest.mark.parametrize(
    ("scores", "robust_end", "expected"),
    [
        ([3, 1, 2], "high", 1),
        ([1, 1, 2], "high", 1),
        ([1, 1, 2], "low", 0),
        ([np.nan, 2, 2], "high", 2),
        ([np.nan, -1, np.nan], "low", 1),
        ([np.nan, np.nan, np.nan], "high", None),
    ],
)
def test_choosing(scores, robust_end, expected):
    assert choose(scores, [0.1, 1.0, 10.0], robust_end) == expected


def test_grid_is_scored_on_the_heldout_part_with_the_training_parts_clip(logged, parts):
    train, heldout = parts(logged(2))
    fits = fit_grid(train, heldout, [Terms(BoltzmannRisk(t)) for t in (0.1, 1.0, 10.0)], [0.1, 1.0, 10.0], "low")
    for coef, row in zip(fits.coef, fits.scores, strict=True):
        weight = np.exp(ExponentialPolicy(coef).log_prob(heldout.X[heldout.context], heldout.Y)) / heldout.propensity
        expected = off_policy_scores(weight, heldout.cost, clipping_constant(train))
        assert row == pytest.approx(list(expected.values()), rel=1e-10)
    assert fits.scores.shape == (3, len(SCORES))
    for index, column in zip(fits.chosen, fits.scores.T, strict=True):
        assert column[index] == column.min()


def test_a_single_fit_has_a_grid_of_one_nameless_value(logged):
    fits = fit_grid(logged(), logged(), [Terms(MeanRisk())], [np.nan])
    assert np.isnan(fits.grid).tolist() == [True]
    assert fits.chosen.tolist() == [0] * len(SCORES)


def test_fits_that_promise_little_are_given_up_and_the_choice_stays(monkeypatch, logged, parts):
    """Much penalised fits promise little: they stop where patience ends, all others are what they were."""
    grid = [1e-3, 0.1, 10.0, 100.0, 1000.0]
    log = logged(5, n=200, features=11, labels=5, scale=0.1)
    arguments = *parts(log), [Terms(VariancePenalizedRisk(value)) for value in grid], grid
    full = fit_grid(*arguments)
    monkeypatch.setattr(optimiser, "PATIENCE", 10)
    given_up = fit_grid(*arguments)
    early = given_up.iterations != full.iterations
    assert early.any()
    assert (given_up.iterations[early] == 10).all()
    assert not given_up.converged[early].any()
    assert given_up.chosen.tolist() == full.chosen.tolist()
    assert np.array_equal(given_up.coef[~early], full.coef[~early])
    logged = arguments[1].cost.mean()
    best = full.scores.min(axis=0)
    assert (given_up.scores[early] > (best + 3 * logged) / 4).all()
