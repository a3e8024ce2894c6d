"""Balls of any φ-divergence, with CVaR as a special case."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drcrm.arrays.validation import check_confidence
from drcrm.divergences import CVaR, Divergence, as_divergence
from drcrm.errors import InputError
from drcrm.risks.balls.base import Ball
from drcrm.risks.base import Evaluation, check_costs, rescale_extremes


@dataclass(frozen=True)
class WorstCase:
    """Worst case in a ball, with the optimum of the dual.

    Attributes
    ----------
    value : float
        Largest mean E_Q z.
    weights : array (n,)
        Worst-case distribution Q.
    gamma : float
        Optimal multiplier γ ≥ 0 of the dual, in the unit of z. It is infinite at radius 0, where Q = P_n, and 0 if the
        radius does not bind.
    c : float
        Optimal c of the dual, in the unit of z.
    """

    value: float
    weights: np.ndarray
    gamma: float
    c: float


class PhiBall(Ball):
    """Worst case over the ball of a φ-divergence: the largest mean E_Q z over distributions Q with D_φ(Q‖P_n) ≤ ε.

    The risk equals its dual, inf_{γ ≥ 0, c} γε + c + γ mean φ*((z − c)/γ). The gradient is the worst-case Q. In a large
    ball, Q has all mass on the largest z, and is uniform over the rows with this z. The classes :class:`KLBall` and
    :class:`Chi2Ball` compute the same risk for KL and χ² by faster searches. Source: Faury et al. 2020, section 3.2.

    Parameters
    ----------
    divergence : Divergence, str or dict
        An object of :mod:`drcrm.divergences` or its name, such as "squared_hellinger" or {"cressie_read": 3}.
    radius : float ≥ 0, "auto" or None
        Radius ε; None for CVaR, which has no radius. "auto" is ε = φ''(1) q²/(2n), as in :class:`KLBall`, and needs
        φ''(1) > 0.
    confidence : float in (½, 1)
        Confidence level of the radius "auto".

    Raises
    ------
    InputError
        If the radius does not fit the divergence, or if φ fails the checks of :mod:`drcrm.divergences.coherence`.
    """

    def __init__(
        self, divergence: Divergence | str | Mapping, radius: float | str | None = None, confidence: float = 0.95
    ):
        self.divergence = as_divergence(divergence)
        self.divergence.check()
        self.curvature = self.divergence.curvature
        if self.divergence.takes_radius:
            super().__init__(radius, confidence)
        elif radius is not None:
            raise InputError(f"radius must be None for {self.divergence!r}, which has no radius, got {radius!r}")
        else:
            self.radius, self.confidence = None, check_confidence(confidence, "confidence")
        if self.radius == "auto" and self.curvature is None:
            raise InputError(
                f"radius 'auto' needs a divergence with φ''(1) > 0, got {self.divergence!r}. Give radius as a number."
            )

    @rescale_extremes
    def evaluate(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> Evaluation:
        worst, next_guess = self._worst_case(z, share, self.radius_at(n), guess)
        return worst.value, worst.weights, next_guess

    def worst_case(self, z: ArrayLike, weights: ArrayLike | None = None) -> WorstCase:
        """Return the worst case with the optimum of the dual.

        Parameters
        ----------
        z : array (n,)
            Costs.
        weights : array (n,), optional
            How often each cost occurs, at least 0; by default once.

        Returns
        -------
        WorstCase
            Risk, worst-case distribution, and γ and c of the dual.
        """
        z, weights = check_costs(z, weights)
        value, worst = self(z, weights)
        occurs = weights > 0
        dual, _ = self._worst_case(z[occurs], weights[occurs] / weights.sum(), self.radius_at(weights.sum()))
        return WorstCase(value, worst, dual.gamma, dual.c)

    def _worst_case(
        self, z: np.ndarray, share: np.ndarray, radius: float, guess: Any = None
    ) -> tuple[WorstCase, object]:
        largest = z.max()
        below = z - largest
        if radius == 0 or not below.any():
            return WorstCase(share @ z, share, np.inf if below.any() else 0.0, largest + share @ below), guess
        worst = self.divergence.worst_case(below, share, radius, guess)
        weights = share * worst.density
        value = largest + weights @ below
        return WorstCase(value, weights, float(worst.gamma), float(largest + worst.c)), worst.guess


class CVaRRisk(PhiBall):
    """Conditional value at risk: the mean of the largest costs, a share α of all rows.

    It is the worst case over the ball of :class:`drcrm.divergences.CVaR`. Source: Rockafellar & Uryasev 2000.

    Parameters
    ----------
    alpha : float in (0, 1]
        Share α; 1 gives the mean.
    """

    robust_end = "low"

    def __init__(self, alpha: float):
        divergence = CVaR(alpha)
        super().__init__(divergence)
        self.alpha = divergence.alpha
