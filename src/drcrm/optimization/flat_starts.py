"""Explanation of fits that do not leave their starting point."""

from __future__ import annotations

from inspect import signature

import numpy as np

from drcrm.divergences import KL
from drcrm.optimization.objective import Objective
from drcrm.weights import Likelihood

ZERO_GRADIENT = "the gradient there is 0"


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def explain_flat_start(objective: Objective, start: np.ndarray) -> str:
    """Explain why L-BFGS did not move from its start, (d, …)."""
    cost = objective.estimate.cost
    value, gradient = objective(start)
    if gradient.any():
        return "the gradient there is within tol of 0"
    if isinstance(objective.weight, Likelihood) and not cost.any():
        return "e^(−βc) is 0 for each cost c; subtract a constant from all costs"
    if cost.min() == cost.max():
        return "all costs are equal"
    return ZERO_GRADIENT if objective.estimate.uses_model else _explain_worst_case(objective, start, value)


def _explain_worst_case(objective: Objective, start: np.ndarray, value: float) -> str:
    """Explain a flat start: no weight has a slope, or only rows with the largest cost are in the worst case."""
    log, risk, cost = objective.prepared.log, objective.risk, objective.estimate.cost
    weight, slope = objective.weight(objective.prepared.forward(start)[0], log.log_propensity)
    if not slope.any():
        return "no row's weight changes there: all are clipped or 0"
    largest = cost.max()
    _, in_z = risk(weight * (cost - value * objective.estimate.is_translation_equivariant), log.count)
    if in_z[cost < largest].any():
        return ZERO_GRADIENT
    share = log.count @ (cost == largest) / log.size
    parameter = "radius" if getattr(risk, "radius", None) is not None else next(iter(signature(type(risk)).parameters))
    limit = f", less than {-np.log(share):.3g}" if isinstance(getattr(risk, "divergence", None), KL) else ""
    return (
        f"the worst case of {risk!r} has only the rows with the largest cost, {100 * share:.3g} % of all, and no "
        f"policy changes that; choose a {'smaller' if risk.robust_end == 'high' else 'larger'} {parameter}{limit}"
    )
