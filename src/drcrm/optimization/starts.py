"""Starting points of a fit: Θ = 0, the logging policy, that policy tilted by a cost model, or behaviour cloning.

Behaviour cloning estimates the logging policy from the logged actions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy  # loads scipy.optimize, which is slow, at its first use

from drcrm.arrays.numerics import cost_deviation, has_constant
from drcrm.arrays.validation import check_choice, to_float
from drcrm.data.bandit_log import BanditLog
from drcrm.data.folds import merge_folds, training_parts
from drcrm.errors import InputError
from drcrm.optimization.lbfgs import LbfgsSettings, minimize_objectives
from drcrm.optimization.objective import Objective
from drcrm.policies.base import check_compatible
from drcrm.policies.exponential import LinearPolicy, make_policy
from drcrm.policies.prepared_log import PreparedLog
from drcrm.risks import MeanRisk
from drcrm.weights import Likelihood, effective_sample_size

STARTS = {
    "zero": "Θ = 0",
    "logging": "the logging policy",
    "model": "the logging policy tilted by the cost model",
    "imitation": "the policy cloned from the logged actions",
}
MAX_COEFFICIENT = 30.0  # limit of a coefficient of the logging policy, multiplied by the scale of its feature
KEPT_SHARE = 1 / 3  # effective sample size at the automatic tilt, as a share of the rows
TILT_RANGE = 1e-3, 1e3  # range of the search for the automatic tilt, divided by the standard deviation of the costs
MAX_TILT = 10.0  # limit of the automatic tilt in the same unit: a fit would not leave a near-deterministic policy
RIDGE = 1e-4  # λ


def start_coef(
    start: str,
    prepared: PreparedLog,
    base: np.ndarray | None = None,
    model: np.ndarray | None = None,
    tilt: float | str = 1.0,
) -> tuple[np.ndarray, float | None]:
    """Return the start of a fit, Θ of shape (d, …), and the tilt κ if there is one.

    Parameters
    ----------
    start : str
        A key of ``STARTS``.
    prepared : PreparedLog
        The log. If it has an intercept, that is the last row of Θ.
    base : array (d, …), optional
        Θ of π0: see ``policy_coef``. The start "logging" requires it. If it is None, "model" tilts the cloned policy.
    model : array (d, …), optional
        Coefficients of the cost model, for "model"; their last row is the intercept if Θ has one.
    tilt : float ≥ 0 or "auto"
        κ; see ``automatic_tilt``.

    Raises
    ------
    InputError
        If the start is unknown, if its policy or model is missing or has a wrong shape, or if the tilt is invalid.
    """
    check_choice(STARTS, start, "start")
    kappa = as_tilt(tilt)
    if start == "zero":
        return np.zeros(prepared.shape), None
    if start == "logging" and base is None:
        raise InputError(
            "start 'logging' needs the logging policy's coefficients; 'imitation' estimates them from the log"
        )
    base = cloned_coefficients(prepared) if start == "imitation" or base is None else _keep_uncertain(base, prepared)
    if start != "model":
        return base, None
    if model is None:
        raise InputError("start 'model' needs the coefficients of a cost model")
    model, expected = np.asarray(model, dtype=float), (prepared.shape[0], *prepared.log.actions.effect_shape)
    if model.shape != expected:
        raise InputError(f"the cost model's coef_ has shape {model.shape}, expected {expected}")
    used = automatic_tilt(prepared.log, base, model) if isinstance(kappa, str) else kappa
    return base - used * prepared.log.actions.score_part(model), used


def automatic_tilt(log: BanditLog, base: np.ndarray, model: np.ndarray) -> float:
    """Return the tilt κ at which the effective sample size of the tilted policy is a third of the rows.

    κ is at most 10 divided by the standard deviation of the costs. If π0 already chooses well, even a
    near-deterministic policy can have this effective sample size, and the objective is flat there. For a large log, κ
    is computed from a sample of its contexts.
    """
    prepared = PreparedLog(log, intercept=len(base) > log.X.shape[1]).sample
    log, slope = prepared.log, prepared.log.actions.score_part(model)

    def excess_size(log_tilt: float) -> float:
        log_prob, _ = prepared.forward(base - np.exp(log_tilt) * slope)
        log_weight = np.minimum(log_prob, 0) - prepared.log.log_propensity
        weight = np.exp(log_weight - log_weight.max())
        return effective_sample_size(weight, prepared.log.count) - KEPT_SHARE * log.size

    unit = cost_deviation(log.cost, log.count)
    low, high = np.log(TILT_RANGE) - np.log(unit)
    if excess_size(low) <= 0:
        return float(np.exp(low))
    if excess_size(high) >= 0:
        return MAX_TILT / unit
    return min(float(np.exp(scipy.optimize.brentq(excess_size, low, high, xtol=1e-12))), MAX_TILT / unit)


def as_tilt(tilt: object, name: str = "tilt") -> float | str:
    """Return a tilt κ, or "auto"; raise InputError for anything else."""
    if isinstance(tilt, str) and tilt == "auto":
        return tilt
    if not 0 <= to_float(tilt) < np.inf:
        raise InputError(f"{name} is {tilt!r}, expected 'auto' or a finite number ≥ 0")
    return to_float(tilt)


def policy_coef(policy: LinearPolicy, prepared: PreparedLog) -> np.ndarray:
    """Return Θ of π0, (d, …), for fits to a log; raise InputError if its features or actions differ."""
    check_compatible(policy, prepared.shape[0] - prepared.intercept, prepared.log.actions, "the logging policy")
    if policy.features:
        raise InputError("a fit cannot start at a logging policy with its own feature map; omit the policy")
    if policy.intercept.any() and not prepared.intercept:
        raise InputError("the logging policy has an intercept; set fit_intercept=True to start there")
    return policy.coef_with_intercept if prepared.intercept else policy.coef


def _keep_uncertain(coef: np.ndarray, prepared: PreparedLog) -> np.ndarray:
    """Return Θ, (d, …), centred and clipped to ±30 in units of the features, so that no action is certain."""
    largest = MAX_COEFFICIENT / prepared.scales
    return np.clip(prepared.log.actions.centre(coef), -largest, largest)


def cloned_coefficients(prepared: PreparedLog, tol: float = 1e-6) -> np.ndarray:
    """Return the Θ, (d, …), that maximises the mean of log π_Θ(y_i|x_i) minus (λ/2) ‖Θ‖², with λ = 10⁻⁴.

    In the penalty, each coefficient is multiplied by the scale of its feature, so the policy does not depend on units.
    Costs and propensities of the log are not used. ``tol`` is the tolerance of L-BFGS.
    """
    objective = Objective(prepared, MeanRisk(), Likelihood(), cost=np.full(len(prepared.log.Y), -1.0))
    [fit] = minimize_objectives([objective], np.zeros(prepared.shape), LbfgsSettings(tol=tol), ridges=[RIDGE])
    return fit.coef


def clone_behaviour(log: BanditLog, intercept: bool = False, tol: float = 1e-6) -> LinearPolicy:
    """Return the policy of ``cloned_coefficients``, with a fitted intercept if ``intercept`` is true."""
    coef = cloned_coefficients(PreparedLog(log, intercept=intercept), tol)
    return make_policy(log.actions, coef[:-1], coef[-1]) if intercept else make_policy(log.actions, coef)


def clone_folds(log: BanditLog, fold: np.ndarray, tol: float = 1e-6, most: int | None = None) -> list[LinearPolicy]:
    """Return for each fold the policy that is cloned from the other folds: see :func:`training_parts`."""
    intercept = log.actions.has_intercept and not has_constant(log.X)
    return [clone_behaviour(part, intercept, tol) for part in training_parts(log, fold, most)]


def marginals_of_folds(log: BanditLog, policies: Sequence[LinearPolicy], fold: np.ndarray) -> np.ndarray:
    """Return the probabilities of all actions by the policy of each context's fold, in the shape of scores."""
    return merge_folds(fold, log.actions, lambda number: policies[number].marginals_on(log.X, log.actions))
