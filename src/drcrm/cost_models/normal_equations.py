"""Ridge regression of logged costs on the joint features of context and action, by preconditioned conjugate gradients.

A row's z is x for each label that it has, and x once more; or x for its action, or ψ of it: a product with Σ z zᵀ is a
pass over the log, and no matrix of its size is made. Source: Hestenes & Stiefel 1952; Van Loan & Pitsianis 1993.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
from scipy import sparse

from drcrm.arrays.validation import Features
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import Block, ChunkedLog

AFFORDABLE = 5e10  # multiplications for a preconditioner: some seconds
PASSES = 4  # over the log that a product with eigenvectors may cost
FACTORS = 10  # times d³ they are for the eigenvectors of a matrix (d, d)
LEAST = 1e-8  # of the largest eigenvalue: less is no more than that, or rounding would be magnified

Preconditioner = Callable[[np.ndarray, float], np.ndarray]


class NormalEquations:
    """Those of the ridge regression with an intercept, (Zᵀ S Z − z̄ z̄ᵀ + λ) B = Zᵀ S (c − c̄).

    S are the shares of a log's rows, and z̄ and c̄ the means by them. B is (d, …), as a cost model's coefficients.
    """

    def __init__(self, log: BanditLog):
        self.log, self.share, self._chunked = log, log.count / log.size, ChunkedLog(log)
        self.mean_cost = self.share @ log.cost
        self.mean, self.target = self._sums(self.share), self._sums(self.share * (log.cost - self.mean_cost))

    def _sums(self, values: np.ndarray) -> np.ndarray:
        """Σ v z, as B, of values v of the rows."""
        return reduce(np.add, self._chunked.blocks.map(_sums, by_chunk=self._chunked.split_rows(values)))

    def product(self, coef: np.ndarray) -> np.ndarray:
        """Return the left side at B, less λ B."""
        modelled = self._chunked.map_rows(_modelled, coef)
        return self._sums(self.share * (modelled - self.share @ modelled))

    def intercept(self, coef: np.ndarray) -> float:
        """Return what the modelled costs at B lack on average."""
        return self.mean_cost - np.vdot(self.mean, coef)

    def missed(self, coef: np.ndarray, penalty: float) -> float:
        """Return the norm of what is missed at B, relative to the right side's."""
        size = np.linalg.norm(self.target)
        return float(np.linalg.norm(self.target - self.product(coef) - penalty * coef) / size) if size > 0 else 0.0

    def solutions(
        self, penalties: Sequence[float], precondition: Preconditioner, tolerance: float, steps: int
    ) -> np.ndarray:
        """Return B for each penalty, (k, d, …), by so many steps at most.

        Each begins at the combination of those before it that solves the equations on their span, and ends when
        rᵀ P⁻¹ r, r the residual, is at most tolerance² times Bᵀ of the right side. Where P is the left side, they are
        the squares of the error and of B in its norm.
        """
        coefs, products = np.zeros((2, len(penalties), *self.target.shape))
        for i, penalty in enumerate(penalties):
            if i:
                self._combine(coefs, products, i, penalty)
            self._improve(coefs[i], products[i], penalty, precondition, tolerance, steps)
        return coefs

    def _combine(self, coefs: np.ndarray, products: np.ndarray, i: int, penalty: float) -> None:
        """Write, after the first i solutions, what solves the equations of a penalty on their span."""
        known, images = (each[:i].reshape(i, -1) for each in (coefs, products))
        weights = np.linalg.lstsq(known @ images.T + penalty * (known @ known.T), known @ self.target.ravel())[0]
        for each in (coefs, products):
            each[i] = np.tensordot(weights, each[:i], 1)

    def _improve(self, coef, product, penalty, precondition, tolerance, steps) -> None:
        """Take steps of conjugate gradients, written to B and its product."""
        residual, direction, last = self.target - product - penalty * coef, 0.0, np.inf
        for _ in range(steps):
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


def _sums(block: Block, values: np.ndarray) -> np.ndarray:
    log = block.log
    return (log.actions.effect_space.sum_rows(*log.row_map.to_contexts(values)).T @ log.X).T


def _modelled(block: Block, coef: np.ndarray) -> np.ndarray:
    log = block.log
    return log.actions.effect_space.costs_of_rows(log.row_map, (coef.T @ log.X.T).T)


def preconditioner(log: BanditLog) -> Preconditioner:
    """Return (R, λ) ↦ P⁻¹ R, P = M ⊗ W + λ, which the left side would be if actions did not depend on contexts.

    M are second moments of what rows have of the action, W = Σ w x xᵀ. Where a row has one action, each action has its
    own W, and P lacks −z̄ z̄ᵀ alone. Their eigenvectors serve all penalties. Where features are too many for them, or
    for so few contexts, P is √λ, between the least and the largest of a spectrum from λ to some 1.
    """
    moments, weights = log.actions.effect_space.block_moments(log.Y, log.count / log.size, log.row_map)
    (groups, columns, _), d = moments.shape, log.X.shape[1]
    work = (np.count_nonzero(weights) + FACTORS * groups * d) * d**2
    if work > AFFORDABLE or d**2 > PASSES * log.X.size:
        return lambda residual, penalty: residual / np.sqrt(penalty)
    by_action, actions = np.linalg.eigh(moments)
    by_feature, features = np.linalg.eigh([_second_moments(log.X, weight) for weight in weights])
    product = by_feature[:, :, None] * by_action[:, None, :]
    product = np.maximum(product, LEAST * product.max())
    features_transposed, actions_transposed = features.transpose(0, 2, 1), actions.transpose(0, 2, 1)

    def precondition(residual: np.ndarray, penalty: float) -> np.ndarray:
        by_group = residual.reshape(d, groups, columns).transpose(1, 0, 2)
        rotated = features_transposed @ by_group @ actions / (product + penalty)
        return (features @ rotated @ actions_transposed).transpose(1, 0, 2).reshape(residual.shape)

    return precondition


def _second_moments(X: Features, weight: np.ndarray) -> np.ndarray:
    """Σ w x xᵀ, dense."""
    used = np.flatnonzero(weight)
    if len(used) < X.shape[0]:
        X, weight = X[used], weight[used]
    moments = X.T @ (X * weight[:, None])
    return moments.toarray() if sparse.issparse(moments) else moments
