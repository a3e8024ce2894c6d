"""Risk functionals: a vector z of counterfactual costs → a value and its gradient in z.

Every risk is called as ``risk(z, weights)``, where ``weights`` says how often each z occurs, and returns
``(value, gradient)``. With weights w, n = Σ w, a mean is (1/n) Σ w z, and the gradient is the derivative in the shared
z_i, so it contains w_i. Two variances appear and are never mixed: V = (1/n) Σ w (z − z̄)², and V with n − 1 in POEM's
penalty. At V = 0 every gradient is w/n.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Literal

import numpy as np
from scipy.special import ndtri

from drcrm.arrays.numerics import constructor_repr
from drcrm.arrays.validation import above_half, above_zero, at_least_zero, check_vector, reject
from drcrm.errors import InputError
from drcrm.risks.balls.kl_search import Costs, exponential_weights, tilt_chunks_to, tilt_to

Evaluation = tuple[float, np.ndarray, float | None]

HUGE = 1e150  # squares of what is larger overflow
SMALL = 1e-130  # squares of what is smaller lose digits
FAR = 1e3  # temperatures from 0 at which z less its mean under the tilt begins to lose digits
DISTANT = 1e6  # times as far from the largest z as the value, the mean is too far to measure the value from
UNEVEN = 5e-13  # by which worst-case weights may miss the sum 1
FLAT = 1e-4  # times the temperature, the range of costs from which log mean e^{z/γ} begins to lose digits
LARGE_RADIUS = 1e3  # at which weights beside the largest begin to lose digits
MOST_RADIUS = 0.1  # of a sample's ball: from the policies of larger ones it is far to those of a log
TINY_RADIUS = 1e-8  # at which the rounding of Σ share shows in a radius


def homogeneous(evaluate: Callable[..., Evaluation]) -> Callable[..., Evaluation]:
    """For a risk with risk(s z) = s risk(z): evaluate very large and very small z in units of the largest |z|.

    What is not finite gives NaN.
    """

    @wraps(evaluate)
    def within_range(self, z, share, n, guess=None):
        scale = max(z.max(), -z.min())
        if SMALL <= scale <= HUGE or scale == 0:
            return evaluate(self, z, share, n, guess)
        if not scale < np.inf:
            return np.nan, np.full(len(z), np.nan), None
        value, gradient, following = evaluate(self, z / scale, share, n, guess)
        return value * scale, gradient, following

    return within_range


class Risk(ABC):
    """What all risks share: ``risk(z, weights=None) → (value, gradient)``.

    Parameters of the call
    ----------------------
    z : array (n,)
        Counterfactual costs.
    weights : array (n,), optional
        How often each z occurs, 0 or more; 1 by default.

    Raises
    ------
    InputError
        z or weights not finite vectors of one length, a negative weight, no positive weight, or a risk beyond the
        range of floating-point numbers.

    ``monotone`` says whether it never falls as a z rises, and is a worst case over distributions of the rows;
    ``robust_end`` says which end of a grid of the hyper-parameter, the constructor's first argument, is more robust.
    """

    monotone = False
    robust_end: Literal["low", "high"] = "high"
    __repr__ = constructor_repr

    def __call__(self, z, weights=None) -> tuple[float, np.ndarray]:
        z, weights = checked_costs(z, weights)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            n = weights.sum()
            support, share = weights > 0, weights / n
            gradient, value = np.zeros(len(z)), np.nan
            if share[support].min() >= np.finfo(float).tiny:
                value, gradient[support], _ = self.evaluate(z[support], share[support], n)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise InputError(
                f"the risk of costs from {z.min():.6g} to {z.max():.6g} that occur {weights[support].min():.6g} to "
                f"{weights.max():.6g} times is beyond the range of floating-point numbers"
            )
        return float(value), gradient

    def of_fewer_rows(self, times: float) -> "Risk":
        """Return the risk that is as robust with so many times fewer rows, whose means have more noise."""
        return self

    @abstractmethod
    def evaluate(self, z: np.ndarray, share: np.ndarray, n: float, guess: float | None = None) -> Evaluation:
        """The formula itself, unchecked, with share = w/n: z finite, share positive, of one length, at least one.

        A search inside begins at ``guess``; the third result is a guess for the next, with similar z. It moves last
        digits only. None where nothing is searched for.
        """

    def evaluate_chunks(self, costs: Costs, n: float, guess: object = None) -> tuple:
        """Return the same for costs in chunks: by sums over several blocks if the risk can, else of all costs gathered.

        The gradient may be a function of (z, share), which is evaluated chunk by chunk. Gathering takes 16 bytes a row
        where the risk is evaluated, and on a cluster sends as many over the network.
        """
        by_sums = None if len(costs) == 1 else self.evaluate_sums(costs, n, guess)
        return self.evaluate(*costs.gather(), n, guess) if by_sums is None else by_sums

    def evaluate_sums(self, costs: Costs, n: float, guess: object = None) -> tuple | None:
        """Return the same by sums over chunks; None if sums do not suffice."""
        return None


def checked_costs(z, weights=None) -> tuple[np.ndarray, np.ndarray]:
    """Return costs, and how often each occurs, as vectors of one length; InputError says what else they were."""
    z = check_vector(z, np.size(z), "z")
    if weights is None:
        weights = np.ones(len(z))
    weights = check_vector(weights, len(z), "weights")
    reject(weights < 0, weights, "weights", "0 or more")
    if not weights.any():
        raise InputError(f"the risk of {len(z)} costs, none of which occurs, is undefined")
    return z, weights


class MeanRisk(Risk):
    """CIPS: (1/n) Σ w z. Source: eq. 3 of the paper."""

    monotone = True

    def evaluate(self, z, share, n, guess=None):
        return share @ z, share, None

    def evaluate_sums(self, costs, n, guess=None):
        return float(costs.sum(_mean)), _shares, None


def _mean(z: np.ndarray, share: np.ndarray) -> float:
    return share @ z


def _shares(z: np.ndarray, share: np.ndarray) -> np.ndarray:
    return share


class VariancePenalizedRisk(Risk):
    """POEM: mean + λ √(V_n/n), V_n = Σ w (z − z̄)² / (n − 1). Source: eq. 6 of the paper (Swaminathan & Joachims).

    Parameters
    ----------
    penalty : float ≥ 0
        λ.
    """

    def __init__(self, penalty: float):
        self.penalty = at_least_zero(penalty, "penalty")

    @homogeneous
    def evaluate(self, z, share, n, guess=None):
        mean, _, pull, variance = _moments(z, share)
        if variance == 0 or n <= 1:
            return mean, share, None
        deviation = np.sqrt(variance / (n - 1))
        pull *= self.penalty * deviation / variance
        pull += share
        return mean + self.penalty * deviation, pull, None


class BoltzmannRisk(Risk):
    """KL-CRM: Σ s z, s = w e^{z/γ} / Σ w e^{z/γ}; ∂/∂z_i = s_i (1 + (z_i − value)/γ). Source: eq. 13 of the paper.

    Parameters
    ----------
    temperature : float > 0
        γ, in the units of z; γ → ∞ gives the mean, γ → 0 the largest z.
    """

    robust_end = "low"

    def __init__(self, temperature: float):
        self.temperature = above_zero(temperature, "temperature")

    def evaluate(self, z, share, n, guess=None):
        value, gradient, _ = _tilt(z, share, 1 / self.temperature)
        return value, gradient, None


class AdaptiveBoltzmannRisk(Risk):
    """aKL-CRM: the Boltzmann risk at the temperature γ(z) = √(V/(2ε)). Source: Lemma 5 and Algorithm 1 of the paper.

    The gradient is the total derivative, through γ(z) too:
    s_i (1 + (z_i − value)/γ) − (Var_s(z)/γ²) ∂γ/∂z_i,  ∂γ/∂z_i = γ w_i (z_i − z̄) / Σ w (z − z̄)².

    Parameters
    ----------
    radius : float ≥ 0
        ε; 0 gives the mean.
    variance : "mean" or "sum"
        V = (1/n) Σ w (z − z̄)² (Lemma 5), or without the 1/n (the printed Algorithm 1).
    """

    def __init__(self, radius: float, variance: str = "mean"):
        if not (isinstance(variance, str) and variance in ("mean", "sum")):
            raise InputError(f"variance is {variance!r}, expected 'mean' or 'sum'")
        self.radius = at_least_zero(radius, "radius")
        self.variance = variance

    @homogeneous
    def evaluate(self, z, share, n, guess=None):
        mean, centred, pull, variance = _moments(z, share)
        if variance == 0 or self.radius == 0:
            return mean, share, None
        gamma = np.sqrt((n * variance if self.variance == "sum" else variance) / (2 * self.radius))
        value, gradient, spread = _tilt(centred, share, 1 / gamma)
        pull *= spread * gamma / variance
        gradient -= pull
        largest = z.max()
        if largest - mean > DISTANT * (largest - mean - value):
            # One far outlier: less their mean, the others have lost their digits.
            return largest + _tilt(z - largest, share, 1 / gamma)[0], gradient, None
        return mean + value, gradient, None


class Ball(Risk):
    """What balls share: a radius, or "auto", that at which the value is an upper confidence bound of the mean as n → ∞.

    That bound is of z fixed beforehand: of one policy that was not learned from the same rows.

    Parameters
    ----------
    radius : float ≥ 0 or "auto"
        ε; "auto" is φ''(1) z²/(2n), z the one-sided normal quantile at ``confidence``: Lemma 1 of the paper, corrected.
    confidence : float in (½, 1)
        At which "auto" is calibrated.
    """

    monotone = True
    curvature: float | None  # φ''(1)

    def __init__(self, radius: float | str, confidence: float = 0.95):
        self.radius = radius if isinstance(radius, str) and radius == "auto" else at_least_zero(radius, "radius")
        self.confidence = above_half(confidence, "confidence")

    def of_fewer_rows(self, times):
        """The ball whose radius is so many times as large, as one that is calibrated would be, up to 0.1."""
        other = copy(self)
        if isinstance(self.radius, float):
            other.radius = max(self.radius, min(times * self.radius, MOST_RADIUS))
        return other

    def radius_at(self, n: float) -> float:
        """ε at n costs."""
        return calibrated_radius(self.curvature, self.confidence, n) if self.radius == "auto" else self.radius


def calibrated_radius(curvature: float, confidence: float, n: float) -> float:
    """φ''(1) z²/(2n), z the one-sided normal quantile.

    Lemma 1 of the paper prints the two-sided quantile at φ''(1) = 2 for every φ: too little where φ''(1) is larger.
    """
    return curvature * ndtri(confidence) ** 2 / (2 * n)


class SearchedBall(Ball):
    """A ball with a search of its own, between its two ends."""

    @homogeneous
    def evaluate(self, z, share, n, guess=None):
        radius, largest = self.radius_at(n), z.max()
        below = z - largest
        top = below == 0
        if top.all() or radius >= self.largest_radius(share[top].sum()):
            worst = share * top
            return largest, worst / worst.sum(), guess
        if radius == 0:
            return share @ z, share, guess
        return self.within(radius, largest, below, share, guess)

    @abstractmethod
    def largest_radius(self, mass: float) -> float:
        """The divergence of Q on the largest z alone, which have this mass."""

    @abstractmethod
    def within(self, radius: float, largest: float, below: np.ndarray, share: np.ndarray, guess) -> Evaluation:
        """``evaluate`` at a radius between 0 and the largest, z = largest + below."""


class KLBall(SearchedBall):
    """Exact KL ball: inf_{γ>0} γε + γ log mean e^{z/γ} = max {E_Q z : KL(Q‖P_n) ≤ ε}. Source: Lemma 4 of the paper.

    The gradient is the worst-case Q, the Boltzmann weights at the temperature where KL(Q‖P_n) = ε; for
    ε ≥ log(n/#argmax) Q is uniform on the largest z.

    The radius is in nats, φ''(1) = 1. The guess for the temperature moves KL(Q‖P_n) by a relative 1e-11
    at most.
    """

    curvature = 1.0

    def largest_radius(self, mass):
        return -np.log(mass)

    def within(self, radius, largest, below, share, guess):
        span = -below.min()
        below /= span
        worst, following = tilt_to(radius, below, share, guess)
        return largest + span * (worst @ below), worst, following

    def evaluate_sums(self, costs, n, guess=None):
        radius, (low, high) = self.radius_at(n), costs.range()
        if radius == 0 or low == high:
            return float(costs.sum(_mean)), _shares, guess
        if not SMALL <= max(high, -low) <= HUGE:
            return None
        return tilt_chunks_to(radius, costs, high, high - low, guess)


class Chi2Ball(SearchedBall):
    """Exact χ² ball: max {E_Q z : (1/n) Σ (n q_i − 1)² ≤ ε, q ≥ 0}. Source: Lemma 3 of the paper, without its proviso.

    Equals mean + √(ε V) while all weights stay ≥ 0. The gradient is the worst-case Q, q_i ∝ w_i (z_i − η)_+; for
    ε ≥ n/#argmax − 1 it is uniform on the largest z.

    No ½ in the divergence: φ(t) = (t − 1)², φ''(1) = 2.
    """

    curvature = 2.0

    def largest_radius(self, mass):
        return 1 / mass - 1

    def within(self, radius, largest, below, share, guess):
        # The threshold for a superset of the support never exceeds the true one, so shrinking the support to what
        # lies above it ends, in a few rounds, at the support itself: a row that is dropped stays dropped.
        support, size, unit = share, len(share), 1.0
        while True:
            mass = 1.0 if size == len(share) and radius < TINY_RADIUS else support.sum()
            mean = support @ below / mass
            centred = below - mean
            if radius > LARGE_RADIUS:
                # Nearly all mass may be on one z, from which the mean differs in its last digits alone: from there on.
                centred = below - below[np.argmin(np.where(support > 0, abs(centred), np.inf))]
                centred -= support @ centred / mass
            pull = support * centred
            deviation = np.sqrt(pull @ centred / mass)
            stretch = np.sqrt(max(radius + (mass - 1) * (1 + radius), 0))  # how many deviations the ball allows
            if stretch > 0 and deviation < SMALL and 0 < (extent := -below[support > 0].min()) < 1e10 * SMALL:
                below = np.where(support > 0, below / extent, 0)  # its squares lose digits: on in units of its range
                unit *= extent
                continue
            if deviation == 0 or stretch == 0:
                return largest + unit * mean, support / mass, None
            above = centred > -deviation / stretch
            if size < len(share):
                above &= support > 0
            remaining = np.count_nonzero(above)
            if remaining == size:
                worst = pull * (stretch / deviation)
                worst += support
                worst /= mass
                value = largest + unit * mean + unit * (deviation * stretch)
                return min(value, largest), _evened(worst, support, mass), None
            support, size = share * above, remaining


def _evened(worst: np.ndarray, support: np.ndarray, mass: float) -> np.ndarray:
    """Worst-case weights, written over, that are ≥ 0 with the sum 1 where rounding has let them miss it."""
    np.maximum(worst, 0, out=worst)
    excess = worst.sum() - 1
    if abs(excess) > UNEVEN:  # the rounding of Σ share · centred, many times enlarged
        worst -= support * (excess / mass)
        np.maximum(worst, 0, out=worst)
        worst /= worst.sum()
    return worst


class LogSmoothingRisk(Risk):
    """Logarithmic smoothing: −(1/λ) mean log(1 − λz), for z < 1/λ. Source: Sakhi, Aouali, Alquier & Chopin 2024.

    The risk alone: its authors' code starts at the logging policy and penalises the KL divergence from it.

    Parameters
    ----------
    smoothing : float > 0
        λ; λ → 0 gives the mean.
    """

    def __init__(self, smoothing: float):
        self.smoothing = above_zero(smoothing, "smoothing")

    def evaluate(self, z, share, n, guess=None):
        inside = self.smoothing * z
        if inside.max() >= 1:
            raise InputError(
                f"logarithmic smoothing at λ = {self.smoothing:.6g} is of costs below 1/λ; the largest is {z.max():.6g}"
            )
        return share @ np.log1p(-inside) / -self.smoothing, share / (1 - inside), None


class LogSumExpRisk(Risk):
    """Log-sum-exp: γ log mean e^{z/γ}, the KL ball at a fixed multiplier. Source: Behnamnia et al. 2025.

    Parameters
    ----------
    temperature : float > 0
        γ; γ → ∞ gives the mean, γ → 0 the largest z.
    """

    robust_end = "low"

    def __init__(self, temperature: float):
        self.temperature = above_zero(temperature, "temperature")

    def evaluate(self, z, share, n, guess=None):
        largest = z.max()
        below = z - largest
        if -below.min() < FLAT * self.temperature:
            # e^{z/γ} is nearly 1: its difference from 1, of z less their mean, has no term of first order.
            mean = share @ below
            excess = np.expm1((below - mean) / self.temperature)
            log_mass = np.log1p(share @ excess)
            return largest + mean + self.temperature * log_mass, share * (1 + excess) / np.exp(log_mass), None
        np.maximum(below, -HUGE * self.temperature, out=below)
        tilted, log_mass = exponential_weights(below, share, 1 / self.temperature)
        return largest + self.temperature * log_mass, tilted, None


def _moments(z: np.ndarray, share: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, float]:
    """Return the mean of z, z − mean, share · (z − mean) and the variance: exactly 0 where z is constant."""
    largest = z.max()
    below = z - largest
    mean = share @ below
    centred = below - mean
    pull = share * centred
    return largest + mean, centred, pull, pull @ centred


def _tilt(z: np.ndarray, share: np.ndarray, beta: float) -> tuple[float, np.ndarray, float]:
    """Return the mean of z under s ∝ share · e^{βz}, its gradient s (1 + β (z − mean)), and β² times the variance."""
    largest = z.max()
    below, origin = z - largest, 0.0
    if abs(largest) * beta > FAR or below.min() * beta < -HUGE:
        z = below = np.maximum(below, -HUGE / beta)
        origin = largest
    tilted, _ = exponential_weights(below, share, beta)
    mean = tilted @ z
    scaled = z - mean
    scaled *= beta
    pull = tilted * scaled
    spread = pull @ scaled
    tilted += pull
    return origin + mean, tilted, spread
