"""The value of a given policy, estimated from a log."""

from ..errors import InputError, warn_of
from .cost_model import CostModel, action_effects
from .design import importance_weights, judged
from .estimates import estimate_class
from .log import BanditLog, as_clip, as_log
from .objective import Objective
from .policies import as_policy
from .risks import MeanRisk, Risk
from .scores import low_weights
from .support import SupportedModel
from .validation import zero_to_one
from .weights import Clipped, Weight, as_weight

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
) -> float:
    """Return the estimate of a policy's risk from a log: the training objective, at any policy.

    Parameters
    ----------
    policy : ExponentialPolicy, SoftmaxPolicy or a fitted estimator
    log : BanditLog
    estimate : "ips", "snips", "dr" or "dm"
        See :mod:`drcrm.core.estimates`.
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
        see :mod:`drcrm.core.support`. With 0, the model is taken as it is given.
    logging_policy : ExponentialPolicy or SoftmaxPolicy, optional
        π0, for ``support``; by default an imitation of this log.

    Returns
    -------
    float, in the units of the cost; NaN for "snips" where every weight is 0.

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
    log, kind = as_log(log), estimate_class(estimate)
    if not isinstance(risk, Risk | None):
        raise InputError(f"risk is {risk!r}, expected a risk such as KLBall(0.1), or None")
    policy, risk, clip = as_policy(policy), risk or MeanRisk(), as_clip(clip, log)
    if kind.uses_model and cost_model is None:
        cost_model = CostModel().fit_log(log, action_intercepts=policy.intercept.any())
    if zero_to_one(support, "support") and cost_model is not None:
        cost_model = SupportedModel.of(cost_model, log, logging_policy, support)
    effects = None if cost_model is None else action_effects(cost_model, log.X, log.actions)
    design, log_prob, expected = judged(policy, log, effects)
    value = float(
        Objective(design, risk, as_weight(weight) or Clipped(clip), estimate).estimated(log_prob, expected)[0]
    )
    low, high = design.log.cost.min(), design.log.cost.max()
    room = ROUNDING * max(abs(low), abs(high))
    outside = risk.monotone and not low - room <= value <= high + room
    warn_of(
        low_weights(importance_weights(log_prob, design.log), design.log) if kind.uses_weights else "",
        f"the estimate by {estimate!r} is {value:.6g}, which is not among the logged costs, {low:.6g} to {high:.6g}"
        if outside
        else "",
    )
    return value
