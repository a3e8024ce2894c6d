"""Second moments of a large log: one pass computes them, and any ridge regression of the costs follows from them.

The moments are Σ (x, 1, c)(x, 1, c)ᵀ for each distinct action and fold. The regression's features are z = a ⊗ x. For
label vectors, a is the vector with an appended 1; for one of K actions, a is one-hot. So
Σ z zᵀ = Σ_a (a aᵀ) ⊗ Σ_{i: a_i = a} x xᵀ, which is block diagonal for one of K actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from drcrm.arrays.numerics import group_rows
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import Block, ChunkedLog

MAX_ACTIONS = 256  # largest number of distinct actions
MAX_NUMBERS = 2e7  # largest number of entries of all moments
MAX_BLOCK_COLUMNS = 1024  # largest number of columns of a block of Σ z zᵀ


@dataclass(frozen=True)
class Moments:
    """Sums over the rows of a log by action, with multiplicities.

    Attributes
    ----------
    loadings : array (a, r)
        One row for each action: one-hot, or its label vector with an appended 1.
    sums : array (a, d + 2, d + 2)
        Σ (x, 1, c)(x, 1, c)ᵀ.
    """

    loadings: np.ndarray
    sums: np.ndarray

    @property
    def size(self) -> float:
        """Number of rows."""
        return float(self.sums[:, -2, -2].sum())

    @property
    def mean_cost(self) -> float:
        return float(self.sums[:, -2, -1].sum() / self.size)

    @property
    def mean(self) -> np.ndarray:
        """z̄, (d, r)."""
        return self.sums[:, :-2, -2].T @ self.loadings / self.size

    def _feature_moments(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the blocks of Σ z zᵀ/n, and for each block its columns of B."""
        second, loadings = self.sums[:, :-2, :-2] / self.size, self.loadings
        d = second.shape[1]
        if (loadings.sum(axis=1) == 1).all():
            by_column = np.tensordot(loadings.T, second, 1)
            return [(np.array([column]), block) for column, block in enumerate(by_column)]
        pairs = np.einsum("ar,as,aij->risj", loadings, loadings, second, optimize=True)
        r = loadings.shape[1]
        return [(np.arange(r), pairs.reshape(r * d, r * d))]

    def solve(self, penalties: Sequence[float] | np.ndarray) -> np.ndarray:
        """Return B of the ridge regression with an intercept for each penalty, (k, d, r).

        (Σ z zᵀ/n − z̄ z̄ᵀ + λ) B = Σ z (c − c̄)/n, by eigenvectors of the blocks and the rank-one update by z̄ z̄ᵀ.
        """
        mean, mean_cost = self.mean, self.mean_cost
        target = self.sums[:, :-2, -1].T @ self.loadings / self.size - mean * mean_cost
        coefs, corrections = np.empty((2, len(penalties), *mean.shape))
        for columns, block in self._feature_moments():
            values, vectors = np.linalg.eigh(block)
            factors = 1 / (values + np.reshape(penalties, (-1, 1)))
            for solutions, right in ((coefs, target), (corrections, mean)):
                solved = (factors * (right[:, columns].T.ravel() @ vectors)) @ vectors.T
                solutions[:, :, columns] = solved.reshape(len(factors), len(columns), -1).transpose(0, 2, 1)
        scales = [
            np.vdot(mean, coef) / (1 - np.vdot(mean, correction))
            for coef, correction in zip(coefs, corrections, strict=True)
        ]
        return coefs + corrections * np.reshape(scales, (-1, 1, 1))

    def squared_error(self, coef: np.ndarray, intercept: float) -> float:
        """Return Σ (c − z·B − intercept)² over the rows."""
        ones = np.ones((1, len(self.loadings)))
        direction = np.concatenate([-coef @ self.loadings.T, -intercept * ones, ones])
        return float(np.einsum("ia,aij,ja->", direction, self.sums, direction, optimize=True))

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.loadings, self.sums + other.sums)

    def __sub__(self, other: Moments) -> Moments:
        return Moments(self.loadings, self.sums - other.sums)


def moments_by_fold(log: BanditLog, scales: np.ndarray, fold: np.ndarray) -> list[Moments] | None:
    """Return the moments of each fold's rows, or None if the log has a single block or the moments would be too large.

    Parameters
    ----------
    log : BanditLog
    scales : array (d,)
        Divisors of the features.
    fold : integer array (n,)
        Fold of each row, from 0.
    """
    chunked = ChunkedLog(log)
    loadings: Any = log.actions.loadings(log.Y[:0])
    if len(chunked.blocks) == 1:
        return None
    r, d, folds = loadings.shape[1], log.X.shape[1], int(fold.max()) + 1
    first, action = group_rows(log.actions.sort_keys(log.Y))
    distinct = log.Y[first]
    if len(distinct) > MAX_ACTIONS or (d if log.actions.effects_are_costs else r * d) > MAX_BLOCK_COLUMNS:
        return None
    if folds * len(distinct) * (d + 2) ** 2 > MAX_NUMBERS:
        return None
    sums = np.zeros((folds * len(distinct), d + 2, d + 2))
    cells = chunked.split_rows(fold.astype(np.int16) * np.int16(len(distinct)) + action.astype(np.int16))
    for block_sums in chunked.blocks.map(_block_moments, len(sums), scales, by_chunk=cells):
        sums += block_sums
    action_loadings: Any = log.actions.loadings(distinct)
    return [
        Moments(action_loadings.toarray(), fold_sums) for fold_sums in sums.reshape(folds, len(distinct), d + 2, d + 2)
    ]


def _block_moments(block: Block, cell: np.ndarray, n_cells: int, scales: np.ndarray) -> np.ndarray:
    """Return the moments of a block's rows by their cell of fold and action, (n_cells, d + 2, d + 2)."""
    log, order = block.log, np.argsort(cell, kind="stable")
    rows = np.empty((len(order), log.X.shape[1] + 2))
    X = log.X[log.context[order]]
    np.divide(X.toarray() if sparse.issparse(X) else X, scales, out=rows[:, :-2])
    rows[:, -2], rows[:, -1] = 1, log.cost[order]
    counted = rows * log.count[order, None] if (log.count != 1).any() else rows
    ends = np.searchsorted(cell[order], np.arange(n_cells + 1))
    moments = np.zeros((n_cells, rows.shape[1], rows.shape[1]))
    for number, (start, stop) in enumerate(pairwise(ends)):
        if start < stop:
            moments[number] = rows[start:stop].T @ counted[start:stop]
    return moments
