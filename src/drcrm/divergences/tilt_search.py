"""Search for the worst case of the KL divergence, the exponential tilt Q_β ∝ P_n e^{βz}.

With Φ(β) = log Σ share e^{βz}, the divergence is KL(Q_β‖share) = β Φ'(β) − Φ(β), and its derivative is β Φ''(β). The
second to fourth cumulants κ₂, κ₃, κ₄ of z under Q_β are derivatives of Φ. They correct the Newton steps, and give Φ and
the mean of z after the last step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drcrm.arrays.numerics import RARE, exp
from drcrm.divergences.worst_case_search import Costs, WorstDensity, search_radius, sum_costs, sum_squares

LAST_CHANGE = 1e-3  # for a change of β below this, the Taylor polynomial has a relative error of at most 1e-11
LARGEST_EXPONENT = 700.0  # the mass relative to the untilted mean of z would overflow above this
FAR = 1e4  # if the squared distance of the mean from the centre exceeds κ₂ by this factor, cumulants lose digits


@dataclass(frozen=True)
class Tilt:
    """Worst-case weights share · e^{β(z − shift)}/mass, as a function of (z, share)."""

    beta: float
    shift: float
    mass: float

    def __call__(self, z: np.ndarray, share: np.ndarray) -> np.ndarray:
        tilted = z - self.shift
        tilted *= self.beta
        exp(tilted, out=tilted)
        tilted *= share
        tilted /= self.mass
        return tilted


@dataclass(frozen=True)
class TiltState:
    """Q_β: log Σ share e^{β(z − shift)}, and the mean and the second to fourth cumulants of z."""

    beta: float
    shift: float
    log_mass: float
    mean: float
    k2: float
    k3: float
    k4: float

    @property
    def divergence(self) -> float:
        """KL(Q_β‖share)."""
        return self.beta * (self.mean - self.shift) - self.log_mass

    def step(self, radius: float) -> tuple[float, bool]:
        """Return a corrected Newton step of log β, and whether it is small enough to be the last."""
        divergence, slope = self.divergence, self.beta * self.k2 * self.beta
        step = np.log(radius / divergence) * divergence / slope if divergence > 0 and slope > 0 else np.inf
        corrected = self._solve_taylor(radius, divergence, step) if abs(step) < 0.5 else None
        return (step, False) if corrected is None else (corrected, abs(self.beta * corrected) < LAST_CHANGE)

    def _solve_taylor(self, radius: float, divergence: float, start: float) -> float | None:
        """Return the step at which KL's Taylor polynomial at β equals the radius; None if it is not near the start.

        The polynomial is KL(β + s) = KL(β) + ∫₀ˢ (β + x)(κ₂ + κ₃ x + κ₄ x²/2) dx. Newton's method solves it in log KL
        and log β.
        """
        beta, k2, k3, k4, change = self.beta, self.k2, self.k3, self.k4, 0.0
        for _ in range(20):
            s = beta * np.expm1(start + change)
            value = divergence + s * (
                beta * k2 + s * ((k2 + beta * k3) / 2 + s * ((k3 + beta * k4 / 2) / 3 + s * k4 / 8))
            )
            slope = (beta + s) * (k2 + s * (k3 + s * k4 / 2)) * (beta + s)
            if not (value > 0 and slope > 0):
                return None
            newton = np.log(radius / value) * value / slope
            change += newton
            if abs(newton) < 1e-14:
                break
        return start + change if abs(change) < 0.5 else None

    def worst_case(self, step: float, unit: float, untilted_mean: float) -> WorstDensity:
        """Return the worst case after the last step of log β."""
        s, beta = self.beta * np.expm1(step), self.beta * np.exp(step)
        mean = self.mean + s * (self.k2 + s * (self.k3 / 2 + s * self.k4 / 6))
        log_mass = self.log_mass + s * (
            self.mean - self.shift + s * (self.k2 / 2 + s * (self.k3 / 6 + s * self.k4 / 24))
        )
        guess = float(np.log(beta) + unit), (mean - untilted_mean) / np.exp(unit)
        return WorstDensity(
            mean, Tilt(beta, self.shift, np.exp(log_mass)), 1 / beta, self.shift + log_mass / beta, guess
        )


def find_worst_tilt(radius: float, costs: Costs, guess: tuple[float, float] | None = None) -> WorstDensity | None:
    """Return the worst case of KL, or None if Q has all mass on the largest cost or sums are too imprecise to find it.

    Parameters
    ----------
    radius : float
        In nats, above 0.
    costs : CostArrays or UnitCosts
        Costs with minimum −1 and maximum 0.
    guess : (float, float), optional
        log(β · standard deviation of z), and the change of the mean in standard deviations, from a previous search. The
        default suits small radii.
    """
    mean, mass, _ = costs.sum(sum_costs)
    variance = costs.sum(sum_squares, mean)
    if radius >= -np.log(mass) or not variance > 0:
        return None
    unit = 0.5 * np.log(variance)
    start, change = (0.5 * np.log(2 * radius), 0.0) if guess is None else guess
    centre = mean + change * np.exp(unit)

    def evaluate(beta: float) -> TiltState | None:
        nonlocal centre
        shift = mean if -beta * mean < LARGEST_EXPONENT else 0.0
        for _ in range(3):
            excess, mass, *sums = costs.sum(_sum_tilted, beta, shift, centre)
            if not mass > RARE:
                return None
            m1, m2, m3, m4 = (total / mass for total in sums)
            k2 = m2 - m1**2
            centre += m1
            if m1**2 <= FAR * k2:
                break
        k3, k4 = m3 - 3 * m1 * m2 + 2 * m1**3, m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4 - 3 * k2**2
        state = TiltState(beta, shift, np.log1p(excess) if beta < 1 else np.log(mass), centre, k2, k3, k4)
        is_lost = beta >= 1 and not k2 > 0 and not state.divergence > radius
        return None if is_lost else state

    with np.errstate(all="ignore"):
        state, step = search_radius(radius, min(start - unit, np.log(LARGEST_EXPONENT / -mean)), evaluate)
        return state.worst_case(step, unit, mean) if np.isfinite(step) else None


def _sum_tilted(z: np.ndarray, share: np.ndarray, beta: float, shift: float, centre: float) -> np.ndarray:
    """Return Σ share (w − 1), if β < 1, and Σ share w (z − centre)ᵏ for k = 0 … 4 with w = e^{β(z − shift)}."""
    weight = z - shift
    weight *= beta
    excess: Any = np.nan
    if beta < 1:
        np.expm1(weight, out=weight)
        excess = share @ weight
        weight += 1
    else:
        exp(weight, out=weight)
    weight *= share
    distance = z - centre
    sums = [excess, weight.sum(), weight @ distance]
    for _ in range(3):
        weight *= distance
        sums.append(weight @ distance)
    return np.array(sums)
