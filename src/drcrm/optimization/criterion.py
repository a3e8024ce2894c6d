"""What an algorithm minimises: the objective of a risk, a weight and an estimate, and the weighted likelihood."""

from __future__ import annotations

import numpy as np

from drcrm.arrays.validation import check_nonnegative
from drcrm.errors import InputError
from drcrm.optimization.objective import Objective
from drcrm.policies.prepared_log import PreparedLog
from drcrm.risks import MeanRisk, Risk
from drcrm.weights import Clipped, Likelihood, Weight

MAX_EXPONENT = 100  # the largest weight of the weighted likelihood is e to this power; e^710 would overflow


class WeightedLikelihoodRisk(MeanRisk):
    """Mean of −e^{−βc} log π, a weighted log-likelihood of the actions. It has no importance weight.

    If the largest factor e^{−βc} exceeds e¹⁰⁰, all are rescaled so that it is e¹⁰⁰. Source: Aouali & Sakhi 2025.

    Parameters
    ----------
    sharpness : float ≥ 0
        β, in the inverse unit of the cost.
    """

    robust_end = "low"
    estimates = ("ips",)

    def __init__(self, sharpness: float):
        self.sharpness = check_nonnegative(sharpness, "sharpness")

    def factors(self, cost: np.ndarray) -> np.ndarray:
        """Return −e^{−βc} of each row, (n,); InputError if an exponent is beyond the range of numbers."""
        with np.errstate(over="ignore"):
            exponent = -self.sharpness * cost
        if not np.isfinite(exponent).all():
            raise InputError(f"sharpness {self.sharpness:.6g} is too large for a cost of {cost.min():.6g}")
        return -np.exp(exponent - max(exponent.max() - MAX_EXPONENT, 0))


def make_objective(
    prepared: PreparedLog, risk: Risk, weight: Weight | None = None, estimate: str = "ips", clip: float | None = None
) -> Objective:
    """Return the objective on a log; the default weight is min(M, π/p) with M = ``clip``."""
    weight = weight or Clipped(clip)
    if isinstance(risk, WeightedLikelihoodRisk):
        return Objective(prepared, risk, Likelihood(), cost=risk.factors(prepared.log.cost))
    return Objective(prepared, risk, weight, estimate)
