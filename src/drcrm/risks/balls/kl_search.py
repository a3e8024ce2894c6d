"""Search for the exponential tilt Q_β ∝ P_n e^{βz} whose divergence KL(Q_β‖P_n) equals the radius of a KL ball.

With Φ(β) = log Σ share e^{βz}, the divergence is KL(Q_β‖share) = β Φ'(β) − Φ(β), and its derivative is β Φ''(β). For
small β, log KL is nearly linear in t = log β. So the search takes Newton steps for log KL in t and corrects them by
KL's Taylor polynomial, which the second to fourth cumulants κ₂, κ₃, κ₄ of z under Q_β determine.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from drcrm.arrays.numerics import exp
from drcrm.risks.base import ChunkedCosts
from drcrm.risks.moments import RARE, exponential_weights

NEWTON_ROUNDS = 60  # after this many rounds, the search halves its bracket
LAST_STEP = 1e-3  # for a change of β below this, the Taylor polynomial has a relative error of at most 1e-11


class Outcome(Enum):
    """How a search ended."""

    CONVERGED = "converged"
    EMPTY_BRACKET = "rounding leaves no number between the ends of the bracket"
    DEGENERATE = "rounding hides the differences of the costs that have all weight"


class TiltState(NamedTuple):
    """KL(Q_β‖P_n), its derivative in t = log β, and the second to fourth cumulants of z under Q_β."""

    divergence: float
    slope: float
    cumulants: tuple[float, float, float]


def tilt_to_radius(
    radius: float, z: np.ndarray, share: np.ndarray, guess: float | None = None
) -> tuple[np.ndarray, float]:
    """Return Q_β ∝ share · e^{βz} with KL(Q_β‖share) = radius, and the guess for a search with similar z.

    If the bracket becomes empty, the function returns the closest Q. If all costs that have weight are close to the
    largest cost, rounding can hide their differences. The search then continues among these costs.

    Parameters
    ----------
    radius : float
        In nats, above 0 and below −log share(z = 0).
    z : array of shape (n,)
        Costs with minimum −1 and maximum 0.
    share : array of shape (n,)
        Positive, with sum 1.
    guess : float, optional
        log(β · standard deviation of z) from a previous search. The default suits small radii.
    """
    centred = z - share @ z
    unit = -0.5 * np.log((share * centred) @ centred)
    tilted = share

    def evaluate(beta: float) -> TiltState:
        nonlocal tilted
        tilted, divergence, cumulants = _tilt(beta, z, centred, share)
        return TiltState(divergence, beta * cumulants[0] * beta, cumulants)

    t, outcome = _search(radius, unit, guess, evaluate)
    if outcome is Outcome.DEGENERATE:
        tilted = _tilt_among_closest(radius, z, share, tilted)
    elif outcome is Outcome.CONVERGED:
        tilted, _ = exponential_weights(z, share, np.exp(t))
    return tilted, t - unit


def _tilt(
    beta: float, z: np.ndarray, centred: np.ndarray, share: np.ndarray
) -> tuple[np.ndarray, float, tuple[float, float, float]]:
    """Return Q_β, KL(Q_β‖share), and the second to fourth cumulants of z under Q_β."""
    if beta < 1:
        # For small β, use the mean of e^{βz} − 1 of centred z, which has no first-order term.
        values = centred
        tilted = beta * values
        np.expm1(tilted, out=tilted)
        excess = share @ tilted
        tilted += 1
        tilted *= share
        tilted /= 1 + excess
        log_mass = float(np.log1p(excess))
    else:
        values = z
        tilted, log_mass = exponential_weights(values, share, beta)
    mean = tilted @ values
    return tilted, beta * mean - log_mass, _cumulants(tilted, values - mean)


def _cumulants(tilted: np.ndarray, centred: np.ndarray) -> tuple[float, float, float]:
    """Return the second to fourth cumulants of centred values under weights."""
    power = tilted * centred
    second = power @ centred
    power *= centred
    third = power @ centred
    power *= centred
    return second, third, power @ centred - 3 * second**2


def _tilt_among_closest(radius: float, z: np.ndarray, share: np.ndarray, tilted: np.ndarray) -> np.ndarray:
    """Return Q, given that ``tilted`` has weight only on costs close to 0.

    On these costs, KL(Q‖share) is the divergence from ``share`` restricted to them, minus the log of their mass.
    """
    has_weight = tilted > 0
    if not has_weight.any():
        return share  # the radius is lost to rounding
    span, mass = -z[has_weight].min(), share[has_weight].sum()
    remaining_radius = radius + np.log(mass)
    if span == 0 or has_weight.all() or remaining_radius <= 0:
        return tilted  # only rounding can lead here, with all weight on the largest z
    tilted = np.zeros(len(z))
    tilted[has_weight], _ = tilt_to_radius(remaining_radius, z[has_weight] / span, share[has_weight] / mass)
    return tilted


@dataclass(frozen=True)
class Tilt:
    """Worst-case weights share · e^{βd}/mass with d = (z − largest)/span − shift, as a function of (z, share)."""

    largest: float
    span: float
    beta: float
    shift: float
    mass: float = 1.0

    def __call__(self, z: np.ndarray, share: np.ndarray) -> np.ndarray:
        tilted = self.beta * self.distance(z)
        exp(tilted, out=tilted)
        tilted *= share
        tilted /= self.mass
        return tilted

    def distance(self, z: np.ndarray) -> np.ndarray:
        """Return d."""
        distance = z - self.largest
        distance /= self.span
        distance -= self.shift
        return distance


@dataclass(frozen=True)
class OnLargest:
    """Worst-case weights, all on the largest z, whose rows have the given share, as a function of (z, share)."""

    largest: float
    share: float

    def __call__(self, z: np.ndarray, share: np.ndarray) -> np.ndarray:
        return share * (z == self.largest) / self.share


def tilt_chunks_to_radius(
    radius: float, costs: ChunkedCosts, largest: float, span: float, guess: float | None = None
) -> tuple[float, Tilt | OnLargest, float | None] | None:
    """Return the value of the ball, Q, and the guess for the next search, computed from sums over chunks.

    The function returns None if sums are too imprecise to find Q.
    """
    mean, square, largest_share = costs.sum(_sum_first_moments, largest, span)
    if radius >= -np.log(largest_share):
        return largest, OnLargest(largest, float(largest_share)), guess
    if not square > mean**2:
        return None
    unit, centre = -0.5 * np.log(square - mean**2), mean
    tilt = Tilt(largest, span, 0.0, mean)

    def evaluate(beta: float) -> TiltState | None:
        nonlocal tilt, centre
        beta = float(beta)
        tilt = Tilt(largest, span, beta, mean if beta < 1 else 0.0)
        excess, mass, *moments = costs.sum(_sum_tilted_moments, tilt, centre)
        if not mass > RARE:
            return None
        first, second, third, fourth = (moment / mass for moment in moments)
        centre += first
        k2 = second - first**2
        k3 = third - 3 * first * second + 2 * first**3
        k4 = fourth - 4 * first * third + 6 * first**2 * second - 3 * first**4 - 3 * k2**2
        log_mass = np.log1p(excess) if beta < 1 else np.log(mass)
        return TiltState(beta * (centre - tilt.shift) - log_mass, beta**2 * k2, (k2, k3, k4))

    t, outcome = _search(radius, unit, guess, evaluate)
    if outcome is not Outcome.CONVERGED:
        return None
    tilt = replace(tilt, beta=float(np.exp(t)))
    _, mass, first, *_ = costs.sum(_sum_tilted_moments, tilt, centre)
    value = largest + span * (centre + first / mass)
    return float(value), replace(tilt, mass=float(mass)), t - unit


def _sum_first_moments(z: np.ndarray, share: np.ndarray, largest: float, span: float) -> np.ndarray:
    """Return Σ share d and Σ share d² with d = (z − largest)/span, and the share of the largest z."""
    below = z - largest
    largest_share = share @ (below == 0)
    below /= span
    weighted = share * below
    return np.array([weighted.sum(), weighted @ below, largest_share])


def _sum_tilted_moments(z: np.ndarray, share: np.ndarray, tilt: Tilt, centre: float) -> np.ndarray:
    """Return Σ share (w − 1) and Σ share w (d' − centre)ᵏ, k = 0 … 4, with w = e^{βd} and d' = (z − largest)/span."""
    distance = tilt.distance(z)
    weight = tilt.beta * distance
    excess: Any = np.nan
    if tilt.beta < 1:
        np.expm1(weight, out=weight)
        excess = share @ weight
        weight += 1
    else:
        exp(weight, out=weight)
    weight *= share
    sums = [excess, weight.sum()]
    distance += tilt.shift - centre
    for _ in range(4):
        weight *= distance
        sums.append(weight.sum())
    return np.array(sums)


def _search(
    radius: float, unit: float, guess: float | None, evaluate: Callable[[float], TiltState | None]
) -> tuple[float, Outcome]:
    """Return t = log β with KL(Q_β‖share) = radius, and how the search ended.

    Newton steps stay inside a bracket. After 60 rounds the search halves the bracket instead. It ends after a step
    below LAST_STEP without computing KL again. ``evaluate`` maps β to the state of the tilt, or to None if rounding
    loses all weight.
    """
    t, low, high, rounds = unit + (0.5 * np.log(2 * radius) if guess is None else guess), -np.inf, np.inf, 0
    while True:
        rounds += 1
        beta = np.exp(t)
        state = evaluate(beta)
        if state is None:
            return t, Outcome.DEGENERATE
        if state.divergence > radius:
            high = t
        elif state.slope > 0 or beta < 1:
            low = t
        else:
            return t, Outcome.DEGENERATE
        step, is_last = _step(t, radius, beta, state)
        if is_last:
            return t + step, Outcome.CONVERGED
        # For clustered z, KL is a staircase in log β. A Newton step from a flat part may go anywhere, so it is limited.
        next_t = t + np.clip(step, -4, 4)
        if not low < next_t < high or rounds > NEWTON_ROUNDS:
            next_t = _between(low, high)
        if next_t in (low, high):
            return t, Outcome.EMPTY_BRACKET
        t = next_t


def _step(t: float, radius: float, beta: float, state: TiltState) -> tuple[float, bool]:
    """Return a corrected Newton step in t, and whether it is small enough to be the last."""
    divergence, slope, cumulants = state
    step = np.log(radius / divergence) * divergence / slope if divergence > 0 and slope > 0 else np.inf
    correction = _taylor_step(t + step, radius, beta, divergence, *cumulants) if abs(step) < 0.5 else None
    if correction is None:
        return step, False
    step += correction
    return step, abs(beta * step) < LAST_STEP


def _taylor_step(
    t: float, radius: float, beta: float, divergence: float, k2: float, k3: float, k4: float
) -> float | None:
    """Return the change of t = log β' that solves KL(β') = radius for the Taylor polynomial of KL at β.

    The polynomial is KL(β + s) = KL(β) + ∫₀ˢ (β + x)(κ₂ + κ₃ x + κ₄ x²/2) dx. Newton's method solves it in log KL and
    log β'. The function returns None if it finds no root nearby.
    """
    change = 0.0
    for _ in range(20):
        s = np.exp(t + change) - beta
        value = divergence + s * (beta * k2 + s * ((k2 + beta * k3) / 2 + s * ((k3 + beta * k4 / 2) / 3 + s * k4 / 8)))
        slope = (beta + s) * (k2 + s * (k3 + s * k4 / 2)) * (beta + s)
        if not (value > 0 and slope > 0):
            return None
        step = np.log(radius / value) * value / slope
        change += step
        if abs(step) < 1e-14:
            break
    return change if abs(change) < 0.5 else None


def _between(low: float, high: float) -> float:
    """Return a point inside a bracket; one end may be infinite."""
    if np.isinf(low):
        return high - 1
    if np.isinf(high):
        return low + 1
    return (low + high) / 2
