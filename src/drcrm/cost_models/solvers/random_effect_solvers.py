"""E-step of the context effects: sums over batches of contexts, at given variances Σ and σ².

The notation is that of :mod:`drcrm.cost_models.context_effects`. For a context with p rows and r loadings, ``FewRows``
inverts V_k, (p, p), and ``ManyRows`` inverts an (r, r) matrix. ``FewRows`` applies the map Σ ↦ A_k Σ A_kᵀ by
``SparsePairs`` or ``DensePairs``, whichever is faster. In 20 000 contexts with 4 rows and one of 20 actions, sparse
pairs take a quarter of the time of dense ones. In 3000 contexts with 8 rows of 22 labels, they take 2.4 times as long.
A log with a single context has more rows than V_k can have.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

BATCH_SIZE = 1_000_000  # largest number of entries in an array of a batch
SPARSE_RATIO = 4  # in measurements, SparsePairs were faster up to this number of products of ones per loading


def make_batches(
    context: np.ndarray, loadings: sparse.csr_array, residual: np.ndarray, count: np.ndarray
) -> Iterator[FewRows | ManyRows]:
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
            yield FewRows(contexts, loadings[part.T.ravel()], residuals, counts, pairs)
    many = np.flatnonzero(sizes > r)
    for contexts in _split(many, len(many) * r * r):
        rows = np.concatenate([order[starts[k] : starts[k] + sizes[k]] for k in contexts])
        position = np.repeat(np.arange(len(contexts)), sizes[contexts])
        yield ManyRows(contexts, loadings[rows], residual[rows], count[rows], position)


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


class FewRows:
    """Solver for b contexts with p rows each, which inverts all V_k by the same array operations.

    Parameters
    ----------
    contexts : integer array (b,)
    loadings : CSR (p b, r)
    residual, count : array (p, b)
    pairs : DensePairs or SparsePairs
        The class of the map Σ ↦ A_k Σ A_kᵀ.
    """

    def __init__(
        self, contexts: np.ndarray, loadings: sparse.csr_array, residual: np.ndarray, count: np.ndarray, pairs: type
    ):
        self.contexts, self._loadings, self._residual, self._count = contexts, loadings, residual, count
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
        likelihood = -(log_determinant.sum() + np.vdot(dual, self._residual)) / 2
        W = np.subtract(dual[:, None] * dual, inverse, out=inverse)
        return self._pairs.backward(W), (np.einsum("iik->ik", W) / self._count).sum(), likelihood

    def weighted_residuals(self, covariance: np.ndarray, noise: float) -> sparse.csr_array:
        """Return A_kᵀ α_k of each context, (b, r)."""
        _, dual, _ = self._solve(covariance, noise)
        by_row, (p, b) = self._loadings.multiply(dual.reshape(-1, 1)).tocsr(), dual.shape
        return sum(by_row[i * b : (i + 1) * b] for i in range(p))


class ManyRows:
    """Solver for b contexts with more rows than loadings.

    It uses A_kᵀ V_k⁻¹ = J A_kᵀ C_k/σ² with J = (1 + H_k Σ/σ²)⁻¹, (r, r). H_k = A_kᵀ C_k A_k and h_k = A_kᵀ C_k r_k are
    computed once.

    Parameters
    ----------
    contexts : integer array (b,)
    loadings : CSR (n, r)
    residual, count : array (n,)
    position : integer array (n,)
        Position of each row's context in ``contexts``.
    """

    def __init__(
        self,
        contexts: np.ndarray,
        loadings: sparse.csr_array,
        residual: np.ndarray,
        count: np.ndarray,
        position: np.ndarray,
    ):
        r = loadings.shape[1]
        columns = loadings.indices + np.repeat(position * r, np.diff(loadings.indptr))
        shape = len(residual), len(contexts) * r
        self._by_context = sparse.csr_array((loadings.data, columns, loadings.indptr), shape)
        counted = (self._by_context * count[:, None]).T
        self.contexts, self._residual, self._count = contexts, residual, count
        self._H = (counted @ loadings).toarray().reshape(-1, r, r)
        self._h = (counted @ residual).reshape(-1, r)

    def moments(self, covariance: np.ndarray, noise: float) -> tuple[np.ndarray, float, float]:
        """Return G, Σ_i W_ii / count_i, and the log likelihood without the terms that depend on counts only."""
        n, system = len(self._residual), self._system(covariance, noise)
        J = np.linalg.inv(system)
        sums = (J @ self._h[..., None])[..., 0] / noise
        explained = J @ self._H / noise  # A_kᵀ V_k⁻¹ A_k
        predicted = sums @ covariance
        squared_error = self._count @ (self._residual - self._by_context @ predicted.ravel()) ** 2
        misfit = squared_error / noise**2 - (n - np.einsum("kij,ji->", explained, covariance)) / noise
        log_determinant = np.linalg.slogdet(system)[1].sum() + n * np.log(noise) - np.log(self._count).sum()
        likelihood = -(log_determinant + squared_error / noise + np.vdot(sums, predicted)) / 2
        return sums.T @ sums - explained.sum(axis=0), misfit, likelihood

    def weighted_residuals(self, covariance: np.ndarray, noise: float) -> np.ndarray:
        """Return A_kᵀ α_k of each context, (b, r)."""
        return np.linalg.solve(self._system(covariance, noise), self._h[..., None])[..., 0] / noise

    def _system(self, covariance: np.ndarray, noise: float) -> np.ndarray:
        return np.eye(len(covariance)) + self._H @ covariance / noise


def _invert(V: np.ndarray) -> np.ndarray:
    """Invert positive definite matrices, (p, p, b), in place by Gauss-Jordan elimination; return log |V|, (b,)."""
    log_determinant = np.zeros(V.shape[2])
    for pivot in range(len(V)):
        value = V[pivot, pivot].copy()
        log_determinant += np.log(value)
        row, column = V[pivot] / value, V[:, pivot].copy()
        V -= column[:, None] * row
        V[pivot], V[:, pivot] = row, -column / value
        V[pivot, pivot] = 1 / value
    return log_determinant
