"""A log that is prepared for evaluations of policies with coefficients Θ, and their gradients in Θ.

=========  ==========================================================================================================
forward    Θ ↦ log π_Θ(y_i|x_i) of each row, (n,), and the expected modelled cost m(x_k) = E_{y∼π_Θ} ĉ(x_k, y), (m,)
backward   gradients in these two ↦ the gradient in Θ: ∂log π_i/∂u = y_i − μ, ∂m_k/∂u = ∇²A(u_k) e_k, u = xᵀΘ
=========  ==========================================================================================================

Objectives, held-out scores and certificates evaluate a policy by one forward pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from drcrm.actions.base import uniform_policy
from drcrm.arrays.mapped_arrays import as_memory_order, map_rows, scratch_path, write_blocks
from drcrm.arrays.numerics import as_column, feature_scales, largest_entries
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import LARGE, Block, ChunkedLog, Chunks
from drcrm.progress import report_pass

if TYPE_CHECKING:
    from drcrm.estimates import Estimate

SAMPLE, GROWTH = 2**17, 8  # number of contexts in the first sample of a large log, and ratio of consecutive sizes


@dataclass(frozen=True)
class ScoreMap:
    """Linear map from coefficients Θ to the scores of a block of contexts, with its adjoint.

    Parameters
    ----------
    shape : tuple
        Shape of Θ.
    intercept : bool
        Whether the last row of Θ is an intercept, that is, belongs to a constant 1 that X does not have.
    """

    shape: tuple[int, ...]
    intercept: bool

    def forward(
        self, block: Block, coef: np.ndarray, buffers: list[np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Return log π of each row, the expected modelled cost of each context (or None), and μ for ``backward``.

        ``buffers`` are two arrays of the scores' shape, which are overwritten; one of them is returned as μ.
        """
        log, [effects] = block.log, block.context_arrays
        slopes, constant = (coef[:-1], coef[-1]) if self.intercept else (coef, None)
        # BLAS is a quarter to a third faster if the narrow factor is on the left.
        scores = np.asarray((slopes.T @ log.X.T).T, order=log.actions.order)
        if constant is not None:
            scores += constant
        log_partition, mean = log.actions.log_partition(scores, buffers)
        expected = None if effects is None else log.actions.expected_cost(mean, effects)
        return log.row_map.to_rows(scores, log_partition), expected, mean

    def backward(
        self,
        block: Block,
        mean: np.ndarray,
        by_row: np.ndarray | None,
        by_context: np.ndarray | None,
        expected: Any,
        buffer: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the gradient in Θ, from gradients in log π of the rows and in the expected modelled costs.

        ``mean`` and ``expected`` are results of ``forward``.
        """
        in_scores = None
        if by_context is not None:
            [effects] = block.context_arrays
            in_scores = block.log.actions.expected_cost_gradient(mean, effects, by_context, expected)
        return self.to_coef(block, mean, in_scores, by_row, buffer)

    def to_coef(
        self, block: Block, mean: np.ndarray, in_scores: Any, by_row: Any, buffer: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the gradient in Θ, from gradients in the scores (overwritten) and in log π of the rows, or None."""
        log = block.log
        if by_row is not None:
            by_action, total = log.row_map.to_contexts(by_row)
            by_action -= np.multiply(mean, log.actions.broadcast(total), out=buffer)
            in_scores = by_action if in_scores is None else np.add(in_scores, by_action, out=in_scores)
        gradient = (in_scores.T @ log.X).T
        return append_row(gradient, in_scores.sum(axis=0)) if self.intercept else gradient


class PreparedLog:
    """A log with the effects of a cost model, in blocks on which policies are evaluated.

    Parameters
    ----------
    log : BanditLog
        Log without rows of count 0.
    effects : array, optional
        Effects of each context: ``cost_model.effects``.
    intercept : bool
        Whether Θ has one more row than X has features, for an intercept.

    Attributes
    ----------
    shape : tuple
        Shape of Θ.
    """

    def __init__(self, log: BanditLog, effects: np.ndarray | None = None, intercept: bool = False):
        self.log, self.intercept = log, intercept
        self.shape = log.X.shape[1] + intercept, *log.actions.shape
        self.effects: Any = None if effects is None else as_memory_order(effects, log.actions.order)
        self.scores = ScoreMap(self.shape, intercept)
        self.chunked = ChunkedLog(log, self.effects)
        self._estimates: dict[type[Estimate], Estimate] = {}
        self._parts: WeakKeyDictionary[Estimate, Chunks] = WeakKeyDictionary()

    @cached_property
    def scales(self) -> np.ndarray:
        """Unit of each row of Θ, (d, 1) or (D,): the largest |x| of its feature, and 1 for the intercept."""
        scales = feature_scales(self.log.X, self.log.feature_range)
        return as_column(np.append(scales, 1.0) if self.intercept else scales, self.log.actions.shape)

    @property
    def modelled_cost(self) -> np.ndarray | None:
        """ĉ(x_i, y_i) of each row, (n,)."""
        return None if self.effects is None else self.chunked.map_rows(_modelled_cost)

    def make_estimate(self, kind: type[Estimate], cost: np.ndarray | None = None) -> Estimate:
        """Return an estimate of this kind. All objectives share it, unless ``cost``, (n,), replaces the log's costs."""
        if cost is None and kind in self._estimates:
            return self._estimates[kind]
        log, modelled = self.log, self.modelled_cost if kind.uses_model else None
        estimate = kind(log.cost if cost is None else cost, log.count, modelled, log.context)
        if cost is None:
            self._estimates[kind] = estimate
        return estimate

    def parts_of(self, estimate: Any) -> Chunks:
        """Return each block with the estimate on its rows; None for estimates that need all rows."""
        if estimate not in self._parts:
            self._parts[estimate] = Chunks(
                (block, estimate.restrict_to_rows(block.rows, block.context) if estimate.is_rowwise else None)
                for block in self.chunked.blocks
            )
        return self._parts[estimate]

    @cached_property
    def is_present(self) -> np.ndarray:
        """Whether a feature differs from 0 in some context, (d,); if all are 0, all count as present."""
        is_present = largest_entries(self.log.X, self.log.feature_range) > 0
        return is_present if is_present.any() else np.ones_like(is_present)

    @cached_property
    def of_present_features(self) -> PreparedLog:
        """The log with only the present features. All objectives share it, because it copies X."""
        if self.is_present.all():
            return self
        features = np.flatnonzero(self.is_present)
        X = map_rows(self.log.X, lambda rows: rows[:, features])
        return PreparedLog(self.log.replace(X=X), self.effects, self.intercept)

    @property
    def has_samples(self) -> bool:
        """Whether the log is so large that it has samples, that is, at least 4 · 2¹⁷ contexts."""
        return self.log.n_contexts >= 4 * SAMPLE

    @cached_property
    def first_sample(self) -> tuple[PreparedLog, np.ndarray]:
        """Smallest of the samples, and its rows."""
        return self._draw_sample(SAMPLE)

    def samples(self) -> Iterator[tuple[PreparedLog, np.ndarray]]:
        """Yield nested random samples of the contexts of a large log, and the rows of each sample.

        Each sample has eight times as many contexts as the previous one, and at most a quarter of all contexts. Only
        the first one stays in memory.
        """
        size = SAMPLE
        while size <= self.log.n_contexts // 4:
            yield self.first_sample if size == SAMPLE else self._draw_sample(size)
            size *= GROWTH

    @property
    def is_large(self) -> bool:
        """Whether a pass over the log is slow, so that the number of passes matters."""
        return self.log.n_contexts >= LARGE

    @property
    def sample(self) -> PreparedLog:
        """Smallest of the samples; the log itself if there are none."""
        return self.first_sample[0] if self.has_samples else self

    def _draw_sample(self, size: int) -> tuple[PreparedLog, np.ndarray]:
        """Return the first contexts in a fixed random order with their rows, and the numbers of these rows."""
        log, position = self.log, np.full(self.log.n_contexts, -1)
        contexts = np.sort(np.random.default_rng(0).permutation(log.n_contexts)[:size])
        position[contexts] = np.arange(len(contexts))
        rows = np.flatnonzero(position[log.context] >= 0)
        actions, X, effects = log.actions.select(contexts, log.X, self.effects)
        sample = log.subset(rows, position[log.context[rows]], X, actions)
        return PreparedLog(sample, effects, self.intercept), rows

    def forward(self, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return log π of each row, (n,), and the expected modelled cost of each context, (m,), or None.

        Θ is flat or has ``shape``. If an action has probability 1, rounding errors may make its log π positive.
        """
        report_pass(len(self.log.Y))
        return self.gather(self.chunked.blocks.map(_forward, self.scores, coef.reshape(self.shape)))

    def gather(self, passes: Iterable[tuple]) -> tuple[np.ndarray, np.ndarray | None]:
        """Return log π and the expected modelled costs of the log, from the results of ``forward`` on each block."""
        log_prob = np.empty(len(self.log.Y))
        expected = None if self.effects is None else np.empty(self.log.n_contexts)
        for block, (of_rows, of_contexts) in zip(self.chunked.blocks, passes, strict=True):
            log_prob[block.rows] = of_rows
            if expected is not None:
                expected[block.contexts] = of_contexts
        return log_prob, expected


def _forward(block: Block, scores: ScoreMap, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    return scores.forward(block, coef)[:2]


@np.errstate(over="ignore", invalid="ignore")
def score_probabilities(log: BanditLog, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log π of each row, (n,), and μ of a policy, in one pass over a log; the last row of Θ is an intercept."""
    report_pass(len(log.Y))
    blocks, log_prob, scores = ChunkedLog(log, None).blocks, np.empty(len(log.Y)), ScoreMap(coef.shape, True)

    def means() -> Iterator[np.ndarray]:
        for block, (of_rows, mean) in zip(blocks, blocks.map(_probabilities_of_block, scores, coef), strict=True):
            log_prob[block.rows] = of_rows
            yield mean

    mean = write_blocks(scratch_path(log.X), means())
    return log_prob, mean


def _probabilities_of_block(block: Block, scores: ScoreMap, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    log_prob, _, mean = scores.forward(block, coef)
    return log_prob, mean


def uniform_log_prob(block: Block) -> np.ndarray:
    """Return log U(y_i|x_i) of a block's rows, (n,)."""
    log = block.log
    return uniform_policy(log.actions, np.empty((log.X.shape[0], *log.actions.shape)))[0][log.context]


def _modelled_cost(block: Block) -> np.ndarray:
    [effects] = block.context_arrays
    return block.log.actions.costs_of_rows(block.log.row_map, effects)


def modelled_cost(log: BanditLog, effects: np.ndarray) -> np.ndarray:
    """Return ĉ(x_i, y_i) of each row, (n,), from the effects of each context."""
    return ChunkedLog(log, effects).map_rows(_modelled_cost)


def importance_weights(log_prob: np.ndarray, log: BanditLog) -> np.ndarray:
    """Return π(y_i|x_i)/p_i, (n,), from log π of a forward pass; infinite beyond the range of floats."""
    with np.errstate(over="ignore"):
        return np.exp(np.minimum(log_prob, 0) - log.log_propensity)


def append_row(coef: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Return coefficients (d, …) with one more row."""
    return np.concatenate([coef, np.asarray(row)[None]])


def select_occurring(values: np.ndarray, log: BanditLog) -> np.ndarray:
    """Return values in the shape of scores or effects, of the contexts whose rows have non-zero counts."""
    occurs = np.bincount(log.context, log.count, log.n_contexts) > 0
    return values if occurs.all() else log.actions.select(occurs, values)[1]
