"""Where a fit starts: Θ = 0, the logging policy, that policy tilted by a cost model, or an imitation of the log."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from ..errors import InputError
from .log import BanditLog
from .objective import Objective
from .optimiser import minimize_objectives
from .policies import ExponentialPolicy
from .risks import MeanRisk
from .scales import feature_scales, spread
from .scores import log_weights
from .validation import number
from .weights import Likelihood

STARTS = ("zero", "logging", "model", "imitation")
LARGEST = 30.0  # a coefficient of the logging policy times its feature's scale, from which certainty is left
RIDGE = 1e-4  # of the imitation
EFFECTIVE = 1 / 3  # share of the rows that the effective sample size keeps under an automatic tilt
TILTS = 1e-3, 1e3  # between which an automatic tilt is, over the deviation of the logged costs


def imitation(log: BanditLog) -> np.ndarray:
    """Return Θ of the largest mean log π_Θ(y_i|x_i) − (λ/2) ‖Θ‖², λ = 10⁻⁴, shape (d, q); Θ in units of the features.

    A coefficient counts times the scale of its feature, so that the policy does not depend on units.
    """
    objective = Objective(log.with_cost(np.full(len(log.Y), -1.0)), MeanRisk(), Likelihood())
    [fit] = minimize_objectives([objective], np.zeros(objective.shape), ridge=RIDGE)
    return fit.coef


def tilted(base: np.ndarray, model: np.ndarray, tilt: float) -> np.ndarray:
    """Return Θ of π ∝ π_base e^{−κ ĉ}: Θ_base − κ B without b_0, from (d, q), (d, q + 1) and the ``tilt`` κ."""
    return base - tilt * model[:, :-1]


def effective_size(policy: ExponentialPolicy, log: BanditLog) -> float:
    """Return (Σ w)² / Σ w² over the rows, w = π/p."""
    weight = log_weights(policy, log)
    weight = np.exp(np.where(log.count > 0, weight - weight[log.count > 0].max(), -np.inf))
    return float((log.count @ weight) ** 2 / (log.count @ weight**2))


def automatic_tilt(log: BanditLog, base: np.ndarray, model: np.ndarray) -> float:
    """Return the tilt κ at which the effective sample size of the tilted policy is a third of the rows."""

    def above(log_tilt: float) -> float:
        return effective_size(ExponentialPolicy(tilted(base, model, np.exp(log_tilt))), log) - EFFECTIVE * log.size

    low, high = np.log(TILTS) - np.log(spread(log))
    if above(low) <= 0:
        return float(np.exp(low))
    if above(high) >= 0:
        return float(np.exp(high))
    return float(np.exp(brentq(above, low, high, xtol=1e-12)))


def _with_a_doubt(coef: np.ndarray, log: BanditLog) -> np.ndarray:
    """Return coefficients (d, q) clipped to ±30, in units of the features: no action is certain."""
    largest = LARGEST / feature_scales(log.X)[:, None]
    return np.clip(coef, -largest, largest)


def start_coef(
    start: str, log: BanditLog, logging_policy: ExponentialPolicy | None, model: np.ndarray | None, tilt: float | str
) -> tuple[np.ndarray, float | None]:
    """Return Θ at which a fit starts, (d, q), and the tilt κ that was used, if any.

    Parameters
    ----------
    start : "zero", "logging", "model" or "imitation"
    logging_policy : ExponentialPolicy, optional
        π0. "model" tilts an imitation where it is not given; "logging" needs it.
    model : array (d, q + 1), optional
        Coefficients of the cost model, for "model".
    tilt : float ≥ 0 or "auto"

    Raises
    ------
    InputError
        An unknown start, one whose policy or model is not given or has another shape, or a tilt that is no number.
    """
    shape = log.X.shape[1], log.Y.shape[1]
    if not (isinstance(start, str) and start in STARTS):
        raise InputError(f"start is {start!r}, expected one of {', '.join(map(repr, STARTS))}")
    automatic = isinstance(tilt, str) and tilt == "auto"
    if not (automatic or 0 <= number(tilt) < np.inf):
        raise InputError(f"tilt is {tilt!r}, expected 'auto' or a finite number ≥ 0")
    if start == "zero":
        return np.zeros(shape), None
    if start == "logging" and logging_policy is None:
        raise InputError(
            "start 'logging' needs the logging policy's coefficients; 'imitation' learns some from the log"
        )
    if not isinstance(logging_policy, ExponentialPolicy | None):
        raise InputError(f"logging_policy is of type {type(logging_policy).__name__}, expected an ExponentialPolicy")
    if logging_policy is not None and logging_policy.coef.shape != shape:
        raise InputError(f"the logging policy's coef has shape {logging_policy.coef.shape}, expected {shape}")
    if logging_policy is not None and logging_policy.intercept.any():
        raise InputError("the logging policy has an intercept, which a fit has with fit_intercept=True alone")
    known = start != "imitation" and logging_policy is not None
    base = _with_a_doubt(logging_policy.coef, log) if known else imitation(log)
    if start != "model":
        return base, None
    if model is None:
        raise InputError("start 'model' needs the coefficients of a cost model")
    model, expected = np.asarray(model, dtype=float), (shape[0], shape[1] + 1)
    if model.shape != expected:
        raise InputError(f"the cost model's coef_ has shape {model.shape}, expected {expected}")
    tilt = automatic_tilt(log, base, model) if automatic else number(tilt)
    return tilted(base, model, tilt), tilt
