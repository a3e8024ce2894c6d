"""Inputs of an evaluation: policies on a log, the choice of an estimate, and a cost model.

The default cost model is cross-fitted: see :mod:`drcrm.cost_models.cross_fitting`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drcrm.arrays.mapped_arrays import read_only
from drcrm.arrays.validation import check_choice, to_float
from drcrm.cost_models.cross_fitting import cross_fit
from drcrm.cost_models.regressor_model import RegressorModel, is_regressor
from drcrm.cost_models.tabular_model import model_for_log
from drcrm.data.bandit_log import BanditLog, as_log
from drcrm.data.scaling import as_clip
from drcrm.errors import InputError
from drcrm.estimates import EVALUATIONS, UNBIASED, default_estimate
from drcrm.evaluation.bounds.independent_units import check_groups, separate_contexts
from drcrm.policies.base import Policy
from drcrm.policies.tabular import policy_for_log

AUTO = "auto"
LOGGING = "logging"  # the baseline of the logged costs


@dataclass(frozen=True)
class EvaluationInputs:
    """Policies and a cost model on a log, checked and restricted to rows of non-zero count.

    Attributes
    ----------
    log : BanditLog
    policy : Policy
    baseline : Policy, "logging" or None
    groups : array (n,) or None
        Numbers of independent groups of rows.
    logging_policy : Policy or None
    cost_model : cost model or None
    regressor : regressor or None
        Regressor of scikit-learn for a cross-fitted cost model, if there is no ``cost_model``.
    """

    log: BanditLog
    policy: Any
    baseline: Any = None
    groups: np.ndarray | None = None
    logging_policy: Policy | None = None
    cost_model: Any = None
    regressor: Any = None

    @classmethod
    def create(
        cls, policy: Any, log: Any, baseline: Any, groups: Any, logging_policy: Any, cost_model: Any
    ) -> EvaluationInputs:
        """Return the inputs; InputError if one of them does not fit the log."""
        log = as_log(log)
        policy = policy_for_log(policy, log)
        if isinstance(baseline, str) and baseline != LOGGING:
            raise InputError(f"baseline is {baseline!r}, expected a policy, or {LOGGING!r}")
        if not isinstance(baseline, str | None):
            baseline = policy_for_log(baseline, log, "baseline")
        if logging_policy is not None:
            logging_policy = policy_for_log(logging_policy, log, "logging_policy")
        regressor, cost_model = (cost_model, None) if is_regressor(cost_model) else (None, cost_model)
        groups, cost_model = check_groups(groups, log), model_for_log(cost_model, log)
        log = log.without_empty_rows()
        log = log.replace(X=read_only(log.X))
        return cls(log, policy, baseline, groups, logging_policy, cost_model, regressor)

    def choose_estimate(self, estimate: Any, prefers_ips: bool) -> str:
        """Return the name of an estimate; "auto" is "ips" if preferred, else "dr", else "snips".

        "dr" needs the probabilities of all actions.
        """
        if not (isinstance(estimate, str) and estimate == AUTO):
            return check_choice([*EVALUATIONS, AUTO], estimate, "estimate")
        if prefers_ips:
            return UNBIASED
        policies = [policy for policy in (self.policy, self.baseline) if not isinstance(policy, str | None)]
        return default_estimate(all(policy.knows_all_actions for policy in policies))

    def cross_fitted(self, estimate: str) -> EvaluationInputs:
        """Return the inputs with a cross-fitted cost model if the estimate needs a model and they have none.

        Rows of different groups get contexts of their own, so that each context is in one fold.
        """
        if self.cost_model is not None or not EVALUATIONS[estimate].kind.uses_model:
            return self
        inputs = self if self.groups is None else self._separate_contexts(self.groups)
        fit = None if self.regressor is None else lambda part: RegressorModel(self.regressor).fit_log(part)
        return replace(inputs, cost_model=cross_fit(inputs.log, inputs.groups, fit=fit))

    def _separate_contexts(self, groups: np.ndarray) -> EvaluationInputs:
        """Return the inputs with one context for each pair of a context and a group."""
        log, contexts = separate_contexts(self.log, groups)
        if contexts is None:
            return self
        known = {name: getattr(self, name) for name in ("policy", "baseline", "logging_policy")}
        known = {name: policy for name, policy in known.items() if not isinstance(policy, str | None)}
        policies = {name: policy.select(contexts, self.log.actions) for name, policy in known.items()}
        return replace(self, log=log, **policies)


def choose_limit(estimate: str, clip: Any, log: BanditLog) -> float | None:
    """Return the limit M of an estimate's weights, by default the clipping constant of the log; None without a limit.

    Raise InputError if ``clip`` is given for an estimate that does not clip.
    """
    if EVALUATIONS[estimate].limited is not None:
        return as_clip("auto" if clip is None else clip, log)
    if clip is not None:
        clipping = ", ".join(repr(name) for name, entry in EVALUATIONS.items() if entry.limited)
        raise InputError(
            f"clip is {clip!r}, but the estimate {estimate!r} does not clip weights; use {clipping}, or leave clip out"
        )
    return None


def check_cost_range(cost_range: Any, cost: np.ndarray) -> tuple[float, float]:
    """Return the range of costs, which contains all logged costs; by default it also contains 0."""
    least, largest = float(cost.min()), float(cost.max())
    if cost_range is None:
        return min(least, 0.0), max(largest, 0.0)
    is_pair = isinstance(cost_range, list | tuple) and len(cost_range) == 2
    low, high = map(to_float, cost_range) if is_pair else (np.nan, np.nan)
    if not -np.inf < low <= least <= largest <= high < np.inf:
        raise InputError(
            f"cost_range is {cost_range!r}, expected (least, largest) around all logged costs, which are "
            f"{least:.6g} to {largest:.6g}"
        )
    return low, high
