"""Upper bounds of a mean that hold with a stated probability.

A bound is of E z, for independent z: of a policy that was fixed before, not learned from the same rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import stdtrit

from drcrm.arrays.validation import check_confidence, check_integers, check_positive, reject_rows, to_float
from drcrm.certificates.independent_units import group_means, mean_and_deviation
from drcrm.divergences import DIVERGENCES, Divergence, as_divergence
from drcrm.errors import InputError
from drcrm.risks import PhiBall
from drcrm.risks.base import check_costs

LARGEST_BET = 0.5  # of what a bet could lose at most
HALVINGS = 45
MOST_BETS = 10**7


def upper_bound(
    z,
    confidence: float = 0.95,
    method="kl",
    weights=None,
    low: float | None = None,
    high: float | None = None,
    smoothing: float | None = None,
    groups=None,
) -> float:
    """Return an upper bound of E z that holds with probability ``confidence``; δ = 1 − confidence.

    method
        A divergence with φ''(1) > 0, by its name in :mod:`drcrm.divergences` or itself: the value of its ball of radius
        φ''(1) u²/(2n), u the normal quantile at ``confidence``. Asymptotic. Source: Lemma 1 of the paper (Duchi, Glynn
        & Namkoong), with its quantile and its missing φ''(1) corrected.
        "student": mean + t √(V/n), t the quantile with n − 1 degrees of freedom. Exact for normal z, else asymptotic.
        "empirical_bernstein": mean + √(2V ln(2/δ)/n) + 7 (high − low) ln(2/δ)/(3(n − 1)). Source: Maurer & Pontil 2009.
        "log_smoothing", for z ≤ 0: (1 − e^{−λx})/λ, x = −(1/(λn)) Σ log(1 − λz) + ln(1/δ)/(λn). It is Markov's
        inequality of Π (1 − λz), and needs no range. Source: Sakhi, Aouali, Alquier & Chopin 2024.
        "betting": the m at which a capital that bets on z < m, and is fair at E z = m, comes to 1/δ. The bets are
        √(2 ln(1/δ)/(nσ²)), σ² the variance of the z before, and ½/(1 − m) at most, in units of the range; the rows are
        shuffled by a fixed seed. Source: Waudby-Smith & Ramdas 2024.

        V is with n − 1. The last three hold for every n.

    Parameters
    ----------
    z : array (n,)
    confidence : float in (½, 1)
    method : str or Divergence
    weights : array (n,), optional
        How often each z occurs.
    low, high : float
        For "empirical_bernstein" and "betting": bounds that are known of z, not the least and largest observed.
    smoothing : float > 0, optional
        λ of "log_smoothing", fixed before z is seen; by default 1/√n. Best is √(2 ln(1/δ)/(nV)).
    groups : array (n,), optional
        Which group each z is of, where those of one group depend on each other. The bound is then of the expected mean
        of a group: each counts once, by the mean of its z, and n is the number of groups.

    Raises
    ------
    InputError
        Also where z is not what a method presumes.
    """
    z, weights = check_costs(z, weights)
    if groups is not None:
        z, weights = group_means(groups, weights, z)
    return as_bound(confidence, method, low, high, smoothing)(z, weights)


@dataclass(frozen=True)
class Bound:
    """A method with its settings: (z, weights) ↦ its bound of E z. ``formula`` is of z that all occur, and n."""

    name: str
    formula: Callable[[np.ndarray, np.ndarray, float], float]
    ball: PhiBall | None = None
    asymptotic: bool = False
    least: int = 2  # costs

    def __call__(self, z: np.ndarray, weights: np.ndarray) -> float:
        if not weights.all():
            z, weights = z[weights > 0], weights[weights > 0]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            n = weights.sum()
            if not np.isfinite(n):
                raise InputError("the sum of weights is beyond the range of numbers")
            self.check_size(n)
            upper = float(self.formula(z, weights, n))
        if not np.isfinite(upper):
            raise InputError(f"the bound of costs from {z.min():.6g} to {z.max():.6g} is beyond the range of numbers")
        return upper

    def check_size(self, n: float) -> None:
        """InputError for fewer costs than the method needs."""
        if n < self.least:
            raise InputError(f"a bound by {self.name} is of at least {self.least} costs; there is {n:g}")


def as_bound(confidence, method, low=None, high=None, smoothing=None) -> Bound:
    """Return the bound of a method; InputError for settings that are not the method's."""
    confidence = check_confidence(confidence, "confidence")
    delta, name = 1 - confidence, method if isinstance(method, str) else repr(method)
    own = method if isinstance(method, str) and method in METHODS else None
    ball = None if own else _calibrated_ball(method, confidence)
    if own not in RANGED and (low is not None or high is not None):
        raise InputError(f"low and high are of empirical_bernstein and betting, not of {name}")
    if own == "log_smoothing":
        return Bound(name, partial(_log_smoothing, delta=delta, smoothing=smoothing), least=0)
    if smoothing is not None:
        raise InputError(f"smoothing is of log_smoothing, not of {name}")
    if own in RANGED:
        return Bound(name, partial(RANGED[own], delta=delta, low=low, high=high))
    of_ball = lambda z, weights, n: ball.evaluate(z, weights / n, n)[0]  # noqa: E731
    return Bound(name, partial(_student, confidence=confidence) if own else of_ball, ball, asymptotic=True)


def _student(z, weights, n, confidence: float) -> float:
    mean, deviation = mean_and_deviation(z, weights, n)
    return mean + stdtrit(n - 1, confidence) * (deviation / np.sqrt(n))


def _log_smoothing(z, weights, n, delta: float, smoothing) -> float:
    reject_rows(z > 0, z, "z", "at most 0, which log_smoothing presumes")
    smoothing = 1 / np.sqrt(n) if smoothing is None else check_positive(smoothing, "smoothing")
    exponent = (weights @ np.log1p(-smoothing * z) + np.log(delta)) / n  # −λx
    return -np.expm1(exponent) / smoothing


def _empirical_bernstein(z, weights, n, delta: float, low, high) -> float:
    low, high = _checked_range(z, low, high, "empirical_bernstein")
    mean, deviation = mean_and_deviation(z, weights, n)
    log_term = np.log(2 / delta)
    return mean + deviation * np.sqrt(2 * log_term / n) + 7 * (high - low) * log_term / (3 * (n - 1))


def _betting(z, weights, n, delta: float, low, high) -> float:
    low, high = _checked_range(z, low, high, "betting")
    if n > MOST_BETS:
        raise InputError(f"betting takes the costs one by one, and so at most {MOST_BETS:.0e}; there are {n:.6g}")
    x = (np.repeat(z, check_integers(weights, len(z), "weights")) - low) / (high - low)
    x = x[np.random.default_rng(0).permutation(len(x))]
    goal, bets = np.log(1 / delta), _bets(x, delta)

    def rejected(m: float) -> bool:
        gains = np.minimum(bets, LARGEST_BET / (1 - m)) if m < 1 else bets.copy()
        gains *= m - x
        np.log1p(gains, out=gains)
        return np.cumsum(gains, out=gains).max() >= goal

    least, most = 0.0, 1.0
    if not rejected(most):
        return high
    for _ in range(HALVINGS):
        middle = (least + most) / 2
        least, most = (least, middle) if rejected(middle) else (middle, most)
    return low + (high - low) * most


RANGED = {"empirical_bernstein": _empirical_bernstein, "betting": _betting}  # which presume costs in a known range
FINITE_SAMPLE = ("empirical_bernstein", "log_smoothing", "betting")
METHODS = ("student", *FINITE_SAMPLE)


def _checked_range(z: np.ndarray, low, high, name: str) -> tuple[float, float]:
    """The stated range of z. InputError where it is missing, or z is not in it."""
    least, most = to_float(low), to_float(high)
    if not -np.inf < least < most < np.inf:
        raise InputError(
            f"low is {low!r}, high is {high!r}: {name} presumes costs in a range that is known, low < high"
        )
    reject_rows((z < least) | (z > most), z, "z", f"{least:.6g} to {most:.6g}, the range that {name} presumes")
    return least, most


def _calibrated_ball(method, confidence: float) -> PhiBall:
    if not isinstance(method, str | Mapping | Divergence) or (isinstance(method, str) and method not in DIVERGENCES):
        smooth = [name for name, kind in DIVERGENCES.items() if kind.curvature]
        raise InputError(f"method is {method!r}, expected one of {', '.join([*METHODS, *smooth])}, or a divergence")
    divergence = as_divergence(method)
    if divergence.curvature is None:
        raise InputError(f"method is {method!r}: {divergence!r} has no φ''(1) > 0, and so no asymptotic radius")
    return PhiBall(divergence, "auto", confidence)


def _bets(x: np.ndarray, delta: float) -> np.ndarray:
    """√(2 ln(1/δ)/(nσ²)) for each x in turn, σ² from those before it and one of variance ¼."""
    seen = np.arange(2, len(x) + 2)
    mean = (0.5 + np.cumsum(x)) / seen
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / seen
    before = np.r_[0.25, variance[:-1]]
    return np.sqrt(2 * np.log(1 / delta) / (len(x) * before))
