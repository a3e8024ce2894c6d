"""Off-policy evaluation: estimate a policy's cost, or another risk, from a log."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drcrm.arrays.validation import check_fraction, check_open_fraction
from drcrm.certificates.independent_units import PolicyValue, check_groups, compute_interval
from drcrm.certificates.overlap import low_weight_warning, summarize_weights
from drcrm.certificates.policy_certificate import LOGGING
from drcrm.cost_models.ridge_model import CostModel, action_effects
from drcrm.cost_models.support import SUPPORT, SupportedModel, find_unsupported
from drcrm.data.bandit_log import BanditLog, as_clip, as_log
from drcrm.data.scaling import has_constant
from drcrm.errors import InputError, warn_all
from drcrm.estimates import find_estimate
from drcrm.estimates.snips import SelfNormalised
from drcrm.optimization.behaviour_cloning import restrict_to_support
from drcrm.optimization.objective import Objective
from drcrm.policies.exponential import LinearPolicy
from drcrm.policies.linear_predictor import forward_policy, importance_weights
from drcrm.policies.tabular import AnyPolicy, TabularPolicy, knows_all_actions, policy_for_log
from drcrm.risks import MeanRisk, Risk
from drcrm.weights import Clipped, Weight, as_weight

if TYPE_CHECKING:
    import pandas as pd

CLIPPED = "clipped_"  # prefix of an estimate's name
ESTIMATE_NAMES = ["ips", "clipped_ips", "snips", "clipped_snips", "dr", "clipped_dr", "dm"]
ROUNDING = 1e-9  # relative tolerance for an estimate outside the range of costs


def off_policy_value(
    policy: Any,
    log: BanditLog,
    estimate: str = "ips",
    risk: Risk | None = None,
    weight: Weight | str = "clipped",
    clip: float | str | None = "auto",
    cost_model: Any = None,
    support: float = 0.0,
    logging_policy: LinearPolicy | None = None,
    confidence: float = 0.95,
    groups: Any = None,
    baseline: Any = None,
) -> PolicyValue:
    """Return an estimate of a policy's cost, or of another risk, from a log.

    It is the quantity that the estimators minimise, here for any policy.

    Parameters
    ----------
    policy : ExponentialPolicy, SoftmaxPolicy, a fitted estimator, array or object
        Policy to evaluate. It may also be:

        - an array (n,) with the probability π(a_i|x_i) of each row's logged action;
        - an array with the probabilities of all actions of each context, (m, K) for one of K actions, (m, q) for labels
          and (N,) for lists. "dr" and "dm" need all actions;
        - an object with a method ``log_prob(X, A)`` for logged actions, or ``marginals(X)`` or ``predict_proba(X)`` for
          all actions.
    log : BanditLog
        Log, usually of rows that the policy was not learned from.
    estimate : "ips", "snips", "dr" or "dm"
        Inverse propensity scoring, the same self-normalised, doubly robust, or the direct method, which uses only a
        cost model. See :mod:`drcrm.estimates`.
    risk : Risk, optional
        Risk of :mod:`drcrm.risks`; by default the mean.
    weight : Weight or "clipped"
        Importance weight. "clipped" is min(M, π/p), with the logged propensity p.
    clip : "auto", float ≥ 1 or None
        Limit M. "auto" computes it from the log, like the estimators; None does not clip.
    cost_model : optional
        Cost model for "dr" and "dm": an object with ``predict`` and ``expectation``, or a fitted
        :class:`drcrm.RegressorModel`. Fit it to other rows. By default a ``CostModel`` is fitted to this log.
    support : float in [0, 1]
        Threshold τ. The cost model is not used for actions that π0 takes with less than τ times the uniform
        probability: see :mod:`drcrm.cost_models.support`. 0 uses the cost model everywhere.
    logging_policy : ExponentialPolicy or SoftmaxPolicy, optional
        Logging policy π0, for ``support``; by default it is estimated from this log.
    confidence : float in (0, 1)
        Two-sided level of the interval.
    groups : array (n,), optional
        Ids of independent groups of rows. By default, contexts are the independent units if some have several rows, and
        otherwise rows are.
    baseline : any policy, or "logging", optional
        Policy to compare with: estimate how much more ``policy`` costs than this one, from paired differences of the
        rows. "logging" uses the logged costs. A baseline needs the mean as risk.

    Returns
    -------
    PolicyValue
        A float in the units of the cost, with standard error, interval, effective sample size, mean weight and support.
        It is NaN for "snips" if every weight is 0.

    Raises
    ------
    InputError
        If the policy does not fit the log, or an argument is invalid.

    Warns
    -----
    UserWarning
        If the estimate of a mean or of a worst case is NaN or outside the range of the logged costs. Also if the mean
        weight is below 0.1 and more than five standard errors below 1.
    """
    log, uses_model = as_log(log), find_estimate(estimate).uses_model
    if not isinstance(risk, Risk | None):
        raise InputError(f"risk is {risk!r}, expected a risk such as KLBall(0.1), or None")
    policy, clip = policy_for_log(policy, log), as_clip(clip, log)
    confidence, baseline = check_open_fraction(confidence, "confidence"), _check_baseline(baseline, log, risk)
    groups = check_groups(groups, log)
    if uses_model and cost_model is None:
        cost_model = _fit_cost_model(policy, log)
    if check_fraction(support, "support") and cost_model is not None:
        cost_model = restrict_to_support(cost_model, log, logging_policy, support)
    effects = None if cost_model is None else action_effects(cost_model, log.X, log.actions)
    settings = _Settings(
        estimate, risk or MeanRisk(), as_weight(weight) or Clipped(clip), effects if uses_model else None
    )
    value, z, importance, rows = _estimate(policy, log, settings, "policy")
    if isinstance(baseline, str):
        value, z = value - float(rows.count @ rows.cost / rows.size), z - rows.cost
    elif baseline is not None:
        baseline_value, baseline_z, *_ = _estimate(baseline, log, settings, "baseline")
        value, z = value - baseline_value, z - baseline_z
    return PolicyValue(
        value,
        **compute_interval(value, z, rows, groups, confidence),
        **summarize_weights(importance, rows),
        support=_unsupported_mass(policy, log.recount(log.count), cost_model, logging_policy, support),
    )


def off_policy_values(
    policy: Any,
    log: BanditLog,
    clip: float | str | None = "auto",
    cost_model: Any = None,
    confidence: float = 0.95,
    groups: Any = None,
    baseline: Any = None,
) -> pd.DataFrame:
    """Return all estimates of a policy's cost from a log, side by side.

    If estimates disagree by more than their intervals, doubt the cost model or the propensities.

    Parameters
    ----------
    policy : any policy that :func:`off_policy_value` accepts
        Policy to evaluate.
    log : BanditLog
        Log, usually of rows that the policy was not learned from.
    clip : "auto", float ≥ 1 or None
        Limit M of the weights in the clipped estimates.
    cost_model : optional
        Cost model for "dr" and "dm", as in :func:`off_policy_value`.
    confidence : float in (0, 1)
        Two-sided level of the intervals.
    groups : array (n,), optional
        Ids of independent groups of rows.
    baseline : any policy, or "logging", optional
        Policy to compare with, as in :func:`off_policy_value`.

    Returns
    -------
    DataFrame
        One row for each estimate: "ips", "clipped_ips", "snips", "clipped_snips", "dr", "clipped_dr" and "dm". The
        columns are "value", "standard_error", "low" and "high". "dr", "clipped_dr" and "dm" are NaN for a policy with
        unknown probabilities of the actions that were not logged.

    Raises
    ------
    InputError
        If the policy does not fit the log, or an argument is invalid.

    Warns
    -----
    UserWarning
        As :func:`off_policy_value` does, but each warning only once.
    """
    import pandas as pd  # imported here: it takes a third of a second

    log = as_log(log)
    policy = policy_for_log(policy, log)
    names = [name for name in ESTIMATE_NAMES if knows_all_actions(policy) or not uses_model(name)]
    if cost_model is None and any(map(uses_model, names)):
        cost_model = _fit_cost_model(policy, log)
    options = {"cost_model": cost_model, "confidence": confidence, "groups": groups, "baseline": baseline}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values = {name: named_value(policy, log, name, clip, **options) for name in names}
    warn_all(*dict.fromkeys(str(warning.message) for warning in caught))
    columns = ["value", "standard_error", "low", "high"]
    rows = {name: [float(value), value.standard_error, *value.interval] for name, value in values.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).reindex(ESTIMATE_NAMES)


def named_value(policy: Any, log: BanditLog, name: str, clip: float | str | None, **options: Any) -> PolicyValue:
    """Return the estimate with one of the ``ESTIMATE_NAMES``, clipped at ``clip`` only if its name says so."""
    estimate = name.removeprefix(CLIPPED)
    return off_policy_value(policy, log, estimate, clip=None if estimate == name else clip, **options)


def uses_model(name: str) -> bool:
    """Return whether an estimate of ``ESTIMATE_NAMES`` needs a cost model and the probabilities of all actions."""
    return find_estimate(name.removeprefix(CLIPPED)).uses_model


def _fit_cost_model(policy: AnyPolicy, log: BanditLog) -> CostModel:
    return CostModel().fit_log(log, action_intercepts=_needs_intercepts(policy, log))


@dataclass(frozen=True)
class _Settings:
    """How policies are evaluated. ``effects`` are the effects of the cost model, for estimates that use one."""

    estimate: str
    risk: Risk
    weight: Weight
    effects: np.ndarray | None


def _check_baseline(baseline: Any, log: BanditLog, risk: Risk | None) -> Any:
    """Return a policy, "logging" or None; InputError for anything else."""
    if baseline is None:
        return None
    if not isinstance(risk, MeanRisk | None):
        raise InputError("baseline can be used only with the mean, because other risks have no paired differences")
    if isinstance(baseline, str):
        if baseline != LOGGING:
            raise InputError(f"baseline is {baseline!r}, expected a policy, or 'logging'")
        return baseline
    return policy_for_log(baseline, log, "baseline")


def _needs_intercepts(policy: AnyPolicy, log: BanditLog) -> bool:
    """Return whether the default cost model has an intercept for each action, like the policy."""
    if isinstance(policy, TabularPolicy):
        return log.actions.has_intercept and not has_constant(log.X)
    return bool(policy.intercept.any())


def _estimate(
    policy: AnyPolicy, log: BanditLog, settings: _Settings, name: str
) -> tuple[float, Any, np.ndarray, BanditLog]:
    """Return a policy's value, its terms z (None unless the risk is the mean), its unclipped weights, and their log.

    Warn if the value is outside the range of the costs, or the mean weight far below 1.
    """
    design, log_prob, expected = forward_policy(policy, log, settings.effects, name)
    objective = Objective(design, settings.risk, settings.weight, settings.estimate)
    value = float(objective.evaluate_forward(log_prob, expected)[0])
    weight = importance_weights(log_prob, design.log)
    low, high = design.log.cost.min(), design.log.cost.max()
    tolerance = ROUNDING * max(abs(low), abs(high))
    is_outside = settings.risk.monotone and not low - tolerance <= value <= high + tolerance
    warn_all(
        low_weight_warning(weight, design.log) if objective.estimate.uses_weights else "",
        f"the estimate by {settings.estimate!r} is {value:.6g}, outside the range of the logged costs, {low:.6g} to "
        f"{high:.6g}"
        if is_outside
        else "",
    )
    z = _mean_terms(objective, log_prob, expected) if isinstance(settings.risk, MeanRisk) else None
    return value, z, weight, design.log


@np.errstate(over="ignore", invalid="ignore")
def _mean_terms(objective: Objective, log_prob: np.ndarray, expected: Any) -> np.ndarray:
    """Return z of each row, (n,), whose mean is the estimate; for "snips" the terms of the linearized ratio."""
    log = objective.design.log
    estimate: Any = objective.estimate
    if not estimate.uses_weights:
        return expected[log.context]
    weight, _ = objective.weight(log_prob, log.log_propensity)
    if not isinstance(estimate, SelfNormalised):
        return estimate.z(weight, expected)
    mean = estimate.share @ weight
    if not mean > 0:
        return np.full(len(weight), np.nan)
    ratio = estimate.share @ (weight * log.cost) / mean
    return ratio + weight * (log.cost - ratio) / mean


def _unsupported_mass(
    policy: AnyPolicy, log: BanditLog, cost_model: Any, logging_policy: LinearPolicy | None, support: float
) -> float | None:
    """Return the probability of unsupported actions; None if π0, or the policy's probabilities, are unknown."""
    if logging_policy is not None:
        known: tuple[Any, ...] = logging_policy, support or SUPPORT, None
    elif isinstance(cost_model, SupportedModel) and cost_model.support:
        known = cost_model.logging_policy, cost_model.support, cost_model.features
    else:
        return None
    if isinstance(policy, TabularPolicy) and policy.mean is None:
        return None
    mass, _ = find_unsupported(policy, log, *known)
    return float(log.count @ mass[log.context] / log.size)
