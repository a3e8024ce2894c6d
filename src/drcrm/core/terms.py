"""What an objective is made of beside its log, and where its fit starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from .cost_model import CostModel, label_effects
from .estimates import ESTIMATES
from .log import BanditLog
from .objective import Objective
from .policies import ExponentialPolicy, as_policy
from .risks import MeanRisk, Risk
from .starts import start_coef
from .weights import Clipped, Likelihood, Weight


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
) -> Beginning:
    """Return where a fit starts, and the effects of the cost model, which is fitted to the log where none is given.

    InputError for a name that is unknown, a policy or a model of another shape, or a model without coefficients from
    which a fit is to start.
    """
    if not (isinstance(estimate, str) and estimate in ESTIMATES):
        raise InputError(f"estimate is {estimate!r}, expected one of {', '.join(map(repr, ESTIMATES))}")
    models = ESTIMATES[estimate].uses_model
    if cost_model is None and (models or (isinstance(start, str) and start == "model")):
        cost_model = CostModel().fit_log(log)
    effects = None if cost_model is None else label_effects(cost_model, log.X, log.Y.shape[1])
    coef, tilt = start_coef(start, log, logging_policy, getattr(cost_model, "coef_", None), tilt)
    return Beginning(coef, tilt, effects if models else None, cost_model)


def off_policy_value(
    policy,
    log: BanditLog,
    estimate: str = "ips",
    risk: Risk | None = None,
    weight: Weight | str = "clipped",
    clip: float | None = None,
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
    clip : float ≥ 1 or None
        M; None does not clip.
    cost_model : optional
        For "dr" and "dm": an object with ``predict`` and ``expectation``; by default one is fitted to this log.

    Returns
    -------
    float, in the units of the cost; NaN for "snips" where every weight is 0.
    """
    log = log.recount(log.count)
    terms = Terms(risk or MeanRisk(), as_weight(weight), estimate)
    effects = begin(log, estimate, cost_model=cost_model).effects
    return float(terms.objective(log, clip, effects)(as_policy(policy).coef)[0])


def as_weight(weight) -> Weight | None:
    """Return a weight, or None for "clipped"; InputError for anything else."""
    if isinstance(weight, Weight):
        return weight
    if isinstance(weight, str) and weight == "clipped":
        return None
    raise InputError(f"weight is {weight!r}, expected 'clipped' or a weight such as Implicit(0.1)")
