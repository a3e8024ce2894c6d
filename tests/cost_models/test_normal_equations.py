"""Ridge regression by conjugate gradients against normal equations solved directly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from drcrm import ActionLists, BanditLog
from drcrm.cost_models.normal_equations import MAX_MULTIPLICATIONS, NormalEquations, build_preconditioner
from drcrm.cost_models.ridge_solvers import FOLD_TOLERANCES, NEARLY_LEAST, PENALTIES, GradientSolver, assign_folds

KINDS = "labels", "choice", "lists"
CONTEXTS, FEATURES, ACTIONS, ROWS = 40, 5, 3, 150
with_and_without_preconditioner = pytest.mark.parametrize(
    "limit", [MAX_MULTIPLICATIONS, 0], ids=["preconditioned", "plain"]
)


@pytest.fixture
def limit_work(monkeypatch):
    return lambda limit: monkeypatch.setattr("drcrm.cost_models.normal_equations.MAX_MULTIPLICATIONS", limit)


def make_log(kind: str, form: str = "dense", seed: int = 0, features: int = FEATURES, rows: int = ROWS) -> BanditLog:
    """Return a log with repeated rows and contexts; some contexts have no rows."""
    rng = np.random.default_rng(seed)
    context, count = rng.integers(0, CONTEXTS - 1, rows), rng.integers(1, 4, rows)
    X = rng.normal(size=(CONTEXTS * (ACTIONS if kind == "lists" else 1), features)) + 0.5
    X *= rng.random(X.shape) < 0.7
    Y = rng.integers(0, 2, (rows, ACTIONS)) if kind == "labels" else rng.integers(0, ACTIONS, rows)
    X = sparse.csr_array(X) if form == "csr" else X
    X = ActionLists(X, np.arange(0, X.shape[0] + 1, ACTIONS)) if kind == "lists" else X
    return BanditLog(X, Y, np.full(rows, 0.5), rng.normal(size=rows) - 3, context, count)


def joint_features(log: BanditLog, kind: str) -> np.ndarray:
    """Return z of each row, in the order of Bᵀ."""
    X = log.X.toarray() if sparse.issparse(log.X) else log.X
    if kind == "lists":
        return X[ACTIONS * log.context + log.Y]
    loadings = np.column_stack([log.Y, np.ones(len(log.Y))]) if kind == "labels" else np.eye(ACTIONS)[log.Y]
    return np.concatenate([X[log.context] * column[:, None] for column in loadings.T], axis=1)


def flatten(values: np.ndarray) -> np.ndarray:
    return values.T.ravel()


@with_and_without_preconditioner
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("kind", KINDS)
def test_solutions_are_the_direct_ones(limit_work, kind, form, limit):
    limit_work(limit)
    log = make_log(kind, form)
    equations, precondition = NormalEquations(log), build_preconditioner(log)
    Z, share = joint_features(log, kind), log.count / log.size
    centred = Z - share @ Z
    for penalty, coef in zip(PENALTIES, equations.solve(PENALTIES, precondition, 1e-13), strict=True):
        left = centred.T @ (centred * share[:, None]) + penalty * np.eye(Z.shape[1])
        expected = np.linalg.solve(left, centred.T @ (share * log.cost))
        [single] = equations.solve([penalty], precondition, 1e-13)
        for solution in (coef, single):
            assert flatten(solution) == pytest.approx(expected, rel=1e-9, abs=1e-10)
            assert equations.intercept(solution) == pytest.approx(share @ (log.cost - Z @ expected), rel=1e-9)
        assert equations.relative_error(coef, penalty) < 1e-10
        image = flatten(equations.product(coef) + penalty * coef)
        assert image == pytest.approx(left @ flatten(coef), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("penalty", [1e-4, 0.1])
def test_the_preconditioner_inverts_the_moments_of_one_action_per_row(kind, form, penalty):
    log = make_log(kind, form)
    Z, coef = joint_features(log, kind), np.random.default_rng(1).normal(size=NormalEquations(log).target.shape)
    image = (Z.T * log.count / log.size) @ (Z @ flatten(coef)) + penalty * flatten(coef)
    residual = image.reshape(coef.shape[::-1]).T
    assert build_preconditioner(log)(residual, penalty) == pytest.approx(coef, rel=1e-8, abs=1e-8)


def test_the_preconditioner_inverts_the_moments_of_actions_independent_of_contexts():
    """Every context has all label vectors, some of them more often."""
    rng, actions = np.random.default_rng(2), np.arange(8)[:, None] >> np.arange(3) & 1
    Y, context = np.tile(actions, (CONTEXTS, 1)), np.repeat(np.arange(CONTEXTS), 8)
    count = np.tile(rng.integers(1, 5, 8), CONTEXTS) * rng.integers(1, 5, CONTEXTS)[context]
    X = rng.normal(size=(CONTEXTS, FEATURES))
    log = BanditLog(X, Y, np.full(len(Y), 0.5), rng.normal(size=len(Y)), context, count)
    Z, coef = joint_features(log, "labels"), rng.normal(size=(FEATURES, 4))
    image = (Z.T * log.count / log.size) @ (Z @ flatten(coef)) + 1e-3 * flatten(coef)
    assert build_preconditioner(log)(image.reshape(4, -1).T, 1e-3) == pytest.approx(coef, rel=1e-9, abs=1e-9)


@with_and_without_preconditioner
@pytest.mark.parametrize("kind", KINDS)
def test_errors_on_folds_are_within_the_tolerance(limit_work, kind, limit):
    """Only errors near the smallest must be: at small penalties noise makes the error several times as large."""
    limit_work(limit)
    log = make_log(kind, features=20, rows=400)
    log = log.replace(X=log.X / abs(log.X).max(axis=0))
    solver = GradientSolver(log, assign_folds(log))
    exact, baseline = solver.fold_errors(PENALTIES, 1e-10)
    is_near = exact < 1.2 * exact.min()
    for tolerance in FOLD_TOLERANCES:
        errors, same_baseline = solver.fold_errors(PENALTIES, tolerance)
        assert same_baseline == baseline
        assert errors[is_near] == pytest.approx(exact[is_near], rel=tolerance)
        assert (errors[~is_near] > 1.15 * errors.min()).all()


def test_approximate_errors_select_the_penalty_of_exact_errors(monkeypatch):
    """The exception are exact errors within rounding of the limit."""
    rng, log, n_doubts = np.random.default_rng(3), make_log("labels"), 0
    solver = GradientSolver(log, assign_folds(log))
    for _ in range(300):
        exact, calls = dict(zip(PENALTIES, rng.uniform(1, 1.05, len(PENALTIES)), strict=True)), []

        def fold_errors(penalties, tolerance, exact=exact, calls=calls):
            calls.append(len(penalties))
            rounding = rng.uniform(-0.9, 0.9, len(penalties)) * tolerance
            return np.array([exact[penalty] for penalty in penalties]) * (1 + rounding), 1.2

        monkeypatch.setattr(solver, "fold_errors", fold_errors)
        limit = min(exact.values()) * (1 + NEARLY_LEAST * (1 - min(exact.values()) / 1.2))
        if min(abs(error / limit - 1) for error in exact.values()) < 4 * FOLD_TOLERANCES[-1]:
            continue
        assert solver.select_penalty() == min(penalty for penalty in exact if exact[penalty] <= limit)
        n_doubts += len(calls) > 1
    assert 0 < n_doubts < 150
