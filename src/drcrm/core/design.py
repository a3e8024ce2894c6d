"""A log seen from the coefficients of a policy: forward from Θ to its rows and contexts, and slopes back to Θ.

forward    Θ ↦ log π_Θ(y_i|x_i) of each row, (n,), and m(x_k) = E_{y∼π_Θ} ĉ(x_k, y) of each context, (m,)
backward   slopes in these two ↦ the slope in Θ: ∂log π_i/∂u = y_i − μ,  ∂m_k/∂u = ∇²A(u_k) e_k,  u = xᵀΘ

Objective, held-out scores, certificates and effective sizes read a policy off one such pass.
"""

from __future__ import annotations

import numpy as np

from .given import GivenPolicy, as_judged
from .log import BanditLog
from .policies import linear_scores, require_same, with_row
from .scales import column, feature_scales


class Design:
    """A log in memory, in which every row occurs, perhaps with what a cost model says of it.

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
        scores, order = (log.X.shape[0], *log.actions.shape), log.actions.order
        self._buffers = [np.empty(scores, order=order) for _ in range(2)] if trains else None
        self.effects = None if effects is None else np.asarray(effects, order=order)

    @property
    def scales(self) -> np.ndarray:
        """The unit of each row of Θ, (d, 1), or (D,): its feature's largest |x|, and 1 for the intercept."""
        scales = feature_scales(self.log.X)
        return column(np.append(scales, 1.0) if self.intercept else scales, self.log.actions.shape)

    @property
    def modelled(self) -> np.ndarray | None:
        """ĉ(x_i, y_i) of each row, (n,)."""
        return None if self.effects is None else modelled_cost(self.log, self.effects)

    def with_features(self, features: np.ndarray) -> Design:
        """The design in the coefficients of some features, the others being 0 in all contexts."""
        return Design(self.log.derived(X=self.log.X[:, features]), self.effects, self.intercept, self.trains)

    def forward(self, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return log π of each row, (n,), and the expected modelled cost of each context, (m,), None without a model.

        Θ is given flat or of ``shape``. Rounding may leave log π of a certain action above 0.
        """
        coef = coef.reshape(self.shape)
        slopes, constant = (coef[:-1], coef[-1]) if self.intercept else (coef, None)
        if self.trains:
            scores = np.asarray((slopes.T @ self.log.X.T).T, order=self.log.actions.order)
            if constant is not None:
                scores += constant
        else:
            scores = linear_scores(self.log.X, slopes, constant)
        log_partition, self._mean = self.log.actions.log_partition(scores, self._buffers)
        known = self.effects is not None
        expected = self.log.actions.expected(self._mean, self.effects, fast=self.trains) if known else None
        return self.log.row_map.to_rows(scores, log_partition), expected

    def backward(self, by_row: np.ndarray | None, by_context: np.ndarray | None) -> np.ndarray:
        """Return the slope in Θ, flat, at the last pass forward.

        ``by_row`` (n,) and ``by_context`` (m,) are the slopes in log π and in the expected modelled cost; None for 0.
        """
        actions, mean, in_scores = self.log.actions, self._mean, 0
        if by_context is not None:
            in_scores = actions.expected_slope(mean, self.effects, by_context)
        if by_row is not None:
            by_action, total = self.log.row_map.to_contexts(by_row)
            by_action -= np.multiply(mean, actions.spread(total), out=self._buffers[1] if self.trains else None)
            in_scores = by_action if by_context is None else np.add(in_scores, by_action, out=in_scores)
        slope = (in_scores.T @ self.log.X).T
        return (with_row(slope, in_scores.sum(axis=0)) if self.intercept else slope).ravel()


def modelled_cost(log: BanditLog, effects: np.ndarray) -> np.ndarray:
    """Return ĉ(x_i, y_i) of each row, (n,), from the effects of each context."""
    return log.actions.modelled(log.row_map, effects)


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
