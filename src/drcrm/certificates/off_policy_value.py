"""The value of a given policy, estimated from a log."""

import numpy as np

from drcrm.arrays.validation import check_fraction, check_open_fraction
from drcrm.certificates.independent_units import check_groups
from drcrm.certificates.intervals import PolicyValue, compute_interval
from drcrm.certificates.missing_mass import low_weight_warning
from drcrm.certificates.policy_certificate import LOGGING
from drcrm.cost_models.ridge_model import CostModel, action_effects
from drcrm.cost_models.support import SUPPORT, SupportedModel, find_unsupported
from drcrm.data.bandit_log import BanditLog, as_clip, as_log
from drcrm.data.scaling import has_constant
from drcrm.errors import InputError, warn_all
from drcrm.estimates import SelfNormalised, find_estimate
from drcrm.optimization.behaviour_cloning import restrict_to_support
from drcrm.optimization.objective import Objective
from drcrm.policies.linear_predictor import forward_policy, importance_weights
from drcrm.policies.tabular import AnyPolicy, TabularPolicy, policy_for_log
from drcrm.risks import MeanRisk, Risk
from drcrm.weights import Clipped, Weight, as_weight, effective_sample_size

ROUNDING = 1e-9  # of the largest cost, by which an estimate may miss the range of costs


def off_policy_value(
    policy,
    log: BanditLog,
    estimate: str = "ips",
    risk: Risk | None = None,
    weight: Weight | str = "clipped",
    clip: float | str | None = "auto",
    cost_model=None,
    support: float = 0.0,
    logging_policy=None,
    confidence: float = 0.95,
    groups=None,
    baseline=None,
) -> PolicyValue:
    """Return the estimate of a policy's risk from a log: the training objective, at any policy.

    Parameters
    ----------
    policy : ExponentialPolicy, SoftmaxPolicy, a fitted estimator, array or object
        Arrays are π(a_i|x_i) of the logged actions, (n,), or the probabilities of all actions of each context, (m, K),
        of labels (m, q), of lists (N,), which "dr" and "dm" need. Objects have ``log_prob(X, A)``, of logged actions,
        and ``marginals(X)`` or ``predict_proba(X)``, of all; at least one of them.
    log : BanditLog
    estimate : "ips", "snips", "dr" or "dm"
        See :mod:`drcrm.estimates.base`.
    risk : Risk, optional
        By default the mean.
    weight : Weight or "clipped"
        "clipped" is min(M, π/p).
    clip : "auto", float ≥ 1 or None
        M: by default that of the log, as in the estimators; None does not clip.
    cost_model : optional
        For "dr" and "dm": an object with ``predict`` and ``expectation``; by default one is fitted to this log.
    support : float in [0, 1]
        τ, below which, in units of the uniform policy's probability, π0 is too rare for the cost model to be believed:
        see :mod:`drcrm.cost_models.support`. With 0, the model is taken as it is given.
    logging_policy : ExponentialPolicy or SoftmaxPolicy, optional
        π0, for ``support``; by default an imitation of this log.
    confidence : float in (0, 1)
        Of the interval.
    groups : array (n,), optional
        Ids of rows that belong together: groups are independent of each other. By default contexts are, where some have
        several rows, and else rows.
    baseline : any policy, or "logging", optional
        The value is then of how much more the policy costs than this one, by paired differences of the rows; of
        "logging", π0 as it logged, by the logged costs. Of the mean alone.

    Returns
    -------
    PolicyValue : a float, in the units of the cost, with its standard error, interval, effective size, mean weight and
        support; NaN for "snips" where every weight is 0.

    Raises
    ------
    InputError
        A policy of another shape, or an argument that is none of the above.

    Warns
    -----
    UserWarning
        If a monotone risk is NaN or outside the range of the logged costs, or the mean weight is far below 1: less than
        a tenth, and by 5 standard errors less than 1.
    """
    log, kind = as_log(log), find_estimate(estimate)
    if not isinstance(risk, Risk | None):
        raise InputError(f"risk is {risk!r}, expected a risk such as KLBall(0.1), or None")
    policy, risk, clip = policy_for_log(policy, log), risk or MeanRisk(), as_clip(clip, log)
    confidence, is_mean = check_open_fraction(confidence, "confidence"), isinstance(risk, MeanRisk)
    baseline = _as_baseline(baseline, log, is_mean)
    groups = check_groups(groups, log)
    if kind.uses_model and cost_model is None:
        cost_model = CostModel().fit_log(log, action_intercepts=_has_intercept(policy, log))
    if check_fraction(support, "support") and cost_model is not None:
        cost_model = restrict_to_support(cost_model, log, logging_policy, support)
    effects = None if cost_model is None else action_effects(cost_model, log.X, log.actions)
    weight = as_weight(weight) or Clipped(clip)

    def judge(each: AnyPolicy, name: str):
        design, log_prob, expected = forward_policy(each, log, effects if kind.uses_model else None, name)
        objective = Objective(design, risk, weight, estimate)
        value = float(objective.estimated(log_prob, expected)[0])
        _warn(value, risk, estimate, kind, design.log, log_prob)
        return design.log, log_prob, value, _terms(objective, log_prob, expected) if is_mean else None

    rows, log_prob, value, z = judge(policy, "policy")
    if isinstance(baseline, str):
        value, z = value - float(rows.count @ rows.cost / rows.size), z - rows.cost
    elif baseline is not None:
        _, _, other, terms = judge(baseline, "baseline")
        value, z = value - other, z - terms
    return PolicyValue(
        value,
        **compute_interval(value, z, rows, groups, confidence),
        **_weighed(importance_weights(log_prob, rows), rows),
        support=_mass(policy, log.recount(log.count), cost_model, logging_policy, support),
    )


def _as_baseline(baseline, log: BanditLog, is_mean: bool):
    """A baseline that can be judged, "logging" or None."""
    if baseline is None:
        return None
    if not is_mean:
        raise InputError("baseline is for the mean: no other risk has paired differences")
    if isinstance(baseline, str):
        if baseline != LOGGING:
            raise InputError(f"baseline is {baseline!r}, expected a policy, or 'logging'")
        return baseline
    return policy_for_log(baseline, log, "baseline")


def _has_intercept(policy: AnyPolicy, log: BanditLog) -> bool:
    """Whether the default cost model has intercepts: as the policy has, or where X has no constant."""
    if isinstance(policy, TabularPolicy):
        return log.actions.has_intercept and not has_constant(log.X)
    return policy.intercept.any()


@np.errstate(over="ignore", invalid="ignore")
def _terms(objective: Objective, log_prob: np.ndarray, expected: np.ndarray | None) -> np.ndarray:
    """Return z of each row, (n,), whose mean is the estimate; of "snips" those of the ratio's linear part."""
    log, estimate = objective.design.log, objective.estimate
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


def _warn(value: float, risk: Risk, estimate: str, kind, log: BanditLog, log_prob: np.ndarray) -> None:
    low, high = log.cost.min(), log.cost.max()
    room = ROUNDING * max(abs(low), abs(high))
    outside = risk.monotone and not low - room <= value <= high + room
    warn_all(
        low_weight_warning(importance_weights(log_prob, log), log) if kind.uses_weights else "",
        f"the estimate by {estimate!r} is {value:.6g}, which is not among the logged costs, {low:.6g} to {high:.6g}"
        if outside
        else "",
    )


@np.errstate(over="ignore", invalid="ignore")
def _weighed(weight: np.ndarray, log: BanditLog) -> dict[str, float]:
    """Kish's effective sample size in rows, whatever the weights' size, and the mean weight."""
    size = effective_sample_size(weight, log.count)
    return {"effective_size": size, "mean_weight": float(log.count @ weight / log.size)}


def _mass(policy: AnyPolicy, log: BanditLog, cost_model, logging_policy, support: float) -> float | None:
    """The probability of what π0 hardly takes; None where π0, or all of the policy, is not known."""
    if isinstance(policy, TabularPolicy) and policy.mean is None:
        return None
    if logging_policy is not None:
        known = logging_policy, support or SUPPORT, None
    elif isinstance(cost_model, SupportedModel) and cost_model.support:
        known = cost_model.logging_policy, cost_model.support, cost_model.features
    else:
        return None
    mass, _ = find_unsupported(policy, log, *known)
    return float(log.count @ mass[log.context] / log.size)
