"""Evaluation of a policy on a log. Its inputs are prepared once, and the terms of an estimate are computed once.

The default cost model is cross-fitted: see :mod:`drcrm.cost_models.cross_fitting`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from drcrm.arrays.mapped_arrays import read_only
from drcrm.arrays.validation import check_choice
from drcrm.cost_models.base import TabularModel, action_effects, model_for_log
from drcrm.cost_models.cross_fitting import cross_fit
from drcrm.cost_models.missing_cells import lacked_actions
from drcrm.cost_models.regressor_model import is_regressor
from drcrm.data.bandit_log import BanditLog, as_log
from drcrm.data.folds import separate_units
from drcrm.errors import InputError
from drcrm.estimates import Estimate
from drcrm.evaluation import AUTO, EVALUATIONS, RATIO, ROBUST, UNBIASED, default_estimate
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.evaluation.certified_terms import CertificateSettings
from drcrm.evaluation.policy_on_log import PolicyOnLog, PolicySupport, summarize_support
from drcrm.evaluation.policy_terms import Charges, Terms, choose_limit, compute_shifted_terms, compute_terms
from drcrm.evaluation.results import Certificate, Sensitivity, certify, estimate_cost, worst_cases
from drcrm.logging_policy import (
    SUPPORT,
    LoggingPolicy,
    SupportedModel,
    has_propensities,
    restrict_to_support,
    supporting_policy,
)
from drcrm.policies.base import Policy
from drcrm.policies.tabular import TabularPolicy, policies_for_log
from drcrm.risks import MeanRisk, Risk
from drcrm.weights import Clipped, Weight

LOGGING = "logging"  # the baseline of the logged costs
ROLES = "policy", "baseline", "logging_policy"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A policy on a log, and perhaps a baseline, with the estimate of their costs.

    :meth:`of` makes it, and :meth:`by` sets the estimate.

    Attributes
    ----------
    log : BanditLog
        Log without rows of count 0. Its groups, or else its rows, are the independent units.
    policy : PolicyOnLog
    baseline : PolicyOnLog, "logging" or None
    logging_policy : Policy or None
        π0, if it was given, or is that of the log.
    cost_model : cost model or None
    regressor : regressor or None
        Regressor of scikit-learn for a cross-fitted cost model, if there is no ``cost_model``.
    estimate : str
        Name in ``EVALUATIONS``.
    weight : Weight
    limit : float or None
        Limit M of the weights.
    risk : Risk
    radius : float or None
        Radius κ of worst cases around the environment.
    threshold : float
        Threshold τ below which the cost model is not used for an action; 0 if it was not given.
    shared : dict
        Results that evaluations by other estimates on the same log share.
    """

    log: BanditLog
    policy: PolicyOnLog
    baseline: PolicyOnLog | str | None = None
    logging_policy: Policy | None = None
    cost_model: Any = None
    regressor: Any = None
    estimate: str = UNBIASED
    weight: Weight = field(default_factory=Clipped)
    limit: float | None = None
    risk: Risk = field(default_factory=MeanRisk)
    radius: float | None = None
    threshold: float = 0.0
    shared: dict[tuple, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        policy: Any,
        log: Any,
        *,
        baseline: Any = None,
        groups: Any = None,
        logging_policy: Any = None,
        cost_model: Any = None,
    ) -> Evaluation:
        """Return the evaluation of a policy by "ips"; InputError if an argument does not fit the log."""
        log = as_log(log).with_groups(groups)
        if isinstance(baseline, str) and baseline != LOGGING:
            raise InputError(f"baseline is {baseline!r}, expected a policy, or {LOGGING!r}")
        in_roles = policy, None if isinstance(baseline, str) else baseline, logging_policy
        policies = policies_for_log(dict(zip(ROLES, in_roles, strict=True)), log)
        regressor, cost_model = (cost_model, None) if is_regressor(cost_model) else (None, cost_model)
        cost_model = model_for_log(cost_model, log)
        log = log.without_empty_rows()
        log = log.replace(X=read_only(log.X))
        needs_all = cost_model is not None or logging_policy is not None
        sides = {role: PolicyOnLog(policies[role], log, role, needs_all) for role in ROLES[:2] if role in policies}
        known = {"logging_policy": policies.get(ROLES[2]), "cost_model": cost_model, "regressor": regressor}
        return cls(log, sides["policy"], sides.get("baseline", baseline), **known)

    def by(
        self,
        estimate: Any = AUTO,
        *,
        prefers_ips: bool = False,
        clip: Any = None,
        weight: Weight | None = None,
        risk: Risk | None = None,
        radius: float | None = None,
        threshold: float = 0.0,
    ) -> Evaluation:
        """Return the evaluation by an estimate; a cost model is cross-fitted if it needs one and there is none.

        ``clip`` is the limit of the weights of an estimate that clips; by default it is computed from the propensities.
        """
        estimate = self.choose_estimate(estimate, prefers_ips)
        entry, limit = EVALUATIONS[estimate], choose_limit(estimate, clip, self.log)
        limited = entry.limited
        if weight is not None and (limited or not isinstance(weight, Weight)):
            raise InputError(
                f"weight is {weight!r} for {estimate!r}, expected a weight such as Shrunk(5.0) without a clip"
            )
        weight = limited(limit) if limited else weight or entry.default_weight(self.log.size)
        fitted = self
        if entry.kind.uses_model:
            fitted = self if self.cost_model is not None and radius is None else self._separated()
            model = cross_fit(fitted.log, self.regressor) if self.cost_model is None else fitted.cost_model
            fitted = replace(fitted, cost_model=model)
        if threshold and fitted.cost_model is not None:
            model = restrict_to_support(fitted.cost_model, fitted.log, fitted.logging_policy, threshold)
            fitted = replace(fitted, cost_model=model)
        settings = {"estimate": estimate, "weight": weight, "limit": limit, "radius": radius, "threshold": threshold}
        return replace(fitted, **settings, risk=risk or MeanRisk())

    def choose_estimate(self, estimate: Any, prefers_ips: bool = False) -> str:
        """Return the name of an estimate; "auto" is "ips" if preferred, else "dr", else "snips".

        "dr" needs the probabilities of all actions.
        """
        if not (isinstance(estimate, str) and estimate == AUTO):
            return check_choice([*EVALUATIONS, AUTO], estimate, "estimate")
        return UNBIASED if prefers_ips else default_estimate(all(side.knows_all_actions for side in self.sides))

    @property
    def sides(self) -> list[PolicyOnLog]:
        """The policy, and the baseline if it is a policy."""
        return [self.policy, *([self.baseline] if isinstance(self.baseline, PolicyOnLog) else [])]

    @property
    def has_logged_costs(self) -> bool:
        """Whether the policy is compared with the logged costs."""
        return isinstance(self.baseline, str)

    def _separated(self) -> Evaluation:
        """Return the evaluation on a log in which rows of different units have contexts of their own."""
        log, contexts = separate_units(self.log)
        if contexts is None:
            return self
        model, actions = self.cost_model, self.log.actions
        model = model.select(contexts, actions) if isinstance(model, TabularModel) else model
        return replace(self.map_policies(log, lambda policy: policy.select(contexts, actions)), cost_model=model)

    def map_policies(self, log: BanditLog, function: Callable[[Policy], Policy]) -> Evaluation:
        """Return the evaluation on another log, with a function of its policies."""
        sides: dict[str, Any] = {
            name: PolicyOnLog(function(side.policy), log, name) for name, side in zip(ROLES, self.sides, strict=False)
        }
        logging_policy = None if self.logging_policy is None else function(self.logging_policy)
        return replace(self, log=log, logging_policy=logging_policy, shared={}, **sides)

    @property
    def kind(self) -> type[Estimate]:
        """Class of the estimate."""
        return EVALUATIONS[self.estimate].kind

    def with_propensities(self, propensity: np.ndarray) -> Evaluation:
        """Return the evaluation on the log with other propensities."""
        return self.map_policies(self.log.replace(propensity=propensity), lambda policy: policy)

    def of_policy(self, policy: Policy) -> Evaluation:
        """Return the same evaluation of another policy."""
        return replace(self, policy=PolicyOnLog(policy, self.log))

    @property
    def alone(self) -> Evaluation:
        """The same evaluation without the baseline."""
        return replace(self, baseline=None)

    @property
    def of_baseline(self) -> Evaluation:
        """The same evaluation of the baseline, which must be a policy."""
        _, baseline = self.sides
        return replace(self.alone, policy=baseline)

    @cached_property
    def charged(self) -> tuple[Any, LoggingPolicy] | None:
        """The cost model and π0 with which unsupported actions are charged; None if π0 of the rows is unknown."""
        known, model = self.logging_policy, self.cost_model if self.kind.uses_model else None
        if known is not None:
            if model is None:
                return None, LoggingPolicy(known)
            support = model.logging.support if isinstance(model, SupportedModel) else 0
            model = restrict_to_support(model, self.log, known, support or SUPPORT)
            return model, model.logging
        stored = supporting_policy(model)
        if stored is None or stored.is_approximate or not has_propensities(stored.policy, self.log):
            return None
        return model, stored

    def _once(self, key: tuple, owner: Any, compute: Callable[[], Any]) -> Any:
        """Return a result that evaluations by other estimates share; ``owner`` is the object that it belongs to."""
        if (*key, id(owner)) not in self.shared:
            self.shared[*key, id(owner)] = owner, compute()
        return self.shared[*key, id(owner)][1]

    @property
    def effects(self) -> np.ndarray | None:
        """Effects of the cost model in the contexts of the log; None if the estimate needs none."""
        if not self.kind.uses_model:
            return None
        model, log = self.cost_model, self.log
        return self._once(("effects",), model, lambda: action_effects(model, log.X, log.actions))

    @cached_property
    def lacked(self) -> np.ndarray | None:
        """The actions that a marked log lacks in each context, (m, K) or (m, 0), which the terms charge.

        None if the log is not marked, or if the estimate has no cost model. Terms with charges for unsupported
        actions ignore them.
        """
        return self._once(("lacked",), self.log, lambda: lacked_actions(self.log)) if self.kind.uses_model else None

    @property
    def lacks_actions(self) -> bool:
        """Whether the log is marked, and lacks actions."""
        return self.lacked is not None and bool(self.lacked.any())

    @cached_property
    def terms(self) -> Terms:
        """The terms of the policy, without charges for unsupported actions."""
        return self.side_terms(self.policy, float(self.log.cost.max()))

    @cached_property
    def reference(self) -> Terms:
        """The terms of the baseline, without charges; those of "logging" are the logged costs."""
        return self.baseline_terms(float(self.log.cost.max()))

    def side_terms(
        self, side: PolicyOnLog, extreme: float, sign: int = 1, weight: Weight | None = None, is_charged: bool = False
    ) -> Terms:
        """Return the terms of the policy or the baseline; with charges, unsupported actions have the cost ``extreme``.

        ``sign`` is 1 if this is the largest cost, and −1 if it is the smallest.
        """
        charges = self._charges(side) if is_charged else None
        effects = self.effects
        if self.lacks_actions and not is_charged:
            assert self.lacked is not None
            assert effects is not None
            effects = np.where(self.lacked, extreme, effects)
        if is_charged and self.kind.uses_model:
            assert self.charged is not None
            model, log = self.charged[0], self.log
            compute = lambda: model.effects_at_extreme(log.X, log.actions, extreme, sign)  # noqa: E731
            effects = self._once(("effects", extreme, sign), model, compute)
        if self.radius is not None:
            return compute_shifted_terms(side, self.estimate, self.radius, effects, charges, extreme)
        return compute_terms(side, self.kind, weight or self.weight, self.risk, effects, charges, extreme)

    def baseline_terms(
        self, extreme: float, sign: int = -1, weight: Weight | None = None, is_charged: bool = False
    ) -> Terms:
        """Return the terms of the baseline; those of "logging", the logging policy with weights of 1, are its costs.

        With a cost model and known probabilities of all actions, they are m0 + c − ĉ, which vary less than the costs.
        """
        if isinstance(self.baseline, PolicyOnLog):
            return self.side_terms(self.baseline, extreme, sign, weight, is_charged)
        known = self.logging_policy if self.kind.uses_model and self.radius is None else None
        if known is not None and self.log.actions.logging_mean is not None:
            robust = replace(self, estimate=ROBUST, weight=Clipped(), risk=MeanRisk())
            return robust.side_terms(PolicyOnLog(known, self.log, "logging policy"), extreme)
        policy = TabularPolicy.for_log(self.log.log_propensity, None, self.log)
        logged = replace(self, estimate=UNBIASED if self.radius is None else RATIO, weight=Clipped())
        return logged.side_terms(PolicyOnLog(policy, self.log, "logging policy"), extreme)

    def _charges(self, side: PolicyOnLog) -> Charges:
        def compute() -> Charges:
            assert self.charged is not None
            mass, is_rare = self.charged[1].find_unsupported(self.log, side.components("its unsupported actions"))
            return mass[self.log.context], is_rare

        return self._once(("charges",), side, compute)

    def certificate(
        self, settings: CertificateSettings, *, is_paired: bool = True, is_lower: bool = False
    ) -> Certificate:
        """Return an upper or lower bound on the policy's cost, or on the cost difference if there is a baseline.

        Without ``is_paired``, the bound is always on the cost. A lower bound comes from the bound on −z. It charges
        unsupported actions the smallest cost, if π0 was given. Raise InputError if no bound can be computed.
        """
        is_charged = self.charged is not None and not (is_lower and self.logging_policy is None)
        return certify(self, settings, is_paired and self.baseline is not None, -1 if is_lower else 1, is_charged)

    def sensitivity(self, gamma: float, confidence: float) -> Sensitivity:
        """Return the worst case of the policy's cost if the odds of propensities are off by at most a factor Γ."""
        return worst_cases(self, gamma, confidence)

    def support(self, threshold: float = SUPPORT) -> PolicySupport:
        """Return how much of the policy's probability is on actions that π0 hardly takes; by default π0 is cloned."""
        return summarize_support(self.policy, self.logging_policy, threshold)

    def value(self, confidence: float = 0.95) -> Interval:
        """Return the estimate of the policy's cost, or of another risk, with an interval and notes."""
        return estimate_cost(self, confidence, is_paired=False)

    def difference(self, confidence: float = 0.95) -> Interval:
        """Return the estimate of the policy's cost minus the baseline's, from paired differences of the rows."""
        return estimate_cost(self, confidence, is_paired=True)

    @cached_property
    def unsupported_mass(self) -> float | None:
        """Probability of unsupported actions; None if π0, or the policy's probabilities, are unknown."""
        log, known = self.log, self.logging_policy
        stored = supporting_policy(self.cost_model)
        logging = stored if known is None else LoggingPolicy(known, self.threshold or SUPPORT)
        if logging is None or not self.policy.knows_all_actions:
            return None
        mass, _ = logging.find_unsupported(log, self.policy.components("its unsupported actions"))
        return float(log.count @ mass[log.context] / log.size)
