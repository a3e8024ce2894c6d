"""Upper confidence bounds on a mean E z of independent costs z.

A bound is valid only if the policy was fixed before the costs were seen, not if it was learned from these rows.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, stdtrit

from drcrm.arrays.validation import check_confidence, check_integers, check_positive, reject_rows, to_float
from drcrm.divergences import DIVERGENCES, Divergence, as_divergence
from drcrm.errors import InputError
from drcrm.evaluation.bounds.betting_mixture import BettingMixture
from drcrm.evaluation.bounds.independent_units import group_means, mean_and_deviation
from drcrm.risks import PhiBall
from drcrm.risks.base import check_weighted_costs

MOST_BETS = 10**7
BETTING = "betting"
RANGED = ("empirical_bernstein", BETTING)  # methods that need a known range of the costs
ANYTIME = "anytime"
SEQUENCE = "confidence_sequence"
ASYMPTOTIC, BALL = "asymptotic", "kl"  # the default of certificates, and the ball in it
TUNED = 1000  # number of costs near which a confidence sequence is narrowest
FINITE_SAMPLE = ("empirical_bernstein", "log_smoothing", BETTING, ANYTIME)
METHODS = ("student", SEQUENCE, *FINITE_SAMPLE)
LOOKS = 100  # how often a bound at every look is computed, and asymptotic bounds again between two looks


def upper_bound(
    z: Any,
    confidence: float = 0.95,
    method: Any = "kl",
    weights: Any = None,
    low: float | None = None,
    high: float | None = None,
    smoothing: float | None = None,
    groups: Any = None,
) -> float:
    """Return an upper confidence bound on the mean E z of independent costs z.

    The costs must come from a policy that was fixed before they were seen.

    Parameters
    ----------
    z : array (n,)
        Independent costs.
    confidence : float in (½, 1)
        Confidence level 1 − δ of the bound.
    method : str or Divergence
        One of the methods below.
    weights : array (n,), optional
        How often each z occurs.
    low, high : float, optional
        Smallest and largest possible z, for "empirical_bernstein" and "betting"; "anytime" needs only ``high``. You
        must know them beforehand: the smallest and largest observed z do not count.
    smoothing : float > 0, optional
        Parameter λ of "log_smoothing", fixed before z is seen; by default 1/√n. The best value is √(2 ln(1/δ)/(nV)).
    groups : array (n,), optional
        Group of each z, if the z of one group depend on each other. The bound is then on the expected group mean: each
        group counts once, with the mean of its z, and n is the number of groups.

    Returns
    -------
    float
        Bound, in the units of z.

    Raises
    ------
    InputError
        If a setting is invalid, or z violates an assumption of the method.

    Notes
    -----
    V is the sample variance of z with divisor n − 1.

    A divergence with φ''(1) > 0, or its name in :mod:`drcrm.divergences`
        The largest mean of z over the ball of radius φ''(1) u²/(2n), where u is the normal quantile at ``confidence``.
        Asymptotic. Source: Faury et al. 2020, Lemma 1 (Duchi, Glynn & Namkoong), with the quantile corrected and the
        missing factor φ''(1) added.
    "student"
        The mean plus t √(V/n) with Student's quantile t at n − 1 degrees of freedom. Exact for normal z, otherwise
        asymptotic.
    "confidence_sequence"
        The mean plus √(V · 2(nρ² + 1)/(n²ρ²) · ln(1 + √(nρ² + 1)/(2δ))), where ρ makes it narrowest near n = 1000. It
        holds at all n together, but only asymptotically: use it from a few hundred costs on, without a long tail. It is
        narrower than "anytime" and needs no ``high``. Source: Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas 2024.
    "empirical_bernstein"
        The mean plus √(2V ln(2/δ)/n) + 7 (high − low) ln(2/δ)/(3(n − 1)). It holds for every n. Source: Maurer & Pontil
        2009.
    "log_smoothing"
        (1 − e^{−λx})/λ with x = −(1/(λn)) Σ log(1 − λz) + ln(1/δ)/(λn), for z ≤ 0. It holds for every n without a
        range, by Markov's inequality for Π (1 − λz). Source: Sakhi, Aouali, Alquier & Chopin 2024.
    "betting"
        The largest m that is not rejected. It holds for every n. To test m, a gambler starts with capital 1 and bets on
        each z in turn that z < m, at odds that are fair if E z = m. If the capital reaches 1/δ, m is rejected. In units
        of the range, a bet is √(2 ln(1/δ)/(nσ²)) and at most ½/(1 − m), where σ² is the variance of the previous z. A
        fixed seed shuffles the rows. Source: Waudby-Smith & Ramdas 2024.
    "anytime"
        The largest mean over the ball KL(P_n‖Q) ≤ r of distributions Q on the observed z and on ``high``, with r =
        (ln(1/δ) + ln(√π Γ(n + 1)/Γ(n + ½)))/n. With probability 1 − δ it holds at all n together, so you may look after
        every row. It also holds if E z depends on the rows before, as long as E z given these rows is at least the mean
        to be bounded. By Ville's inequality for a mixture of bets; sources: Cover & Ordentlich 1996, Honda & Takemura
        2010, Orabona & Jun 2021.

    Examples
    --------
    >>> z = [0.0, -1.0] * 50
    >>> round(upper_bound(z, method="student"), 3)
    -0.417
    """
    z, weights = check_weighted_costs(z, weights)
    if groups is not None:
        z, weights = group_means(groups, weights, z)
    return as_bound(confidence, method, low, high, smoothing)(z, weights)


@dataclass(frozen=True)
class Bound:
    """A bounding method with its settings, a function of (z, weights).

    ``ball`` is the calibrated ball of a divergence, and None for the methods in ``METHODS``.
    """

    name: str
    confidence: float
    low: float | None = None
    high: float | None = None
    smoothing: float | None = None
    ball: PhiBall | None = None

    @property
    def is_mixture(self) -> bool:
        """Whether this method is a mixture of bets, for which a certificate computes other terms."""
        return self.name == ANYTIME or (self.name == BETTING and self.low is None)

    @property
    def asymptotic(self) -> bool:
        """Whether the bound holds only as n → ∞."""
        return self.ball is not None or self.name in ("student", SEQUENCE)

    def __call__(self, z: np.ndarray, weights: np.ndarray) -> float:
        """Return the bound on E z for z that occur ``weights`` times."""
        if not weights.all():
            z, weights = z[weights > 0], weights[weights > 0]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            n = weights.sum()
            if not np.isfinite(n):
                raise InputError("the sum of weights is beyond the range of floating-point numbers")
            self.check_size(n)
            if self.ball is None:
                upper = FORMULAS[self.name](self, z, weights, n)
            else:
                upper = self.ball.evaluate(z, weights / n, n)[0]
        if not np.isfinite(upper):
            raise InputError(
                f"the bound on costs from {z.min():.6g} to {z.max():.6g} is beyond the range of "
                "floating-point numbers; give the costs in another unit"
            )
        return float(upper)

    def check_size(self, n: float) -> None:
        """Raise InputError if there are fewer costs than the method needs."""
        if n < 2 and self.name not in ("log_smoothing", ANYTIME):
            kind = "an asymptotic bound" if self.asymptotic else f"a bound by {self.name}"
            raise InputError(f"{kind} needs at least 2 costs, got {n:g}")


def as_bound(confidence: Any, method: Any, low: Any = None, high: Any = None, smoothing: Any = None) -> Bound:
    """Return the bound of a method; InputError for settings that do not belong to the method."""
    confidence = check_confidence(confidence, "confidence")
    name = method if isinstance(method, str) else repr(method)
    ball = None if name in METHODS and isinstance(method, str) else _calibrated_ball(method, confidence)
    if (name not in RANGED and low is not None) or (name not in (*RANGED, ANYTIME) and high is not None):
        raise InputError(
            f"low and high apply to empirical_bernstein and betting, and high to anytime; got them for {name}"
        )
    if name != "log_smoothing" and smoothing is not None:
        raise InputError(f"smoothing applies to log_smoothing, not to {name}")
    return Bound(name, confidence, low, high, smoothing, ball)


def _calibrated_ball(method: Any, confidence: float) -> PhiBall:
    if not isinstance(method, str | Mapping | Divergence) or (isinstance(method, str) and method not in DIVERGENCES):
        smooth = [name for name, kind in DIVERGENCES.items() if getattr(kind, "curvature", None)]
        raise InputError(f"method is {method!r}, expected one of {', '.join([*METHODS, *smooth])}, or a divergence")
    divergence = as_divergence(method)
    if divergence.curvature is None:
        raise InputError(f"method is {method!r}, expected a divergence with φ''(1) > 0, unlike {divergence!r}")
    return PhiBall(divergence, "auto", confidence)


def _student(bound: Bound, z: np.ndarray, weights: np.ndarray, n: float) -> float:
    mean, deviation = mean_and_deviation(z, weights, n)
    return mean + stdtrit(n - 1, bound.confidence) * (deviation / np.sqrt(n))


def _confidence_sequence(bound: Bound, z: np.ndarray, weights: np.ndarray, n: float) -> float:
    mean, deviation = mean_and_deviation(z, weights, n)
    delta = 1 - bound.confidence
    rate = (-2 * np.log(2 * delta) + np.log1p(-2 * np.log(2 * delta))) / TUNED  # ρ²
    spread = 2 * (n * rate + 1) / (n * rate) * np.log1p(np.sqrt(n * rate + 1) / (2 * delta))
    return mean + deviation / np.sqrt(n) * np.sqrt(spread)


def _log_smoothing(bound: Bound, z: np.ndarray, weights: np.ndarray, n: float) -> float:
    reject_rows(z > 0, z, "z", "at most 0 for log_smoothing")
    smoothing = 1 / np.sqrt(n) if bound.smoothing is None else check_positive(bound.smoothing, "smoothing")
    exponent = (weights @ np.log1p(-smoothing * z) + np.log(1 - bound.confidence)) / n  # −λx
    return -np.expm1(exponent) / smoothing


def _empirical_bernstein(bound: Bound, z: np.ndarray, weights: np.ndarray, n: float) -> float:
    low, high = _check_range(bound, z)
    mean, deviation = mean_and_deviation(z, weights, n)
    log_term = np.log(2 / (1 - bound.confidence))
    return mean + deviation * np.sqrt(2 * log_term / n) + 7 * (high - low) * log_term / (3 * (n - 1))


def _betting(bound: Bound, z: np.ndarray, weights: np.ndarray, n: float) -> float:
    low, high = _check_range(bound, z)
    if n > MOST_BETS:
        raise InputError(f"betting visits every cost in turn, expected at most {MOST_BETS:.0e} costs, got {n:.6g}")
    gain = (high - np.repeat(z, check_integers(weights, len(z), "weights"))) / (high - low)
    gain = gain[None, np.random.default_rng(0).permutation(len(gain))]
    mixture = BettingMixture(gain, np.zeros_like(gain), 1 - bound.confidence, is_every_look=False, prior=0.25)
    return high - (high - low) * mixture.lower_bound()


def _anytime(bound: Bound, z: np.ndarray, weights: np.ndarray, n: float) -> float:
    high = to_float(bound.high)
    if not np.isfinite(high):
        raise InputError(f"anytime needs high=, a number that no cost can exceed, got {bound.high!r}")
    reject_rows(z > high, z, "z", f"at most {high:.6g}, the largest cost given to anytime")
    mixture = 0.5 * np.log(np.pi) + gammaln(n + 1) - gammaln(n + 0.5)
    radius = float(mixture - np.log(1 - bound.confidence)) / n
    return PhiBall("reverse_kl", radius, atom=high).evaluate(z, weights / n, n)[0]


def _check_range(bound: Bound, z: np.ndarray) -> tuple[float, float]:
    """Return low and high as floats; InputError unless low < high and z lies between them."""
    low, high = to_float(bound.low), to_float(bound.high)
    if not -np.inf < low < high < np.inf:
        raise InputError(
            f"{bound.name} needs the range of the costs, low < high, got low = {bound.low!r}, high = {bound.high!r}"
        )
    reject_rows((z < low) | (z > high), z, "z", f"{low:.6g} to {high:.6g}, the range given to {bound.name}")
    return low, high


FORMULAS = {
    "student": _student,
    SEQUENCE: _confidence_sequence,
    "log_smoothing": _log_smoothing,
    "empirical_bernstein": _empirical_bernstein,
    BETTING: _betting,
    ANYTIME: _anytime,
}


@dataclass(frozen=True, eq=False)
class RunningCertificates:
    """Asymptotic bounds: ``look(n)`` after the first n steps. They have the methods of
    :class:`drcrm.evaluation.bounds.betting_terms.CostMixture`."""

    look: Callable[[int], float]
    looks: np.ndarray

    def bound(self) -> float:
        """Return the bound after all steps; InputError if it is refused."""
        return self.look(int(self.looks[-1]))

    def bounds(self, looks: np.ndarray) -> np.ndarray:
        """Return the bounds after numbers of steps; infinite where they are refused."""
        bounds = np.full(len(looks), np.inf)
        for place, n in enumerate(looks):
            with suppress(InputError):
                bounds[place] = self.look(int(n))
        return bounds

    def first_beyond(self, limit: float) -> int | None:
        """Return the first number of steps with a bound below a limit, searched between the two looks around it."""
        is_below = self.bounds(self.looks) < limit
        if not is_below.any():
            return None
        before, look = np.append(0, self.looks)[np.argmax(is_below) + np.arange(2)]
        between = np.unique(np.linspace(before + 1, look, LOOKS).astype(int))
        return next(int(n) for n in between if self.bounds(np.array([n]))[0] < limit)


@dataclass(frozen=True, eq=False)
class LeastFavourable:
    """The least favourable of several bounds at each look; upper bounds for the ``sign`` 1, lower bounds for −1."""

    runs: Sequence[Any]
    sign: int = 1

    def bound(self) -> float:
        """Return the bound after all steps."""
        return self.sign * max(self.sign * run.bound() for run in self.runs)

    def bounds(self, looks: np.ndarray) -> np.ndarray:
        """Return the bounds after numbers of steps."""
        return self.sign * np.max([self.sign * run.bounds(looks) for run in self.runs], axis=0)

    def first_beyond(self, limit: float) -> int | None:
        """Return the first number of steps by which each bound has been beyond a limit; None if there is none."""
        firsts = [run.first_beyond(limit) for run in self.runs]
        return None if None in firsts else max(firsts)
