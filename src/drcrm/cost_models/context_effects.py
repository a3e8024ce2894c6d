"""Context effects: what the rows of a context say of it beyond its features, as a random effect in the cost model.

c_i = ĉ(x_k, y_i) + a_i·δ_k + noise,   δ_k ~ N(0, Σ),   noise ~ N(0, σ²) each time that a row was logged

a_i is what costs are linear in, (y_i, 1) or one-hot of the action. A row that occurs ``count`` times is as many equal
rows: their mean has the noise σ²/count, and that they do not differ says that σ² is small. With the residuals
r = c − ĉ of context k, its loadings A_k and counts C_k,

V_k = A_k Σ A_kᵀ + σ² C_k⁻¹,   α_k = V_k⁻¹ r_k,   δ̂_k = Σ A_kᵀ α_k,   S_k = Σ − Σ A_kᵀ V_k⁻¹ A_k Σ

are the mean and the covariance of δ_k given the rows. EM: Σ ← the mean of δ̂_k δ̂_kᵀ + S_k over the m contexts, σ² ← the
mean of residual² + its variance over all that was logged, N = Σ count. Without any S_k, n rows being stored,

Σ ← Σ + Σ G Σ / m,   G = Σ_k A_kᵀ W_k A_k,   W_k = α_k α_kᵀ − V_k⁻¹
σ² ← (n σ² + σ⁴ Σ_i W_ii / count_i) / N

Source: Laird & Ware 1982, a mixed model by empirical Bayes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from drcrm.arrays.validation import as_float_array, to_float
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.policies.linear_predictor import LinearPredictor, modelled_cost

LOG_2PI = np.log(2 * np.pi)

ROUNDS = 50
GAIN = 1e-3  # of the log marginal likelihood, a context: with less, a round is the last
LEAST_NOISE = 1e-2  # of the mean squared residual: equal rows alone would have it fall to 0, for no gain by measurement
MOST_TIMES = 10_000  # that a row counts: its mean then has no noise to speak of, and V_k can still be inverted
MOST_LOADINGS = 5000  # Σ has then 0.2 GB
AT_ONCE = 1_000_000  # numbers in an array of loadings
SPARSE = 4  # times as many products of loadings as loadings, up to which they are held, by measurement


def as_context_effects(given: object, name: str = "context_effects") -> bool | str:
    """Return True, False or "auto", which is True for actions that ``has_context_effects``; InputError otherwise."""
    if (isinstance(given, str) and given == "auto") or isinstance(given, bool | np.bool_):
        return given
    raise InputError(f"{name} is {given!r}, expected True, False or 'auto'")


def check_variances(covariance: object, noise: object, size: int) -> tuple[np.ndarray, float]:
    """Return Σ, (size, size), and σ²; InputError unless Σ is symmetric with no negative variance, and σ² above 0."""
    covariance, noise = (
        as_float_array(covariance, "covariance"),
        to_float(np.reshape(noise, -1)[0] if noise is not None else 0),
    )
    if covariance.shape != (size, size) or not np.allclose(covariance, covariance.T):
        raise InputError(f"covariance has shape {covariance.shape}, expected a symmetric one of {(size, size)}")
    if not (np.isfinite(covariance).all() and (np.diag(covariance) >= 0).all() and 0 < noise < np.inf):
        raise InputError("covariance or noise is no variance, expected finite ones, and a noise above 0")
    return covariance, noise


@dataclass(frozen=True)
class ContextEffects:
    """The random effects of a log's contexts, as the marginal likelihood of its residuals has them.

    Σ and σ² are in squared units of the cost, and infinite or 0 where these are beyond the range of numbers.
    """

    delta: np.ndarray  # δ̂, of the effects' shape: to be added to those of the cost model
    covariance: np.ndarray  # Σ, (r, r)
    noise: float  # σ²
    rounds: int
    log_likelihood: float  # of the residuals of all that was logged


def context_effects(
    log: BanditLog, effects: np.ndarray, variances: tuple[np.ndarray, float] | None = None
) -> ContextEffects:
    """Predict the effects of a log's contexts from the residuals of its rows.

    From σ² = ½ v and Σ = ½ v I / mean ‖a‖², v the mean squared residual, until the log marginal likelihood gains less
    than 10⁻³ a context, at most 50 rounds. A row counts at most 10⁴ times, and σ² is at least v/100. Contexts without
    rows have none, nor have lists of actions, which have no actions in common.

    Parameters
    ----------
    log : BanditLog
        Its propensities are not used.
    effects : array (m, q + 1), (m, K) or (N,)
        Those of a cost model, ``action_effects``.
    variances : (array (r, r), float > 0), optional
        Σ and σ², where they are known from the same log: they are then not estimated. By default a large log's are
        those of some of its contexts.

    Raises
    ------
    InputError
        More than 5000 actions, or residuals beyond the range of numbers.
    """
    if (size := int(np.prod(log.actions.effect_space.shape))) > MOST_LOADINGS:
        raise InputError(f"context effects are of at most {MOST_LOADINGS} actions or labels, the log has {size}")
    design = LinearPredictor(log, effects)
    if variances is None and design.samples:
        sample = design.sample
        found = context_effects(sample.log, sample.effects)
        variances = found.covariance, found.noise
    rows = np.flatnonzero(log.count)
    count = np.minimum(log.count[rows], MOST_TIMES).astype(float)
    logged = count.sum()
    residual = (log.cost - modelled_cost(log, effects))[rows]
    unit = _root_mean_square(residual, count)
    if not np.isfinite(unit):
        raise InputError("the modelled costs, or the costs, are beyond the range of numbers")
    loadings, delta = log.actions.effect_space.loadings(log.Y[rows]), np.zeros(np.shape(effects))
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        square, in_units = np.square(unit), -logged * np.log(unit)
    if loadings is None or unit == 0:
        r = 0 if loadings is None else loadings.shape[1]
        of_noise = in_units - logged * (LOG_2PI + 1) / 2
        return ContextEffects(delta, np.zeros((r, r)), float(square), 0, float(of_noise))
    batches = list(_batches(log.context[rows], loadings, residual / unit, count))
    variance = logged / (2 * (count @ loadings.sum(axis=1)))
    if variances is None:
        first, most = (variance * np.eye(loadings.shape[1]), 0.5), ROUNDS
    else:
        first, most = (variances[0] / square, variances[1] / square), 0
    covariance, noise, rounds, likelihood = _maximised(batches, *first, count, most)
    for batch in batches:
        delta[batch.contexts] = unit * (batch.sums(covariance, noise) @ covariance)
    with np.errstate(over="ignore", under="ignore"):
        return ContextEffects(delta, covariance * square, float(noise * square), rounds, float(likelihood + in_units))


def _root_mean_square(values: np.ndarray, count: np.ndarray) -> float:
    """√ of the mean of values² that occur ``count`` times, in whatever unit they are."""
    largest = np.abs(values).max()
    if largest == 0 or not np.isfinite(largest):
        return float(largest)
    return float(largest * np.sqrt(count @ (values / largest) ** 2 / count.sum()))


def _maximised(
    batches: list, covariance: np.ndarray, noise: float, count: np.ndarray, most: int
) -> tuple[np.ndarray, float, int, float]:
    """Σ, σ², the rounds, at most so many, and the log marginal likelihood of residuals whose mean square is 1."""
    m, n, logged = sum(len(batch.contexts) for batch in batches), len(count), count.sum()
    of_counts = logged * LOG_2PI + np.log(count).sum()
    last = -np.inf
    for rounds in range(most + 1):
        moments = [batch.moments(covariance, noise) for batch in batches]
        gram, misfit, likelihood = (sum(each) for each in zip(*moments, strict=True))
        likelihood -= (of_counts + (logged - n) * np.log(noise)) / 2
        if rounds == most or likelihood - last < GAIN * m:
            break
        last = likelihood
        covariance = covariance + covariance @ gram @ covariance / m
        covariance = (covariance + covariance.T) / 2
        noise = max((n * noise + noise**2 * misfit) / logged, LEAST_NOISE)
    return covariance, noise, rounds, likelihood


def _batches(context: np.ndarray, loadings: sparse.csr_array, residual: np.ndarray, count: np.ndarray):
    """Contexts with the same number of rows together, and those with more rows than loadings."""
    order, ones = np.argsort(context, kind="stable"), np.diff(loadings.indptr)
    sizes = np.bincount(context)
    starts, r = np.cumsum(sizes) - sizes, loadings.shape[1]
    for size in np.unique(sizes[(sizes > 0) & (sizes <= r)]):
        alike = np.flatnonzero(sizes == size)
        rows = order[starts[alike] + np.arange(size)[:, None]]
        products, numbers = (ones[rows].sum(axis=0, dtype=float) ** 2).sum() / 2, rows.size * r
        kind, held = (_SparsePairs, products) if products <= SPARSE * numbers else (_DensePairs, numbers)
        for contexts, part in zip(_parts(alike, held), _parts(rows.T, held), strict=True):
            given = (np.ascontiguousarray(each[part.T]) for each in (residual, count))
            yield _FewRows(contexts, loadings[part.T.ravel()], *given, kind)
    many = np.flatnonzero(sizes > r)
    for contexts in _parts(many, len(many) * r * r):
        rows = np.concatenate([order[starts[k] : starts[k] + sizes[k]] for k in contexts])
        place = np.repeat(np.arange(len(contexts)), sizes[contexts])
        yield _ManyRows(contexts, loadings[rows], residual[rows], count[rows], place)


def _parts(contexts: np.ndarray, numbers: float) -> list[np.ndarray]:
    """Contexts, which have so many numbers, in parts that have not too many."""
    return np.array_split(contexts, min(int(-(-numbers // AT_ONCE)), len(contexts))) if len(contexts) else []


class _FewRows:
    """m contexts of p rows each, by V_k: residuals and counts are (p, m), what is of pairs of rows is (p, p, m).

    So each operation is one of all contexts.
    """

    def __init__(
        self, contexts: np.ndarray, loadings: sparse.csr_array, residual: np.ndarray, count: np.ndarray, kind: type
    ):
        self.contexts, self._loadings, self._residual, self._count = contexts, loadings, residual, count
        self._pairs = kind(loadings, *residual.shape)

    def _solved(self, covariance: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """V⁻¹, α, and log |V|."""
        V = self._pairs.forward(covariance)
        np.einsum("iik->ik", V)[...] += noise / self._count
        log_determinant = _invert(V)
        return V, np.einsum("ijk,jk->ik", V, self._residual), log_determinant

    def moments(self, covariance: np.ndarray, noise: float) -> tuple[np.ndarray, float, float]:
        """G, Σ_i W_ii / count_i, and the log likelihood but for what is not of Σ."""
        inverse, dual, log_determinant = self._solved(covariance, noise)
        likelihood = -(log_determinant.sum() + np.vdot(dual, self._residual)) / 2
        W = np.subtract(dual[:, None] * dual, inverse, out=inverse)
        return self._pairs.backward(W), (np.einsum("iik->ik", W) / self._count).sum(), likelihood

    def sums(self, covariance: np.ndarray, noise: float) -> sparse.csr_array:
        """A_kᵀ α_k, sparse, (m, r)."""
        _, dual, _ = self._solved(covariance, noise)
        by_row, (p, m) = self._loadings * dual.reshape(-1, 1), dual.shape
        return sum(by_row[i * m : (i + 1) * m] for i in range(p))


class _DensePairs:
    """The linear map Σ ↦ A_k Σ A_kᵀ, (p, p, m), of m contexts, and back: W ↦ Σ_k A_kᵀ W_k A_k; symmetric matrices."""

    def __init__(self, loadings: sparse.csr_array, p: int, m: int):
        self._loadings, self._shape = loadings, (p, m, loadings.shape[1])

    def forward(self, covariance: np.ndarray) -> np.ndarray:
        products = (self._loadings @ covariance).reshape(self._shape)
        return np.einsum("ikr,jkr->ijk", products, self._loadings.toarray().reshape(self._shape))

    def backward(self, W: np.ndarray) -> np.ndarray:
        sums = np.einsum("ijk,jkr->ikr", W, self._loadings.toarray().reshape(self._shape))
        return self._loadings.T @ sums.reshape(self._loadings.shape)


class _SparsePairs:
    """The same numbers as ``_DensePairs``, by a sparse matrix with a 1 for each pair of ones of two rows of a context.

    For loadings with few ones: of one action of K there is one pair.
    """

    def __init__(self, loadings: sparse.csr_array, p: int, m: int):
        self._p, self._r = p, loadings.shape[1]
        self._lower = np.tril_indices(p)
        left, right = ((rows[:, None] * m + np.arange(m)).ravel() for rows in self._lower)
        starts, ones = loadings.indptr[:-1], np.diff(loadings.indptr)
        sizes = ones[left] * ones[right]
        indptr = np.append(0, np.cumsum(sizes))
        place = np.arange(indptr[-1]) - np.repeat(indptr[:-1], sizes)
        of_left, of_right = np.divmod(place, np.repeat(ones[right], sizes))
        of_left += np.repeat(starts[left], sizes)
        of_right += np.repeat(starts[right], sizes)
        columns = loadings.indices[of_left] * self._r + loadings.indices[of_right]
        self._map = sparse.csr_array((np.ones(len(columns)), columns, indptr), (len(sizes), self._r**2))
        self._transposed = self._map.T

    def forward(self, covariance: np.ndarray) -> np.ndarray:
        i, j = self._lower
        of_pairs = (self._map @ covariance.ravel()).reshape(len(i), -1)
        V = np.empty((self._p, self._p, of_pairs.shape[1]))
        V[i, j] = V[j, i] = of_pairs
        return V

    def backward(self, W: np.ndarray) -> np.ndarray:
        i, j = self._lower
        gram = (self._transposed @ (W[i, j] + W[j, i] * (i != j)[:, None]).ravel()).reshape(self._r, self._r)
        return (gram + gram.T) / 2


class _ManyRows:
    """Contexts with more rows than loadings, by H_k = A_kᵀ C_k A_k and h_k = A_kᵀ C_k r_k: A_kᵀ V_k⁻¹ = J A_kᵀ C_k/σ².

    J = (1 + H_k Σ/σ²)⁻¹, (r, r), however many rows there are.
    """

    def __init__(
        self,
        contexts: np.ndarray,
        loadings: sparse.csr_array,
        residual: np.ndarray,
        count: np.ndarray,
        place: np.ndarray,  # of each row's context among these
    ):
        r = loadings.shape[1]
        columns = loadings.indices + np.repeat(place * r, np.diff(loadings.indptr))
        shape = len(residual), len(contexts) * r
        self._by_context = sparse.csr_array((loadings.data, columns, loadings.indptr), shape)
        counted = (self._by_context * count[:, None]).T
        self.contexts, self._residual, self._count = contexts, residual, count
        self._H = (counted @ loadings).toarray().reshape(-1, r, r)
        self._h = (counted @ residual).reshape(-1, r)

    def moments(self, covariance: np.ndarray, noise: float) -> tuple[np.ndarray, float, float]:
        n, system = len(self._residual), self._system(covariance, noise)
        J = np.linalg.inv(system)
        sums = (J @ self._h[..., None])[..., 0] / noise
        explained = J @ self._H / noise  # A_kᵀ V_k⁻¹ A_k
        predicted = sums @ covariance
        missed = self._count @ (self._residual - self._by_context @ predicted.ravel()) ** 2
        misfit = missed / noise**2 - (n - np.einsum("kij,ji->", explained, covariance)) / noise
        log_determinant = np.linalg.slogdet(system)[1].sum() + n * np.log(noise) - np.log(self._count).sum()
        likelihood = -(log_determinant + missed / noise + np.vdot(sums, predicted)) / 2
        return sums.T @ sums - explained.sum(axis=0), misfit, likelihood

    def sums(self, covariance: np.ndarray, noise: float) -> np.ndarray:
        return np.linalg.solve(self._system(covariance, noise), self._h[..., None])[..., 0] / noise

    def _system(self, covariance: np.ndarray, noise: float) -> np.ndarray:
        return np.eye(len(covariance)) + self._H @ covariance / noise


def _invert(V: np.ndarray) -> np.ndarray:
    """Invert positive definite matrices (p, p, m) in place, by Gauss and Jordan, and return log |V|, (m,)."""
    log_determinant = np.zeros(V.shape[2])
    for pivot in range(len(V)):
        value = V[pivot, pivot].copy()
        log_determinant += np.log(value)
        row, column = V[pivot] / value, V[:, pivot].copy()
        V -= column[:, None] * row
        V[pivot], V[:, pivot] = row, -column / value
        V[pivot, pivot] = 1 / value
    return log_determinant
