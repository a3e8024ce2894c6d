"""E-step of the context effects: sums over batches of contexts, at given variances Σ and σ².

The notation is that of :mod:`drcrm.cost_models.solvers.context_effects`. A context with p rows has a matrix V_k,
(p, p). If it has more rows than loadings r, ``_compress`` replaces them by r rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

BATCH_SIZE = 1_000_000  # largest number of entries in an array of a batch
SMALLEST_ROOT = 1e-7  # of an eigenvalue of H_k relative to the largest; smaller ones are rounding


def make_batches(
    context: np.ndarray, loadings: sparse.csr_array, residual: np.ndarray, count: np.ndarray
) -> Iterator[ContextBatch]:
    """Yield batches of the contexts that have rows.

    The contexts of a batch have the same number of rows, or all have more rows than loadings.
    """
    order, sizes = np.argsort(context, kind="stable"), np.bincount(context)
    starts, r = np.cumsum(sizes) - sizes, loadings.shape[1]
    for size in np.unique(sizes[(sizes > 0) & (sizes <= r)]):
        alike = np.flatnonzero(sizes == size)
        rows = order[starts[alike] + np.arange(size)[:, None]]
        numbers = rows.size * r
        for contexts, part in zip(_split(alike, numbers), _split(rows.T, numbers), strict=True):
            residuals, counts = (np.ascontiguousarray(array[part.T]) for array in (residual, count))
            yield ContextBatch(contexts, loadings[part.T.ravel()], residuals, counts)
    many = np.flatnonzero(sizes > r)
    for contexts in _split(many, len(many) * r * r):
        rows = np.concatenate([order[starts[k] : starts[k] + sizes[k]] for k in contexts])
        position = np.repeat(np.arange(len(contexts)), sizes[contexts])
        arrays, misfit = _compress(loadings[rows], residual[rows], count[rows], position, len(contexts))
        yield ContextBatch(contexts, *arrays, len(rows) - len(contexts) * r, misfit)


def _split(array: np.ndarray, numbers: float) -> list[np.ndarray]:
    """Split an array, for which a batch would hold ``numbers`` numbers, so that a part holds at most ``BATCH_SIZE``."""
    return np.array_split(array, min(int(-(-numbers // BATCH_SIZE)), len(array))) if len(array) else []


class ContextBatch:
    """Solver for b contexts with p rows each, which inverts all V_k by the same array operations.

    Parameters
    ----------
    contexts : integer array (b,)
    loadings : CSR (p b, r)
    residual, count : array (p, b)
    n_left_out : int
        Number of further rows, which the loadings do not reach.
    misfit : float
        Sum of the squared residuals of these rows, with their counts.
    """

    def __init__(
        self,
        contexts: np.ndarray,
        loadings: sparse.csr_array,
        residual: np.ndarray,
        count: np.ndarray,
        n_left_out: int = 0,
        misfit: float = 0.0,
    ):
        self.contexts, self._loadings, self._residual, self._count = contexts, loadings, residual, count
        self._n_left_out, self._misfit = n_left_out, misfit

    @property
    def _dense(self) -> np.ndarray:
        """A_k of each context, (b, p, r)."""
        p, b = self._residual.shape
        return self._loadings.toarray().reshape(p, b, -1).transpose(1, 0, 2)

    def _solve(self, covariance: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return V⁻¹, (b, p, p), α, (p, b), and log |V|, (b,)."""
        dense = self._dense
        V = dense @ covariance @ dense.transpose(0, 2, 1)
        np.einsum("kii->ik", V)[...] += noise / self._count
        inverse = np.linalg.inv(V)
        return inverse, np.einsum("kij,jk->ik", inverse, self._residual), np.linalg.slogdet(V)[1]

    def moments(self, covariance: np.ndarray, noise: float) -> tuple[np.ndarray, float, float]:
        """Return G, Σ_i W_ii / count_i, and the log likelihood without the terms that depend on counts only."""
        inverse, dual, log_determinant = self._solve(covariance, noise)
        n, squares = self._n_left_out, self._misfit / noise
        likelihood = -(log_determinant.sum() + np.vdot(dual, self._residual) + n * np.log(noise) + squares) / 2
        W, dense = dual.T[:, :, None] * dual.T[:, None, :] - inverse, self._dense
        misfit = (np.einsum("kii->ik", W) / self._count).sum() + (squares - n) / noise
        return np.einsum("kir,kis->rs", dense, W @ dense, optimize=True), misfit, likelihood

    def weighted_residuals(self, covariance: np.ndarray, noise: float) -> sparse.csr_array:
        """Return A_kᵀ α_k of each context, (b, r)."""
        _, dual, _ = self._solve(covariance, noise)
        by_row, (p, b) = self._loadings.multiply(dual.reshape(-1, 1)).tocsr(), dual.shape
        return sum(by_row[i * b : (i + 1) * b] for i in range(p))


def _compress(
    loadings: sparse.csr_array, residual: np.ndarray, count: np.ndarray, position: np.ndarray, b: int
) -> tuple[tuple[sparse.csr_array, np.ndarray, np.ndarray], float]:
    """Return r rows for each of b contexts in place of its rows: loadings (r b, r), residuals and counts (r, b).

    They have the sums H_k = Σ count a aᵀ and h_k = Σ count a c of the rows of the context, and a count of 1. The last
    result is the sum of the squared residuals, with counts, that these sums do not explain.
    """
    r = loadings.shape[1]
    columns = loadings.indices + np.repeat(position * r, np.diff(loadings.indptr))
    counted = (sparse.csr_array((loadings.data, columns, loadings.indptr), (len(residual), b * r)) * count[:, None]).T
    values, vectors = np.linalg.eigh((counted @ loadings).toarray().reshape(b, r, r))
    root = np.sqrt(np.maximum(values, 0))
    projected = np.einsum("kri,kr->ki", vectors, (counted @ residual).reshape(b, r))
    rotated = np.divide(projected, root, out=np.zeros((b, r)), where=root > SMALLEST_ROOT * root.max())
    compressed = sparse.csr_array((vectors * root[:, None, :]).transpose(2, 0, 1).reshape(r * b, r))
    arrays = compressed, np.ascontiguousarray(rotated.T), np.ones((r, b))
    return arrays, float(count @ residual**2 - (rotated**2).sum())
