"""The ridge regression of a large log by its second moments, of one pass: Σ (x, 1, c)(x, 1, c)ᵀ by action and fold.

A row's z is x for each label that it has, and x once more; or x for its action: see
:mod:`drcrm.cost_models.normal_equations`. So
Σ z zᵀ = Σ_a (a aᵀ) ⊗ Σ_{i: a_i = a} x xᵀ, and of one action of K it has a block for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

from drcrm.arrays.numerics import transposed_product
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import Block, ChunkedLog

MOST_ACTIONS = 256  # distinct ones, of which each has moments of its own
MOST_ENTRIES = 2e7  # of the moments
MOST_COLUMNS = 1024  # of a block of Σ z zᵀ


@dataclass(frozen=True)
class Moments:
    """Sums over rows of a log, by action, each row as often as it occurs.

    Attributes
    ----------
    loadings : array (a, r)
        Of each action: 1 for each label and last 1; or one-hot.
    sums : array (a, d + 2, d + 2)
        Of (x, 1, c)(x, 1, c)ᵀ.
    """

    loadings: np.ndarray
    sums: np.ndarray

    @property
    def size(self) -> float:
        return float(self.sums[:, -2, -2].sum())

    @property
    def mean_cost(self) -> float:
        return float(self.sums[:, -2, -1].sum() / self.size)

    @property
    def mean(self) -> np.ndarray:
        """z̄, (d, r)."""
        return self.sums[:, :-2, -2].T @ self.loadings / self.size

    def _left(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Blocks of Σ z zᵀ/n: the columns of B of each, and the block, the features of one column together."""
        second, loadings = self.sums[:, :-2, :-2] / self.size, self.loadings
        d = second.shape[1]
        if (loadings.sum(axis=1) == 1).all():
            by_column = np.tensordot(loadings.T, second, 1)
            return [(np.array([column]), block) for column, block in enumerate(by_column)]
        pairs = np.einsum("ar,as,aij->risj", loadings, loadings, second, optimize=True)
        r = loadings.shape[1]
        return [(np.arange(r), pairs.reshape(r * d, r * d))]

    def solutions(self, penalties: Sequence[float]) -> np.ndarray:
        """Return B, (k, d, r), of the ridge regression with an intercept for each penalty, and of its moments z̄, c̄.

        (Σ z zᵀ/n − z̄ z̄ᵀ + λ) B = Σ z (c − c̄)/n: by eigenvectors of the blocks, z̄ z̄ᵀ being of rank one.
        """
        mean, mean_cost = self.mean, self.mean_cost
        target = self.sums[:, :-2, -1].T @ self.loadings / self.size - mean * mean_cost
        coefs, pulls = np.empty((2, len(penalties), *mean.shape))
        for columns, block in self._left():
            values, vectors = np.linalg.eigh(block)
            factors = 1 / (values + np.reshape(penalties, (-1, 1)))
            for found, right in ((coefs, target), (pulls, mean)):
                solved = (factors * (right[:, columns].T.ravel() @ vectors)) @ vectors.T
                found[:, :, columns] = solved.reshape(len(factors), len(columns), -1).transpose(0, 2, 1)
        along = [np.vdot(mean, coef) / (1 - np.vdot(mean, pull)) for coef, pull in zip(coefs, pulls, strict=True)]
        return coefs + pulls * np.reshape(along, (-1, 1, 1))

    def squared_error(self, coef: np.ndarray, intercept: float) -> float:
        """Return Σ (c − z·B − intercept)² over the rows."""
        direction = np.concatenate(
            [-coef @ self.loadings.T, np.full((1, len(self.loadings)), -intercept), np.ones((1, len(self.loadings)))]
        )
        return float(np.einsum("ia,aij,ja->", direction, self.sums, direction, optimize=True))

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.loadings, self.sums + other.sums)

    def __sub__(self, other: Moments) -> Moments:
        return Moments(self.loadings, self.sums - other.sums)


def moments_by_fold(log: BanditLog, scales: np.ndarray, fold: np.ndarray) -> list[Moments] | None:
    """Return the moments of each fold's rows, of features over their scales and of costs; None where they are too many.

    Parameters
    ----------
    log : BanditLog
    scales : array (d,)
    fold : integer array (n,)
        Of each row, from 0.
    """
    chunked = ChunkedLog(log)
    loadings = log.actions.effect_space.loadings(log.Y[:0])
    if len(chunked.blocks) == 1:
        return None
    r, d, folds = loadings.shape[1], log.X.shape[1], int(fold.max()) + 1
    distinct, action = _distinct(log)
    one_hot = log.actions.effect_space.shape == log.actions.shape
    if len(distinct) > MOST_ACTIONS or (d if one_hot else r * d) > MOST_COLUMNS:
        return None
    if folds * len(distinct) * (d + 2) ** 2 > MOST_ENTRIES:
        return None
    sums = np.zeros((folds * len(distinct), d + 2, d + 2))
    groups = chunked.split_rows(fold.astype(np.int16) * np.int16(len(distinct)) + action.astype(np.int16))
    for of_block in chunked.blocks.map(_block_moments, len(sums), scales, by_chunk=groups):
        sums += of_block
    known = log.actions.effect_space.loadings(distinct).toarray()
    return [Moments(known, of_fold) for of_fold in sums.reshape(folds, len(distinct), d + 2, d + 2)]


def _block_moments(block: Block, group: np.ndarray, n_groups: int, scales: np.ndarray) -> np.ndarray:
    """Return the moments of a block's rows by their group, (n_groups, d + 2, d + 2)."""
    log, order = block.log, np.argsort(group, kind="stable")
    rows = np.empty((len(order), log.X.shape[1] + 2))
    X = log.X[log.context[order]]
    np.divide(X.toarray() if sparse.issparse(X) else X, scales, out=rows[:, :-2])
    rows[:, -2], rows[:, -1] = 1, log.cost[order]
    counted = rows * log.count[order, None] if (log.count != 1).any() else rows
    ends = np.searchsorted(group[order], np.arange(n_groups + 1))
    moments = np.zeros((n_groups, rows.shape[1], rows.shape[1]))
    for number, (start, stop) in enumerate(pairwise(ends)):
        if start < stop:
            moments[number] = transposed_product(rows[start:stop], counted[start:stop])
    return moments


def _distinct(log: BanditLog) -> tuple[np.ndarray, np.ndarray]:
    """The distinct actions of a log, and which of them each row has."""
    keys = log.actions.sort_keys(log.Y)
    code = keys[0].astype(np.int64)
    for key in keys[1:]:
        _, code = np.unique(code, return_inverse=True)
        code = code * 256 + key
    values = np.unique(code) if code.max() >= 2**16 else np.flatnonzero(np.bincount(code))
    place = np.searchsorted(values, code)
    first = np.empty(len(values), dtype=np.intp)
    first[place[::-1]] = np.arange(len(code))[::-1]
    return log.Y[first], place
