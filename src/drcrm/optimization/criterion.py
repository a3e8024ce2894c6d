"""What an algorithm minimises: a risk, a weight and an estimate, which give an objective on a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drcrm.errors import InputError
from drcrm.optimization.environment_objective import EnvironmentObjective
from drcrm.optimization.objective import Objective
from drcrm.policies.linear_predictor import LinearPredictor
from drcrm.risks import Risk
from drcrm.weights import Clipped, Likelihood, Weight

MAX_EXPONENT = 100  # the largest weight of the weighted likelihood is e to this power; e^710 would overflow


@dataclass(frozen=True)
class Criterion:
    """What an algorithm minimises: an objective without its log.

    Parameters
    ----------
    risk : Risk
    weight : Weight, optional
        By default min(M, π/p).
    estimate : "ips", "snips", "dr" or "dm"
    sharpness : float, optional
        β of the weighted log-likelihood, the mean of −e^{−βc} log π, which replaces risk, weight and estimate. If the
        largest factor e^{−βc} exceeds e¹⁰⁰, all are rescaled so that it is e¹⁰⁰. Source: Aouali & Sakhi 2025.
    """

    risk: Risk
    weight: Weight | None = None
    estimate: str = "ips"
    sharpness: float | None = None

    @property
    def is_cross_fitted(self) -> bool:
        """Whether the objective needs the effects of a cross-fitted cost model."""
        return self.risk.is_shift and self.estimate == "dr"

    def make_objective(self, design: LinearPredictor, clip: float | None) -> Objective:
        """Return the objective on a log, with weights clipped at M."""
        if self.is_cross_fitted:
            risk: Any = self.risk
            return EnvironmentObjective(design, risk, self.weight or Clipped(clip))
        if self.sharpness is None:
            return Objective(design, self.risk, self.weight or Clipped(clip), self.estimate)
        with np.errstate(over="ignore"):
            exponent = -self.sharpness * design.log.cost
        if not np.isfinite(exponent).all():
            smallest = design.log.cost.min()
            raise InputError(f"sharpness {self.sharpness:.6g} is too large for a cost of {smallest:.6g}")
        cost = -np.exp(exponent - max(exponent.max() - MAX_EXPONENT, 0))
        return Objective(design, self.risk, Likelihood(), cost=cost)
