"""A log seen from the coefficients of a policy: forward from Θ to its rows and contexts, and slopes back to Θ.

forward    Θ ↦ log π_Θ(y_i|x_i) of each row, (n,), and m(x_k) = E_{y∼π_Θ} ĉ(x_k, y) of each context, (m,)
backward   slopes in these two ↦ the slope in Θ: ∂log π_i/∂u = y_i − μ,  ∂m_k/∂u = ∇²A(u_k) e_k,  u = xᵀΘ

Objective, held-out scores, certificates and effective sizes read a policy off one such pass.
"""

from __future__ import annotations

import numpy as np

from ..errors import InputError
from .log import BanditLog
from .policies import as_policy, linear_scores
from .scales import feature_scales


class Design:
    """A log in memory, in which every row occurs, perhaps with what a cost model says of it.

    Parameters
    ----------
    log : BanditLog
        Rows that do not occur, and contexts without rows, are left out.
    effects : array (m, q + 1), optional
        What each label adds to the modelled cost of each context, and last the cost of none:
        ``cost_model.label_effects``.
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
        occurs = np.bincount(log.context, log.count, log.X.shape[0]) > 0
        if not (log.count.all() and occurs.all()):
            effects = None if effects is None else effects[occurs]
            log = log.recount(log.count)
        self.log, self.effects, self.intercept, self.trains = log, effects, intercept, trains
        self.shape = log.X.shape[1] + intercept, log.Y.shape[1]
        self._buffers = np.empty((2, log.X.shape[0], self.shape[1])) if trains else None

    @property
    def scales(self) -> np.ndarray:
        """The unit of each row of Θ, (d, 1): its feature's largest |x|, and 1 for the intercept."""
        scales = feature_scales(self.log.X)
        return (np.append(scales, 1.0) if self.intercept else scales)[:, None]

    @property
    def modelled(self) -> np.ndarray | None:
        """ĉ(x_i, y_i) of each row, (n,)."""
        return None if self.effects is None else modelled_cost(self.log, self.effects)

    def with_features(self, features: np.ndarray) -> Design:
        """The design in the coefficients of some features, the others being 0 in all contexts."""
        return Design(self.log.derived(X=self.log.X[:, features]), self.effects, self.intercept, self.trains)

    def forward(self, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return log π of each row, (n,), and the expected modelled cost of each context, (m,), None without a model.

        Θ is given flat or of shape (d, q). Rounding may leave log π of a certain action above 0.
        """
        coef = coef.reshape(self.shape)
        slopes, constant = (coef[:-1], coef[-1]) if self.intercept else (coef, None)
        if self.trains:
            scores = np.ascontiguousarray((slopes.T @ self.log.X.T).T)
            if constant is not None:
                scores += constant
        else:
            scores = linear_scores(self.log.X, slopes, constant)
        log_partition, self._mean = self.log.actions.log_partition(scores, self._buffers)
        return self.log.row_map.to_rows(scores, log_partition), self._expected(self._mean)

    def _expected(self, mean: np.ndarray) -> np.ndarray | None:
        if self.effects is None:
            return None
        by_label, without = self.effects[:, :-1], self.effects[:, -1]
        expected = np.einsum("kl,kl->k", mean, by_label) if self.trains else (mean * by_label).sum(axis=1)
        expected += without
        return expected

    def backward(self, by_row: np.ndarray | None, by_context: np.ndarray | None) -> np.ndarray:
        """Return the slope in Θ, flat, at the last pass forward.

        ``by_row`` (n,) and ``by_context`` (m,) are the slopes in log π and in the expected modelled cost; None for 0.
        """
        actions, mean, in_scores = self.log.actions, self._mean, 0
        if by_context is not None:
            in_scores = actions.times_hessian(mean, by_context[:, None] * self.effects[:, :-1])
        if by_row is not None:
            by_label, total = self.log.row_map.to_contexts(by_row)
            by_label -= np.multiply(mean, total[:, None], out=self._buffers[1] if self.trains else None)
            in_scores = by_label if by_context is None else np.add(in_scores, by_label, out=in_scores)
        slope = (in_scores.T @ self.log.X).T
        return (np.vstack([slope, in_scores.sum(axis=0)]) if self.intercept else slope).ravel()


def modelled_cost(log: BanditLog, effects: np.ndarray) -> np.ndarray:
    """Return ĉ(x_i, y_i) of each row, (n,), from what labels add to it in each context, (m, q + 1)."""
    return log.row_map.to_rows(np.ascontiguousarray(effects[:, :-1]), -effects[:, -1])


def importance_weights(log_prob: np.ndarray, log: BanditLog) -> np.ndarray:
    """Return π(y_i|x_i)/p_i, shape (n,), infinite beyond the range of numbers, from log π as a pass forward has it."""
    with np.errstate(over="ignore"):
        return np.exp(np.minimum(log_prob, 0) - log.log_propensity)


def judged(policy, log: BanditLog, effects: np.ndarray | None = None) -> tuple[Design, np.ndarray, np.ndarray | None]:
    """Return a log's design, and its pass forward at a policy or a fitted estimator; InputError for another shape."""
    policy, design = as_policy(policy), Design(log, effects, intercept=True)
    (d, q), expected = policy.coef.shape, (log.X.shape[1], log.Y.shape[1])
    if (d, q) != expected:
        raise InputError(f"the policy's coef has shape {(d, q)}, expected {expected}, as the log has")
    return design, *design.forward(policy.stacked)
