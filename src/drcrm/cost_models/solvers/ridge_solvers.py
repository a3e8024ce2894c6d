"""Solvers of the cost model's ridge regression, and the choice of its penalty on folds of contexts.

``MomentSolver`` is exact and needs one pass over a large log with few actions and features. ``GradientSolver`` takes
any log, but 2.5 times as long on 600 000 rows × 20 features × 5 actions, and 10 times with 5 labels on 200 000 rows.
Both give the solution for a penalty, and squared errors on folds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import reduce
from operator import add

import numpy as np

from drcrm.arrays.validation import require_finite
from drcrm.cost_models.solvers.normal_equations import MAX_STEPS, NormalEquations, build_preconditioner, modelled_costs
from drcrm.cost_models.solvers.second_moments import Moments, moments_by_fold
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import ChunkedLog
from drcrm.data.scaling import divide_columns
from drcrm.errors import warn
from drcrm.policies.prepared_log import PreparedLog

PENALTIES = tuple(10 ** (-k / 2) for k in range(2, 9))
FOLDS = 4
NEARLY_LEAST = 0.1  # this times R² is the relative excess over the least squared error that is still accepted
FOLD_TOLERANCE = 1e-3  # of squared errors; with 1e-7, the penalties of 60 logs were the same
TOLERANCE = 1e-12  # relative error of the solution
LARGE_TOLERANCE = 1e-6  # the same on a large log, where statistical noise is larger anyway
NOTABLE_ERROR = 1e3  # a relative error of the normal equations above this times the tolerance causes a warning
TOO_LARGE = "the cost model is not finite: rescale the features or the costs, which are too large"


class RidgeSolver(ABC):
    """Solver of the ridge regression of a log's costs on the features of context and action, with an intercept."""

    @abstractmethod
    def fold_errors(self, penalties: np.ndarray) -> Iterator[np.ndarray]:
        """Yield, for each fold, squared errors of the mean cost and of each penalty's fit to the other folds, (1 + k,).

        There are no folds if there are too few contexts.
        """

    @abstractmethod
    def solve(self, penalty: float) -> tuple[np.ndarray, float]:
        """Return B, (d, …), and the intercept."""

    def select_penalty(self) -> float:
        """Return the smallest penalty whose squared error is at most (1 + R²/10) times the least."""
        penalties = np.array(PENALTIES)
        of_constant, *errors = sum(self.fold_errors(penalties), np.zeros(1 + len(penalties)))
        least = min(errors)
        explained = max(1 - least / of_constant, 0) if of_constant > 0 else 0.0
        return float(penalties[errors <= least * (1 + NEARLY_LEAST * explained)].min())


class MomentSolver(RidgeSolver):
    """Exact solver that uses the second moments of each fold."""

    def __init__(self, by_fold: list[Moments]):
        self._by_fold, self._whole = by_fold, reduce(add, by_fold)

    def fold_errors(self, penalties: np.ndarray) -> Iterator[np.ndarray]:
        for heldout in self._by_fold:
            rest = self._whole - heldout
            coefs = [np.zeros_like(rest.mean), *rest.solve(penalties)]
            yield np.array([heldout.squared_error(coef, _intercept(rest, coef)) for coef in coefs])

    def solve(self, penalty: float) -> tuple[np.ndarray, float]:
        [coef] = self._whole.solve([penalty])
        return coef, _intercept(self._whole, coef)


def _intercept(moments: Moments, coef: np.ndarray) -> float:
    return moments.mean_cost - np.vdot(moments.mean, coef)


class GradientSolver(RidgeSolver):
    """Solver by conjugate gradients. For a large log, a sample gives the errors on folds and the preconditioner.

    Parameters
    ----------
    log : BanditLog
        Its features are scaled.
    fold : integer array (n,)
        Fold of each row.
    """

    def __init__(self, log: BanditLog, fold: np.ndarray):
        prepared = PreparedLog(log)
        sample, rows = prepared.first_sample if prepared.has_samples else (None, slice(None))
        self._sample = sample.log if sample else log.replace(X=log.X[:])
        self._log, self._fold = log, fold[rows]
        self._precondition = build_preconditioner(self._sample)
        self._tolerance = LARGE_TOLERANCE if sample else TOLERANCE

    def fold_errors(self, penalties: np.ndarray) -> Iterator[np.ndarray]:
        log = self._sample
        for number in np.unique(self._fold):
            is_heldout = self._fold == number
            if is_heldout.all():
                continue
            rest, heldout = (log.recount(log.count * part) for part in (~is_heldout, is_heldout))
            equations = NormalEquations(rest)
            coefs, errors = equations.solve(penalties, self._precondition, FOLD_TOLERANCE), []
            for coef in [np.zeros_like(equations.mean), *coefs]:
                residual = heldout.cost - ChunkedLog(heldout).map_rows(modelled_costs, coef) - equations.intercept(coef)
                errors.append(heldout.count @ residual**2)
            yield np.array(errors)

    def solve(self, penalty: float) -> tuple[np.ndarray, float]:
        equations, log = NormalEquations(self._log), self._log
        [coef] = equations.solve([penalty], self._precondition, self._tolerance)
        error = equations.relative_error(require_finite(coef, TOO_LARGE), penalty)
        if error > NOTABLE_ERROR * self._tolerance:
            warn(
                f"the cost model has not converged: after {MAX_STEPS} steps of conjugate gradients the relative error "
                f"of its normal equations is {error:.2g}; use a larger penalty or fewer features"
            )
        return coef, log.count @ (log.cost - ChunkedLog(log).map_rows(modelled_costs, coef)) / log.size


def make_solver(log: BanditLog, scales: np.ndarray, fold: np.ndarray) -> RidgeSolver:
    """Return the solver for a log, whose features are divided by ``scales``, (d,), with the fold of each row, (n,)."""
    moments = moments_by_fold(log, scales, fold)
    return (
        GradientSolver(log.replace(X=divide_columns(log.X, scales)), fold) if moments is None else MomentSolver(moments)
    )
