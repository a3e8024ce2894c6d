"""Ridge regression by conjugate gradients against normal equations solved directly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from drcrm import ActionLists, BanditLog
from drcrm.cost_models.solvers.normal_equations import MAX_MULTIPLICATIONS, NormalEquations, build_preconditioner
from drcrm.cost_models.solvers.ridge_solvers import FOLD_TOLERANCES, PENALTIES, GradientSolver, assign_folds

KINDS = "labels", "choice", "lists"
CONTEXTS, FEATURES, ACTIONS, ROWS = 40, 5, 3, 150
with_and_without_preconditioner = pytest.mark.parametrize(
    "limit", [MAX_MULTIPLICATIONS, 0], ids=["preconditioned", "plain"]
)


@pytest.fixture
def limit_work(monkeypatch):
    return lambda limit: monkeypatch.setattr("drcrm.cost_models.solvers.normal_equations.MAX_MULTIPLICATIONS", limit)


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
