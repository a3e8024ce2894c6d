"""Doubly robust objective around the environment: an implementation by loops, finite differences, and fits."""

import numpy as np
import pytest
from block_logs import block_log, use_small_blocks, use_small_samples
from environment_logs import (
    FOLDS,
    KINDS,
    choices_of,
    cross_fitted_effects,
    doubly_robust_moment,
    draw_log,
    moments_by_row,
)
from label_logs import numeric_gradient
from scipy.optimize import brentq
from scipy.special import logsumexp
from sklearn.tree import DecisionTreeRegressor

from drcrm import BanditLog, CostModel, EnvironmentDRO, RegressorModel
from drcrm.cost_models.cross_fitting import cross_fit
from drcrm.data import chunked_log
from drcrm.data.executors import use_threads
from drcrm.data.folds import context_folds
from drcrm.errors import InputError
from drcrm.optimization.environment_objective import EnvironmentObjective, log_with_barrier
from drcrm.optimization.lbfgs import LbfgsSettings, minimize_objectives
from drcrm.policies.prepared_log import PreparedLog
from drcrm.risks import EnvironmentBall
from drcrm.weights import Clipped, Shrunk


def make_objective(log: BanditLog, radius: float = 0.2, weight=None) -> EnvironmentObjective:
    prepared = PreparedLog(log, cross_fit(log).effects)
    return EnvironmentObjective(prepared, EnvironmentBall(radius), weight or Clipped(3.0))


def draw_coef(objective: EnvironmentObjective, seed: int = 1, scale: float = 0.7) -> np.ndarray:
    return scale * np.random.default_rng(seed).normal(size=objective.prepared.shape)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variable", [0.0, -0.8, 1.5])
def test_value_is_that_of_loops_over_rows_and_actions(kind, variable):
    log = draw_log(kind, seed=4)
    objective, kappa = make_objective(log), 0.2
    coef, gamma = draw_coef(objective), objective._gamma_at(variable)[0]
    fold = np.random.default_rng(0).permutation(log.n_contexts) % FOLDS
    moments = moments_by_row(log, coef, cross_fitted_effects(log, fold), fold, gamma, clip=3.0)
    moment = doubly_robust_moment(log, moments)
    share = log.count * moments["weight"] / (log.count @ moments["weight"])
    assert moment > 0.8 * share @ moments["exponential"], "otherwise the barrier adds to the value"
    expected = gamma * kappa + gamma * np.log(moment)
    value, _, _ = objective.evaluate(np.append(coef, variable))
    assert value == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight", [Clipped(None), Clipped(1.5), Shrunk(4.0)], ids=repr)
@pytest.mark.parametrize("variable", [0.0, 1.5, -2.2, -3.1])
def test_gradient_is_the_finite_difference_also_behind_the_barrier(kind, weight, variable):
    objective = make_objective(draw_log(kind), weight=weight)
    point = np.append(draw_coef(objective), variable)
    _, gradient, _ = objective.evaluate(point)
    numeric = numeric_gradient(lambda x: objective.evaluate(x)[:2], point)
    assert gradient == pytest.approx(numeric, rel=2e-5, abs=2e-6 * max(1.0, np.abs(numeric).max()))
    assert np.abs(gradient).max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_value_without_gamma_takes_one_step_from_the_self_normalised_optimum(kind):
    log, kappa = draw_log(kind, seed=2), 0.15
    objective = make_objective(log, kappa, Clipped(None))
    coef, fold = draw_coef(objective), context_folds(log, None, FOLDS)
    effects = cross_fitted_effects(log, fold)
    share = moments_by_row(log, coef, effects, fold, 1.0)["weight"] * log.count
    share /= share.sum()

    def divergence(gamma: float) -> float:
        tilted = share * np.exp((log.cost - log.cost.max()) / gamma)
        tilted /= tilted.sum()
        return float(tilted @ np.log(tilted / share))

    gamma = brentq(lambda g: divergence(g) - kappa, 0.05, 50, xtol=1e-13)
    normalised = share @ np.exp(log.cost / gamma)
    robust = gamma * kappa + gamma * np.log(normalised)
    assert robust == pytest.approx(EnvironmentBall(kappa)(log.cost, share)[0], rel=1e-9)
    moment = doubly_robust_moment(log, moments_by_row(log, coef, effects, fold, gamma))
    expected = robust + gamma / normalised * (moment - normalised)
    assert objective(coef)[0] == pytest.approx(expected, rel=1e-9)
    assert objective._gamma_at(objective.start_extras(coef)[0])[0] == pytest.approx(gamma, rel=1e-9)


def test_residuals_are_pooled_below_50_and_by_action_from_50_on():
    """The bound counts the residuals of the other folds: the rarest action of this log has fewer than 50."""
    log = draw_log("single", rows=600, contexts=60)
    rare = log.replace(count=np.where(log.Y == 3, (np.arange(600) % 20 == 0).astype(int), log.count))
    log = rare.without_empty_rows()
    objective, gamma = make_objective(log), 1.2
    blocks = objective._blocks()
    factor = np.exp(blocks.smear(gamma).log_factor)
    fold, effects = context_folds(log, None, FOLDS), objective.prepared.effects
    residual = log.cost - effects[log.context, log.Y]
    for number in range(FOLDS):
        outside = fold[log.context] != number
        pooled = np.average(np.exp(residual[outside] / gamma), weights=log.count[outside])
        of_action = [outside & (a == log.Y) for a in range(4)]
        counts = [log.count[rows].sum() for rows in of_action]
        assert counts[3] < 50 <= min(counts[:3])
        by_action = [np.average(np.exp(residual[r] / gamma), weights=log.count[r]) for r in of_action[:3]]
        assert factor[number] == pytest.approx([*by_action, pooled], rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_and_threads_do_not_matter(kind, monkeypatch):
    log = draw_log(kind)
    whole = make_objective(log)
    point = np.append(draw_coef(whole), -0.5)
    value, gradient, _ = whole.evaluate(point)
    monkeypatch.setattr(chunked_log, "MANY_SCORES", 1)
    monkeypatch.setattr(chunked_log, "BLOCK_SCORES", 16)
    parts = make_objective(log)
    assert len(parts.prepared.chunked.blocks) > 3
    assert parts.prepared.effects == pytest.approx(whole.prepared.effects, rel=1e-10)
    with use_threads(2):
        assert parts.evaluate(point)[0] == pytest.approx(value, rel=1e-12)
        assert parts.evaluate(point)[1] == pytest.approx(gradient, rel=1e-10, abs=1e-12)
    monkeypatch.setattr("drcrm.optimization.objective.MAX_KEPT_SCORES", 0)
    forgetful = make_objective(log)
    assert forgetful.evaluate(point)[1] == pytest.approx(gradient, rel=1e-10, abs=1e-12)


def test_the_barrier_joins_the_logarithm_and_grows_below_it():
    ratios = np.array([2.0, 0.8, 0.79, 0.5, 0.31, 0.29, 0.0, -3.0])
    values = np.array([log_with_barrier(ratio)[0] for ratio in ratios])
    assert values[:2] == pytest.approx(np.log(ratios[:2]))
    assert (np.diff(values[3:]) > 0).all()
    for ratio in ratios:
        numeric = (log_with_barrier(ratio + 1e-7)[0] - log_with_barrier(ratio - 1e-7)[0]) / 2e-7
        assert log_with_barrier(ratio)[1] == pytest.approx(numeric, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", ["zero", "model"])
def test_fits_lower_the_objective_from_every_start(kind, start):
    log = draw_log(kind, contexts=60, rows=400)
    X, eligible = log.actions.unbind(log.X), getattr(log.actions, "eligible", None)
    rows = {name: getattr(log, name) for name in ("propensity", "cost", "context", "count")}
    options = log.actions.log_options | {"eligible": eligible}

    settings = {"start": start, "tilt": "auto", "clip": 4.0, "support": 0.0}
    estimator = EnvironmentDRO(0.1, **settings).fit(X, log.Y, **rows, **options)
    objective = make_objective(log, 0.1, Clipped(4.0))
    assert estimator.converged_
    assert_reaches(objective, estimator)
    assert estimator.objective_ < objective(np.zeros(objective.prepared.shape))[0] - 0.1
    # The objective is not convex: after rounding, fits to scaled or shifted costs can end in other minima.
    value = objective(estimator.coef_)[0]
    for scale, shift in ((10, 0), (1, 1000)):
        changed = make_objective(log.with_cost(scale * log.cost + shift), 0.1, Clipped(4.0))
        assert changed(estimator.coef_)[0] == pytest.approx(scale * value + shift, rel=1e-6)


def assert_reaches(objective: EnvironmentObjective, estimator: EnvironmentDRO) -> None:
    """The fit ends at a stationary point in γ with its objective."""
    _, half = objective._log_range

    def slope(u: float) -> float:
        return objective.evaluate(np.append(estimator.coef_, u))[1][-1]

    grid = np.linspace(-np.pi / 2, np.pi / 2, 61)[1:-1] * half
    slopes = np.array([slope(u) for u in grid])
    roots = [brentq(slope, *grid[[i, i + 1]]) for i in np.flatnonzero(slopes[:-1] * slopes[1:] < 0)]
    values = [objective.evaluate(np.append(estimator.coef_, root))[0] for root in roots]
    assert min(abs(np.array(values) - estimator.objective_)) < 1e-5


def test_a_regressor_is_cross_fitted_and_a_fitted_model_is_kept():
    log, tree = draw_log("single"), DecisionTreeRegressor(max_depth=3, random_state=0)
    rows = {name: getattr(log, name) for name in ("propensity", "cost", "context", "count")}
    options = rows | {"n_actions": 4, "eligible": log.actions.eligible}
    fits = [
        EnvironmentDRO(0.1, support=0.0).fit(log.X, log.Y, **options, cost_model=model)
        for model in (tree, RegressorModel(tree).fit_log(log), CostModel(0.01).fit_log(log), None)
    ]
    assert len({fit.objective_ for fit in fits}) == 4


def test_saturated_balls_and_logs_without_weights_have_values():
    rng = np.random.default_rng(0)
    log = BanditLog(np.ones((40, 1)), rng.integers(0, 2, 40), np.full(40, 0.5), rng.choice([0.0, 1.0], 40), n_actions=2)
    objective = make_objective(log, 3.0)
    assert objective(np.zeros((1, 2))) == (1.0, pytest.approx(np.zeros(2)))
    value, gradient, _ = objective.evaluate(np.append(np.zeros(2), objective.start_extras(np.zeros((1, 2)))))
    assert np.isfinite([value, *gradient]).all()
    EnvironmentDRO(3.0).fit(log.X, log.Y, propensity=log.propensity, cost=log.cost, n_actions=2)
    one = BanditLog([[1.0]], [0], [0.5], [2.0], n_actions=2)
    assert make_objective(one).evaluate(np.zeros(3))[0] == pytest.approx(2.0, abs=2.0)


def test_other_divergences_and_radius_0_are_refused():
    log = draw_log("single")
    prepared = PreparedLog(log, cross_fit(log).effects)
    for ball in (EnvironmentBall(0.1, "chi2"), EnvironmentBall(0.0)):
        with pytest.raises(InputError, match="divergence='kl' and a radius above 0"):
            EnvironmentObjective(prepared, ball)
    with pytest.raises(InputError, match="needs a cost model"):
        EnvironmentObjective(PreparedLog(log), EnvironmentBall(0.1))
    rows = {"propensity": log.propensity, "cost": log.cost, "context": log.context}
    EnvironmentDRO(0.1, divergence="chi2", estimate="snips").fit(log.X, log.Y, **rows)
    with pytest.raises(InputError, match="estimate is 'ips'"):
        EnvironmentDRO(0.1, estimate="ips").fit(log.X, log.Y, **rows)


def test_a_staged_fit_keeps_the_radius_and_the_folds_of_its_contexts(monkeypatch):
    use_small_blocks(monkeypatch, 50)
    objective = make_objective(block_log("labels", 400), 0.1)
    plain = next(minimize_objectives([objective], np.zeros(objective.prepared.shape), LbfgsSettings(tol=1e-8), [0.05]))
    use_small_samples(monkeypatch, 20)
    objective = make_objective(block_log("labels", 400), 0.1)
    samples = [*objective.samples()]
    assert len(samples) > 1
    for sample in samples:
        assert sample.risk.radius == 0.1
        kept = [np.flatnonzero((x == objective.prepared.log.X).all(axis=1))[0] for x in sample.prepared.log.X]
        assert np.array_equal(sample._fold, objective._fold[kept])
    staged = next(minimize_objectives([objective], np.zeros(objective.prepared.shape), LbfgsSettings(tol=1e-8), [0.05]))
    assert staged.objective == pytest.approx(plain.objective, abs=0.02 * abs(plain.objective))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1.0, 300.0, 3000.0])
def test_tilted_policies_are_those_of_all_actions(kind, size):
    log = draw_log(kind, contexts=8, rows=20)
    rng = np.random.default_rng(0)
    coef, shape = rng.normal(size=(3, *log.actions.shape)), (log.X.shape[0], *log.actions.effect_shape)
    effects = size * rng.normal(size=shape)
    _, mean = log.actions.log_partition(log.X @ coef)
    log_moment, _ = log.actions.tilt(mean, effects)
    for k in range(8):
        _, probability, cost = map(np.array, zip(*choices_of(log, coef, effects, k), strict=True))
        assert log_moment[k] == pytest.approx(logsumexp(cost, b=probability), rel=1e-9, abs=1e-9)
