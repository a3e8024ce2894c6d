"""Terms of a policy's estimated cost: one number for each row of a log. Their mean is the estimate.

If the logging policy π0 is known, unsupported actions are charged an extreme cost a. An action is unsupported if π0
hardly takes it: see :mod:`drcrm.cost_models.support`. The cost a is the largest cost, or the smallest for a baseline.

Let S be the unsupported actions of a context x, w the importance weight of a row, and M(x) = π(S|x). For the largest
cost a,

    E_π c ≤ E [w 1[y ∉ S] c + M a] = E w' c',
    w' = w 1[y ∉ S] + M,    c' = (w 1[y ∉ S] c + M a)/w',    E w' = 1

"ips" and "snips" use w' and c' instead of w and c. "dr" uses w, and a cost model that predicts a on S.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from drcrm.certificates.terms.overlap import clipped_share, worst_case_gaps
from drcrm.cost_models.ridge_model import action_effects
from drcrm.cost_models.support import SUPPORT, SupportedModel, find_unsupported
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.estimates import EVALUATIONS
from drcrm.optimization.behaviour_cloning import restrict_to_support
from drcrm.policies.base import Policy
from drcrm.policies.linear_predictor import importance_weights


@dataclass(frozen=True)
class PolicyTerms:
    """Terms of one policy on the rows of a log.

    Attributes
    ----------
    weight : array (n,)
        Importance weights. For "ips" and "snips" they are 0 on rows with an unsupported action.
    counted, cost : array (n,)
        w' and c'; w and c if the logging policy is unknown.
    residual : array (n,)
        Cost minus modelled cost for "dr", c' minus the estimate for "snips", c' for "ips".
    z : array (n,)
        Terms whose mean is the estimate.
    gap : array (n,)
        Increase of z if the missing mass is charged the cost a: see :mod:`drcrm.certificates.terms.overlap`.
    unsupported : float or None
        Mean probability M; None if the logging policy is unknown.
    clipped : float
        Share of the total weight that the limit of the weights removes.
    """

    weight: np.ndarray
    counted: np.ndarray
    cost: np.ndarray
    residual: np.ndarray
    z: np.ndarray
    gap: np.ndarray
    unsupported: float | None
    clipped: float


@dataclass(frozen=True)
class TermBuilder:
    """Computes the terms of policies on a log without rows of count 0.

    Parameters
    ----------
    log : BanditLog
    estimate : "ips", "clipped_ips", "snips" or "dr"
    model : cost model or None
    support : (logging policy, τ, feature map or None) or None
        Defines the unsupported actions; None if the logging policy is unknown.
    """

    log: BanditLog
    estimate: str
    model: Any = None
    support: tuple[Policy, float, Callable | None] | None = None

    @classmethod
    def create(cls, log: BanditLog, estimate: str, model: Any, logging_policy: Policy | None) -> "TermBuilder":
        """Return the builder; ``logging_policy`` replaces the logging policy of the cost model."""
        if not EVALUATIONS[estimate].kind.uses_model:
            return cls(log, estimate, None, None if logging_policy is None else (logging_policy, SUPPORT, None))
        if logging_policy is not None:
            support = model.support if isinstance(model, SupportedModel) else 0
            model = restrict_to_support(model, log, logging_policy, support or SUPPORT)
        if isinstance(model, SupportedModel) and model.support and not model.is_cloned:
            return cls(log, estimate, model, (model.logging_policy, model.support, model.features))
        return cls(log, estimate, model)

    def terms(self, policy: Policy, name: str, extreme: float, sign: int = 1, clip: float | None = None) -> PolicyTerms:
        """Return the terms of a policy, with unsupported actions charged the cost ``extreme``.

        For the policy, ``extreme`` is the largest cost and ``sign`` is 1. For a baseline, ``extreme`` is the smallest
        cost and ``sign`` is −1.
        """
        log, kind = self.log, EVALUATIONS[self.estimate].kind
        design, log_prob, expected = policy.evaluate(log, self._action_effects(extreme, sign), name)
        full = importance_weights(log_prob, log)
        weight = check_weights(full if clip is None else np.minimum(full, clip), log, name)
        supported, mass, unsupported = self.weigh(policy, weight)
        counted = supported + mass
        cost = charge(log.cost, extreme, mass, counted)
        if kind.uses_model:
            z = design.estimate(kind).terms(weight, expected)
            residual = log.cost - design.modelled_cost
        else:
            estimate: Any = kind(cost, log.count)
            z, weight = estimate.z(counted), supported
            residual = cost - estimate.mean(counted) if kind.is_ratio else cost
        gap = sign * worst_case_gaps(z, counted, cost, extreme)
        return PolicyTerms(weight, counted, cost, residual, z, gap, unsupported, clipped_share(full, weight, log))

    def weigh(self, policy: Policy, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, float | None]:
        """Return w 1[y ∉ S] and M(x) of each row, and the mean of M, for weights w."""
        if self.support is None:
            return weight, np.zeros(len(weight)), None
        mass, is_rare = find_unsupported(policy, self.log, *self.support)
        mass = mass[self.log.context]
        return weight * ~is_rare, mass, float(self.log.count @ mass / self.log.size)

    def _action_effects(self, extreme: float, sign: int) -> np.ndarray | None:
        if self.model is None:
            return None
        if self.support is not None:
            return self.model.effects_at_extreme(self.log.X, self.log.actions, extreme, sign)
        return action_effects(self.model, self.log.X, self.log.actions)


def charge(cost: np.ndarray, extreme: float, mass: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Return c' = (w 1[y ∉ S] c + M a)/w' of each row, for ``counted`` w' and ``mass`` M."""
    share = np.divide(mass, counted, out=np.zeros_like(mass), where=counted > 0)
    return cost + share * (extreme - cost)


def check_weights(weight: np.ndarray, log: BanditLog, name: str) -> np.ndarray:
    """Return the weights; InputError if all are 0 or one is not finite."""
    if not weight.any():
        raise InputError(f"every row of the log has weight 0: the log says nothing about this {name}")
    if not np.isfinite(log.count @ weight * (1 + np.abs(log.cost).max())):
        raise InputError(f"the {name}'s weights, or their costs, are beyond the range of floating-point numbers")
    return weight
