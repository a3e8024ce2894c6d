"""The four held-out scores, choosing by them, and the fit along a grid."""

from __future__ import annotations

import numpy as np
import pytest

from drcrm import ExponentialPolicy
from drcrm.core import optimiser
from drcrm.core.log import clipping_constant
from drcrm.core.risks import BoltzmannRisk, MeanRisk, VariancePenalizedRisk
from drcrm.core.scores import SCORES, choose, log_weights, off_policy_scores
from drcrm.core.selection import fit_grid


def test_scores_of_four_rows():
    """r = [1, 0, 1, 1], w = [1, 1.6, 7, 1.25], M = 2."""
    weight, cost = np.array([1, 1.6, 7, 1.25]), np.array([1, 0, 1, 1])
    scores = off_policy_scores(weight, cost, clip=2)
    assert scores["ips"] == pytest.approx(2.3125)
    assert scores["clipped_ips"] == pytest.approx(1.0625)
    assert scores["snips"] == pytest.approx(0.852534562, abs=5e-10)
    assert scores["clipped_snips"] == pytest.approx((1 + 2 + 1.25) / (1 + 1.6 + 2 + 1.25))
    repeated = off_policy_scores(weight, cost, 2, count=[3, 1, 0, 2])
    assert repeated == pytest.approx(
        off_policy_scores(np.repeat(weight, [3, 1, 0, 2]), np.repeat(cost, [3, 1, 0, 2]), 2)
    )
    assert tuple(scores) == SCORES


def test_only_the_self_normalised_ignore_a_translation():
    rng = np.random.default_rng(0)
    weight, cost = rng.exponential(1, 30), rng.normal(size=30)
    here, there = (off_policy_scores(weight, each, 2.0) for each in (cost, cost - 5))
    for name in ("snips", "clipped_snips"):
        assert there[name] == pytest.approx(here[name] - 5)
    for name in ("ips", "clipped_ips"):
        assert abs(there[name] - here[name] + 5) > 0.01


def test_ips_is_unbiased_and_clipped_is_not(labelled, logged, random_policy):
    log, policy = logged(1, n=30, passes=4000, scale=1), random_policy(2)
    X, labels = labelled(1, n=30)
    scores = off_policy_scores(np.exp(log_weights(policy, log)), log.cost, 1.5)
    truth = np.abs(labels - policy.marginals(X)).sum(axis=1).mean() - 2
    assert scores["ips"] == pytest.approx(truth, abs=0.02)
    assert scores["snips"] == pytest.approx(truth, abs=0.02)
    assert scores["clipped_ips"] > truth + 0.05


def test_no_weight_at_all_is_no_score():
    scores = off_policy_scores([0.0, 0.0], [-1.0, -2.0], 2.0)
    assert np.isnan(scores["snips"])
    assert np.isnan(scores["clipped_snips"])
    nothing = off_policy_scores([1.0], [-1.0], 2.0, count=[0])
    assert np.isnan(list(nothing.values())).all()


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
    fits = fit_grid(train, heldout, [BoltzmannRisk(t) for t in (0.1, 1.0, 10.0)], [0.1, 1.0, 10.0])
    for coef, row in zip(fits.coef, fits.scores, strict=True):
        weight = np.exp(ExponentialPolicy(coef).log_prob(heldout.X[heldout.context], heldout.Y)) / heldout.propensity
        expected = off_policy_scores(weight, heldout.cost, clipping_constant(train))
        assert row == pytest.approx(list(expected.values()), rel=1e-10)
    for index, column in zip(fits.chosen, fits.scores.T, strict=True):
        assert column[index] == column.min()


def test_a_single_fit_has_a_grid_of_one_nameless_value(logged):
    fits = fit_grid(logged(), logged(), [MeanRisk()], [np.nan])
    assert np.isnan(fits.grid).tolist() == [True]
    assert fits.chosen.tolist() == [0, 0, 0, 0]


def test_fits_that_promise_little_are_given_up_and_the_choice_stays(monkeypatch, logged, parts):
    """Much penalised fits promise little: they stop where patience ends, all others are what they were."""
    grid = [1e-3, 0.1, 10.0, 100.0, 1000.0]
    log = logged(5, n=200, features=11, labels=5, scale=0.1)
    arguments = *parts(log), [VariancePenalizedRisk(value) for value in grid], grid
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
