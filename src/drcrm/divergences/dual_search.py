"""Search for the optimum of the dual inf_{γ ≥ 0, c} γε + c + γ mean φ*((z − c)/γ) of a smooth φ-divergence.

The worst case has the density t_i = φ*'((z_i − c)/γ), with Σ share t = 1 and Σ share φ(t) = ε. Write (z − c)/γ =
a + β (z − max z). For each β = 1/γ, exactly one value a(β) gives Σ share t = 1. The divergence at (a(β), β) grows with
β. The search varies log β and the density ``top`` of the largest z, with a = φ'(top). It needs only sums over the rows,
so the rows may be stored in chunks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from drcrm.divergences.base import SmoothDivergence

SMALLEST_LOG_B, LARGEST_LOG_B = -700.0, 690.0
JOINT_ROUNDS, NEWTON_ROUNDS = 8, 50  # after so many rounds, Newton's method ends, and a search halves its bracket
LARGEST_STEP = 1.0  # of log β; Newton's method ends after a larger one
SUM_TOLERANCE = 1e-13  # an error of Σ share t up to this is corrected by normalisation
ROUNDING = 1e-17  # additional error per row that is accepted if a step no longer halves the error
LAST_STEP, LAST_ERROR = 1e-8, 1e-6  # the search ends after a smaller step of log β, whose square is negligible
PRECISION = 1e-15  # of Σ share φ(t); its error, divided by ε, is one of log β

SumRows = Callable[..., np.ndarray]


class WorstCase(NamedTuple):
    """Worst case in a ball, with the optimum of the dual.

    Attributes
    ----------
    value : float
        Largest mean E_Q z.
    weights : array (n,) or callable
        Worst-case distribution Q, or a function of (z, share) that returns it for some rows.
    gamma : float
        Optimal multiplier γ ≥ 0 of the dual, in the unit of z. It is infinite at radius 0, where Q = P_n, and 0 if the
        radius does not bind.
    c : float
        Optimal c of the dual, in the unit of z.
    guess : object
        Start of the search for similar costs; None if the divergence needs no search.
    """

    value: float
    weights: Any
    gamma: float
    c: float
    guess: Any = None


class Sums(NamedTuple):
    """Σ share t, Σ share t x and Σ share φ(t) with x = β (z − largest); and Σ share φ*'' xᵏ, k = 0, 1, 2."""

    mass: float
    mean: float
    distance: float
    tilted: float
    tilted_first: float
    tilted_second: float

    @property
    def centre(self) -> float:
        """Mean of x with the weights share · t'."""
        return self.tilted_first / self.tilted

    @property
    def growth(self) -> float:
        """Derivative of Σ share φ(t) in log β while Σ share t = 1."""
        return self.tilted_second - self.tilted_first * self.centre


@dataclass(frozen=True)
class OnLargest:
    """Worst-case weights that are all on the largest z, whose rows have the given share."""

    largest: float
    share: float

    def __call__(self, z: np.ndarray, share: np.ndarray) -> np.ndarray:
        return share * (z == self.largest) / self.share


@dataclass(frozen=True)
class DualWeights:
    """Worst-case weights share · t/mass with t = φ*'(φ'(top) + β (z − largest)), as a function of (z, share).

    φ* can be so steep that the solution lies between two neighbouring floats. Then t is interpolated between the
    densities at ``top`` and at ``above``.
    """

    divergence: SmoothDivergence
    largest: float
    beta: float
    top: float
    mass: float = 1.0
    above: float = np.nan
    fraction: float = 0.0

    def __call__(self, z: np.ndarray, share: np.ndarray) -> np.ndarray:
        drop = self.beta * (z - self.largest if self.largest else z)
        density, _ = self.divergence.density(self.top, drop)
        if self.fraction:
            density = density + self.fraction * (self.divergence.density(self.above, drop)[0] - density)
        density = share * density
        density /= self.mass
        return density

    def sums(self, z: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Return the ``Sums`` over some rows."""
        drop = self.beta * (z - self.largest if self.largest else z)
        return np.array(self.divergence.sums(share, self.top, drop))


@np.errstate(all="ignore")
def find_worst_case(
    divergence: SmoothDivergence, radius: float, sum_rows: SumRows, largest: float, span: float, guess: Any = None
) -> WorstCase:
    """Return the worst case, with weights as a function of (z, share).

    For small β, the log of the divergence is nearly linear in log β. Newton's method varies log β and top together. If
    it does not converge in a few rounds, the search finds the top for each β, and β inside a bracket.

    Parameters
    ----------
    divergence : SmoothDivergence
    radius : float
        Radius ε, above 0.
    sum_rows : callable
        Called with a function f and arguments; returns Σ f(z, share, *arguments) over chunks of the rows.
    largest, span : float
        Largest z, and its difference from the smallest, above 0.
    guess : (float, float), optional
        β and top, from a previous search. The default suits small radii.
    """
    search = _Search(divergence, radius, sum_rows, largest, span)
    if guess is None:
        mean = sum_rows(_sum_powers, largest, span, 0.0)[0]
        variance = sum_rows(_sum_powers, largest, span, mean)[1]
        b = np.sqrt(2 * divergence.curvature * radius / variance)
        guess = float(b / span), float(divergence.density(1.0, -b * mean)[0])
    worst = search.by_newton(*guess) or search.by_bracket(*guess)
    if worst is None:
        mass, _ = sum_rows(_sum_largest, largest).tolist()
        return WorstCase(largest, OnLargest(largest, mass), 0.0, largest, guess)
    weights, mean = worst
    gamma = 1 / weights.beta
    value, c = largest + gamma * mean, largest - divergence.slope(weights.top) * gamma
    return WorstCase(float(value), weights, float(gamma), float(c), (weights.beta, weights.top))


@dataclass(frozen=True)
class _Search:
    """The search of :func:`find_worst_case`, which also describes the attributes."""

    divergence: SmoothDivergence
    radius: float
    sum_rows: SumRows
    largest: float
    span: float

    @property
    def last_step(self) -> float:
        """Step of log β after which the search ends."""
        return min(max(LAST_STEP, PRECISION / self.radius), LAST_ERROR)

    def by_newton(self, beta: float, top: float) -> tuple[DualWeights, float] | None:
        """Return the weights, and Σ q β (z − largest); None unless Newton's method converges at once."""
        for _ in range(JOINT_ROUNDS):
            weights, sums = self.evaluate(beta, top)
            excess, centre, growth = sums.mass - 1, sums.centre, sums.growth
            distance = sums.distance - (self.divergence.slope(top) + centre) * excess  # at Σ share t = 1
            log_ratio = np.log(self.radius / distance)
            step = log_ratio * distance / growth
            if not abs(step) < LARGEST_STEP:
                return None
            rise = math.expm1(step)
            change = (-excess / sums.tilted - centre * rise) * float(self.divergence.density(top, 0.0)[1])
            beta, top = beta * (1 + rise), top + change
            if not 1 <= top < np.inf:
                return None
            is_accurate = abs(excess) < LAST_ERROR * min(math.sqrt(self.radius), 1.0)  # its square affects the distance
            if is_accurate and max(abs(step), abs(log_ratio)) < self.last_step:
                # The error of the sums at the next β and top is of second order.
                return replace(weights, beta=beta, top=top), (sums.mean - excess * centre + rise * growth) * (1 + rise)
        return None

    def by_bracket(self, beta: float, top: float) -> tuple[DualWeights, float] | None:
        """Return the weights, and Σ q β (z − largest); None if all mass is on the largest z.

        The search halves the bracket when a step does not at least halve |log(radius / divergence)|, or after 50
        rounds.
        """
        divergence, radius = self.divergence, self.radius
        mass, n = self.sum_rows(_sum_largest, self.largest).tolist()
        if radius >= mass * divergence.phi(1 / mass) + (1 - mass) * divergence.phi(np.float64(0)):
            return None
        smallest, greatest = (limit - math.log(self.span) for limit in (SMALLEST_LOG_B, LARGEST_LOG_B))
        low, high, log_ratio, rounds, is_last = smallest, greatest, np.inf, 0, False
        log_beta = float(np.clip(np.log(beta), low, high))
        while True:
            rounds += 1
            weights, sums = self.normalise(float(np.exp(log_beta)), top, 1 / mass, SUM_TOLERANCE + ROUNDING * n)
            if is_last:
                break
            low, high = (low, log_beta) if sums.distance > radius else (log_beta, high)
            previous, log_ratio = log_ratio, np.log(radius / sums.distance)
            step = float(np.clip(log_ratio * sums.distance / sums.growth, -4, 4))
            is_last = max(abs(step), abs(log_ratio)) < self.last_step
            next_log_beta = log_beta + step
            is_bracketed = low > smallest and high < greatest
            is_slow = rounds > NEWTON_ROUNDS or (is_bracketed and abs(log_ratio) > abs(previous) / 2)
            if not is_last and (is_slow or not low < next_log_beta < high):
                next_log_beta = (low + high) / 2
            if (not is_last and next_log_beta in (low, high)) or not next_log_beta > smallest:
                break
            rise = np.exp(next_log_beta - log_beta) - 1
            change = -sums.centre * rise * divergence.density(weights.top, 0.0)[1]
            top, log_beta = weights.top + (change if np.isfinite(change) else 0), next_log_beta
        return replace(weights, mass=sums.mass), sums.mean / sums.mass

    def normalise(self, beta: float, top: float, largest_density: float, stuck: float) -> tuple[DualWeights, Sums]:
        """Return the weights with the top at which Σ share t = 1, and sums over the rows.

        The sum is nearly linear in the top, so the search takes Newton steps inside a bracket. It may end at an error
        ``stuck`` if steps no longer halve it.
        """
        low, high, excess, rounds = 1.0, largest_density, np.inf, 0
        top = low if np.isnan(top) else min(max(top, low), high)
        while True:
            rounds += 1
            weights, sums = self.evaluate(beta, top)
            previous, excess = excess, sums.mass - 1
            low, high = (low, top) if excess > 0 else (top, high)
            next_top = float(top - excess * self.divergence.density(top, 0.0)[1] / sums.tilted)
            if not low < next_top < high or abs(excess) > abs(previous) / 2 or rounds > NEWTON_ROUNDS:
                next_top = math.sqrt(low * high)
            if abs(excess) <= SUM_TOLERANCE or abs(previous) / 2 < abs(excess) <= stuck:
                return weights, sums
            if next_top in (low, high, top):
                return self.interpolate(beta, low, high)
            top = next_top

    def interpolate(self, beta: float, low: float, high: float) -> tuple[DualWeights, Sums]:
        """Return weights with Σ share t = 1, interpolated between those at two neighbouring tops."""
        (weights, below), (_, above) = (self.evaluate(beta, top) for top in (low, high))
        fraction = float(np.clip((1 - below.mass) / (above.mass - below.mass), 0, 1))
        mixed = Sums(
            *(low_sum + fraction * (high_sum - low_sum) for low_sum, high_sum in zip(below, above, strict=True))
        )
        return (replace(weights, above=high, fraction=fraction), mixed) if np.isfinite(mixed.mass) else (weights, below)

    def evaluate(self, beta: float, top: float) -> tuple[DualWeights, Sums]:
        """Return the weights at β and top, and sums over the rows."""
        weights = DualWeights(self.divergence, self.largest, float(beta), float(top))
        return weights, Sums(*self.sum_rows(weights.sums))


def _sum_largest(z: np.ndarray, share: np.ndarray, largest: float) -> np.ndarray:
    """Return the share of the largest z, and the number of rows."""
    return np.array([share[z == largest].sum(), len(z)])


def _sum_powers(z: np.ndarray, share: np.ndarray, largest: float, span: float, centre: float) -> np.ndarray:
    """Return Σ share (d − centre)ᵏ, k = 1, 2."""
    distance = (z - largest) / span - centre
    weighted = share * distance
    return np.array([weighted.sum(), weighted @ distance])
