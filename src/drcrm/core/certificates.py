"""Certificates: upper bounds of a mean cost, or of a policy's, that hold with a stated probability.

A bound is of E z, for independent z. The costs of a policy are such as long as the policy, and the cost model of a
doubly robust estimate, were made from other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from scipy.special import stdtrit

from ..errors import InputError
from .cost_model import label_effects, modelled_cost
from .divergences import NAMED, as_divergence
from .estimates import ESTIMATES, SelfNormalised
from .log import BanditLog
from .phi_ball import PhiBall
from .policies import ExponentialPolicy, as_policy
from .risks import checked_costs
from .validation import above_half, above_zero, check_integers, number, reject

LARGEST_BET = 0.5  # of what a bet could lose at most
HALVINGS = 45
UNITS = ("row", "context")


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
        φ''(1) z²/(2n), z the normal quantile at ``confidence``. Asymptotic. Source: Lemma 1 of the paper (Duchi, Glynn
        & Namkoong), with its quantile corrected.
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
    z, weights = checked_costs(z, weights)
    if groups is not None:
        z, weights = _group_means(groups, weights, z)
    return _Bound(confidence, method, low, high, smoothing)(z, weights)


@dataclass(frozen=True)
class Certificate:
    """What a log says of a policy's cost: an estimate, and a bound that holds with the stated probability.

    ``bound`` is of one policy among ``choices`` that were made on the same rows: it has confidence 1 − δ/K, all of them
    together 1 − δ. ``n`` counts rows or contexts (``by``); ``effective_size``, (Σ w)²/Σ w², counts rows. A mean weight
    far from 1 says that propensities are wrong, or that actions of the policy are missing in the log.
    """

    value: float
    bound: float
    confidence: float
    method: str
    estimate: str
    by: str
    n: int
    choices: int
    effective_size: float
    mean_weight: float
    asymptotic: bool

    def __repr__(self) -> str:
        each = f", each of {self.choices} choices with {1 - (1 - self.confidence) / self.choices:.6g}"
        how = (each if self.choices > 1 else "") + (", as n → ∞" if self.asymptotic else "")
        return (
            f"cost at most {self.bound:.6g} with probability {self.confidence:g}{how} "
            f"({self.estimate} {self.value:.6g}; {self.method} by {self.by}, n = {self.n}; "
            f"effective size {self.effective_size:.6g} rows, mean weight {self.mean_weight:.4g})"
        )


@np.errstate(over="ignore", invalid="ignore")  # what is not finite in the end is said
def policy_certificate(
    policy,
    log: BanditLog,
    estimate: str = "ips",
    confidence: float = 0.95,
    method="kl",
    by: str = "row",
    choices: int = 1,
    clip: float | None = None,
    cost_model=None,
    low: float | None = None,
    high: float | None = None,
    smoothing: float | None = None,
) -> Certificate:
    """Return a certificate of a policy's expected cost, in the units of the cost, from rows it was not learned from.

    Parameters
    ----------
    policy : ExponentialPolicy or a fitted estimator
        It draws its actions: a certificate is not one of its most probable actions.
    log : BanditLog
        Rows that neither the policy nor the cost model was made from.
    estimate : "ips", "snips" or "dr"
        The z are w c, or m(x) + w (c − ĉ); "snips" has the ball of the ratio, the root of v ↦ ball(w (c − v)), and so
        is for divergences alone. "dm" has no certificate: none covers the error of a model.
    confidence, method, low, high, smoothing
        As of :func:`upper_bound`, for the z above.
    by : "row" or "context"
        The rows of one context are not independent: bounds by row speak of the contexts that were logged, those by
        context, which take the mean of its rows as one observation, of contexts like them, where none of these
        contexts has rows among those that the policy and the cost model were made from.
    choices : int
        K, how many policies the one certified was chosen from by these rows: it is certified at level δ/K.
    clip : float ≥ 1, optional
        M, for "ips" and costs of at most 0 alone, where clipping makes a bound larger; elsewhere it can hide costs.
    cost_model
        For "dr": one that was fitted to other rows.

    Raises
    ------
    InputError
        What is named in the arguments above, or no row with a weight.
    """
    if not (isinstance(estimate, str) and estimate in ESTIMATES):
        raise InputError(f"estimate is {estimate!r}, expected one of 'ips', 'snips', 'dr'")
    if estimate == "dm":
        raise InputError("estimate is 'dm', which has no certificate: none covers the error of a cost model")
    if by not in UNITS:
        raise InputError(f"by is {by!r}, expected 'row' or 'context'")
    if not (number(choices) >= 1 and choices == int(choices)):
        raise InputError(f"choices is {choices!r}, expected a whole number ≥ 1")
    bound = _Bound(1 - (1 - above_half(confidence, "confidence")) / choices, method, low, high, smoothing)
    policy, log = as_policy(policy), log.recount(log.count)
    weight = _weights(policy, log, estimate, clip)
    if estimate == "snips":
        value, upper, n = _ratio(bound, weight, log, by)
    else:
        z = weight * log.cost if estimate == "ips" else _doubly_robust(policy, log, weight, cost_model)
        units = (z, log.count.astype(float)) if by == "row" else _group_means(log.context, log.count, z)
        value, upper, n = np.average(units[0], weights=units[1]), bound(*units), units[1].sum()
    total = log.count @ weight
    return Certificate(
        value=float(value),
        bound=float(upper),
        confidence=float(confidence),
        method=bound.name,
        estimate=estimate,
        by=by,
        n=int(n),
        choices=int(choices),
        effective_size=_effective_size(weight, log.count),
        mean_weight=float(total / log.size),
        asymptotic=bound.asymptotic,
    )


class _Bound:
    """A method with its settings: (z, weights) ↦ its bound. InputError for settings that are not the method's."""

    def __init__(self, confidence, method, low, high, smoothing):
        self.confidence = above_half(confidence, "confidence")
        self.delta = 1 - self.confidence
        self.low, self.high, self.smoothing = low, high, smoothing
        named = isinstance(method, str) and method in METHODS
        self.name = method if isinstance(method, str) else repr(method)
        self.asymptotic = not (named and method in FINITE)
        if named:
            self.of = METHODS[method]
        else:
            self.of, self.ball = _ball, _calibrated_ball(method, self.confidence)
        if self.of not in (_empirical_bernstein, _betting) and not low is high is None:
            raise InputError(f"low and high are of empirical_bernstein and betting, not of {self.name}")
        if self.of is not _log_smoothing and smoothing is not None:
            raise InputError(f"smoothing is of log_smoothing, not of {self.name}")

    def __call__(self, z: np.ndarray, weights: np.ndarray) -> float:
        if not weights.all():
            z, weights = z[weights > 0], weights[weights > 0]
        n = weights.sum()
        if self.of is not _log_smoothing and n < 2:
            raise InputError(f"a bound by {self.name} is of at least 2 costs; there is {n:g}")
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            found = float(self.of(self, z, weights, n))
        if not np.isfinite(found):
            raise InputError(f"the bound of costs from {z.min():.6g} to {z.max():.6g} is beyond the range of numbers")
        return found

    def range(self, z: np.ndarray) -> tuple[float, float]:
        """The stated range of z. InputError where it is missing, or z is not in it."""
        low, high = number(self.low), number(self.high)
        if not -np.inf < low < high < np.inf:
            raise InputError(
                f"low is {self.low!r}, high is {self.high!r}: {self.name} presumes costs in a range that is known, "
                "low < high"
            )
        reject((z < low) | (z > high), z, "z", f"{low:.6g} to {high:.6g}, the range that {self.name} presumes")
        return low, high


def _ball(bound: _Bound, z, weights, n):
    return bound.ball.evaluate(z, weights / n, n)[0]


def _calibrated_ball(method, confidence: float) -> PhiBall:
    if isinstance(method, str) and method not in NAMED:
        smooth = [name for name, kind in NAMED.items() if kind.curvature]
        raise InputError(f"method is {method!r}, expected one of {', '.join([*METHODS, *smooth])}, or a divergence")
    divergence = as_divergence(method)
    if divergence.curvature is None:
        raise InputError(f"method is {method!r}: {divergence!r} has no φ''(1) > 0, and so no asymptotic radius")
    return PhiBall(divergence, "auto", confidence)


def _student(bound: _Bound, z, weights, n):
    mean, variance = _moments(z, weights, n)
    return mean + stdtrit(n - 1, bound.confidence) * np.sqrt(variance / n)


def _empirical_bernstein(bound: _Bound, z, weights, n):
    low, high = bound.range(z)
    mean, variance = _moments(z, weights, n)
    log_term = np.log(2 / bound.delta)
    return mean + np.sqrt(2 * variance * log_term / n) + 7 * (high - low) * log_term / (3 * (n - 1))


def _log_smoothing(bound: _Bound, z, weights, n):
    reject(z > 0, z, "z", "at most 0, which log_smoothing presumes")
    smoothing = 1 / np.sqrt(n) if bound.smoothing is None else above_zero(bound.smoothing, "smoothing")
    exponent = (weights @ np.log1p(-smoothing * z) + np.log(bound.delta)) / n  # −λx
    return -np.expm1(exponent) / smoothing


def _betting(bound: _Bound, z, weights, n):
    low, high = bound.range(z)
    x = (np.repeat(z, check_integers(weights, len(z), "weights")) - low) / (high - low)
    x = x[np.random.default_rng(0).permutation(len(x))]
    goal, bets = np.log(1 / bound.delta), _bets(x, bound.delta)

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


def _bets(x: np.ndarray, delta: float) -> np.ndarray:
    """√(2 ln(1/δ)/(nσ²)) for each x in turn, σ² from those before it and one of variance ¼."""
    seen = np.arange(2, len(x) + 2)
    mean = (0.5 + np.cumsum(x)) / seen
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / seen
    before = np.r_[0.25, variance[:-1]]
    return np.sqrt(2 * np.log(1 / delta) / (len(x) * before))


FINITE = {"empirical_bernstein": _empirical_bernstein, "log_smoothing": _log_smoothing, "betting": _betting}
METHODS: dict[str, Callable] = {"student": _student, **FINITE}


def _moments(z, weights, n) -> tuple[float, float]:
    """The mean, and the variance with n − 1."""
    mean = weights @ z / n
    return mean, weights @ (z - mean) ** 2 / (n - 1)


def _group_means(groups, weights, *values) -> tuple[np.ndarray, ...]:
    """Return the mean of each vector in each group, by weights, and how often each mean occurs, which is once."""
    groups = np.asarray(groups)
    if groups.shape != np.shape(weights):
        raise InputError(f"groups has shape {groups.shape}, expected {np.shape(weights)}")
    _, index = np.unique(groups[weights > 0], return_inverse=True)
    weights, values = weights[weights > 0], [each[weights > 0] for each in values]
    total = np.bincount(index, weights)
    return *(np.bincount(index, weights * each) / total for each in values), np.ones(len(total))


def _weights(policy: ExponentialPolicy, log: BanditLog, estimate: str, clip) -> np.ndarray:
    weight = np.exp(policy.log_prob(log.X, log.Y, log.context) - log.log_propensity)
    if clip is None:
        return weight
    if not 1 <= number(clip) < np.inf:
        raise InputError(f"clip is {clip!r}, expected a number ≥ 1, or None")
    if estimate != "ips" or (log.cost > 0).any():
        raise InputError("clip is for 'ips' and costs of at most 0: elsewhere clipped weights can hide costs")
    return np.minimum(weight, clip)


def _effective_size(weight: np.ndarray, count: np.ndarray) -> float:
    """(Σ w)²/Σ w², whatever the scale of w; 0 where all are 0."""
    if not weight.any():
        return 0.0
    share = weight / weight.max()
    return float((count @ share) ** 2 / (count @ share**2))


def _doubly_robust(policy: ExponentialPolicy, log: BanditLog, weight: np.ndarray, cost_model) -> np.ndarray:
    if cost_model is None:
        raise InputError("the certificate of 'dr' needs cost_model=, fitted to other rows than those of the log")
    effects = label_effects(cost_model, log.X, log.Y.shape[1])
    expected = (policy.marginals(log.X) * effects[:, :-1]).sum(axis=1) + effects[:, -1]
    return expected[log.context] + weight * (log.cost - modelled_cost(log, effects))


def _ratio(bound: _Bound, weight: np.ndarray, log: BanditLog, by: str) -> tuple[float, float, float]:
    """Return Σ wc/Σ w, the root of v ↦ ball(w (c − v)), and n."""
    if bound.of is not _ball:
        raise InputError(f"the certificate of 'snips' is by a divergence, not by {bound.name}")
    cost, count = log.cost, log.count.astype(float)
    if by == "context":
        gain, weight, count = _group_means(log.context, log.count, weight * cost, weight)
        cost = np.divide(gain, weight, out=np.zeros_like(gain), where=weight > 0)
    if not weight.any():
        raise InputError("no row of the log has a weight: it says nothing about this policy")
    if not np.isfinite(count @ weight * (1 + np.abs(cost).max())):
        raise InputError("the policy's weights are beyond the range of numbers")
    n = count.sum()
    if n < 2:
        raise InputError(f"a bound by {bound.name} is of at least 2 costs; there is {n:g}")
    rows = SelfNormalised(SimpleNamespace(cost=cost, count=count, size=n))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        upper = rows.evaluate(bound.ball, weight, weight, None, None)[0]
    return (count * weight) @ cost / (count @ weight), upper, n
