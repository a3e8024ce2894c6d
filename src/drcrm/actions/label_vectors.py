"""Label vectors y ∈ {0,1}^q: the policy is a product of independent logistic regressions, one per label.

π(y|x) = Π_l σ(u_l)^{y_l} σ(−u_l)^{1−y_l}, A(u) = Σ_l log(1 + e^{u_l}) and μ = σ(u). A modelled cost is additive over
labels: the effects, (m, q + 1), are the cost that each label adds and, in the last column, the cost of the zero vector.

Two maps from scores to rows give the same numbers. They differ in speed and memory.
"""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit, log_expit

from drcrm.actions.base import LARGE_SCORE, Actions
from drcrm.actions.modelled_costs import RowMap
from drcrm.arrays.numerics import exp
from drcrm.arrays.validation import append_constant, check_actions
from drcrm.errors import InputError

TABLE_ROWS = 12  # with at least this many rows per context, tables were faster in measurements with 6 and 14 labels
MANY_ROWS = 10  # this many label vectors are rarely all one-hot by chance
MANY_PAIRS = 1000  # the same for two labels, of which a policy may take the one or the other for a while
EFFECT_QUANTILE = 0.99  # this quantile of the absolute label effects is the cost of unsupported label values
FLOAT_BITS = 1024  # 2 to this power is beyond the range of floats

TABLE_LABELS = 5  # labels per table; the fastest in measurements with 6 and 14 labels


class LabelVectors(Actions):
    """Label vectors y ∈ {0,1}^q, arrays (n, q), with scores s(y) = y·u.

    Parameters
    ----------
    n_labels : int
        q.
    """

    kind, plural, noun = "labels", "labels", "label"
    effects_are_costs = are_choices = False
    prefers_context_effects = True

    def __init__(self, n_labels: int):
        self.shape, self.effect_shape = (n_labels,), (n_labels + 1,)

    def __str__(self) -> str:
        return f"{self.shape[0]} labels"

    def count_choices(self) -> np.ndarray:
        return np.array([2.0 ** self.shape[0] if self.shape[0] < FLOAT_BITS else np.inf])

    def check(self, Y: object, rows: int | None = None, owner: str = "the policy") -> np.ndarray:
        Y = check_actions(Y, rows)
        if Y.shape[1:] != self.shape:
            raise InputError(f"Y has {Y.shape[1]} labels, {owner} has {self.shape[0]}")
        return Y

    def check_not_one_hot(self, Y: np.ndarray) -> None:
        """Raise InputError if all vectors have exactly one 1.

        Fewer than 10 vectors, or 1000 of two labels, are accepted, because they may be one-hot by chance. So are
        identical vectors, which come from a policy that always takes the same action, and vectors of one label.
        """
        n, q = Y.shape
        if q > 1 and n >= (MANY_ROWS if q > 2 else MANY_PAIRS) and (Y.sum(axis=1) == 1).all() and (Y[0] != Y).any():
            raise InputError(
                f"every row of Y has exactly one 1: that is a single choice among {q} actions. Pass a vector of whole "
                f"numbers, np.argmax(Y, axis=1), with n_actions={q}. In a log, write the name of the action to one "
                "column, and use the key action in place of labels (label vectors need rows with no 1 or several)"
            )

    def row_map(self, Y: np.ndarray, context: np.ndarray | None, n_contexts: int) -> RowMap:
        context = np.arange(len(Y)) if context is None else context
        kind = TabledRows if len(Y) >= TABLE_ROWS * n_contexts else SparseRows
        return kind(Y, context, n_contexts)

    def is_taken(self, Y: np.ndarray) -> np.ndarray:
        return Y

    def sort_keys(self, Y: np.ndarray) -> list[np.ndarray]:
        return [*np.packbits(Y, axis=1).T]

    def codes(self, Y: np.ndarray) -> np.ndarray:
        return 2 * np.arange(*self.shape) + Y

    def name_one(self, y: Any, names: list) -> Any:
        return dict(zip(names, y.tolist(), strict=True))

    def name_columns(self, names: list, action: str) -> list[str]:
        return [str(name) for name in names]

    def log_partition(self, scores: np.ndarray, buffers: Any = None) -> tuple[np.ndarray, np.ndarray]:
        mean, total = np.empty((2, *scores.shape)) if buffers is None else buffers
        is_large = scores.max() > LARGE_SCORE
        exp(np.minimum(scores, LARGE_SCORE) if is_large else scores, out=mean)
        np.add(mean, 1, out=total)
        np.divide(mean, total, out=mean)
        ones = np.ones(scores.shape[1])
        log_partition = np.log(total, out=total) @ ones
        if is_large:
            log_partition += np.maximum(scores - LARGE_SCORE, 0) @ ones
        return log_partition, mean

    def total_probability(self, mean: np.ndarray) -> np.ndarray:
        return np.ones(len(mean))

    def log_prob(self, mean: np.ndarray, Y: np.ndarray, context: np.ndarray) -> np.ndarray:
        log_prob = np.zeros(len(Y))
        with np.errstate(divide="ignore"):
            for label, by_context in enumerate(mean.T):
                probability = by_context[context]
                log_prob += np.log(np.where(Y[:, label] == 1, probability, 1 - probability))
        return log_prob

    def fixed_choices(self, mean: np.ndarray) -> np.ndarray:
        return np.column_stack([mean, 1 - mean])

    def most_probable(self, scores: np.ndarray) -> np.ndarray:
        return (scores >= 0).astype(np.int64)

    def sample(self, mean: np.ndarray, rng: np.random.Generator, explore: float = 0.0) -> np.ndarray:
        if not explore:
            return (rng.random(mean.shape) < mean).astype(np.int64)
        draws = rng.random((len(mean), mean.shape[1] + 1))
        return (draws[:, 1:] < np.where(draws[:, :1] < explore, 0.5, mean)).astype(np.int64)

    def draw_one(self, scores: np.ndarray, rng: np.random.Generator, explore: float = 0.0) -> tuple[np.ndarray, float]:
        is_explored = bool(explore) and rng.random() < explore
        labels = rng.random(scores.shape) < (0.5 if is_explored else expit(scores))
        probability = np.exp(log_expit(np.where(labels, scores, -scores)).sum())
        return labels.astype(np.int64), float((1 - explore) * probability + explore * 0.5 ** len(scores))

    # Modelled costs

    def expected_cost(self, mean: np.ndarray, effects: np.ndarray) -> np.ndarray:
        return np.einsum("kl,kl->k", mean, effects[:, :-1]) + effects[:, -1]

    def expected_cost_gradient(
        self, mean: np.ndarray, effects: np.ndarray, by_context: np.ndarray, expected: np.ndarray
    ) -> np.ndarray:
        gradient = by_context[:, None] * effects[:, :-1]
        gradient *= 1 - mean
        gradient *= mean
        return gradient

    def add_offsets(self, effects: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        return np.column_stack([effects[:, :-1], effects[:, -1] + offsets[:, 0]])

    @np.errstate(divide="ignore")
    def log_moment(self, mean: np.ndarray, effects: np.ndarray) -> np.ndarray:
        """Return Σ_l log(1 − μ_l + μ_l e^{e_l}) + e_0."""
        by_label = np.logaddexp(np.log1p(-mean), np.log(mean) + effects[:, :-1])
        return by_label.sum(axis=1) + effects[:, -1]

    def costs_of_rows(self, row_map: RowMap, effects: np.ndarray) -> np.ndarray:
        return row_map.to_rows(np.ascontiguousarray(effects[:, :-1]), -effects[:, -1])

    def loadings(self, Y: np.ndarray) -> sparse.csr_array | None:
        return append_constant(sparse.csr_array(Y, dtype=float))

    def score_part(self, effects: np.ndarray) -> np.ndarray:
        return effects[:, :-1]

    def add_constant(self, effects: np.ndarray, constant: float) -> None:
        effects[..., -1] += constant

    def sum_rows(self, by_score: np.ndarray, by_context: np.ndarray) -> np.ndarray:
        return np.column_stack([by_score, by_context])

    def block_moments(self, Y: np.ndarray, share: np.ndarray, row_map: RowMap) -> tuple[np.ndarray, np.ndarray]:
        loadings, (_, weight) = np.column_stack([Y, np.ones(len(Y))]), row_map.to_contexts(share)
        return (loadings.T @ (loadings * share[:, None]))[None], weight[None]

    # Support: P(y_l = 1) or P(y_l = 0) under π0 is below τ/2

    def cost_limits(self, cost: np.ndarray, effects: np.ndarray) -> tuple[float, float]:
        largest = float(np.quantile(np.abs(effects[:, :-1]), EFFECT_QUANTILE))
        return -largest, largest

    def find_supported(self, log: Any, logging_mean: np.ndarray, support: float) -> np.ndarray:
        Y, propensity = log.Y, log.propensity
        rare, certain = Y[propensity < np.ldexp(support, -Y.shape[1])], Y[1 - propensity < support / 2]
        refuted = [(rare == value).any(axis=0) | (certain != value).any(axis=0) for value in (0, 1)]
        return ~np.array(refuted) & [(Y != 1).any(axis=0), (Y == 1).any(axis=0)]

    def raise_to_support(self, logging_mean: np.ndarray, is_supported: np.ndarray, support: float) -> np.ndarray:
        never, always = is_supported
        largest = np.where(never, np.nextafter(1 - support / 2, 0), 1)  # so that 1 − π0 is not below τ/2
        return np.clip(logging_mean, np.where(always, support / 2, 0), largest)

    def replace_unsupported(
        self, effects: np.ndarray, logging_mean: np.ndarray, support: float, limits: tuple[float, float]
    ) -> np.ndarray:
        low, high = limits
        by_label = effects[:, :-1]
        by_label = np.where(logging_mean < support / 2, np.maximum(by_label, high), by_label)
        lowered = np.where(1 - logging_mean < support / 2, np.minimum(by_label, low), by_label)
        return np.column_stack([lowered, effects[:, -1] + (by_label - lowered).sum(axis=1)])

    def unsupported_mass(self, mean: np.ndarray, logging_mean: np.ndarray, support: float) -> np.ndarray:
        return mean * (logging_mean < support / 2) + (1 - mean) * (1 - logging_mean < support / 2)

    def find_unsupported(
        self, row_map: RowMap, mean: np.ndarray, logging_mean: np.ndarray, support: float
    ) -> tuple[np.ndarray, np.ndarray]:
        never, always = logging_mean < support / 2, 1 - logging_mean < support / 2
        count_as_effects = np.column_stack([never.astype(float) - always, always.sum(axis=1)])
        supported = 1 - self.unsupported_mass(mean, logging_mean, support)
        counts = self.costs_of_rows(row_map, count_as_effects)
        return 1 - supported.prod(axis=1), counts > 0.5

    def mean_weights(self, log: Any, weight: np.ndarray, mean: np.ndarray, logging_mean: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            absent, present = (1 - mean) / (1 - logging_mean), mean / logging_mean
        return log.count / log.size @ np.where(log.Y == 1, present[log.context], absent[log.context])


class SparseRows:
    """Row map of label vectors, stored as a sparse matrix (n, m · q): fast for few rows per context.

    Parameters
    ----------
    Y : array (n, q) of 0 and 1
    context : integer array (n,)
        Context of each row.
    n_contexts : int
        m.
    """

    def __init__(self, Y: np.ndarray, context: np.ndarray, n_contexts: int):
        n, q = Y.shape
        row, label = np.nonzero(Y)
        indptr = np.concatenate([[0], np.cumsum(Y.sum(axis=1, dtype=np.intp))])
        columns = context[row] * q + label
        dtype = np.int32 if max(n_contexts * q, len(row)) < 2**31 else np.int64
        shape = (n, n_contexts * q)
        self._ones = sparse.csr_array((np.ones(len(row)), columns.astype(dtype), indptr.astype(dtype)), shape)
        self._ones_transposed = self._ones.T
        self._context, self._shape = context, (n_contexts, q)

    def to_rows(self, scores: np.ndarray, constant: np.ndarray) -> np.ndarray:
        by_row = self._ones @ scores.ravel()
        by_row -= constant[self._context]
        return by_row

    def to_contexts(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by_label = (self._ones_transposed @ values).reshape(self._shape)
        return by_label, np.bincount(self._context, values, len(by_label))


class TabledRows:
    """Row map of label vectors by tables of the scores of all 2^b vectors of b labels: fast for many rows per context.

    Each row looks up its entry in the tables of its context, so scores are added once per context, not once per row.
    Parameters as for ``SparseRows``.
    """

    def __init__(self, Y: np.ndarray, context: np.ndarray, n_contexts: int):
        q = Y.shape[1]
        self._shape = n_contexts, q
        self._tables = []
        for labels in np.array_split(np.arange(q), -(-q // TABLE_LABELS)):
            powers = 1 << np.arange(len(labels))
            vectors = (np.arange(2 ** len(labels)) & powers[:, None] > 0).astype(float)
            position = context * vectors.shape[1] + Y[:, labels].astype(np.intp) @ powers
            self._tables.append((slice(labels[0], labels[-1] + 1), vectors, position))

    def to_rows(self, scores: np.ndarray, constant: np.ndarray) -> np.ndarray:
        by_row: Any = None
        for labels, vectors, position in self._tables:
            table = scores[:, labels] @ vectors
            if by_row is None:
                table -= constant[:, None]
                by_row = table.ravel()[position]
            else:
                by_row += table.ravel()[position]
        return by_row

    def to_contexts(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by_label = np.empty(self._shape)
        for labels, vectors, position in self._tables:
            table = np.bincount(position, values, len(by_label) * vectors.shape[1]).reshape(-1, vectors.shape[1])
            by_label[:, labels] = table @ vectors.T
        return by_label, table @ np.ones(table.shape[1])  # every table sums to the totals of the contexts
