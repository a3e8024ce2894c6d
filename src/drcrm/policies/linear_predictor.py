"""A log seen from the coefficients of a policy: forward from Θ to its rows and contexts, and slopes back to Θ.

forward    Θ ↦ log π_Θ(y_i|x_i) of each row, (n,), and m(x_k) = E_{y∼π_Θ} ĉ(x_k, y) of each context, (m,)
backward   slopes in these two ↦ the slope in Θ: ∂log π_i/∂u = y_i − μ,  ∂m_k/∂u = ∇²A(u_k) e_k,  u = xᵀΘ

Objective, held-out scores, certificates and effective sizes read a policy off one such pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from drcrm.arrays.mapped_arrays import as_memory_order, map_rows
from drcrm.arrays.numerics import transposed_product
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import LARGE, Block, ChunkedLog
from drcrm.data.listeners import report_pass
from drcrm.data.scaling import as_column, feature_scales
from drcrm.estimates.base import Estimate
from drcrm.policies.exponential import append_row, check_compatible, linear_scores
from drcrm.policies.tabular import TabularPolicy, policy_for_log

SAMPLE, GROWTH = 2**17, 8  # contexts of the first sample of a large log, and the ratio of each size to the one before


@dataclass(frozen=True)
class ScoreMap:
    """Linear map from coefficients Θ to the scores of a block of contexts, with its adjoint.

    Parameters
    ----------
    shape : tuple
        Of Θ.
    intercept : bool
        Whether the last row of Θ belongs to a constant 1 that X does not have.
    trains : bool
        Whether products and sums are taken in the fastest order (BLAS takes a quarter to a third less time with the
        narrow factor on the left), which moves last digits. Scores beyond the range of numbers are then not refused.
    """

    shape: tuple[int, ...]
    intercept: bool
    trains: bool

    def forward(
        self, block: Block, coef: np.ndarray, buffers: list[np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Return log π of each row, the expected modelled cost of each context or None, and μ, which backward needs.

        ``buffers`` are two arrays of the scores' shape. They are overwritten, and μ is in one of them.
        """
        log, [effects] = block.log, block.context_arrays
        slopes, constant = (coef[:-1], coef[-1]) if self.intercept else (coef, None)
        if self.trains:
            scores = np.asarray((slopes.T @ log.X.T).T, order=log.actions.order)
            if constant is not None:
                scores += constant
        else:
            scores = linear_scores(log.X, slopes, constant)
        log_partition, mean = log.actions.log_partition(scores, buffers)
        expected = None if effects is None else log.actions.effect_space.expected_cost(mean, effects, fast=self.trains)
        return log.row_map.to_rows(scores, log_partition), expected, mean

    def backward(
        self,
        block: Block,
        mean: np.ndarray,
        by_row: np.ndarray | None,
        by_context: np.ndarray | None,
        expected: np.ndarray | None,
        buffer: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the gradient in Θ, from the gradients in log π of the rows and in the expected modelled costs.

        ``mean`` and ``expected`` are what ``forward`` returned.
        """
        in_scores, log, [effects] = 0, block.log, block.context_arrays
        if by_context is not None:
            in_scores = log.actions.effect_space.expected_cost_gradient(mean, effects, by_context, expected)
        if by_row is not None:
            by_action, total = log.row_map.to_contexts(by_row)
            by_action -= np.multiply(mean, log.actions.broadcast(total), out=buffer)
            in_scores = by_action if by_context is None else np.add(in_scores, by_action, out=in_scores)
        gradient = transposed_product(in_scores, log.X).T
        return append_row(gradient, in_scores.sum(axis=0)) if self.intercept else gradient


class LinearPredictor:
    """A log in which every row occurs, with the modelled costs of its contexts' actions, as a function of Θ.

    Parameters
    ----------
    log : BanditLog
        Rows that do not occur, and contexts without rows, are left out.
    effects : array, optional
        The modelled costs of each context's actions: ``cost_model.action_effects``.
    intercept : bool
        Whether Θ has one more row than X has features, that of a constant 1.
    trains : bool
        See ``ScoreMap``.
    """

    def __init__(
        self, log: BanditLog, effects: np.ndarray | None = None, intercept: bool = False, trains: bool = False
    ):
        occurs = np.bincount(log.context, log.count, log.n_contexts) > 0
        if not (log.count.all() and occurs.all()):
            if effects is not None:
                _, effects = log.actions.select(occurs, effects)
            log = log.recount(log.count)
        self.log, self.intercept, self.trains = log, intercept, trains
        self.shape = log.X.shape[1] + intercept, *log.actions.shape
        self.effects = None if effects is None else as_memory_order(effects, log.actions.order)
        self.scores = ScoreMap(self.shape, intercept, trains)
        self.chunked = ChunkedLog(log, self.effects)
        self._estimates, self.objective_blocks = {}, (None, None)

    @cached_property
    def scales(self) -> np.ndarray:
        """The unit of each row of Θ, (d, 1), or (D,): its feature's largest |x|, and 1 for the intercept."""
        scales = feature_scales(self.log.X, self.log.feature_range)
        return as_column(np.append(scales, 1.0) if self.intercept else scales, self.log.actions.shape)

    @property
    def modelled_cost(self) -> np.ndarray | None:
        """ĉ(x_i, y_i) of each row, (n,)."""
        return None if self.effects is None else self.chunked.map_rows(_modelled)

    def estimate(self, kind: type[Estimate], cost: np.ndarray | None = None) -> Estimate:
        """Return the estimate of a kind, of costs (n,) in place of the log's; all objectives share one of these."""
        if cost is None and kind in self._estimates:
            return self._estimates[kind]
        log, modelled = self.log, self.modelled_cost if kind.uses_model else None
        estimate = kind(log.cost if cost is None else cost, log.count, modelled, log.context)
        if cost is None:
            self._estimates[kind] = estimate
        return estimate

    def with_features(self, features: np.ndarray) -> LinearPredictor:
        """Return the design in the coefficients of some features, the others being 0 in all contexts."""
        X = map_rows(self.log.X, lambda rows: rows[:, features])
        return LinearPredictor(self.log.replace(X=X), self.effects, self.intercept, self.trains)

    @cached_property
    def samples(self) -> list[tuple[LinearPredictor, np.ndarray]]:
        """Larger and larger random samples of the contexts of a large log, and the rows of each sample.

        Each has eight times as many contexts as the one before, which it contains, and at most a quarter of all. A
        log with fewer than 4 · 2¹⁷ contexts has none.
        """
        m, sizes = self.log.n_contexts, []
        while (size := SAMPLE * GROWTH ** len(sizes)) <= m // 4:
            sizes.append(size)
        drawn = np.random.default_rng(0).permutation(m)[: sizes[-1]] if sizes else None
        return [self._restrict_to(np.sort(drawn[:size])) for size in sizes]

    @property
    def is_large(self) -> bool:
        """Whether a pass takes so long that there should be few."""
        return self.log.n_contexts >= LARGE

    @property
    def sample(self) -> LinearPredictor:
        """The smallest of the samples, or the design itself."""
        return self.samples[0][0] if self.samples else self

    def _restrict_to(self, contexts: np.ndarray) -> tuple[LinearPredictor, np.ndarray]:
        log, place = self.log, np.full(self.log.n_contexts, -1)
        place[contexts] = np.arange(len(contexts))
        rows = np.flatnonzero(place[log.context] >= 0)
        arrays = [] if self.effects is None else [self.effects]
        actions, X, *effects = log.actions.select(contexts, log.X, *arrays)
        sample = log.subset(rows, place[log.context[rows]], X, actions)
        return LinearPredictor(sample, *(effects or [None]), self.intercept, self.trains), rows

    def forward(self, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return log π of each row, (n,), and the expected modelled cost of each context, (m,), None without a model.

        Θ is given flat or of ``shape``. Rounding may leave log π of a certain action above 0.
        """
        report_pass(len(self.log.Y))
        return self.gather(self.chunked.blocks.map(_forward, self.scores, coef.reshape(self.shape)))

    def gather(self, passes: Iterable[tuple]) -> tuple[np.ndarray, np.ndarray | None]:
        """Return log π and expected modelled costs of the log from those of each block."""
        log_prob = np.empty(len(self.log.Y))
        expected = None if self.effects is None else np.empty(self.log.n_contexts)
        for block, (of_rows, of_contexts) in zip(self.chunked.blocks, passes, strict=True):
            log_prob[block.rows] = of_rows
            if expected is not None:
                expected[block.contexts] = of_contexts
        return log_prob, expected


def _forward(block: Block, scores: ScoreMap, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    return scores.forward(block, coef)[:2]


def _modelled(block: Block) -> np.ndarray:
    [effects] = block.context_arrays
    return block.log.actions.effect_space.costs_of_rows(block.log.row_map, effects)


def modelled_cost(log: BanditLog, effects: np.ndarray) -> np.ndarray:
    """Return ĉ(x_i, y_i) of each row, (n,), from the effects of each context."""
    return ChunkedLog(log, effects).map_rows(_modelled)


def importance_weights(log_prob: np.ndarray, log: BanditLog) -> np.ndarray:
    """Return π(y_i|x_i)/p_i, shape (n,), infinite beyond the range of numbers, from log π as a pass forward has it."""
    with np.errstate(over="ignore"):
        return np.exp(np.minimum(log_prob, 0) - log.log_propensity)


def forward_policy(
    policy, log: BanditLog, effects: np.ndarray | None = None, name: str = "policy"
) -> tuple[LinearPredictor, np.ndarray, np.ndarray | None]:
    """Return a log's design, and its pass forward at any policy: see :mod:`drcrm.policies.tabular`.

    InputError for one of another shape, or of the logged actions alone where a cost model asks for all.
    """
    policy = policy_for_log(policy, log, name)
    if isinstance(policy, TabularPolicy):
        design = LinearPredictor(log, effects)
        if effects is None:
            return design, policy.log_prob, None
        mean = policy.require_marginals("the expectation of the modelled cost")
        return design, policy.log_prob, design.log.actions.effect_space.expected_cost(mean, design.effects)
    check_compatible(policy, log.X.shape[1], log.actions, f"the {name}")
    design = LinearPredictor(log.replace(X=policy.map_features(log.X)), effects, intercept=True)
    return design, *design.forward(policy.coef_with_intercept)


def policy_marginals(policy, log: BanditLog, what: str, name: str = "policy") -> np.ndarray:
    """Return μ of any policy on the contexts of a log in which every row occurs; ``what`` needs it."""
    policy = policy_for_log(policy, log, name)
    if isinstance(policy, TabularPolicy):
        return policy.require_marginals(what)
    check_compatible(policy, log.X.shape[1], log.actions, f"the {name}")
    return log.actions.log_partition(linear_scores(policy.map_features(log.X), policy.coef, policy.intercept))[1]
