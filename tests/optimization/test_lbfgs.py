"""Fits by L-BFGS: minima, limits of iterations, absent features and ridges, and samples of a large log."""

import numpy as np
import pytest
from fixtures.action_logs import block_log, expand, make_log, make_objective, use_small_blocks, use_small_samples
from scipy import sparse

from drcrm.cost_models.context_effects import context_effects
from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.optimization import lbfgs
from drcrm.optimization.lbfgs import Fit, LbfgsSettings, describe_extreme_values, minimize_objectives
from drcrm.optimization.objective import Objective
from drcrm.policies import prepared_log
from drcrm.policies.prepared_log import PreparedLog
from drcrm.risks import BoltzmannRisk, KLBall, MeanRisk
from drcrm.selection import heldout_scores
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.heldout_scores import fit_cost_model
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


def objectives_on(log, estimate: str, effects=None) -> list[Objective]:
    prepared = PreparedLog(log, effects)
    return [Objective(prepared, risk, estimate=estimate) for risk in (MeanRisk(), KLBall(0.01))]


@pytest.mark.parametrize("radius", [0.01, "auto"])
def test_an_objective_on_a_sample_has_a_radius_for_its_number_of_rows(radius, monkeypatch):
    use_small_samples(monkeypatch, 10)
    objective = Objective(PreparedLog(block_log("labels", 80)), KLBall(radius))
    sample = next(objective.samples())
    scaled = [part.risk.radius_at(part.estimate.size) * part.estimate.size for part in (objective, sample)]
    assert scaled[0] == pytest.approx(scaled[1], rel=1e-12)
    assert sample.estimate.size == sample.prepared.log.size


@pytest.mark.parametrize("estimate", ["snips", "dr"])
def test_a_staged_fit_ends_at_the_optimum_of_a_plain_fit(estimate, monkeypatch):
    log = block_log("labels", 400)
    effects = CostModel().fit(log).effects(log.X) if estimate == "dr" else None

    def fit() -> list:
        objectives = objectives_on(log, estimate, effects)
        start = np.zeros(objectives[0].prepared.shape)
        return list(minimize_objectives(objectives, start, LbfgsSettings(tol=1e-9), ridges=[0.05, 0.05]))

    plain = fit()
    use_small_blocks(monkeypatch, 50)
    monkeypatch.setattr(lbfgs, "LARGE_TOLERANCE", 1e-9)
    use_small_samples(monkeypatch, 20)
    for staged, expected in zip(fit(), plain, strict=True):
        assert staged.converged
        assert staged.objective == pytest.approx(expected.objective, abs=1e-6)


def test_variance_components_of_a_large_log_are_estimated_on_a_sample(monkeypatch):
    log = block_log("labels", 400)
    monkeypatch.setattr(prepared_log, "SAMPLE", 100)
    results = []

    def record(*arguments):
        results.append((arguments[0].n_contexts, context_effects(*arguments)))
        return results[-1][1]

    monkeypatch.setattr(heldout_scores, "context_effects", record)
    supported, effects = fit_cost_model(log, Algorithm("CIPS", options={"estimate": "dr", "support": 0.0}))
    sample, model = PreparedLog(log).sample.log, supported.model
    fitted = context_effects(sample, model.effects(sample.X))
    expected = context_effects(log, model.effects(log.X), (fitted.covariance, fitted.noise)).delta
    assert effects - model.effects(log.X) == pytest.approx(expected, abs=1e-9)
    assert expected.any()
    assert [contexts for contexts, result in results if result.rounds] == [100], "no round uses all contexts"


@pytest.mark.parametrize(
    ("features", "cost", "propensity", "description"),
    [
        (1e9, -1, 0.5, "features reach 1e+09; scale the features"),
        (1e9, -1e12, 0.5, "costs reach 1e+12; give them in another unit"),
        (1e9, 0, 1e-20, "the smallest propensity is 1e-20; clip the weights"),
        (0, 0, 1, "the hyper-parameters or the start of the fit are too extreme"),
    ],
)
def test_the_most_extreme_values_are_described(features, cost, propensity, description):
    assert describe_extreme_values(BanditLog([[features]], [[1]], [propensity], [cost])) == description
