"""Context effects: random effects of the contexts on the cost, estimated from the rows of each context.

c_i = ĉ(x_k, y_i) + a_i·δ_k + noise,   δ_k ~ N(0, Σ),   noise ~ N(0, σ²) each time a row was logged

Modelled costs are linear in the loadings a_i, which are (y_i, 1) or the one-hot action. A row with multiplicity
``count`` represents equal rows: their mean has noise variance σ²/count, and their equality is evidence for a small σ².
With residuals r = c − ĉ, loadings A_k and counts C_k of context k,

V_k = A_k Σ A_kᵀ + σ² C_k⁻¹,   α_k = V_k⁻¹ r_k,   δ̂_k = Σ A_kᵀ α_k,   S_k = Σ − Σ A_kᵀ V_k⁻¹ A_k Σ

δ̂_k and S_k are the mean and the covariance of δ_k given the rows. EM sets Σ to the mean of δ̂_k δ̂_kᵀ + S_k over the m
contexts, and σ² to the mean of residual² + its variance over the N = Σ count logged rows. With n stored rows this is

Σ ← Σ + Σ G Σ / m,   G = Σ_k A_kᵀ W_k A_k,   W_k = α_k α_kᵀ − V_k⁻¹
σ² ← (n σ² + σ⁴ Σ_i W_ii / count_i) / N

Source: Laird & Ware 1982, a mixed model by empirical Bayes.

The E-step works on batches of contexts. A context with p rows has a matrix V_k, (p, p). If it has more rows than
loadings r, ``_compress`` replaces them by r rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from drcrm.arrays.validation import as_float_array, to_float
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.policies.prepared_log import modelled_cost

MAX_ROUNDS = 50
MIN_GAIN = 1e-3  # EM ends after a round in which the log marginal likelihood per context gains less
MIN_NOISE = 1e-2  # σ² is at least this times the mean squared residual, because equal rows would let it fall to 0
MAX_COUNT = 10_000  # larger multiplicities are reduced to this: the mean is almost free of noise, and V_k is invertible
MAX_LOADINGS = 5000  # with this many loadings, Σ has 0.2 GB

Variances = tuple[np.ndarray, float]
BATCH_SIZE = 1_000_000  # largest number of entries in an array of a batch
SMALLEST_ROOT = 1e-7  # of an eigenvalue of H_k relative to the largest; smaller ones are rounding


@dataclass(frozen=True)
class ContextEffects:
    """The random effects of a log's contexts.

    Attributes
    ----------
    delta : array, in the shape of the effects
        δ̂, to be added to the effects of the cost model.
    covariance : array (r, r)
        Σ, in squared units of the cost.
    noise : float
        σ², in the same unit.
    rounds : int
        Rounds of EM.
    """

    delta: np.ndarray
    covariance: np.ndarray
    noise: float
    rounds: int


def as_context_effects(value: Any, name: str = "context_effects") -> bool | np.bool_ | str:
    """Return True, False or "auto"; raise InputError for anything else. "auto" leaves the choice to the actions."""
    if (isinstance(value, str) and value == "auto") or isinstance(value, bool | np.bool_):
        return value
    raise InputError(f"{name} is {value!r}, expected True, False or 'auto'")


def check_variances(covariance: Any, noise: Any, size: int) -> Variances:
    """Return Σ, (size, size), and σ²; raise InputError unless Σ is symmetric with variances ≥ 0, and σ² > 0."""
    covariance = as_float_array(covariance, "covariance")
    noise = 0.0 if noise is None else to_float(np.reshape(noise, -1)[0])
    if covariance.shape != (size, size) or not np.allclose(covariance, covariance.T):
        raise InputError(f"covariance has shape {covariance.shape}, expected a symmetric one of {(size, size)}")
    if not (np.isfinite(covariance).all() and (np.diag(covariance) >= 0).all() and 0 < noise < np.inf):
        raise InputError("covariance and noise must be finite, with variances ≥ 0 and a noise > 0")
    return covariance, noise


def context_effects(log: BanditLog, effects: Any, variances: Variances | None = None) -> ContextEffects:
    """Predict the effects of a log's contexts from the residuals of their rows.

    EM starts at σ² = v/2 and Σ = (v/2) I / mean ‖a‖², where v is the mean squared residual. It ends after 50 rounds, or
    when the log marginal likelihood gains less than 10⁻³ per context. A row counts at most 10⁴ times, and σ² is at
    least v/100. Contexts without rows have no effect. Action lists have none either, since contexts share no actions.

    Parameters
    ----------
    log : BanditLog
        Its propensities are not used.
    effects : array (m, q + 1), (m, K) or (N,)
        ``effects`` of a cost model.
    variances : (array (r, r), float > 0), optional
        Σ and σ². By default they are estimated from the log.

    Raises
    ------
    InputError
        If there are more than 5000 actions, or residuals are beyond the range of numbers.
    """
    if (size := int(np.prod(log.actions.effect_shape))) > MAX_LOADINGS:
        raise InputError(f"the log has {size} actions or labels, expected at most {MAX_LOADINGS} for context effects")
    rows = np.flatnonzero(log.count)
    count = np.minimum(log.count[rows], MAX_COUNT).astype(float)
    residual = (log.cost - modelled_cost(log, effects))[rows]
    unit = float(np.sqrt(count @ residual**2 / count.sum()))
    if not np.isfinite(unit):
        raise InputError("the modelled costs, or the costs, are beyond the range of numbers")
    loadings, delta = log.actions.loadings(log.Y[rows]), np.zeros(np.shape(effects))
    square = unit**2
    if loadings is None or unit == 0:
        n_loadings = 0 if loadings is None else loadings.shape[1]
        return ContextEffects(delta, np.zeros((n_loadings, n_loadings)), square, 0)
    batches = list(make_batches(log.context[rows], loadings, residual / unit, count))
    if variances is None:
        variance = count.sum() / (2 * (count @ loadings.sum(axis=1)))
        covariance, noise, rounds = _maximise(batches, variance * np.eye(loadings.shape[1]), count)
    else:
        covariance, noise, rounds = variances[0] / square, variances[1] / square, 0
    for batch in batches:
        delta[batch.contexts] = unit * (batch.weighted_residuals(covariance, noise) @ covariance)
    return ContextEffects(delta, covariance * square, float(noise * square), rounds)


def _maximise(batches: list[ContextBatch], covariance: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, float, int]:
    """Return Σ, σ² and the rounds of EM, of residuals whose mean square is 1."""
    m, n, logged = sum(len(batch.contexts) for batch in batches), len(count), count.sum()
    noise, last = 0.5, -np.inf
    for rounds in range(MAX_ROUNDS + 1):
        moments = [batch.moments(covariance, noise) for batch in batches]
        gram, misfit, likelihood = (sum(values) for values in zip(*moments, strict=True))
        likelihood -= (logged - n) * np.log(noise) / 2  # without a constant, which does not change the gain
        if rounds == MAX_ROUNDS or likelihood - last < MIN_GAIN * m:
            break
        last = likelihood
        covariance = covariance + covariance @ gram @ covariance / m
        covariance = (covariance + covariance.T) / 2
        noise = max((n * noise + noise**2 * misfit) / logged, MIN_NOISE)
    return covariance, noise, rounds


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
