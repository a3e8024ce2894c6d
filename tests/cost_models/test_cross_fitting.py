"""Model of exponentiated costs: an implementation by loops, pooling of residuals, and sums over all actions."""

import numpy as np
import pytest
from fixtures.action_logs import random_coef
from fixtures.reference_formulas import (
    ENVIRONMENT_KINDS,
    FOLDS,
    choices_of,
    cross_fitted_effects,
    draw_environment_log,
    moments_by_row,
)
from scipy.special import logsumexp

from drcrm.cost_models.cross_fitting import smear_residuals, smeared_moments
from drcrm.data.folds import context_folds
from drcrm.policies.prepared_log import modelled_cost


@pytest.mark.parametrize("kind", ENVIRONMENT_KINDS)
@pytest.mark.parametrize("gamma", [0.4, 3.0])
def test_moments_are_those_of_loops_over_rows_and_actions(kind, gamma):
    log = draw_environment_log(kind, seed=4)
    coef, fold = np.random.default_rng(1).normal(size=(log.X.shape[1], *log.actions.shape)), context_folds(log, 5)
    effects, largest = cross_fitted_effects(log, fold), log.cost.max() + 0.5
    _, mean = log.actions.log_partition(log.X @ coef)
    of_rows, of_contexts = smeared_moments(log, effects, mean, fold, gamma, largest)
    expected = moments_by_row(log, coef, effects, fold, gamma)
    scale = np.exp(largest / gamma)
    assert of_rows * scale == pytest.approx(expected["modelled"], rel=1e-10)
    assert of_contexts[log.context] * scale == pytest.approx(expected["expected"], rel=1e-10)


def test_residuals_are_pooled_below_50_and_by_action_from_50_on():
    """The bound counts the residuals of the other folds: the rarest action of this log has fewer than 50."""
    log = draw_environment_log("single", rows=600, contexts=60)
    rare = log.replace(count=np.where(log.Y == 3, (np.arange(600) % 20 == 0).astype(int), log.count))
    log, gamma = rare.without_empty_rows(), 1.2
    fold = context_folds(log, FOLDS)
    effects = cross_fitted_effects(log, fold)
    residual = log.cost - effects[log.context, log.Y]
    factor = np.exp(smear_residuals(log, residual, fold, gamma))
    for number in range(FOLDS):
        outside = fold[log.context] != number
        pooled = np.average(np.exp(residual[outside] / gamma), weights=log.count[outside])
        of_action = [outside & (a == log.Y) for a in range(4)]
        counts = [log.count[rows].sum() for rows in of_action]
        assert counts[3] < 50 <= min(counts[:3])
        by_action = [np.average(np.exp(residual[r] / gamma), weights=log.count[r]) for r in of_action[:3]]
        assert factor[number] == pytest.approx([*by_action, pooled], rel=1e-10)


@pytest.mark.parametrize("kind", ENVIRONMENT_KINDS)
def test_a_single_fold_uses_its_own_residuals(kind):
    log = draw_environment_log(kind, contexts=6, rows=20)
    fold = np.zeros(log.n_contexts, dtype=int)
    residual = log.cost - modelled_cost(log, cross_fitted_effects(log, np.arange(log.n_contexts) % FOLDS))
    factor = smear_residuals(log, residual, fold, 0.7)
    assert factor == pytest.approx(logsumexp(residual / 0.7, b=log.count / log.size), rel=1e-12)


@pytest.mark.parametrize("kind", ENVIRONMENT_KINDS)
@pytest.mark.parametrize("size", [1.0, 300.0, 3000.0])
def test_moments_of_exponentiated_effects_are_sums_over_all_actions(kind, size):
    log = draw_environment_log(kind, contexts=8, rows=20)
    rng = np.random.default_rng(0)
    coef, shape = random_coef(log, 0), (log.X.shape[0], *log.actions.effect_shape)
    effects = size * rng.normal(size=shape)
    _, mean = log.actions.log_partition(log.X @ coef)
    log_moment = log.actions.log_moment(mean, effects)
    for k in range(8):
        _, probability, cost = map(np.array, zip(*choices_of(log, coef, effects, k), strict=True))
        assert log_moment[k] == pytest.approx(logsumexp(cost, b=probability), rel=1e-9, abs=1e-9)
