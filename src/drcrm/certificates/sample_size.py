"""Sample size: how many rows show a difference, and which difference a number of rows shows.

The difference d > 0 is the cost that a policy saves per row, and s is the standard deviation of its terms z, whose mean
is −d. A policy is shown to be better if the upper bound on the mean of z is below 0. With K candidates, each bound has
the level α/K, α = 1 − confidence.

One look
    The bound is z̄ + z_{1−α/K} s/√n, so its power is Φ(d √n/s − z_{1−α/K}), and n = (z_{1−α/K} + z_power)² s²/d² rows
    have the stated power. A certificate corrects the bound for the skewness γ of the estimate, which falls like 1/√n:
    see :mod:`drcrm.certificates.skewness`. The correction adds γ (2u² + 1)/6 to u = z_{1−α/K}. The estimate of s is
    noisy and correlated with z̄. If z has the skewness κ and the kurtosis k, the bound has the variance
    (1 + u κ/√n + u² (k − 1)/(4n)) s²/n.
    :class:`ChargedLook` also covers the test for missing actions.
Every look
    The bound of :mod:`drcrm.certificates.terms.anytime` has a ball of radius r. It is below 0 if max_b Σ log(1 − b z/B)
    exceeds n r, where B is the largest possible z and b is in [0, 1]. Let G be the largest mean of log(1 − b z/B), v
    the standard deviation at this b, and ρ the correlation with the derivative in b. If the standardised sum is x, the
    maximum is nearly n G + v √n x + ρ² x²/2 + (1 − ρ²)/2. So the power is nearly Φ(−x) for the x at which this is n r.
    It is the power after n rows, not at any row before.

Source: the formula for one look is the textbook's (Cohen 1988); ``studies/plan_power.py`` compares both with
simulations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr, ndtri

from drcrm.certificates.bounds import anytime_radius
from drcrm.certificates.terms.overlap import SURE, raise_smallest

POWER = 0.8
LEAST_VARIANCE, LEAST_SHARE = 0.1, 1e-12  # against overflow
INTERIOR = 0.999  # a larger b is that of the end of its range


@dataclass(frozen=True)
class OneLook:
    """Test of a difference by one look at n rows.

    Attributes
    ----------
    deviation : float
        s, in the units of the cost.
    confidence : float
        1 − α.
    choices : int
        Number K of candidates that share α.
    skewness : float
        Skewness γ √n of a single row; 0 is without the correction.
    asymmetry, kurtosis : float
        Skewness κ and kurtosis k of z. The defaults 0 and 1 treat s as known.
    power : float
        Share of logs that should show the difference.
    """

    deviation: float
    confidence: float = 0.95
    choices: int = 1
    skewness: float = 0.0
    asymmetry: float = 0.0
    kurtosis: float = 1.0
    power: float = POWER

    @property
    def quantile(self) -> float:
        """The normal quantile z_{1−α/K}."""
        return float(-ndtri((1 - self.confidence) / self.choices))

    @property
    def correction(self) -> float:
        """The correction for the skewness, times √n."""
        return self.skewness * (2 * self.quantile**2 + 1) / 6

    def spread(self, n: float) -> float:
        """Return the standard deviation of the bound, in units of s/√n."""
        u = self.quantile / np.sqrt(n)
        return float(np.sqrt(max(1 + u * self.asymmetry + u**2 * (self.kurtosis - 1) / 4, LEAST_VARIANCE)))

    def required_size(self, difference: float) -> float:
        """Return the number of rows that show a difference d > 0, (z_{1−α/K} + z_power)² s²/d² if s is known."""
        sum_of_quantiles, effect = self.quantile + ndtri(self.power), difference / self.deviation
        root = np.sqrt(sum_of_quantiles**2 + 4 * self.correction * effect)
        return float((sum_of_quantiles + root) / (2 * effect)) ** 2

    def smallest_difference(self, n: float) -> float:
        """Return the difference that n rows show with the stated power."""
        quantiles = self.quantile + ndtri(self.power) * self.spread(n) + self.correction / np.sqrt(n)
        return float(quantiles * self.deviation / np.sqrt(n))

    def power_of(self, difference: float, n: float) -> float:
        """Return the share of logs of n rows that show a difference."""
        effect = difference * np.sqrt(n) / self.deviation
        return float(ndtr((effect - self.quantile - self.correction / np.sqrt(n)) / self.spread(n)))


@dataclass(frozen=True)
class ChargedLook:
    """One look, by a certificate that charges missing actions the largest cost if the log seems to lack some.

    The test of :mod:`drcrm.certificates.terms.overlap` compares the mean gap with two standard errors, after its
    smallest values are raised. So it also fails in some logs that lack no action. Means of terms and gaps are taken as
    normal.
    If a few rows have very large weights, more logs fail than this predicts.

    Attributes
    ----------
    look : OneLook
        The look without missing actions.
    z, gap, share : array (m,)
        Possible terms, what a charge adds to them, and their probabilities.
    """

    look: OneLook
    z: np.ndarray
    gap: np.ndarray
    share: np.ndarray

    def _moments(self, values: np.ndarray) -> tuple[float, float]:
        mean = float(self.share @ values)
        return mean, float(np.sqrt(self.share @ (values - mean) ** 2))

    def power_of(self, difference: float, n: float) -> float:
        """Return the share of logs of n rows that show a difference."""
        look, root = self.look, np.sqrt(n)
        raised = raise_smallest(self.gap, self.share * n)
        (mean, deviation), (centre, spread) = self._moments(raised), self._moments(self.z)
        if not (deviation > 0 and spread > 0):
            return look.power_of(difference, n)
        threshold = SURE - (mean - self.share @ self.gap) * root / deviation
        fails = float(ndtr(-threshold))
        density = np.exp(-(threshold**2) / 2) / np.sqrt(2 * np.pi)
        correlation = self.share @ ((self.z - centre) * (raised - mean)) / (deviation * spread)
        above, below = density / max(fails, LEAST_SHARE), density / (1 - fails)  # means of the gap beyond the threshold
        wider = self._moments(self.z + self.gap)[1] / spread
        effect = difference * root / look.deviation - look.correction / root
        passed = effect + correlation * below - look.quantile
        charged = effect - (correlation + deviation / spread) * above - look.quantile * wider
        powers = ndtr(np.array([passed, charged]) / look.spread(n))
        return float((1 - fails) * powers[0] + fails * powers[1])

    def smallest_difference(self, n: float) -> float:
        """Return the difference that n rows show with the stated power."""
        top = self.look.smallest_difference(n)
        while self.power_of(top, n) < self.look.power:
            top *= 2
        return float(brentq(lambda difference: self.power_of(difference, n) - self.look.power, 0.0, top, rtol=1e-9))


def anytime_power(
    z: np.ndarray, share: np.ndarray, high: float, n: float, confidence: float = 0.95, choices: int = 1
) -> float:
    """Return the share of logs whose bound that holds at every look is below 0 after n rows.

    Parameters
    ----------
    z, share : array (m,)
        Possible terms and their probabilities.
    high : float
        B, the largest possible term.
    n, confidence, choices
        As in :class:`OneLook`.
    """
    if not share @ z < 0:
        return 0.0
    best = minimize_scalar(lambda b: -(share @ np.log1p(-b * z / high)), bounds=(0, 1), method="bounded").x
    growth, slope = np.log1p(-best * z / high), -z / (high - best * z)
    mean = share @ growth
    variance, steepness = share @ (growth - mean) ** 2, share @ slope**2
    excess = n * (mean - anytime_radius(n, 1 - (1 - confidence) / choices))
    if not variance > 0:
        return float(excess > 0)
    curvature = 0.0
    if best < INTERIOR:  # otherwise the maximum is at b = 1 in nearly every log
        curvature = (share @ ((growth - mean) * slope)) ** 2 / (variance * steepness)
        excess += (1 - curvature) / 2
    # the larger root x of excess + v √n x + curvature x²/2 = 0, without cancellation
    drift = np.sqrt(n * variance)
    root = drift**2 - 2 * curvature * excess
    return float(ndtr(2 * excess / (drift + np.sqrt(root)))) if root >= 0 else 1.0


def smallest_anytime_difference(
    z: np.ndarray,
    share: np.ndarray,
    high: float,
    n: float,
    confidence: float = 0.95,
    choices: int = 1,
    power: float = POWER,
) -> float:
    """Return the difference that n rows show with the stated power by the bound that holds at every look.

    The terms z are shifted until their mean is minus the difference. :func:`anytime_power` describes the parameters.
    """
    centred = z - share @ z
    unit = np.sqrt(share @ centred**2)
    if not unit > 0:
        return 0.0

    def lacking(difference: float) -> float:
        shifted = np.minimum(centred - difference, high)
        return anytime_power(shifted, share, high, n, confidence, choices) - power

    top = unit / np.sqrt(n)
    while lacking(top) < 0:
        top *= 2
    return float(brentq(lacking, 0.0, top, xtol=1e-6 * top))


def correct_for_choice(difference: float, standard_error: float, candidates: int) -> float:
    """Return the estimated difference of the policy with the best of several estimates, corrected for this choice.

    The best estimate is too good by about the largest error of the candidates. So the median of the largest of k
    independent normal errors, σ Φ⁻¹(½^{1/k}), is added, but the result does not change its sign. k is the effective
    number of candidates. :func:`shrink_difference` suits a policy that was not chosen by its estimate.
    """
    largest = float(ndtri(0.5 ** (1 / candidates))) * standard_error
    return min(difference + largest, max(difference, 0.0)) if candidates > 1 else difference


def shrink_difference(difference: float, standard_error: float) -> float:
    """Return an estimated difference, shrunk because the policy was chosen on the rows that estimate it.

    The policy with the best estimate has, on average, an estimate that is too good. If true differences are normal with
    mean 0 and variance τ², and the estimate d̂ has the standard error σ, then the mean of d given d̂ is τ²/(τ² + σ²) d̂,
    and the choice of the best does not change this. The estimate of τ² is max(d̂² − σ², 0), so the result is
    max(1 − σ²/d̂², 0) d̂.

    Sources: James & Stein 1961 (positive part) and Efron 2011 on selection. It still is too good if many different
    candidates competed, because the best of them then decides τ².
    """
    if difference == 0 or not standard_error >= 0:
        return 0.0
    return float(difference * max(1 - (standard_error / difference) ** 2, 0.0))
