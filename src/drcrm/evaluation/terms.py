"""Terms of a policy's estimated cost: one number for each row of a log. Their mean is the estimate.

If the logging policy π0 is known, unsupported actions are charged an extreme cost a. An action is unsupported if π0
hardly takes it: see :mod:`drcrm.cost_models.support`. The cost a is the largest cost, or the smallest for a baseline.

Let S be the unsupported actions of a context x, w the importance weight of a row, and M(x) = π(S|x). For the largest
cost a,

    E_π c ≤ E [w 1[y ∉ S] c + M a] = E w' c',
    w' = w 1[y ∉ S] + M,    c' = (w 1[y ∉ S] c + M a)/w',    E w' = 1

"ips" and "snips" use w' and c' instead of w and c. "dr" uses w, and a cost model that predicts a on S.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from drcrm.cost_models.base import action_effects
from drcrm.cost_models.missing_cells import lacked_actions
from drcrm.cost_models.support import SUPPORT, SupportedModel, find_unsupported
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.estimates import EVALUATIONS, RATIO, UNBIASED, Estimate
from drcrm.evaluation.inputs import EvaluationInputs
from drcrm.evaluation.overlap import clipped_share, unlogged_charges, worst_case_gaps
from drcrm.optimization.behaviour_cloning import restrict_to_support
from drcrm.policies.base import Policy
from drcrm.policies.prepared_log import importance_weights
from drcrm.policies.tabular import TabularPolicy
from drcrm.risks import MeanRisk, Risk
from drcrm.weights import Clipped, Weight

EQUAL = 1e-13  # relative to the largest term; if all differences are smaller, they are rounding


@dataclass(frozen=True)
class PolicyTerms:
    """Terms z = m + w e of one policy on the rows of a log.

    Attributes
    ----------
    value : float
        The estimate.
    importance : array (n,)
        Importance weights π/p.
    weight : array (n,)
        Weights after their limit. For "ips" and "snips" they are 0 on rows with an unsupported action.
    counted, cost : array (n,)
        w' and c'; w and c if the logging policy is unknown.
    modelled, factor, residual : array (n,)
        m, w and e. For estimates without a cost model, w is w'.
    unit : float
        Mean of ``factor`` for a ratio; 1 if ``factor`` is divided by it already, and for other estimates.
    gap : array (n,)
        Increase of z if the missing mass is charged the cost a: see :mod:`drcrm.evaluation.overlap`.
    unsupported : float or None
        Mean probability M; None if the logging policy is unknown.
    clipped : float
        Share of the total weight that the limit of the weights removes.
    refusal : str
        Why the estimate has no standard error, or an empty string.
    unlogged : array (n,) or 0
        The ``unlogged_charges`` of a policy; 0 if unsupported actions are charged already.
    """

    value: float
    importance: np.ndarray
    weight: np.ndarray
    counted: np.ndarray
    cost: np.ndarray
    modelled: Any
    factor: np.ndarray
    residual: np.ndarray
    gap: np.ndarray
    unit: float = 1.0
    unsupported: float | None = None
    clipped: float = 0.0
    refusal: str = ""
    unlogged: Any = 0.0

    @property
    def z(self) -> np.ndarray:
        """The terms, (n,)."""
        return self.modelled + self.factor * self.residual

    @property
    @np.errstate(divide="ignore", invalid="ignore")
    def linear(self) -> np.ndarray:
        """The terms, (n,); those of a ratio are linearised, m + w e/w̄."""
        return self.modelled + self.factor / self.unit * self.residual


@dataclass(frozen=True)
class TermBuilder:
    """Computes the terms of policies on a log.

    Parameters
    ----------
    inputs : EvaluationInputs
        The log, and the cost model of an estimate that uses one.
    estimate : str
        Name in ``EVALUATIONS``.
    support : (logging policy, τ) or None
        Defines the unsupported actions; None if the logging policy is unknown.
    weight : Weight
    risk : Risk
    radius : float, optional
        Radius κ of the worst cases of a ``ShiftedTermBuilder``.
    """

    inputs: EvaluationInputs
    estimate: str
    support: tuple[Policy, float] | None = None
    weight: Weight = field(default_factory=Clipped)
    risk: Risk = field(default_factory=MeanRisk)
    radius: float | None = None

    @property
    def log(self) -> BanditLog:
        """The log, without rows of count 0."""
        return self.inputs.log

    @property
    def kind(self) -> type[Estimate]:
        """Class of the estimate."""
        return EVALUATIONS[self.estimate].kind

    @property
    def lacked(self) -> np.ndarray | None:
        """The actions that a marked log lacks in each context, (m, K) or (m, 0), which the terms charge.

        None if the log is not marked, if the logging policy is known, or if the estimate has no cost model.
        """
        return lacked_actions(self.log) if self.kind.uses_model and self.support is None else None

    def with_support(self) -> TermBuilder:
        """Return the builder that charges unsupported actions, if the logging policy of the rows is known."""
        inputs, known = self.inputs, self.inputs.logging_policy
        model = inputs.cost_model if self.kind.uses_model else None
        if model is not None and known is not None:
            support = model.support if isinstance(model, SupportedModel) else 0
            model = restrict_to_support(model, inputs.log, known, support or SUPPORT)
            inputs = replace(inputs, cost_model=model)
        if known is not None:
            return replace(self, inputs=inputs, support=(known, model.support if model is not None else SUPPORT))
        if isinstance(model, SupportedModel) and model.support:
            stored = model.known_logging_policy(inputs.log)
            return self if stored is None else replace(self, support=(stored, model.support))
        return self

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def terms(self, policy: Policy, name: str = "policy", extreme: float | None = None, sign: int = 1) -> PolicyTerms:
        """Return the terms of a policy, with unsupported actions charged the cost ``extreme``.

        For the policy, ``extreme`` is the largest cost and ``sign`` is 1. For a baseline, ``extreme`` is the smallest
        cost and ``sign`` is −1. The default is the largest logged cost.
        """
        log, kind = self.log, self.kind
        extreme = float(log.cost.max()) if extreme is None else extreme
        prepared, log_prob, expected = policy.evaluate(log, self._effects(extreme, sign), name)
        importance = importance_weights(log_prob, log)
        limited, _ = self.weight(np.minimum(log_prob, 0), log.log_propensity)
        weight, mass, unsupported = self.weigh(policy, limited)
        counted = factor = weight + mass
        cost = charge(log.cost, extreme, mass, counted)
        if kind.uses_model:
            estimate, weight = prepared.make_estimate(kind), limited
            factor = limited if kind.uses_weights else np.zeros(len(limited))
        else:
            estimate = kind(cost, log.count)
        value = estimate.evaluate(self.risk, factor, factor, expected, None)[0]
        modelled, residual = estimate.model_and_residual(factor, expected)
        is_charged = sign > 0 and self.support is None
        return PolicyTerms(
            float(value),
            importance,
            weight,
            counted,
            cost,
            modelled,
            factor,
            residual,
            sign * worst_case_gaps(modelled + factor * residual, counted, cost, extreme),
            unit=float(log.count @ factor / log.size) if kind.is_ratio else 1.0,
            unsupported=unsupported,
            clipped=clipped_share(importance, limited, log),
            unlogged=unlogged_charges(modelled, cost - residual, importance, log, extreme) if is_charged else 0.0,
        )

    def reference(self, baseline: Policy | str, extreme: float | None = None) -> PolicyTerms:
        """Return the terms of a baseline; those of "logging", the logging policy with weights of 1, are its costs."""
        if not isinstance(baseline, str):
            return self.terms(baseline, "baseline", extreme, -1)
        policy = TabularPolicy.for_log(self.log.log_propensity, None, self.log)
        estimate = UNBIASED if self.radius is None else RATIO
        logged = replace(self, estimate=estimate, support=None, weight=Clipped())
        return logged.terms(policy, "logging policy", extreme, -1)

    def weigh(self, policy: Policy, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, float | None]:
        """Return w 1[y ∉ S] and M(x) of each row, and the mean of M, for weights w."""
        if self.support is None:
            return weight, np.zeros(len(weight)), None
        mass, is_rare = find_unsupported(policy, self.log, *self.support)
        mass = mass[self.log.context]
        return weight * ~is_rare, mass, float(self.log.count @ mass / self.log.size)

    def _effects(self, extreme: float, sign: int) -> np.ndarray | None:
        log, model = self.log, self.inputs.cost_model
        if not self.kind.uses_model:
            return None
        if self.support is not None:
            return model.effects_at_extreme(log.X, log.actions, extreme, sign)
        effects, lacked = action_effects(model, log.X, log.actions), self.lacked
        return effects if lacked is None or not lacked.any() else np.where(lacked, extreme, effects)


def charge(cost: np.ndarray, extreme: float, mass: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Return c' = (w 1[y ∉ S] c + M a)/w' of each row, for ``counted`` w' and ``mass`` M."""
    share = np.divide(mass, counted, out=np.zeros_like(mass), where=counted > 0)
    return cost + share * (extreme - cost)


def subtract(values: np.ndarray, reference: Any) -> np.ndarray:
    """Return differences; all are 0 if two policies are equal up to rounding."""
    difference = values - reference
    unit = max(np.abs(values).max(), np.abs(reference).max())
    return np.zeros_like(difference) if np.abs(difference).max() < EQUAL * unit else difference


def check_weights(weight: np.ndarray, log: BanditLog, name: str) -> np.ndarray:
    """Return the weights; InputError if all are 0 or one is not finite."""
    if not weight.any():
        raise InputError(f"every row of the log has weight 0: the log says nothing about this {name}")
    if not np.isfinite(log.count @ weight * (1 + np.abs(log.cost).max())):
        raise InputError(f"the {name}'s weights, or their costs, are beyond the range of floating-point numbers")
    return weight
