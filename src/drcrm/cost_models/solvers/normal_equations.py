"""Normal equations of a ridge regression of costs on context and action, solved by preconditioned conjugate gradients.

The regression's features are z = a ⊗ x, where a is the label vector with an appended 1, or the one-hot action. For
lists, z is ψ of the logged candidate. A product with Σ z zᵀ is one pass over the log, so the matrix is never formed.
Source: Hestenes & Stiefel 1952; Van Loan & Pitsianis 1993.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
from scipy import sparse

from drcrm.arrays.mapped_arrays import Features
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import Block, ChunkedLog

MAX_MULTIPLICATIONS = 5e10  # largest number of multiplications for a preconditioner, which take a few seconds
MAX_PASSES = 4  # largest cost of a product with the eigenvectors, in passes over the log
EIGENVECTOR_COST = 10  # the eigenvectors of a (d, d) matrix take this times d³ multiplications
SMALLEST_EIGENVALUE = 1e-8  # relative to the largest; smaller eigenvalues are rounding, which division would magnify
MAX_STEPS = 2000  # largest number of steps of conjugate gradients

Preconditioner = Callable[[np.ndarray, float], np.ndarray]


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
    (groups, columns, _), d = moments.shape, log.X.shape[1]
    work = (np.count_nonzero(weights) + EIGENVECTOR_COST * groups * d) * d**2
    if work > MAX_MULTIPLICATIONS or d**2 > MAX_PASSES * log.X.size:
        return lambda residual, penalty: residual / np.sqrt(penalty)
    by_action, actions = np.linalg.eigh(moments)
    by_feature, features = np.linalg.eigh([_second_moments(log.X, weight) for weight in weights])
    product = by_feature[:, :, None] * by_action[:, None, :]
    product = np.maximum(product, SMALLEST_EIGENVALUE * product.max())
    features_transposed, actions_transposed = features.transpose(0, 2, 1), actions.transpose(0, 2, 1)

    def precondition(residual: np.ndarray, penalty: float) -> np.ndarray:
        by_group = residual.reshape(d, groups, columns).transpose(1, 0, 2)
        rotated = features_transposed @ by_group @ actions / (product + penalty)
        return (features @ rotated @ actions_transposed).transpose(1, 0, 2).reshape(residual.shape)

    return precondition


def _second_moments(X: Features, weight: np.ndarray) -> np.ndarray:
    """Return Σ w x xᵀ, dense."""
    used = np.flatnonzero(weight)
    if len(used) < X.shape[0]:
        X, weight = X[used], weight[used]
    moments = X.T @ (X * weight[:, None])
    return moments.toarray() if sparse.issparse(moments) else moments
