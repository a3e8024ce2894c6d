"""Exponential tilts of a distribution, and the one at a given divergence from it: the inner problem of the KL ball."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from drcrm.arrays.numerics import exp

RARE = 1e-70  # a mass beside which what is below e^-200 may count
PATIENCE = 60  # rounds of the search after which the bracket is halved
FOUND, STUCK, LOST = "found", "stuck", "lost"  # how a search ends
NEAR = 1e-3  # a change of β so small, times the range of z, that KL's Taylor polynomial gives KL to a relative 1e-11


class Costs(Protocol):
    """Costs z of all rows, and the share of each row, in chunks: ``drcrm.optimization.objective.ChunkedCosts``."""

    def __len__(self) -> int: ...

    def range(self) -> tuple[float, float]: ...

    def sum(self, function: Callable[..., np.ndarray], *arguments) -> np.ndarray: ...

    def gather(self) -> tuple[np.ndarray, np.ndarray]: ...


def exponential_weights(z: np.ndarray, share: np.ndarray, beta: float) -> tuple[np.ndarray, float]:
    """Return Q ∝ share · e^{βz} and the logarithm of its sum before it is normalised, for z ≤ 0 with largest 0."""
    tilted = beta * z
    exp(tilted, out=tilted)
    tilted *= share
    mass = tilted.sum()
    if mass < RARE:
        tilted = beta * z + np.log(share)
        largest = tilted.max()
        mass = exp(tilted - largest, out=tilted).sum()
        tilted /= mass
        return tilted, largest + np.log(mass)
    tilted /= mass
    return tilted, np.log(mass)


def tilt_to(radius: float, z: np.ndarray, share: np.ndarray, guess: float | None = None) -> tuple[np.ndarray, float]:
    """Return Q_β ∝ share · e^{βz} with KL(Q_β‖share) = radius, and where a search with similar z may start.

    Where rounding leaves nothing to search between, the nearest Q is returned. Where all weight has gone to z so near
    the largest that their squares vanish next to the others', the search goes on among them.

    Parameters
    ----------
    radius : float > 0
        In nats, less than −log share(z = 0).
    z : array (n,)
        Between −1 and 0; both occur.
    share : array (n,)
        Positive, with sum 1.
    guess : float, optional
        log(β · deviation of z), as another search returned it; by default what is right for small radii.
    """
    centred = z - share @ z
    unit = -0.5 * np.log((share * centred) @ centred)
    tilted = share

    def evaluate(beta: float) -> tuple:
        nonlocal tilted
        tilted, divergence, cumulants = _tilt_and_divergence(beta, z, centred, share)
        return divergence, beta * cumulants[0] * beta, cumulants

    t, end = _search(radius, unit, guess, evaluate)
    if end == LOST:
        tilted = _among_the_nearest(radius, z, share, tilted)
    elif end == FOUND:
        tilted, _ = exponential_weights(z, share, np.exp(t))
    return tilted, t - unit


def _search(radius: float, unit: float, guess: float | None, evaluate: Callable[[float], tuple | None]):
    """Return t = log β where KL(Q_β‖share) is the radius, and how the search ended.

    KL(Q_β‖share) = β Φ'(β) − Φ(β), Φ(β) = log Σ share e^{βz}, has the derivative β Φ''(β). log KL is nearly linear in
    log β where β is small; near the root, the cumulants of z under Q_β give KL's Taylor polynomial. The steps stay
    inside a bracket, which is halved after 60 of them; after the last, small one KL is not computed again.

    ``evaluate`` returns KL, its derivative in t, and the second to fourth cumulant of z under Q_β; None if all weight
    is lost to rounding. The end is FOUND, STUCK where the bracket is empty at t, or LOST.
    """
    t, low, high, rounds = unit + (0.5 * np.log(2 * radius) if guess is None else guess), -np.inf, np.inf, 0
    while True:
        rounds += 1
        beta = np.exp(t)
        evaluated = evaluate(beta)
        if evaluated is None:
            return t, LOST
        divergence, slope, cumulants = evaluated
        if divergence > radius:
            high = t
        elif slope > 0 or beta < 1:
            low = t
        else:
            return t, LOST
        step, is_last = _step(t, radius, beta, divergence, slope, cumulants)
        if is_last:
            return t + step, FOUND
        # z in clusters make KL a staircase in log β; a Newton step from a tread may go anywhere.
        following = t + np.clip(step, -4, 4)
        if not low < following < high or rounds > PATIENCE:
            following = _between(low, high)
        if following in (low, high):
            return t, STUCK
        t = following


@dataclass(frozen=True)
class Tilt:
    """Q = share · e^{βd}/mass, d = (z − largest)/span − shift, as a function of (z, share) of some rows."""

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
        found = z - self.largest
        found /= self.span
        found -= self.shift
        return found


@dataclass(frozen=True)
class OnLargest:
    """Q on the largest z alone, which have this share, as a function of (z, share) of some rows."""

    largest: float
    share: float

    def __call__(self, z: np.ndarray, share: np.ndarray) -> np.ndarray:
        return share * (z == self.largest) / self.share


def tilt_chunks_to(
    radius: float, costs: Costs, largest: float, span: float, guess: float | None = None
) -> tuple[float, Tilt | OnLargest, float] | None:
    """Return the worst case of ``tilt_to`` by sums over chunks: its value, Q, and a guess for the next search.

    None if sums have too few digits to find it.
    """
    mean, square, top = costs.sum(_spread, largest, span)
    if radius >= -np.log(top):
        return largest, OnLargest(largest, float(top)), guess
    if not square > mean**2:
        return None
    unit, centre = -0.5 * np.log(square - mean**2), mean
    tilt = Tilt(largest, span, 0.0, mean)

    def evaluate(beta: float) -> tuple | None:
        nonlocal tilt, centre
        beta = float(beta)
        tilt = Tilt(largest, span, beta, mean if beta < 1 else 0.0)
        excess, mass, *moments = costs.sum(_moments, tilt, centre)
        if not mass > RARE:
            return None
        first, second, third, fourth = (moment / mass for moment in moments)
        centre += first
        k2 = second - first**2
        k3 = third - 3 * first * second + 2 * first**3
        k4 = fourth - 4 * first * third + 6 * first**2 * second - 3 * first**4 - 3 * k2**2
        log_mass = np.log1p(excess) if beta < 1 else np.log(mass)
        return beta * (centre - tilt.shift) - log_mass, beta**2 * k2, (k2, k3, k4)

    t, end = _search(radius, unit, guess, evaluate)
    if end != FOUND:
        return None
    tilt = replace(tilt, beta=float(np.exp(t)))
    _, mass, first, *_ = costs.sum(_moments, tilt, centre)
    value = largest + span * (centre + first / mass)
    return float(value), replace(tilt, mass=float(mass)), t - unit


def _spread(z: np.ndarray, share: np.ndarray, largest: float, span: float) -> np.ndarray:
    """Σ share d, Σ share d², d = (z − largest)/span, and the share of the largest z."""
    below = z - largest
    top = share @ (below == 0)
    below /= span
    weighed = share * below
    return np.array([weighed.sum(), weighed @ below, top])


def _moments(z: np.ndarray, share: np.ndarray, tilt: Tilt, centre: float) -> np.ndarray:
    """Σ share (w − 1), and Σ share w (d − centre)ᵏ, k = 0 … 4, w = e^{βd}, d as of the largest z."""
    distance = tilt.distance(z)
    weight = tilt.beta * distance
    excess = np.nan
    if tilt.beta < 1:
        np.expm1(weight, out=weight)
        excess = share @ weight
        weight += 1
    else:
        exp(weight, out=weight)
    weight *= share
    found = [excess, weight.sum()]
    distance += tilt.shift - centre
    for _ in range(4):
        weight *= distance
        found.append(weight.sum())
    return np.array(found)


def _tilt_and_divergence(
    beta: float, z: np.ndarray, centred: np.ndarray, share: np.ndarray
) -> tuple[np.ndarray, float, tuple[float, float, float]]:
    """Return Q_β, KL(Q_β‖share), and the second to fourth cumulant of z under Q_β."""
    if beta < 1:
        # Φ is small: its terms are taken as differences from 1, of which centred z has none to first order.
        values = centred
        tilted = beta * values
        np.expm1(tilted, out=tilted)
        excess = share @ tilted
        tilted += 1
        tilted *= share
        tilted /= 1 + excess
        log_mass = np.log1p(excess)
    else:
        values = z
        tilted, log_mass = exponential_weights(values, share, beta)
    mean = tilted @ values
    return tilted, beta * mean - log_mass, _cumulants(tilted, values - mean)


def _step(
    t: float, radius: float, beta: float, divergence: float, slope: float, cumulants: tuple[float, float, float]
) -> tuple[float, bool]:
    """Return the step in t = log β by Newton in log KL, corrected by KL's Taylor polynomial, and if it is the last."""
    step = np.log(radius / divergence) * divergence / slope if divergence > 0 and slope > 0 else np.inf
    correction = _taylor_step(t + step, radius, beta, divergence, *cumulants) if abs(step) < 0.5 else None
    if correction is None:
        return step, False
    step += correction
    return step, abs(beta * step) < NEAR


def _among_the_nearest(radius: float, z: np.ndarray, share: np.ndarray, tilted: np.ndarray) -> np.ndarray:
    """Return Q where ``tilted`` has lost all z but the nearest to 0: KL(Q‖share) = KL(Q‖share there) − log mass."""
    left = tilted > 0
    if not left.any():
        return share  # a radius that rounding swallows
    span, mass = -z[left].min(), share[left].sum()
    beyond = radius + np.log(mass)
    if span == 0 or left.all() or beyond <= 0:
        return tilted  # all weight is on the largest z: only rounding can have let the radius reach it
    tilted = np.zeros(len(z))
    tilted[left], _ = tilt_to(beyond, z[left] / span, share[left] / mass)
    return tilted


def _cumulants(tilted: np.ndarray, centred: np.ndarray) -> tuple[float, float, float]:
    """Return the second to fourth cumulant of z under weights, from z − mean."""
    power = tilted * centred
    second = power @ centred
    power *= centred
    third = power @ centred
    power *= centred
    return second, third, power @ centred - 3 * second**2


def _taylor_step(
    t: float, radius: float, beta: float, divergence: float, k2: float, k3: float, k4: float
) -> float | None:
    """Return the change of t = log β' by which KL's Taylor polynomial around β becomes the radius; None without root.

    KL(β + s) = KL(β) + ∫₀ˢ (β + x)(κ₂ + κ₃ x + κ₄ x²/2) dx, solved by Newton in log KL and log β'.
    """
    moved = 0.0
    for _ in range(20):
        s = np.exp(t + moved) - beta
        value = divergence + s * (beta * k2 + s * ((k2 + beta * k3) / 2 + s * ((k3 + beta * k4 / 2) / 3 + s * k4 / 8)))
        slope = (beta + s) * (k2 + s * (k3 + s * k4 / 2)) * (beta + s)
        if not (value > 0 and slope > 0):
            return None
        step = np.log(radius / value) * value / slope
        moved += step
        if abs(step) < 1e-14:
            break
    return moved if abs(moved) < 0.5 else None


def _between(low: float, high: float) -> float:
    """A point inside a bracket of which one end may be infinite."""
    if np.isinf(low):
        return high - 1
    if np.isinf(high):
        return low + 1
    return (low + high) / 2
