"""Ridge regression by conjugate gradients against normal equations written out and solved."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from drcrm import ActionLists, BanditLog
from drcrm.cost_models.normal_equations import MAX_MULTIPLICATIONS, NormalEquations, build_preconditioner
from drcrm.cost_models.ridge_solvers import FOLD_TOLERANCES, NEARLY_LEAST, PENALTIES, GradientSolver, assign_folds

KINDS = "labels", "choice", "lists"
CONTEXTS, FEATURES, ACTIONS, ROWS = 40, 5, 3, 150


def make_log(kind: str, form: str = "dense", seed: int = 0, features: int = FEATURES, rows: int = ROWS) -> BanditLog:
    """Contexts with several rows, or none, and counts."""
    rng = np.random.default_rng(seed)
    context, count = rng.integers(0, CONTEXTS - 1, rows), rng.integers(1, 4, rows)
    X = rng.normal(size=(CONTEXTS * (ACTIONS if kind == "lists" else 1), features)) + 0.5
    X *= rng.random(X.shape) < 0.7
    Y = rng.integers(0, 2, (rows, ACTIONS)) if kind == "labels" else rng.integers(0, ACTIONS, rows)
    X = sparse.csr_array(X) if form == "csr" else X
    X = ActionLists(X, np.arange(0, X.shape[0] + 1, ACTIONS)) if kind == "lists" else X
    return BanditLog(X, Y, np.full(rows, 0.5), rng.normal(size=rows) - 3, context, count)


def joint(log: BanditLog, kind: str) -> np.ndarray:
    """z of each row, (n, coefficients), in the order of Bᵀ."""
    X = log.X.toarray() if sparse.issparse(log.X) else log.X
    if kind == "lists":
        return X[ACTIONS * log.context + log.Y]
    of_action = np.column_stack([log.Y, np.ones(len(log.Y))]) if kind == "labels" else np.eye(ACTIONS)[log.Y]
    return np.concatenate([X[log.context] * column[:, None] for column in of_action.T], axis=1)


def written_out(log: BanditLog, kind: str, penalty: float) -> tuple[np.ndarray, np.ndarray, float]:
    """The left side as a matrix, B by solving, and the intercept."""
    Z, share = joint(log, kind), log.count / log.count.sum()
    centred = Z - share @ Z
    left = centred.T @ (centred * share[:, None]) + penalty * np.eye(Z.shape[1])
    coef = np.linalg.solve(left, centred.T @ (share * log.cost))
    return left, coef, share @ (log.cost - Z @ coef)


def stacked(values: np.ndarray) -> np.ndarray:
    return values.T.ravel()


@pytest.mark.parametrize("affordable", [MAX_MULTIPLICATIONS, 0], ids=["preconditioned", "plain"])
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("kind", KINDS)
def test_solutions_of_many_penalties_are_those_of_each_written_out(monkeypatch, kind, form, affordable):
    monkeypatch.setattr("drcrm.cost_models.normal_equations.MAX_MULTIPLICATIONS", affordable)
    log = make_log(kind, form)
    equations, precondition = NormalEquations(log), build_preconditioner(log)
    together = equations.solve(PENALTIES, precondition, 1e-13)
    for penalty, coef in zip(PENALTIES, together, strict=True):
        left, expected, intercept = written_out(log, kind, penalty)
        [alone] = equations.solve([penalty], precondition, 1e-13)
        for each in (coef, alone):
            assert stacked(each) == pytest.approx(expected, rel=1e-9, abs=1e-10)
            assert equations.intercept(each) == pytest.approx(intercept, rel=1e-9)
        assert equations.relative_error(coef, penalty) < 1e-10
        image = stacked(equations.product(coef) + penalty * coef)
        assert image == pytest.approx(left @ stacked(coef), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("penalty", [1e-4, 0.1])
def test_the_preconditioner_is_exact_where_a_row_has_one_action(kind, form, penalty):
    """But for the mean z̄ z̄ᵀ."""
    log = make_log(kind, form)
    Z = joint(log, kind)
    coef = np.random.default_rng(1).normal(size=(log.X.shape[1], *log.actions.effect_space.shape))
    image = (Z.T * log.count / log.size) @ (Z @ stacked(coef)) + penalty * stacked(coef)
    residual = image.reshape(coef.shape[::-1]).T
    assert build_preconditioner(log)(residual, penalty) == pytest.approx(coef, rel=1e-8, abs=1e-8)


def test_the_preconditioner_is_exact_where_actions_do_not_depend_on_contexts():
    """All label vectors in each context: some more often than others, some contexts too."""
    rng, actions = np.random.default_rng(2), np.arange(8)[:, None] >> np.arange(3) & 1
    Y, context = np.tile(actions, (CONTEXTS, 1)), np.repeat(np.arange(CONTEXTS), 8)
    count = np.tile(rng.integers(1, 5, 8), CONTEXTS) * rng.integers(1, 5, CONTEXTS)[context]
    X = rng.normal(size=(CONTEXTS, FEATURES))
    log = BanditLog(X, Y, np.full(len(Y), 0.5), rng.normal(size=len(Y)), context, count)
    Z, coef = joint(log, "labels"), rng.normal(size=(FEATURES, 4))
    image = (Z.T * log.count / log.size) @ (Z @ stacked(coef)) + 1e-3 * stacked(coef)
    assert build_preconditioner(log)(image.reshape(4, -1).T, 1e-3) == pytest.approx(coef, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("affordable", [MAX_MULTIPLICATIONS, 0], ids=["preconditioned", "plain"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_squared_errors_on_folds_miss_by_less_than_the_tolerance(monkeypatch, kind, affordable, seed):
    """Those that may be near the least; of noise small penalties have several times as much, and miss by more."""
    monkeypatch.setattr("drcrm.cost_models.normal_equations.MAX_MULTIPLICATIONS", affordable)
    log = make_log(kind, seed=seed, features=30, rows=600)
    log = log.replace(X=log.X / abs(log.X).max(axis=0))
    solver = GradientSolver(log, assign_folds(log))
    exact, without = solver.fold_errors(PENALTIES, 1e-10)
    for tolerance in FOLD_TOLERANCES:
        errors, same = solver.fold_errors(PENALTIES, tolerance)
        assert same == without
        near = exact < 1.2 * exact.min()
        assert errors[near] == pytest.approx(exact[near], rel=tolerance)
        assert (errors[~near] > 1.15 * errors.min()).all()


def test_the_choice_is_that_of_exact_errors(monkeypatch):
    """Of errors that miss by nearly the tolerance: but for those within rounding of the most that there may be."""
    rng, log, doubts = np.random.default_rng(3), make_log("labels"), 0
    solver = GradientSolver(log, assign_folds(log))
    for _ in range(500):
        exact, calls = dict(zip(PENALTIES, rng.uniform(1, 1.05, len(PENALTIES)), strict=True)), []

        def errors(penalties, tolerance, exact=exact, calls=calls):
            calls.append(len(penalties))
            missed = rng.uniform(-0.9, 0.9, len(penalties)) * tolerance
            return np.array([exact[penalty] for penalty in penalties]) * (1 + missed), 1.2

        monkeypatch.setattr(solver, "fold_errors", errors)
        least = min(exact.values())
        most = least * (1 + NEARLY_LEAST * (1 - least / 1.2))
        if min(abs(error / most - 1) for error in exact.values()) < 4 * FOLD_TOLERANCES[-1]:
            continue
        assert solver.select_penalty() == min(penalty for penalty in exact if exact[penalty] <= most)
        doubts += len(calls) > 1
    assert 0 < doubts < 250
