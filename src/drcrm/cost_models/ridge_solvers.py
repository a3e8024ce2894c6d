"""Solvers of the cost model's ridge regression, and the choice of its penalty on folds of contexts.

``MomentSolver`` is exact and needs one pass over a large log with few actions and features. ``GradientSolver`` accepts
any log. But it needs 2.5 times as long on 600 000 rows × 20 features × 5 actions, and 10 times as long with 5 labels on
200 000 rows. Both give the solution for a penalty, and squared errors on folds.

``GradientSolver`` solves the normal equations by preconditioned conjugate gradients. The regression's features are
z = a ⊗ x, where a is the label vector with an appended 1, or the one-hot action. For lists, z is ψ of the logged
candidate. A product with Σ z zᵀ is one pass over the log, so the matrix is never formed. Source: Hestenes & Stiefel
1952; Van Loan & Pitsianis 1993.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import add

import numpy as np
from scipy import sparse

from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.numerics import divide_columns
from drcrm.arrays.validation import require_finite
from drcrm.cost_models.second_moments import Moments, moments_by_fold
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import Block, ChunkedLog
from drcrm.errors import warn
from drcrm.policies.prepared_log import PreparedLog

MAX_MULTIPLICATIONS = 5e10  # largest number of multiplications for a preconditioner, which take a few seconds
MAX_PASSES = 4  # largest cost of a product with the eigenvectors, in passes over the log
EIGENVECTOR_COST = 10  # the eigenvectors of a (d, d) matrix take this times d³ multiplications
SMALLEST_EIGENVALUE = 1e-8  # relative to the largest; smaller eigenvalues are rounding, which division would magnify
MAX_STEPS = 2000  # largest number of steps of conjugate gradients

Preconditioner = Callable[[np.ndarray, float], np.ndarray]
PENALTIES = tuple(10 ** (-k / 2) for k in range(2, 9))
FOLDS = 4
NEARLY_LEAST = 0.1  # this times R² is the relative excess over the least squared error that is still accepted
FOLD_TOLERANCE = 1e-3  # of squared errors; with 1e-7, the penalties of 60 logs were the same
TOLERANCE = 1e-12  # relative error of the solution
LARGE_TOLERANCE = 1e-6  # the same on a large log, where statistical noise is larger anyway
NOTABLE_ERROR = 1e3  # a relative error of the normal equations above this times the tolerance causes a warning
TOO_LARGE = "the cost model is not finite: rescale the features or the costs, which are too large"


class NormalEquations:
    """The equations (Zᵀ S Z − z̄ z̄ᵀ + λ) B = Zᵀ S (c − c̄) of a ridge regression with an intercept.

    S has the shares of a log's rows, and z̄ and c̄ are the means with these shares. B has the shape of a cost model's
    coefficients, (d, …).

    Attributes
    ----------
    mean_cost : float
    mean, target : array (d, …)
        z̄ and the right side.
    """

    def __init__(self, log: BanditLog):
        self.log, self.share, self._chunked = log, log.count / log.size, ChunkedLog(log)
        self.mean_cost = self.share @ log.cost
        self.mean = self._weighted_features(self.share)
        self.target = self._weighted_features(self.share * (log.cost - self.mean_cost))

    def _weighted_features(self, values: np.ndarray) -> np.ndarray:
        """Return Σ v z, (d, …), of values v of the rows."""
        return reduce(np.add, self._chunked.blocks.map(_weighted_features, by_chunk=self._chunked.split_rows(values)))

    def product(self, coef: np.ndarray) -> np.ndarray:
        """Return the left side at B without the term λ B."""
        modelled = self._chunked.map_rows(modelled_costs, coef)
        return self._weighted_features(self.share * (modelled - self.share @ modelled))

    def intercept(self, coef: np.ndarray) -> float:
        """Return the intercept that belongs to B."""
        return self.mean_cost - np.vdot(self.mean, coef)

    def relative_error(self, coef: np.ndarray, penalty: float) -> float:
        """Return the norm of the residual at B, relative to the right side."""
        size = np.linalg.norm(self.target)
        return float(np.linalg.norm(self.target - self.product(coef) - penalty * coef) / size) if size > 0 else 0.0

    def solve(
        self, penalties: Sequence[float] | np.ndarray, precondition: Preconditioner, tolerance: float
    ) -> np.ndarray:
        """Return B for each penalty, (k, d, …), with at most ``MAX_STEPS`` steps for each penalty.

        Each search starts at the combination of the previous solutions that solves the equations on their span. It ends
        when rᵀ P⁻¹ r is at most tolerance² times Bᵀ target, with the residual r and the preconditioner P. If P equals
        the matrix of the equations, these two numbers are the squared norms of the error and of B in its metric.
        """
        coefs, products = np.zeros((2, len(penalties), *self.target.shape))
        for i, penalty in enumerate(penalties):
            if i:
                self._combine_previous(coefs, products, i, penalty)
            self._take_steps(coefs[i], products[i], penalty, precondition, tolerance)
        return coefs

    def _combine_previous(self, coefs: np.ndarray, products: np.ndarray, i: int, penalty: float) -> None:
        """Write, as solution i, the combination of the first i that solves the equations on their span."""
        known, images = (values[:i].reshape(i, -1) for values in (coefs, products))
        weights = np.linalg.lstsq(known @ images.T + penalty * (known @ known.T), known @ self.target.ravel())[0]
        for values in (coefs, products):
            values[i] = np.tensordot(weights, values[:i], 1)

    def _take_steps(
        self, coef: np.ndarray, product: np.ndarray, penalty: float, precondition: Preconditioner, tolerance: float
    ) -> None:
        """Take steps of conjugate gradients, written to B and its product."""
        residual, direction, last = self.target - product - penalty * coef, 0.0, np.inf
        for _ in range(MAX_STEPS):
            conditioned = precondition(residual, penalty)
            squared = np.vdot(residual, conditioned)
            if not squared > tolerance**2 * np.vdot(coef, self.target):
                break
            direction = conditioned + (squared / last) * direction
            image = self.product(direction)
            step, last = squared / (np.vdot(direction, image) + penalty * np.vdot(direction, direction)), squared
            coef += step * direction
            product += step * image
            residual -= step * (image + penalty * direction)


def _weighted_features(block: Block, values: np.ndarray) -> np.ndarray:
    log = block.log
    return (log.actions.sum_rows(*log.row_map.to_contexts(values)).T @ log.X).T


def modelled_costs(block: Block, coef: np.ndarray) -> np.ndarray:
    """Return ĉ of a block's rows, (n,), without the intercept."""
    log = block.log
    return log.actions.costs_of_rows(log.row_map, (coef.T @ log.X.T).T)


def build_preconditioner(log: BanditLog) -> Preconditioner:
    """Return (R, λ) ↦ P⁻¹ R with P = M ⊗ W + λ, where M are second moments of the actions and W = Σ w x xᵀ.

    P approximates the matrix of the equations without −z̄ z̄ᵀ. The two are equal if actions do not depend on contexts.
    For one action per row they are always equal, because each action has its own W. The same eigenvectors are used for
    all penalties. If there are too many features for eigenvectors, P is √λ. This number is between the smallest
    eigenvalue, λ, and the largest, about 1.
    """
    moments, weights = log.actions.block_moments(log.Y, log.count / log.size, log.row_map)
    (n_blocks, columns, _), d = moments.shape, log.X.shape[1]
    work = (np.count_nonzero(weights) + EIGENVECTOR_COST * n_blocks * d) * d**2
    if work > MAX_MULTIPLICATIONS or d**2 > MAX_PASSES * log.X.size:
        return lambda residual, penalty: residual / np.sqrt(penalty)
    by_action, actions = np.linalg.eigh(moments)
    by_feature, features = np.linalg.eigh([_second_moments(log.X, weight) for weight in weights])
    product = by_feature[:, :, None] * by_action[:, None, :]
    product = np.maximum(product, SMALLEST_EIGENVALUE * product.max())
    features_transposed, actions_transposed = features.transpose(0, 2, 1), actions.transpose(0, 2, 1)

    def precondition(residual: np.ndarray, penalty: float) -> np.ndarray:
        by_block = residual.reshape(d, n_blocks, columns).transpose(1, 0, 2)
        rotated = features_transposed @ by_block @ actions / (product + penalty)
        return (features @ rotated @ actions_transposed).transpose(1, 0, 2).reshape(residual.shape)

    return precondition


def _second_moments(X: Features, weight: np.ndarray) -> np.ndarray:
    """Return Σ w x xᵀ, dense."""
    used = np.flatnonzero(weight)
    if len(used) < X.shape[0]:
        X, weight = X[used], weight[used]
    moments = X.T @ (X * weight[:, None])
    return moments.toarray() if sparse.issparse(moments) else moments


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
