"""Search for the optimum of the dual inf_{γ ≥ 0, c} γε + c + γ mean φ*((z − c)/γ) of a smooth φ-divergence.

Costs are in units of their range, with minimum −1 and maximum 0. The worst case has the density t_i = φ*'(a + b z_i),
with Σ share t = 1 and Σ share φ(t) = ε. For each b, exactly one a(b) gives Σ share t = 1, and the divergence at
(a(b), b) grows with b. So an outer search finds b. For each b, an inner search finds the density ``top`` of the largest
z, and a(b) = φ'(top). Both searches need only sums over the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from drcrm.divergences.base import SmoothDivergence

SMALLEST_LOG_B, LARGEST_LOG_B = -700.0, 709.7
NEWTON_ROUNDS = 50  # after this many rounds, a search halves its bracket
SUM_TOLERANCE = 1e-13  # an error of Σ share t up to this is corrected by normalisation
ROUNDING = 1e-17  # additional error per row that is accepted if a step no longer halves the error
LAST_STEP = 1e-7  # after a smaller step of log b the search ends, because the square of the step is negligible
NO_STEP = 1e-14  # a smaller step of log b changes only the last digits

Costs = Any  # CostArrays, or UnitCosts, which have no array of all costs


class WorstDensity(NamedTuple):
    """Worst case for costs in units of their range, z from −1 to 0.

    ``value`` is the mean of z under Q, and ``weights`` maps z and share of rows to Q. ``gamma`` and ``c`` are the
    optimum γ*, c* of the dual. ``guess`` starts the search for similar costs.
    """

    value: float
    weights: Callable[[np.ndarray, np.ndarray], np.ndarray]
    gamma: float
    c: float
    guess: Any = None


def put_on_largest(mass: float, guess: Any = None) -> WorstDensity:
    """Return the worst case with all mass on the largest z, whose rows have this share."""
    return WorstDensity(0.0, partial(_weigh_largest, mass=mass), 0.0, 0.0, guess)


def _weigh_largest(z: np.ndarray, share: np.ndarray, mass: float) -> np.ndarray:
    return share * (z == 0) / mass


def as_worst_density(z: np.ndarray, weights: np.ndarray, gamma: float, c: float) -> WorstDensity:
    """Return the worst case of costs z with known weights."""
    return WorstDensity(weights @ z, lambda z, share: weights, gamma, c)


def search_radius(radius: float, log_b: float, evaluate: Callable[[float], Any]) -> tuple[Any, float]:
    """Return the last state of the search for the b at which the divergence equals the radius, and its last step.

    ``evaluate`` maps b to a state, which has the ``divergence`` at b. Its method ``step`` maps the radius to a step of
    log b, and whether this step is small enough to be the last.

    For small b, the log of the divergence is nearly linear in log b. So the search takes Newton steps inside a bracket.
    It halves the bracket when a step does not at least halve |log(radius / divergence)|, or after 50 rounds. The last
    step is infinite if ``evaluate`` returns None, or if rounding leaves no number between the ends of the bracket.
    """
    low, high, log_ratio, rounds = SMALLEST_LOG_B, LARGEST_LOG_B, np.inf, 0
    log_b = min(max(log_b, low), high)
    while (state := evaluate(np.exp(log_b))) is not None:
        rounds += 1
        low, high = (low, log_b) if state.divergence > radius else (log_b, high)
        previous, log_ratio = log_ratio, np.log(radius / state.divergence)
        step, is_last = state.step(radius)
        if is_last:
            return state, step
        next_log_b = log_b + min(max(step, -4), 4)
        is_bracketed = low > SMALLEST_LOG_B and high < LARGEST_LOG_B
        is_slow = rounds > NEWTON_ROUNDS or (is_bracketed and abs(log_ratio) > abs(previous) / 2)
        if is_slow or not low < next_log_b < high:
            next_log_b = (low + high) / 2
        if next_log_b in (low, high) or not next_log_b > SMALLEST_LOG_B:
            break
        log_b = next_log_b
    return state, np.inf


@dataclass(frozen=True)
class Density:
    """Densities t = φ*'(φ'(top) + bz), or an interpolation between those of ``top`` and of ``above``.

    φ* can be so steep that Σ share t = 1 has a solution only between two neighbouring floats.
    """

    divergence: SmoothDivergence
    b: float
    top: float
    above: float = 0.0
    fraction: float = 0.0
    mass: float = 1.0

    def __call__(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return t and φ*'' of each z."""
        drop = self.b * z
        density, slope = self.divergence.density(self.top, drop)
        if self.fraction:
            density = density + self.fraction * (self.divergence.density(self.above, drop)[0] - density)
        return density, slope

    def weights(self, z: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Return Q of each row."""
        return share * (self(z)[0] / self.mass)


@dataclass(frozen=True)
class DensityState:
    """Sums over the rows at a density with Σ share t = 1, a function of b."""

    density: Any
    value: float
    divergence: float
    growth: float
    centre: float = 0.0

    def step(self, radius: float) -> tuple[float, bool]:
        """Return a Newton step of log b, and whether it is small enough to be the last."""
        log_ratio = np.log(radius / self.divergence)
        step = log_ratio * self.divergence / self.growth
        return step, abs(step) < LAST_STEP and abs(log_ratio) < LAST_STEP


def find_worst_density(
    divergence: SmoothDivergence, radius: float, costs: Costs, guess: tuple[float, float] | None = None
) -> WorstDensity:
    """Return the worst case of a smooth divergence.

    Parameters
    ----------
    divergence : SmoothDivergence
    radius : float
        Radius ε, at least 0.
    costs : CostArrays or UnitCosts
        Costs with minimum −1 and maximum 0.
    guess : (float, float), optional
        log(b · standard deviation of z), and top − 1 relative to its first-order term, from a previous search. The
        default suits small radii.
    """
    mean, mass, n = costs.sum(sum_costs)
    if radius >= mass * divergence.phi(1 / mass) + (1 - mass) * divergence.phi(np.float64(0)):
        return put_on_largest(mass, guess)
    unit = 0.5 * np.log(costs.sum(sum_squares, mean))
    start, relative_top = (0.5 * np.log(2 * divergence.curvature * radius), 1.0) if guess is None else guess
    state: Any = None

    def first_top(b: float) -> Any:
        return divergence.density(1.0, -b * mean)[0]

    def evaluate(b: float) -> DensityState:
        nonlocal state
        if state is None:
            top, centre = 1 + relative_top * (first_top(b) - 1), mean
        else:
            last, centre = state.density, state.centre
            change = divergence.density(last.top, 0.0)[1] * centre * (last.b - b)
            top = last.top + (change if np.isfinite(change) else 0)
        state = _normalise(costs, Density(divergence, b, top), 1 / mass, centre, n)
        return state

    with np.errstate(all="ignore"):
        state, step = search_radius(radius, start - unit, evaluate)
        if NO_STEP < abs(step) < np.inf:
            state = evaluate(state.density.b * np.exp(step))
        density, b = state.density, state.density.b
        relative_top = (density.top - 1) / (first_top(b) - 1)
        c = -divergence.slope(density.top) / b
        return WorstDensity(state.value, density.weights, 1 / b, float(c), (float(np.log(b) + unit), relative_top))


def _normalise(costs: Costs, density: Density, largest_density: float, centre: float, n: float) -> DensityState:
    """Find the ``top`` with Σ share t = 1, from the ``top`` of a density, and return the sums there.

    The sum is nearly linear in ``top``, so the search takes Newton steps inside a bracket.
    """
    low, high, excess, rounds = 1.0, largest_density, np.inf, 0
    density = replace(density, top=low if np.isnan(density.top) else min(max(density.top, low), high))
    while True:
        rounds += 1
        (mass, slope), top = costs.sum(_sum_masses, density), density.top
        previous, excess = excess, mass - 1
        if excess > 0:
            high = top
        else:
            low = top
        is_stuck = abs(previous) / 2 < abs(excess) <= SUM_TOLERANCE + ROUNDING * n
        if abs(excess) <= SUM_TOLERANCE or is_stuck:
            break
        next_top = top - excess * density.divergence.density(top, 0.0)[1] / slope
        if not low < next_top < high or abs(excess) > abs(previous) / 2 or rounds > NEWTON_ROUNDS:
            next_top = np.sqrt(low) * np.sqrt(high)
        if next_top in (low, high, top):
            below, above = (costs.sum(_sum_masses, replace(density, top=end))[0] for end in (low, high))
            fraction = min(max((1 - below) / (above - below), 0), 1)
            if np.isfinite(above - below):
                density = replace(density, top=low, above=high, fraction=fraction)
            break
        density = replace(density, top=next_top)
    mass, weight, first, second, distance, value = costs.sum(_sum_densities, density, centre)
    growth, centre = second - first**2 / weight, centre + first / weight / density.b
    return DensityState(replace(density, mass=mass), value / mass, distance, growth, centre)


def sum_costs(z: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return Σ share z, the share of the largest z, and the number of rows."""
    return np.array([share @ z, share @ (z == 0), len(z)])


def sum_squares(z: np.ndarray, share: np.ndarray, mean: float) -> Any:
    """Return Σ share (z − mean)²."""
    centred = z - mean
    return (share * centred) @ centred


def _sum_masses(z: np.ndarray, share: np.ndarray, density: Density) -> np.ndarray:
    """Return Σ share t and Σ share φ*''."""
    t, slope = density(z)
    return np.array([share @ t, share @ slope])


def _sum_densities(z: np.ndarray, share: np.ndarray, density: Density, centre: float) -> np.ndarray:
    """Return Σ share t, Σ w, Σ w d, Σ w d², Σ share φ(t) and Σ share t z with w = share φ*'' and d = b (z − centre)."""
    t, slope = density(z)
    weight, distance = share * slope, (z - centre) * density.b
    moment = weight * distance
    return np.array(
        [
            share @ t,
            weight.sum(),
            moment.sum(),
            moment @ distance,
            share @ density.divergence.phi(t),
            (share * t) @ z,
        ]
    )
