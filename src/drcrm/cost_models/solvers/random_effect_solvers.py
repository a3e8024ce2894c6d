"""E-step of the context effects: sums over batches of contexts, at given variances Σ and σ².

The notation is that of :mod:`drcrm.cost_models.solvers.context_effects`. A context with p rows has a matrix V_k,
(p, p). If it has more rows than loadings r, ``_compress`` replaces them by r rows. ``SparsePairs`` or ``DensePairs``
apply the map Σ ↦ A_k Σ A_kᵀ, whichever is faster. In 20 000 contexts with 4 rows and one of 20 actions, sparse pairs
take a quarter of the time of dense ones. In 3000 contexts with 8 rows of 22 labels, they take 2.4 times as long.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

BATCH_SIZE = 1_000_000  # largest number of entries in an array of a batch
SMALLEST_ROOT = 1e-7  # of an eigenvalue of H_k relative to the largest; smaller ones are rounding
LARGEST_ELIMINATED = 32  # larger matrices are inverted by LAPACK, one after the other
SPARSE_RATIO = 4  # in measurements, SparsePairs were faster up to this number of products of ones per loading


def make_batches(
    context: np.ndarray, loadings: sparse.csr_array, residual: np.ndarray, count: np.ndarray
) -> Iterator[ContextBatch]:
    """Yield batches of the contexts that have rows.

    The contexts of a batch have the same number of rows, or all have more rows than loadings.
    """
    order, ones = np.argsort(context, kind="stable"), np.diff(loadings.indptr)
    sizes = np.bincount(context)
    starts, r = np.cumsum(sizes) - sizes, loadings.shape[1]
    for size in np.unique(sizes[(sizes > 0) & (sizes <= r)]):
        alike = np.flatnonzero(sizes == size)
        rows = order[starts[alike] + np.arange(size)[:, None]]
        n_products, n_loadings = (ones[rows].sum(axis=0, dtype=float) ** 2).sum() / 2, rows.size * r
        is_sparse = n_products <= SPARSE_RATIO * n_loadings
        numbers = n_products if is_sparse else n_loadings
        for contexts, part in zip(_split(alike, numbers), _split(rows.T, numbers), strict=True):
            residuals, counts = (np.ascontiguousarray(array[part.T]) for array in (residual, count))
            pairs = SparsePairs if is_sparse else DensePairs
            yield ContextBatch(contexts, loadings[part.T.ravel()], residuals, counts, pairs)
    many = np.flatnonzero(sizes > r)
    for contexts in _split(many, len(many) * r * r):
        rows = np.concatenate([order[starts[k] : starts[k] + sizes[k]] for k in contexts])
        position = np.repeat(np.arange(len(contexts)), sizes[contexts])
        arrays, misfit = _compress(loadings[rows], residual[rows], count[rows], position, len(contexts))
        yield ContextBatch(contexts, *arrays, DensePairs, len(rows) - len(contexts) * r, misfit)


def _split(array: np.ndarray, numbers: float) -> list[np.ndarray]:
    """Split an array, for which a batch would hold ``numbers`` numbers, so that a part holds at most ``BATCH_SIZE``."""
    return np.array_split(array, min(int(-(-numbers // BATCH_SIZE)), len(array))) if len(array) else []


class DensePairs:
    """The linear map Σ ↦ A_k Σ A_kᵀ, (p, p, b), on symmetric matrices, and its adjoint W ↦ Σ_k A_kᵀ W_k A_k."""

    def __init__(self, loadings: sparse.csr_array, p: int, b: int):
        self._loadings, self._shape = loadings, (p, b, loadings.shape[1])

    def forward(self, covariance: np.ndarray) -> np.ndarray:
        products = (self._loadings @ covariance).reshape(self._shape)
        return np.einsum("ikr,jkr->ijk", products, self._loadings.toarray().reshape(self._shape))

    def backward(self, W: np.ndarray) -> np.ndarray:
        sums = np.einsum("ijk,jkr->ikr", W, self._loadings.toarray().reshape(self._shape))
        return self._loadings.T @ sums.reshape(self._loadings.shape)


class SparsePairs:
    """The map of ``DensePairs`` as a sparse matrix, with a 1 for each pair of ones in two rows of a context."""

    def __init__(self, loadings: sparse.csr_array, p: int, b: int):
        self._p, self._r = p, loadings.shape[1]
        self._lower = np.tril_indices(p)
        left, right = ((rows[:, None] * b + np.arange(b)).ravel() for rows in self._lower)
        starts, ones = loadings.indptr[:-1], np.diff(loadings.indptr)
        sizes = ones[left] * ones[right]
        indptr = np.append(0, np.cumsum(sizes))
        number = np.arange(indptr[-1]) - np.repeat(indptr[:-1], sizes)
        of_left, of_right = np.divmod(number, np.repeat(ones[right], sizes))
        of_left += np.repeat(starts[left], sizes)
        of_right += np.repeat(starts[right], sizes)
        columns = loadings.indices[of_left] * self._r + loadings.indices[of_right]
        self._map = sparse.csr_array((np.ones(len(columns)), columns, indptr), (len(sizes), self._r**2))
        self._transposed = self._map.T

    def forward(self, covariance: np.ndarray) -> np.ndarray:
        i, j = self._lower
        products = (self._map @ covariance.ravel()).reshape(len(i), -1)
        V = np.empty((self._p, self._p, products.shape[1]))
        V[i, j] = V[j, i] = products
        return V

    def backward(self, W: np.ndarray) -> np.ndarray:
        i, j = self._lower
        gram = (self._transposed @ (W[i, j] + W[j, i] * (i != j)[:, None]).ravel()).reshape(self._r, self._r)
        return (gram + gram.T) / 2


class ContextBatch:
    """Solver for b contexts with p rows each, which inverts all V_k by the same array operations.

    Parameters
    ----------
    contexts : integer array (b,)
    loadings : CSR (p b, r)
    residual, count : array (p, b)
    pairs : DensePairs or SparsePairs
        The class of the map Σ ↦ A_k Σ A_kᵀ.
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
        pairs: type,
        n_left_out: int = 0,
        misfit: float = 0.0,
    ):
        self.contexts, self._loadings, self._residual, self._count = contexts, loadings, residual, count
        self._n_left_out, self._misfit = n_left_out, misfit
        self._pairs = pairs(loadings, *residual.shape)

    def _solve(self, covariance: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return V⁻¹, (p, p, b), α, (p, b), and log |V|, (b,)."""
        V = self._pairs.forward(covariance)
        np.einsum("iik->ik", V)[...] += noise / self._count
        log_determinant = _invert(V)
        return V, np.einsum("ijk,jk->ik", V, self._residual), log_determinant

    def moments(self, covariance: np.ndarray, noise: float) -> tuple[np.ndarray, float, float]:
        """Return G, Σ_i W_ii / count_i, and the log likelihood without the terms that depend on counts only."""
        inverse, dual, log_determinant = self._solve(covariance, noise)
        n, squares = self._n_left_out, self._misfit / noise
        likelihood = -(log_determinant.sum() + np.vdot(dual, self._residual) + n * np.log(noise) + squares) / 2
        W = np.subtract(dual[:, None] * dual, inverse, out=inverse)
        misfit = (np.einsum("iik->ik", W) / self._count).sum() + (squares - n) / noise
        return self._pairs.backward(W), misfit, likelihood

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


def _invert(V: np.ndarray) -> np.ndarray:
    """Invert positive definite matrices, (p, p, b), in place; return log |V|, (b,).

    Gauss-Jordan elimination of all matrices together is faster than LAPACK if they are small.
    """
    if len(V) > LARGEST_ELIMINATED:
        matrices = np.moveaxis(V, 2, 0)
        log_determinant = np.linalg.slogdet(matrices)[1]
        V[...] = np.moveaxis(np.linalg.inv(matrices), 0, 2)
        return log_determinant
    log_determinant = np.zeros(V.shape[2])
    for pivot in range(len(V)):
        value = V[pivot, pivot].copy()
        log_determinant += np.log(value)
        row, column = V[pivot] / value, V[:, pivot].copy()
        V -= column[:, None] * row
        V[pivot], V[:, pivot] = row, -column / value
        V[pivot, pivot] = 1 / value
    return log_determinant
