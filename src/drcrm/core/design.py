"""A log seen from the coefficients of a policy: forward from Θ to its rows and contexts, and slopes back to Θ.

forward    Θ ↦ log π_Θ(y_i|x_i) of each row, (n,), and m(x_k) = E_{y∼π_Θ} ĉ(x_k, y) of each context, (m,)
backward   slopes in these two ↦ the slope in Θ: ∂log π_i/∂u = y_i − μ,  ∂m_k/∂u = ∇²A(u_k) e_k,  u = xᵀΘ

Objective, held-out scores, certificates and effective sizes read a policy off one such pass.
"""

from __future__ import annotations

from functools import cached_property, reduce

import numpy as np

from .estimates import Estimate
from .given import GivenPolicy, as_judged
from .log import BanditLog
from .numerics import crossed
from .parts import LARGE, Part, Parts
from .passes import mapped, passed
from .policies import linear_scores, require_same, with_row
from .scales import column, feature_scales
from .stored import StoredRows

SAMPLE, GROWTH = 2**17, 8  # contexts of a large log on which a fit begins, and times as many that follow


class Design:
    """A log in which every row occurs, perhaps with what a cost model says of it.

    A large one is passed over in :class:`drcrm.core.parts.Parts`, by the threads of :mod:`drcrm.core.passes`.

    Parameters
    ----------
    log : BanditLog
        Rows that do not occur, and contexts without rows, are left out.
    effects : array, optional
        The modelled costs of each context's actions, as their kind has them: ``cost_model.action_effects``.
    intercept : bool
        Whether Θ has one more row than X has features, that of a constant 1.
    trains : bool
        Whether many passes are to come. They write to the same buffers, and take products and sums in the order that is
        fastest (with the narrow factor on the left BLAS takes a quarter to a third less time), which moves last digits;
        scores beyond the range of numbers are then not refused.
    starts : integer array, optional
        Of its parts, of which a share of a larger log has the same: see :class:`drcrm.core.parts.Parts`.
    """

    is_sample = False

    def __init__(
        self,
        log: BanditLog,
        effects: np.ndarray | None = None,
        intercept: bool = False,
        trains: bool = False,
        starts: np.ndarray | None = None,
    ):
        occurs = np.bincount(log.context, log.count, log.n_contexts) > 0
        if not (log.count.all() and occurs.all()):
            if effects is not None:
                _, effects = log.actions.select(occurs, effects)
            log = log.recount(log.count)
        self.log, self.intercept, self.trains = log, intercept, trains
        self.shape = log.X.shape[1] + intercept, *log.actions.shape
        order = log.actions.order
        self.effects = effects
        if effects is not None and not isinstance(effects, StoredRows):
            self.effects = np.asarray(effects, order=order)
        self.parts = Parts(log, self.effects, starts=starts)
        self._means, self._estimates = [None] * len(self.parts), {}
        scores, reuses = (log.X.shape[0], *log.actions.shape), trains and len(self.parts) == 1
        self._buffers = [np.empty(scores, order=order) for _ in range(2)] if reuses else None

    @cached_property
    def scales(self) -> np.ndarray:
        """The unit of each row of Θ, (d, 1), or (D,): its feature's largest |x|, and 1 for the intercept."""
        scales = feature_scales(self.log.X)
        return column(np.append(scales, 1.0) if self.intercept else scales, self.log.actions.shape)

    @property
    def modelled(self) -> np.ndarray | None:
        """ĉ(x_i, y_i) of each row, (n,)."""
        return None if self.effects is None else modelled_cost(self.log, self.effects)

    def estimate(self, kind: type[Estimate], cost: np.ndarray | None = None) -> Estimate:
        """Return the estimate of a kind, of costs (n,) in place of the log's; all objectives share one of these."""
        if cost is None and kind in self._estimates:
            return self._estimates[kind]
        log, modelled = self.log, self.modelled if kind.uses_model else None
        found = kind(log.cost if cost is None else cost, log.count, modelled, log.context)
        if cost is None:
            self._estimates[kind] = found
        return found

    def with_features(self, features: np.ndarray) -> Design:
        """The design in the coefficients of some features, the others being 0 in all contexts."""
        return Design(self.log.derived(X=self.log.X[:, features]), self.effects, self.intercept, self.trains)

    @cached_property
    def samples(self) -> list[tuple[Design, np.ndarray]]:
        """More and more contexts of a log, drawn at random, and which rows are theirs: each sample has the one before.

        Eight times as many each, at most a quarter of all. None of a log that is small.
        """
        m, sizes = self.log.n_contexts, []
        while (size := SAMPLE * GROWTH ** len(sizes)) <= m // 4:
            sizes.append(size)
        drawn = np.random.default_rng(0).permutation(m)[: sizes[-1]] if sizes else None
        return [self._some(np.sort(drawn[:size])) for size in sizes]

    @property
    def is_large(self) -> bool:
        """Whether a pass takes so long that they are to be few."""
        return self.log.n_contexts >= LARGE

    @property
    def some(self) -> Design:
        """The first of its samples, or itself."""
        return self.samples[0][0] if self.samples else self

    def _some(self, used: np.ndarray) -> tuple[Design, np.ndarray]:
        log, place = self.log, np.full(self.log.n_contexts, -1)
        place[used] = np.arange(len(used))
        rows = np.flatnonzero(place[log.context] >= 0)
        actions, X, *effects = log.actions.select(used, log.X, *([] if self.effects is None else [self.effects]))
        some = log.some(rows, place[log.context[rows]], X, actions)
        found = Design(some, *(effects or [None]), self.intercept, self.trains)
        found.is_sample = True
        return found, rows

    def forward(self, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return log π of each row, (n,), and the expected modelled cost of each context, (m,), None without a model.

        Θ is given flat or of ``shape``. Rounding may leave log π of a certain action above 0.
        """
        self._coef, several = coef.reshape(self.shape), len(self.parts) > 1
        passed(len(self.log.Y))
        if not several:
            log_prob, expected, self._means[0] = self.forward_part(self.parts[0], self._coef)
            return log_prob, expected
        log_prob = np.empty(len(self.log.Y))
        expected = None if self.effects is None else np.empty(self.log.n_contexts)

        def of_part(number: int) -> None:
            part = self.parts[number]
            log_prob[part.rows], of_contexts, mean = self.forward_part(part, self._coef)
            if expected is not None:
                expected[part.contexts] = of_contexts
            self._means[number] = None if self.parts.are_stored else mean

        list(mapped(of_part, range(len(self.parts))))
        return log_prob, expected

    def forward_part(self, part: Part, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Return the same of a part, Θ of ``shape``, and μ of its contexts, by which it goes backward."""
        log, [effects] = part.log, part.of_contexts
        slopes, constant = (coef[:-1], coef[-1]) if self.intercept else (coef, None)
        if self.trains:
            scores = np.asarray((slopes.T @ log.X.T).T, order=log.actions.order)
            if constant is not None:
                scores += constant
        else:
            scores = linear_scores(log.X, slopes, constant)
        log_partition, mean = log.actions.log_partition(scores, self._buffers)
        expected = None if effects is None else log.actions.expected(mean, effects, fast=self.trains)
        return log.row_map.to_rows(scores, log_partition), expected, mean

    def backward(self, by_row: np.ndarray | None, by_context: np.ndarray | None) -> np.ndarray:
        """Return the slope in Θ, flat, at the last pass forward.

        ``by_row`` (n,) and ``by_context`` (m,) are the slopes in log π and in the expected modelled cost; None for 0.
        """

        def of_part(number: int) -> np.ndarray:
            part, mean = self.parts[number], self._means[number]
            mean = self.forward_part(part, self._coef)[2] if mean is None else mean
            slopes = (
                (None if by_row is None else by_row[part.rows]),
                (None if by_context is None else by_context[part.contexts]),
            )
            return self.backward_part(part, mean, *slopes)

        return reduce(np.add, mapped(of_part, range(len(self.parts)))).ravel()

    def backward_part(
        self, part: Part, mean: np.ndarray, by_row: np.ndarray | None, by_context: np.ndarray | None
    ) -> np.ndarray:
        """Return the slope of a part, of ``shape``, from slopes in its rows and contexts."""
        in_scores, log, [effects] = 0, part.log, part.of_contexts
        if by_context is not None:
            in_scores = log.actions.expected_slope(mean, effects, by_context)
        if by_row is not None:
            by_action, total = log.row_map.to_contexts(by_row)
            by_action -= np.multiply(mean, log.actions.spread(total), out=self._buffers and self._buffers[1])
            in_scores = by_action if by_context is None else np.add(in_scores, by_action, out=in_scores)
        slope = crossed(in_scores, log.X).T
        return with_row(slope, in_scores.sum(axis=0)) if self.intercept else slope


def modelled_cost(log: BanditLog, effects: np.ndarray) -> np.ndarray:
    """Return ĉ(x_i, y_i) of each row, (n,), from the effects of each context."""
    return Parts(log, effects).of_rows(lambda part: part.log.actions.modelled(part.log.row_map, *part.of_contexts))


def importance_weights(log_prob: np.ndarray, log: BanditLog) -> np.ndarray:
    """Return π(y_i|x_i)/p_i, shape (n,), infinite beyond the range of numbers, from log π as a pass forward has it."""
    with np.errstate(over="ignore"):
        return np.exp(np.minimum(log_prob, 0) - log.log_propensity)


def judged(
    policy, log: BanditLog, effects: np.ndarray | None = None, name: str = "policy"
) -> tuple[Design, np.ndarray, np.ndarray | None]:
    """Return a log's design, and its pass forward at any policy: see :mod:`drcrm.core.given`.

    InputError for one of another shape, or of the logged actions alone where a cost model asks for all.
    """
    policy = as_judged(policy, log, name)
    if isinstance(policy, GivenPolicy):
        design = Design(log, effects)
        if effects is None:
            return design, policy.log_prob, None
        mean = policy.known_mean("the expectation of the modelled cost")
        return design, policy.log_prob, design.log.actions.expected(mean, design.effects)
    require_same(policy, log.X.shape[1], log.actions, f"the {name}")
    design = Design(log.derived(X=policy.mapped(log.X)), effects, intercept=True)
    return design, *design.forward(policy.stacked)


def judged_mean(policy, log: BanditLog, what: str, name: str = "policy") -> np.ndarray:
    """Return μ of any policy on the contexts of a log in which every row occurs; ``what`` needs it."""
    policy = as_judged(policy, log, name)
    if isinstance(policy, GivenPolicy):
        return policy.known_mean(what)
    require_same(policy, log.X.shape[1], log.actions, f"the {name}")
    return log.actions.log_partition(linear_scores(policy.mapped(log.X), policy.coef, policy.intercept))[1]
