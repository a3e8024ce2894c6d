"""Fits by L-BFGS: minima, limits of iterations, absent features and ridges."""

import numpy as np
import pytest
from fixtures.action_logs import expand, make_log, make_objective
from scipy import sparse

from drcrm.data.bandit_log import BanditLog
from drcrm.optimization.lbfgs import Fit, LbfgsSettings, minimize_objectives
from drcrm.risks import BoltzmannRisk, KLBall, MeanRisk
from drcrm.weights import Clipped


def fit(log: BanditLog, risk, clip: float | None = None, start=None, **settings) -> Fit:
    """Return the fit from Θ = 0 or another start."""
    objective = make_objective(log, risk, Clipped(clip))
    start = np.zeros(objective.prepared.shape) if start is None else start
    [result] = minimize_objectives([objective], start, LbfgsSettings(**settings))
    return result


def make_bounded_log() -> BanditLog:
    """Return a log with a finite best policy: the best action follows the sign of large features, not of small ones."""
    x = np.array([3.0, -3.0, 0.5, -0.5])
    gain = np.array([-1.0, 1.0, 1.5, -1.5, -1.2, 1.2, 1.6, -1.6])
    context, action = np.repeat(np.arange(8), 2), np.tile([0, 1], 8)
    cost = -2 + gain[context] * action
    return BanditLog(
        np.kron(np.eye(2), x[:, None]), action[:, None], np.full(16, 0.5), cost, context, np.repeat([1, 3], 8)
    )


def test_a_fit_is_a_minimum():
    log, risk = make_bounded_log(), BoltzmannRisk(3.0)
    result, objective = fit(log, risk), make_objective(log, risk, Clipped(None))
    value, gradient = objective(result.coef)
    assert value == result.objective
    assert np.abs(gradient).max() < 1e-4
    for direction in np.random.default_rng(10).normal(size=(20, 2)) / 2:
        assert objective(result.coef.ravel() + 0.1 * direction)[0] > value


def test_the_objective_belongs_to_the_coefficients_if_a_line_search_fails():
    """scipy returns the value of another Θ at a kink, where clipping begins."""
    log = BanditLog([[1.0]], [[1, 1], [1, 0]], [1.0, 0.01], [-1.0, -1.0], context=[0, 0])
    result = fit(log, MeanRisk(), np.e)
    assert not result.converged
    assert result.objective == make_objective(log, MeanRisk(), Clipped(np.e))(result.coef)[0]


@pytest.mark.parametrize("seed", range(3))
def test_a_fit_in_a_grid_equals_the_fit_by_itself(seed):
    """To the last digit, which depends on where inner searches start."""
    log = expand(make_log(seed))
    objectives = [make_objective(log, KLBall(radius)) for radius in (0.001, 0.01, 0.1)]
    start = np.zeros(objectives[0].prepared.shape)
    for objective, result in zip(objectives, minimize_objectives(objectives, start), strict=True):
        [single] = minimize_objectives([objective], start)
        assert result.iterations == single.iterations
        assert np.array_equal(result.coef, single.coef)


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
@pytest.mark.parametrize("seed", [None, 13], ids=["zero", "random start"])
def test_absent_features_keep_their_start(dense, seed):
    log, risk = make_log(12, dense), KLBall(0.1)
    X = np.insert(log.X if dense else log.X.toarray(), [0, 3], 0, axis=1)
    wide = log.replace(X=X if dense else sparse.csr_array(X))
    start = np.zeros((7, 3)) if seed is None else np.random.default_rng(seed).normal(size=(7, 3))
    wide_fit = fit(wide, risk, 3.0, start)
    narrow_fit = fit(log, risk, 3.0, np.delete(start, [0, 4], axis=0))
    assert np.array_equal(wide_fit.coef[[0, 4]], start[[0, 4]])
    assert np.delete(wide_fit.coef, [0, 4], axis=0) == pytest.approx(narrow_fit.coef, abs=1e-9)
    assert wide_fit.objective < make_objective(wide, risk, Clipped(3.0))(start)[0]


def test_a_ridge_keeps_a_fit_near_its_start():
    objective, start = make_objective(make_log(14), MeanRisk(), Clipped(None)), np.full((5, 3), 0.5)
    settings = LbfgsSettings(tol=1e-9)
    fits = [next(minimize_objectives([objective], start, settings, [ridge])) for ridge in (0.0, 0.1, 1.0, 1e4)]
    moved = [np.abs(result.coef - start).max() for result in fits]
    assert moved == sorted(moved, reverse=True)
    assert moved[-1] < 1e-3
    penalty = (objective.prepared.scales**2 * (fits[2].coef - start)).ravel()
    assert np.abs(objective(fits[2].coef)[1] + 1.0 * penalty).max() < 1e-3
