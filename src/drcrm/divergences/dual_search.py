"""Search for the optimum of the dual inf_{γ ≥ 0, c} γε + c + γ mean φ*((z − c)/γ) of a smooth φ-divergence.

The worst case has the density t_i = φ*'((z_i − c)/γ), with Σ share t = 1 and Σ share φ(t) = ε. Shift z so that its
maximum is 0, and write (z − c)/γ = a + bz. For each b, exactly one value a(b) gives Σ share t = 1. The divergence at
(a(b), b) grows with b. So an outer search finds b. For each b, an inner search finds the density ``top`` of the largest
z, and a(b) = φ'(top).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from drcrm.divergences.base import SmoothDivergence


SMALLEST_LOG_B, LARGEST_LOG_B = -700.0, 690.0
NEWTON_ROUNDS = 50  # after this many rounds, a search halves its bracket
SUM_TOLERANCE = 1e-13  # an error of Σ share t up to this is corrected by normalisation
ROUNDING = 1e-17  # additional error per row that is accepted if a step no longer halves the error
LAST_STEP = 1e-6  # after a smaller step of log b the search ends, because the square of the step is negligible


def find_density_at_radius(
    divergence: SmoothDivergence,
    radius: float,
    z: np.ndarray,
    share: np.ndarray,
    guess: tuple[float, float] | None = None,
) -> tuple[np.ndarray, Any, Any, tuple[Any, Any]]:
    """Return t, a, b and the guess for a search with similar z.

    For small b, the log of the divergence is nearly linear in log b. So the search takes Newton steps inside a bracket.
    It halves the bracket when a step does not at least halve |log(radius / divergence)|, or after 50 rounds.

    Parameters
    ----------
    divergence : SmoothDivergence
    radius : float
        At least 0 and below the divergence of the distribution with all mass on the largest z.
    z : array of shape (n,)
        Costs with minimum −1 and maximum 0.
    share : array of shape (n,)
        Positive, with sum 1.
    guess : (float, float), optional
        log(b · standard deviation of z) and the t of the largest z, from a previous search. The default suits small
        radii.
    """
    mean = share @ z
    unit = 0.5 * np.log(share @ (z - mean) ** 2)
    largest_density = 1 / share[z == 0].sum()  # t of the largest z if it has all mass
    start = 0.5 * np.log(2 * divergence.curvature * radius) if guess is None else guess[0]
    log_b = np.clip(start - unit, SMALLEST_LOG_B, LARGEST_LOG_B)
    top: Any = divergence.density(1.0, -np.exp(log_b) * mean)[0] if guess is None else guess[1]
    low, high, log_ratio, rounds, is_last = SMALLEST_LOG_B, LARGEST_LOG_B, np.inf, 0, False
    while True:
        rounds += 1
        b = np.exp(log_b)
        top, density, slope = _normalise(divergence, top, b, z, share, largest_density)
        if is_last:
            break
        weight = share * slope
        centre = weight @ z / weight.sum()
        distance = share @ divergence.phi(density)
        growth = b * b * (weight @ (z - centre) ** 2)
        low, high = (low, log_b) if distance > radius else (log_b, high)
        previous, log_ratio = log_ratio, np.log(radius / distance)
        step = np.clip(log_ratio * distance / growth, -4, 4)
        is_last = abs(step) < LAST_STEP and abs(log_ratio) < LAST_STEP
        next_log_b = log_b + step
        is_bracketed = low > SMALLEST_LOG_B and high < LARGEST_LOG_B
        is_slow = rounds > NEWTON_ROUNDS or (is_bracketed and abs(log_ratio) > abs(previous) / 2)
        if not is_last and (is_slow or not low < next_log_b < high):
            next_log_b = (low + high) / 2
        if (not is_last and next_log_b in (low, high)) or not next_log_b > SMALLEST_LOG_B:
            break
        change = divergence.density(top, 0.0)[1] * centre * (b - np.exp(next_log_b))
        top, log_b = top + (change if np.isfinite(change) else 0), next_log_b
    return density / (share @ density), divergence.slope(top), b, (log_b + unit, top)


def _normalise(
    divergence: SmoothDivergence, top: float, b: float, z: np.ndarray, share: np.ndarray, largest_density: float
) -> tuple[float, np.ndarray, np.ndarray]:
    """Find the densities t with Σ share t = 1. Return the t of the largest z, all t, and all slopes φ*''.

    The search starts at ``top``. The sum is nearly linear in the t of the largest z, so the search takes Newton steps
    inside a bracket.
    """
    low, high, excess, rounds = 1.0, largest_density, np.inf, 0
    top = low if np.isnan(top) else min(max(top, low), high)
    drop = b * z
    while True:
        rounds += 1
        density, slope = divergence.density(top, drop)
        previous, excess = excess, share @ density - 1
        if excess > 0:
            high = top
        else:
            low = top
        next_top = top - excess * divergence.density(top, 0.0)[1] / (share @ slope)
        if not low < next_top < high or abs(excess) > abs(previous) / 2 or rounds > NEWTON_ROUNDS:
            next_top = np.sqrt(low * high)
        is_stuck = abs(previous) / 2 < abs(excess) <= SUM_TOLERANCE + ROUNDING * len(z)
        if abs(excess) <= SUM_TOLERANCE or is_stuck:
            return top, density, slope
        if next_top in (low, high, top):
            return top, _interpolate(divergence, low, high, drop, share, density), slope
        top = next_top


def _interpolate(
    divergence: SmoothDivergence, low: float, high: float, drop: np.ndarray, share: np.ndarray, density: np.ndarray
) -> np.ndarray:
    """Return densities with Σ share t = 1, interpolated between the densities at two neighbouring floats.

    φ* can be so steep that the solution lies between two neighbouring floats.
    """
    below, above = (divergence.density(top, drop)[0] for top in (low, high))
    fraction = (1 - share @ below) / (share @ above - share @ below)
    mixed = below + min(max(fraction, 0), 1) * (above - below)
    return mixed if np.isfinite(mixed).all() else density
