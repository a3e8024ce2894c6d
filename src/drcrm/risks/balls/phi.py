"""The ball of any φ-divergence as a risk: max {E_Q z : D_φ(Q‖P_n) ≤ ε}."""

from dataclasses import dataclass

import numpy as np

from drcrm.arrays.validation import above_half
from drcrm.divergences.families import CVaR, as_divergence
from drcrm.errors import InputError
from drcrm.risks.base import Ball, checked_costs, homogeneous


@dataclass(frozen=True)
class WorstCase:
    """The worst case in a ball: its value, Q, and the γ* ≥ 0 and c* of the dual, which are in the units of z.

    γ* is infinite in a ball of radius 0, where Q = P_n, and 0 where the ball's radius does not bind.
    """

    value: float
    weights: np.ndarray
    gamma: float
    c: float


class PhiBall(Ball):
    """inf_{γ ≥ 0, c} γε + c + γ mean φ*((z − c)/γ) = max {E_Q z : D_φ(Q‖P_n) ≤ ε}. Source: section 3.2 of the paper.

    The gradient is the worst-case Q; where the ball is so large that all its mass is on the largest z, it is uniform
    there. ``KLBall`` and ``Chi2Ball`` are the same for KL and Chi2, by searches of their own.

    Parameters
    ----------
    divergence : Divergence, str or map
        One of :mod:`drcrm.divergences`, or its name there: "squared_hellinger", {"cressie_read": 3}.
    radius : float ≥ 0 or "auto"
        ε, in the units of φ; None for CVaR, which has no radius. "auto" is for divergences with φ''(1) > 0.
    confidence : float in (½, 1)
        At which "auto" is calibrated.

    Raises
    ------
    InputError
        A radius that does not fit, or a φ that is not convex, not 0 at 1, negative, or without φ''(1) > 0.
    """

    def __init__(self, divergence, radius: float | str | None = None, confidence: float = 0.95):
        self.divergence = as_divergence(divergence)
        self.divergence.check()
        if self.divergence.takes_radius:
            super().__init__(radius, confidence)
        elif radius is not None:
            raise InputError(f"radius is {radius!r}, but {self.divergence!r} has none")
        else:
            self.radius, self.confidence = None, above_half(confidence, "confidence")
        if self.radius == "auto" and self.curvature is None:
            raise InputError(f"radius is 'auto', but {self.divergence!r} has no φ''(1) > 0 to calibrate it by")

    @property
    def curvature(self) -> float | None:
        """φ''(1); None where φ has none that is above 0."""
        return self.divergence.curvature

    @homogeneous
    def evaluate(self, z, share, n, guess=None):
        worst, guess = self._worst_case(z, share, self.radius_at(n), guess)
        return worst.value, worst.weights, guess

    def worst_case(self, z, weights=None) -> WorstCase:
        """Return the worst case of costs z, (n,), that occur ``weights`` times; arguments and errors as of a call."""
        z, weights = checked_costs(z, weights)
        value, worst = self(z, weights)
        on = weights > 0
        dual, _ = self._worst_case(z[on], weights[on] / weights.sum(), self.radius_at(weights.sum()))
        return WorstCase(value, worst, dual.gamma, dual.c)

    def _worst_case(self, z, share, radius, guess=None) -> tuple[WorstCase, object]:
        largest = z.max()
        below = z - largest
        if radius == 0 or not below.any():
            return WorstCase(share @ z, share, np.inf if below.any() else 0.0, largest + share @ below), guess
        scaled = self.divergence.worst(below, share, radius, guess)
        worst = share * scaled.density
        value = largest + worst @ below
        return WorstCase(value, worst, float(scaled.gamma), float(largest + scaled.c)), scaled.guess


class CVaRRisk(PhiBall):
    """The mean of the largest z that make up a share α: the ball of ``CVaR``. Source: Rockafellar & Uryasev 2000.

    Parameters
    ----------
    alpha : float in (0, 1]
        α; 1 is the mean.
    """

    robust_end = "low"

    def __init__(self, alpha: float):
        super().__init__(CVaR(alpha))
        self.alpha = self.divergence.alpha
