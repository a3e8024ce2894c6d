"""Balls of any φ-divergence, with CVaR as a special case."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drcrm.arrays.validation import check_confidence, to_float
from drcrm.divergences import CVaR, Divergence, as_divergence
from drcrm.errors import InputError
from drcrm.risks.balls.base import Ball, Dual
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
    atom : float, optional
        Largest possible cost B, for "reverse_kl". Q may then have mass on B too. The gradient is the part of Q on the
        rows, so its sum is 1 minus the mass on B.

    Raises
    ------
    InputError
        If the radius or the atom does not fit the divergence, if φ fails the checks of
        :mod:`drcrm.divergences.coherence`, or if a cost is above the atom.
    """

    hyper_parameter = "radius"

    def __init__(
        self,
        divergence: Divergence | str | Mapping,
        radius: float | str | None = None,
        confidence: float = 0.95,
        atom: float | None = None,
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
        self.atom = None if atom is None else to_float(atom)
        if self.atom is not None and not (self.divergence.takes_atom and np.isfinite(self.atom)):
            raise InputError(f"atom must be a finite number, for reverse_kl only, got {atom!r} for {self.divergence!r}")
        if self.radius == "auto" and self.curvature is None:
            raise InputError(
                f"radius 'auto' needs a divergence with φ''(1) > 0, got {self.divergence!r}. Give radius as a number."
            )

    def in_units_of(self, scale: float) -> "PhiBall":
        if self.atom is None:
            return self
        ball = copy(self)
        ball.atom = self.atom / scale
        return ball

    @rescale_extremes
    def evaluate(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> Evaluation:
        worst, next_guess = self._worst_case(z, share, self.radius_at(n), guess)
        return worst.value, worst.weights, next_guess

    @property
    def phi_divergence(self) -> Divergence:
        return self.divergence

    def solve_dual(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> Dual:
        worst, next_guess = self._worst_case(z, share, self.radius_at(n), guess)
        return Dual(worst.value, worst.gamma, worst.c, next_guess)

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
        if self.atom is not None and radius > 0:
            if largest > self.atom:
                raise InputError(f"costs must be at most the atom {self.atom:.6g}, got {largest:.6g}")
            worst = self.divergence.worst_case_with_atom(below, share, radius, self.atom - largest)
            if worst is not None:
                return WorstCase(self.atom - worst.gamma, share * worst.density, worst.gamma, largest + worst.c), guess
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

    robust_end, hyper_parameter = "low", "alpha"

    def __init__(self, alpha: float):
        divergence = CVaR(alpha)
        super().__init__(divergence)
        self.alpha = divergence.alpha
