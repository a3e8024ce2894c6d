"""What an objective is made of beside its log, and where its fit starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InputError, warn
from .cost_model import CostModel, label_effects
from .estimates import ESTIMATES
from .log import BanditLog, as_log, clipping_constant
from .objective import Objective
from .policies import ExponentialPolicy, as_policy
from .risks import MeanRisk, Risk
from .scores import importance_weights, low_weights
from .starts import start_coef
from .validation import Features, number
from .weights import Clipped, Likelihood, Weight

ROUNDING = 1e-9  # of the largest cost, by which an estimate may miss the range of costs


@dataclass(frozen=True)
class Terms:
    """The terms of an objective.

    Parameters
    ----------
    risk : Risk
    weight : Weight, optional
        By default min(M, π/p).
    estimate : "ips", "snips", "dr" or "dm"
    sharpness : float, optional
        β: where given, the objective is the weighted log-likelihood, the mean of −e^{−βc} log π. Source: Aouali & Sakhi
        2025.
    """

    risk: Risk
    weight: Weight | None = None
    estimate: str = "ips"
    sharpness: float | None = None

    def objective(self, log: BanditLog, clip: float | None, effects: np.ndarray | None = None) -> Objective:
        """Return the objective on a log, clipped at M; ``effects`` are those of a cost model, if one is used."""
        if self.sharpness is not None:
            with np.errstate(over="ignore"):
                gain = np.exp(-self.sharpness * log.cost)
            if not np.isfinite(gain).all():
                raise InputError(f"sharpness {self.sharpness:.6g} is too large for a cost of {log.cost.min():.6g}")
            return Objective(log.with_cost(-gain), self.risk, Likelihood())
        return Objective(log, self.risk, self.weight or Clipped(clip), self.estimate, effects)


@dataclass(frozen=True)
class Beginning:
    """What a fit has before it starts: Θ, the tilt κ if any, its cost model, and that one's effects if it uses them."""

    coef: np.ndarray
    tilt: float | None = None
    effects: np.ndarray | None = None
    cost_model: object = None


def begin(
    log: BanditLog,
    estimate: str = "ips",
    start: str = "zero",
    tilt: float | str = 1.0,
    logging_policy: ExponentialPolicy | None = None,
    cost_model=None,
    X: Features | None = None,
    origin: float = 0.0,
) -> Beginning:
    """Return where a fit starts, and the effects of the cost model, which is fitted to the log where none is given.

    A given one is of the features X, (m, d − 1), where the log has a constant appended to them, and of the log's costs
    plus an origin. InputError for a name that is unknown, a policy or a model of another shape, or a model without
    coefficients from which a fit is to start.
    """
    if not (isinstance(estimate, str) and estimate in ESTIMATES):
        raise InputError(f"estimate is {estimate!r}, expected one of {', '.join(map(repr, ESTIMATES))}")
    models = ESTIMATES[estimate].uses_model
    if cost_model is None and (models or (isinstance(start, str) and start == "model")):
        cost_model, X, origin = CostModel().fit_log(log), None, 0.0
    effects, model = None, getattr(cost_model, "coef_", None)
    if cost_model is not None:
        moved = np.append(np.zeros(log.Y.shape[1]), origin)
        effects = label_effects(cost_model, log.X if X is None else X, log.Y.shape[1]) - moved
        if X is not None and model is not None:
            model = np.vstack([model, getattr(cost_model, "intercept_", 0.0) - moved])
    coef, tilt = start_coef(start, log, logging_policy, model, tilt)
    return Beginning(coef, tilt, effects if models else None, cost_model)


def off_policy_value(
    policy,
    log: BanditLog,
    estimate: str = "ips",
    risk: Risk | None = None,
    weight: Weight | str = "clipped",
    clip: float | str | None = "auto",
    cost_model=None,
) -> float:
    """Return the estimate of a policy's risk from a log: the training objective, at any policy.

    Parameters
    ----------
    policy : ExponentialPolicy or a fitted estimator
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
    policy, log = as_policy(policy), as_log(log)
    if not isinstance(risk, Risk | None):
        raise InputError(f"risk is {risk!r}, expected a risk such as KLBall(0.1), or None")
    log = log.recount(log.count)
    terms, clip = Terms(risk or MeanRisk(), as_weight(weight), estimate), as_clip(clip, log)
    stacked, coef = policy.without_intercept(log)
    effects = begin(stacked, estimate, cost_model=cost_model, X=None if stacked is log else log.X).effects
    found, expected = policy.coef.shape, (log.X.shape[1], log.Y.shape[1])
    if found != expected:
        raise InputError(f"the policy's coef has shape {found}, expected {expected}, as the log has")
    value = float(terms.objective(stacked, clip, effects)(coef)[0])
    low, high = log.cost.min(), log.cost.max()
    room = ROUNDING * max(abs(low), abs(high))
    reasons = [low_weights(importance_weights(policy, log), log)] if ESTIMATES[estimate].uses_weights else []
    if terms.risk.monotone and not low - room <= value <= high + room:
        reasons.append(
            f"the estimate by {estimate!r} is {value:.6g}, which is not among the logged costs, {low:.6g} to {high:.6g}"
        )
    if any(reasons):
        warn("; ".join(filter(None, reasons)))
    return value


def as_clip(clip, log: BanditLog) -> float | None:
    """Return M, that of the log for "auto", None for no clipping; InputError for anything else."""
    if clip is None:
        return None
    if isinstance(clip, str):
        if clip == "auto":
            return clipping_constant(log)
    elif number(clip) >= 1:
        return float(clip)
    raise InputError(f"clip is {clip!r}, expected 'auto', a number ≥ 1, or None")


def as_weight(weight) -> Weight | None:
    """Return a weight, or None for "clipped"; InputError for anything else."""
    if isinstance(weight, Weight):
        return weight
    if isinstance(weight, str) and weight == "clipped":
        return None
    raise InputError(f"weight is {weight!r}, expected 'clipped' or a weight such as Implicit(0.1)")
