"""The objective through the whole chain: the public POEM code's values, finite differences, repeated contexts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from drcrm.actions.row_maps import SparseRows, TabledRows
from drcrm.data.bandit_log import BanditLog, clipping_constant
from drcrm.optimization.lbfgs import Fit, LbfgsSettings, minimize_objectives
from drcrm.optimization.objective import Objective
from drcrm.policies.linear_predictor import LinearPredictor
from drcrm.risks import BoltzmannRisk, CVaRRisk, KLBall, MeanRisk, VariancePenalizedRisk
from drcrm.weights import Clipped

REFERENCE = json.loads((Path(__file__).parents[1] / "data/objective_values.json").read_text())


def make_log(seed: int = 0, dense: bool = True, repeated: bool = True) -> BanditLog:
    """A log of 12 contexts, 5 features and 3 labels; repeated contexts come with multiplicities, some of them 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 5)) * (rng.random((12, 5)) < 0.6)
    X[:, -1] = 1
    n = 50 if repeated else 12
    context = rng.integers(0, 12, n) if repeated else None
    count = rng.integers(0, 4, n) if repeated else None
    rows = rng.integers(0, 2, (n, 3)), rng.uniform(0.05, 1, n), -rng.integers(0, 4, n)
    return BanditLog(X if dense else sparse.csr_matrix(X), *rows, context, count)


def objective_on(log: BanditLog, *options) -> Objective:
    """As a fit has it."""
    return Objective(LinearPredictor(log, trains=True), *options)


def fit(log: BanditLog, risk, clip: float | None = None, **options) -> Fit:
    """What L-BFGS finds from Θ = 0."""
    objective = objective_on(log, risk, Clipped(clip))
    [found] = minimize_objectives([objective], np.zeros(objective.design.shape), LbfgsSettings(**options))
    return found


def written_out(log: BanditLog) -> BanditLog:
    """The same log row by row: each row with a context of its own, as often as it occurs."""
    rows = np.repeat(np.arange(len(log.Y)), log.count)
    return BanditLog(log.X[log.context[rows]], log.Y[rows], log.propensity[rows], log.cost[rows])


@pytest.mark.parametrize("entry", REFERENCE["evaluations"], ids=lambda entry: f"penalty {entry['penalty']}")
@pytest.mark.parametrize("make", [np.array, sparse.csr_matrix], ids=["dense", "csr"])
def test_agrees_with_the_public_poem_code(entry, make):
    log = BanditLog(
        make(REFERENCE["features"]), REFERENCE["actions"], np.exp(REFERENCE["log_propensity"]), REFERENCE["cost"]
    )
    risk = VariancePenalizedRisk(entry["penalty"]) if entry["penalty"] else MeanRisk()
    value, gradient = objective_on(log, risk, Clipped(clipping_constant(log)))(np.array(entry["coef"]))
    assert np.log(clipping_constant(log)) == pytest.approx(REFERENCE["log_clip"], rel=1e-12)
    assert value == pytest.approx(entry["objective"], rel=1e-10)
    assert gradient == pytest.approx(np.ravel(entry["gradient"]), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("clip", [None, 2.0])
@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
@pytest.mark.parametrize("repeated", [True, False], ids=["repeated contexts", "distinct contexts"])
def test_gradient_is_the_finite_difference(risk, clip, dense, repeated):
    objective = objective_on(make_log(1, dense, repeated), risk, Clipped(clip))
    coef, step = np.random.default_rng(2).normal(size=15) / 2, 1e-6
    numeric = [(objective(coef + step * e)[0] - objective(coef - step * e)[0]) / (2 * step) for e in np.eye(15)]
    assert objective(coef)[1] == pytest.approx(np.array(numeric), abs=2e-7)


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
def test_repeated_contexts_equal_the_log_row_by_row(risk, dense):
    log = make_log(3, dense)
    short, long, merged = (
        objective_on(each, risk, Clipped(3.0)) for each in (log, written_out(log), log.merge_duplicates()[0])
    )
    for seed in range(5):
        coef = np.random.default_rng(seed).normal(size=(5, 3))
        value, gradient = short(coef)
        for other in (long, merged):
            assert other(coef)[0] == pytest.approx(value, rel=1e-10)
            assert other(coef)[1] == pytest.approx(gradient, rel=1e-10, abs=1e-10)


def test_dense_equals_csr(risk):
    coef = np.random.default_rng(4).normal(size=(5, 3))
    dense, csr = (objective_on(make_log(5, kind), risk, Clipped(3.0))(coef) for kind in (True, False))
    assert csr[0] == pytest.approx(dense[0], rel=1e-12)
    assert csr[1] == pytest.approx(dense[1], rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("labels", [1, 3, 5, 6, 14])
def test_many_actions_per_context_are_looked_up_in_tables(labels):
    rng = np.random.default_rng(6)
    n = 2000
    rows = rng.integers(0, 2, (n, labels)), rng.uniform(0.05, 1, n), -rng.integers(0, 4, n)
    log = BanditLog(rng.normal(size=(10, 4)), *rows, context=rng.integers(0, 10, n))
    coef = rng.normal(size=(4, labels))
    assert isinstance(log.row_map, TabledRows)
    assert isinstance(written_out(log).row_map, SparseRows)
    short, long = (objective_on(each, KLBall(0.1), Clipped(3.0))(coef) for each in (log, written_out(log)))
    assert short[0] == pytest.approx(long[0], rel=1e-12)
    assert short[1] == pytest.approx(long[1], rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("scale", [1, 30, 300, 3000])
@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
def test_equals_the_formula_row_by_row_where_exponentials_vanish(scale, dense):
    """π and σ by scipy, which keeps the smallest numbers that the objective takes for 0."""
    log = make_log(9, dense)
    X = sparse.csr_array(log.X).toarray()[log.context]
    coef = scale * np.random.default_rng(10).normal(size=(5, 3))
    scores = X @ coef
    weight = np.exp((log.Y * scores - np.logaddexp(0, scores)).sum(axis=1)) / log.propensity
    z = log.cost * np.minimum(weight, 3.0)
    slope = np.where(weight <= 3.0, z, 0) * log.count / log.size
    gradient = X.T @ (slope[:, None] * (log.Y - expit(scores)))
    value, found = objective_on(log, MeanRisk(), Clipped(3.0))(coef)
    assert value == pytest.approx(log.count @ z / log.size, rel=1e-10)
    assert found == pytest.approx(gradient.ravel(), rel=1e-10, abs=1e-12)


def test_a_clipped_term_has_no_gradient():
    log = BanditLog([[1.0]], [[1]], [0.01], [-1.0])
    value, gradient = objective_on(log, MeanRisk(), Clipped(2.0))(np.array([3.0]))
    assert value == -2.0
    assert gradient == [0.0]


def test_evaluations_do_not_depend_on_each_other():
    """Buffers are reused, results are not."""
    objective = objective_on(make_log(7), BoltzmannRisk(1.0), Clipped(3.0))
    rng = np.random.default_rng(8)
    first, second = rng.normal(size=15), rng.normal(size=15)
    value, gradient = objective(first)
    kept = gradient.copy()
    objective(second)
    assert np.array_equal(gradient, kept)
    assert objective(first)[0] == value
    assert np.array_equal(objective(first)[1], kept)


def well_conditioned_log() -> BanditLog:
    """Far contexts want to follow the feature's sign, near ones not to: the best coefficients are finite."""
    x = np.array([3.0, -3.0, 0.5, -0.5])
    X = np.kron(np.eye(2), x[:, None])
    gain = np.array([-1.0, 1.0, 1.5, -1.5, -1.2, 1.2, 1.6, -1.6])
    context, action = np.repeat(np.arange(8), 2), np.tile([0, 1], 8)
    cost = -2 + gain[context] * action
    return BanditLog(X, action[:, None], np.full(16, 0.5), cost, context, np.repeat([1, 3], 8))


def test_the_same_fit_from_a_log_row_by_row(risk):
    if isinstance(risk, CVaRRisk):
        pytest.skip("equal costs are a kink of it at Θ = 0, where L-BFGS ends")
    log = well_conditioned_log()
    short = fit(log, risk, 3.0, tol=1e-12)
    long = fit(written_out(log), risk, 3.0, tol=1e-12)
    assert short.converged
    assert short.objective == pytest.approx(long.objective, rel=1e-9)
    assert short.coef == pytest.approx(long.coef, abs=1e-6)


def test_the_fit_is_a_minimum():
    log = well_conditioned_log()
    found = fit(log, BoltzmannRisk(3.0))
    objective = objective_on(log, BoltzmannRisk(3.0))
    value, gradient = objective(found.coef)
    assert value == found.objective
    assert np.abs(gradient).max() < 1e-4
    for direction in np.random.default_rng(10).normal(size=(20, 2)) / 2:
        assert objective(found.coef.ravel() + 0.1 * direction)[0] > value


def test_the_objective_is_that_of_the_coefficients_where_a_line_search_fails():
    """At a kink, where the clipping begins: scipy then gives the value of another Θ."""
    log = BanditLog([[1.0]], [[1, 1], [1, 0]], [1.0, 0.01], [-1.0, -1.0], context=[0, 0])
    objective = objective_on(log, MeanRisk(), Clipped(np.e))
    [fit] = minimize_objectives([objective], np.zeros((1, 2)))
    assert not fit.converged
    assert fit.objective == objective(fit.coef)[0]


@pytest.mark.parametrize(
    ("seed", "risk", "max_iter"), [(43, CVaRRisk(0.5), 2), (184, KLBall(0.1), 5), (282, KLBall(0.1), 1)]
)
def test_the_objective_is_that_of_the_coefficients_at_the_iteration_limit(seed, risk, max_iter):
    """In a line search that has used up all evaluations scipy gives the value of another Θ as well."""
    rng = np.random.default_rng(seed)
    n, d, q = rng.integers(1, 12), rng.integers(1, 4), rng.integers(1, 3)
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-3, 5)
    log = BanditLog(X, rng.integers(0, 2, (n, q)), rng.uniform(1e-3, 1, n), -rng.integers(0, 4, n))
    objective = objective_on(log, risk, Clipped(3.0), "snips")
    [fit] = minimize_objectives([objective], np.zeros((d, q)), LbfgsSettings(max_iter=max_iter, stopping="public_code"))
    assert not fit.converged
    assert fit.objective == objective(fit.coef)[0]


@pytest.mark.parametrize("seed", range(10))
def test_a_fit_in_a_grid_is_the_fit_alone(seed):
    """To the last digit: where a search begins moves these."""
    log = written_out(make_log(seed))
    objectives = [objective_on(log, KLBall(radius)) for radius in (0.001, 0.01, 0.1)]
    start = np.zeros(objectives[0].design.shape)
    for objective, found in zip(objectives, minimize_objectives(objectives, start), strict=True):
        [alone] = minimize_objectives([objective], start)
        assert found.iterations == alone.iterations
        assert np.array_equal(found.coef, alone.coef)


def test_stopping_at_the_iteration_limit_is_said():
    found = fit(make_log(11), MeanRisk(), max_iter=2)
    assert not found.converged
    assert found.iterations == 2


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
def test_features_that_no_context_has_stay_at_zero(dense):
    log = make_log(12, dense)
    X = log.X if dense else log.X.toarray()
    wide = np.insert(X, [0, 3], 0, axis=1)
    wide_log = log.with_contexts(wide if dense else sparse.csr_array(wide))
    narrow_fit, wide_fit = (fit(each, KLBall(0.1), 3.0) for each in (log, wide_log))
    assert not wide_fit.coef[[0, 4]].any()
    assert np.delete(wide_fit.coef, [0, 4], axis=0) == pytest.approx(narrow_fit.coef, abs=1e-9)


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
def test_a_fit_starts_where_it_is_told_and_what_no_context_has_stays_there(dense):
    log = make_log(12, dense)
    X = log.X if dense else log.X.toarray()
    wide = np.insert(X, [0, 3], 0, axis=1)
    wide = log.with_contexts(wide if dense else sparse.csr_array(wide))
    start = np.random.default_rng(13).normal(size=(7, 3))
    objective = objective_on(wide, KLBall(0.1), Clipped(3.0))
    [none], [far] = (minimize_objectives([objective], start, LbfgsSettings(max_iter=n)) for n in (1, 500))
    assert none.objective <= objective(start)[0]
    assert np.array_equal(far.coef[[0, 4]], start[[0, 4]])
    assert far.objective < objective(start)[0]
    narrow = objective_on(log, KLBall(0.1), Clipped(3.0))
    assert narrow(np.delete(far.coef, [0, 4], axis=0))[0] == pytest.approx(far.objective, rel=1e-12)


def test_a_ridge_keeps_a_fit_near_its_start():
    objective, start = objective_on(make_log(14), MeanRisk(), Clipped(3.0)), np.full((5, 3), 0.5)
    fits = [next(minimize_objectives([objective], start, ridges=[ridge])) for ridge in (0.0, 0.1, 1.0, 1e4)]
    moved = [np.abs(fit.coef - start).max() for fit in fits]
    assert moved == sorted(moved, reverse=True)
    assert moved[-1] < 1e-3
    unit = objective.design.scales  # in which the ridge measures coefficients
    gradient = objective(fits[2].coef)[1] + 1.0 * (unit**2 * (fits[2].coef - start)).ravel()
    assert np.abs(gradient).max() < 1e-3
