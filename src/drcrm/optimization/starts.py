"""Where a fit starts: Θ = 0, the logging policy, that policy tilted by a cost model, or an imitation of the log."""

import numpy as np
from scipy.optimize import brentq

from drcrm.arrays.validation import number, one_of
from drcrm.data.bandit_log import BanditLog
from drcrm.data.scaling import spread
from drcrm.errors import InputError
from drcrm.optimization.lbfgs import minimize_objectives
from drcrm.optimization.objective import Objective
from drcrm.policies.exponential import LinearPolicy, policy_of, require_same
from drcrm.policies.linear_predictor import Design
from drcrm.risks.base import MeanRisk
from drcrm.weights import Likelihood

STARTS = {
    "zero": "Θ = 0",
    "logging": "the logging policy",
    "model": "the logging policy tilted by the cost model",
    "imitation": "an imitation of the log",
}
LARGEST = 30.0  # a coefficient of the logging policy times its feature's scale, from which certainty is left
RIDGE = 1e-4  # of the imitation
EFFECTIVE = 1 / 3  # share of the rows that the effective sample size keeps under an automatic tilt
TILTS = 1e-3, 1e3  # between which an automatic tilt is searched for, over the deviation of the logged costs
MOST_TILT = 10.0  # of an automatic one, over the same: from policies far nearer to certain no fit moves


def start_coef(
    start: str,
    design: Design,
    logging_policy: LinearPolicy | None = None,
    model: np.ndarray | None = None,
    tilt: float | str = 1.0,
) -> tuple[np.ndarray, float | None]:
    """Return Θ at which a fit starts, (d, …), and the tilt κ that was used, if any.

    Parameters
    ----------
    start : str
        One of ``STARTS``.
    design : Design
        The log; where it has an intercept, that is the last row of Θ.
    logging_policy : ExponentialPolicy or SoftmaxPolicy, optional
        π0. "model" tilts an imitation where it is not given; "logging" needs it.
    model : array (d, …), optional
        Coefficients of the cost model, for "model"; with their intercepts as the last row where Θ has one.
    tilt : float ≥ 0 or "auto"

    Raises
    ------
    InputError
        An unknown start, one whose policy or model is not given or has another shape, or a tilt that is no number.
    """
    one_of(STARTS, start, "start")
    tilt = as_tilt(tilt)
    if start == "zero":
        return np.zeros(design.shape), None
    if start == "logging" and logging_policy is None:
        raise InputError(
            "start 'logging' needs the logging policy's coefficients; 'imitation' learns some from the log"
        )
    known = None if logging_policy is None else _uncertain(policy_coef(logging_policy, design), design)
    base = imitation(design) if start == "imitation" or known is None else known
    if start != "model":
        return base, None
    if model is None:
        raise InputError("start 'model' needs the coefficients of a cost model")
    model, expected = np.asarray(model, dtype=float), (design.shape[0], *design.log.actions.effect_shape)
    if model.shape != expected:
        raise InputError(f"the cost model's coef_ has shape {model.shape}, expected {expected}")
    tilt = automatic_tilt(design.log, base, model) if tilt == "auto" else tilt
    return base - tilt * design.log.actions.moving(model), tilt


def imitation(design: Design) -> np.ndarray:
    """Return Θ of the largest mean log π_Θ(y_i|x_i) − (λ/2) ‖Θ‖², λ = 10⁻⁴, shape (d, …); Θ in units of the features.

    A coefficient counts times the scale of its feature, so that the policy does not depend on units.
    """
    objective = Objective(design, MeanRisk(), Likelihood(), cost=np.full(len(design.log.Y), -1.0))
    [fit] = minimize_objectives([objective], np.zeros(design.shape), ridges=[RIDGE])
    return fit.coef


def imitated(log: BanditLog, intercept: bool = False) -> LinearPolicy:
    """Return the imitation of a log, as a policy."""
    coef = imitation(Design(log, intercept=intercept, trains=True))
    return policy_of(log.actions, coef[:-1], coef[-1]) if intercept else policy_of(log.actions, coef)


def effective_size(weight: np.ndarray, count: np.ndarray) -> float:
    """Return Kish's effective sample size (Σ w)² / Σ w², of weights (n,) that occur so often."""
    return float((count @ weight) ** 2 / (count @ weight**2))


def automatic_tilt(log: BanditLog, base: np.ndarray, model: np.ndarray) -> float:
    """Return the tilt κ at which the effective sample size of the tilted policy is a third of the rows.

    It is at most 10 over the deviation of the logged costs: where π0 mostly chooses well, a policy that is as good as
    certain has more effective rows than a third, and its objective no slope. A large log's is that of some contexts.
    """
    design = Design(log, intercept=len(base) > log.X.shape[1]).sample
    log, slope = design.log, design.log.actions.moving(model)

    def above(log_tilt: float) -> float:
        log_prob, _ = design.forward(base - np.exp(log_tilt) * slope)
        log_weight = np.minimum(log_prob, 0) - design.log.log_propensity
        weight = np.exp(log_weight - log_weight.max())
        return effective_size(weight, design.log.count) - EFFECTIVE * log.size

    unit = spread(log.cost, log.count)
    low, high = np.log(TILTS) - np.log(unit)
    if above(low) <= 0:
        return float(np.exp(low))
    if above(high) >= 0:
        return MOST_TILT / unit
    return min(float(np.exp(brentq(above, low, high, xtol=1e-12))), MOST_TILT / unit)


def as_tilt(tilt: object, name: str = "tilt") -> float | str:
    """Return a tilt κ, or "auto"; InputError for anything else."""
    if isinstance(tilt, str) and tilt == "auto":
        return tilt
    if not 0 <= number(tilt) < np.inf:
        raise InputError(f"{name} is {tilt!r}, expected 'auto' or a finite number ≥ 0")
    return number(tilt)


def policy_coef(logging_policy: LinearPolicy, design: Design) -> np.ndarray:
    """Return Θ of π0 as a design has it, (d, …); InputError where it is a policy over others."""
    require_same(logging_policy, design.shape[0] - design.intercept, design.log.actions, "the logging policy")
    if logging_policy.features:
        raise InputError("the logging policy has features of its own, from which no fit can start; leave it out")
    if logging_policy.intercept.any() and not design.intercept:
        raise InputError("the logging policy has an intercept, which a fit has with fit_intercept=True alone")
    return logging_policy.stacked if design.intercept else logging_policy.coef


def _uncertain(coef: np.ndarray, design: Design) -> np.ndarray:
    """Θ (d, …), centred, and clipped to ±30 in units of the features, so that no action is certain."""
    largest = LARGEST / design.scales
    return np.clip(design.log.actions.centred(coef), -largest, largest)
