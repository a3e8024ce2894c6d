"""Certificates: what held-out rows of a log say of a policy's cost, with a bound that holds with a stated probability.

It holds if the policy, and the cost model of a doubly robust estimate, were made from other rows: they are fixed. By a
ball, the default, it holds as n → ∞ only. What the log cannot show it does not promise: see :mod:`drcrm.core.missing`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..errors import InputError, warn_of
from .bounds import Bound, as_bound, group_means
from .cost_model import action_effects
from .design import importance_weights, judged
from .estimates import SelfNormalised, estimate_class
from .log import BanditLog, as_log
from .missing import gap, is_missing
from .scores import low_weights
from .starts import effective_size
from .validation import above_half, number, one_of

UNITS = ("row", "context")
LOGGING = "logging"
MOST_CHOICES = 10**6
FEW = {"ips": 25, "snips": 10, "dr": 10}  # effective rows, below which bounds were measured to hold too rarely
LEAST_WEIGHT = 1e-30  # of the largest: a policy gives every action that may be chosen some probability


@dataclass(frozen=True)
class Certificate:
    """What a log says of a policy's cost: an estimate, and a bound that holds with the stated probability.

    ``bound`` is of one policy among ``choices`` that were made on the same rows: it has confidence 1 − δ/K, all of them
    together 1 − δ. With ``baseline`` both are of the policy's cost less that of a baseline. ``n`` counts rows or
    contexts (``by``); ``effective_size``, (Σ w)²/Σ w², counts rows. A mean weight far from 1 says that propensities are
    wrong, or that actions of the policy are missing in the log. Where rows show that some are, ``missing`` says so, and
    estimate and bound count their mass at the largest of ``costs``, that of a baseline at the least.
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
    baseline: bool
    missing: bool
    costs: tuple[float, float]

    def __repr__(self) -> str:
        share = (1 - self.confidence) / self.choices
        each = f", each of {self.choices} choices with 1 − {share:.4g}"
        how = (each if self.choices > 1 else "") + (", as n → ∞" if self.asymptotic else "")
        what = "cost of the difference" if self.baseline else "cost"
        low, high = self.costs
        at = f"the worst of the costs {low:.6g} to {high:.6g}" if self.baseline else f"a cost of {high:.6g}"
        counted = f", what the log lacks counted at {at}" if self.missing else ""
        return (
            f"{what} at most {self.bound:.6g} with probability {self.confidence!r}{how} "
            f"({self.estimate} {self.value:.6g}; {self.method} by {self.by}, n = {self.n}; "
            f"effective size {self.effective_size:.6g} rows, mean weight {self.mean_weight:.4g}{counted})"
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
    baseline=None,
    cost_range: tuple[float, float] | None = None,
) -> Certificate:
    """Return a certificate of a fixed policy's expected cost, in the units of the cost; by default as n → ∞.

    Where the log shows that it lacks actions of the policy (:mod:`drcrm.core.missing` says when), they count at the
    largest cost: estimate and bound are then of c_max + w (c − c_max) in place of the z below.

    Parameters
    ----------
    policy : ExponentialPolicy, SoftmaxPolicy or a fitted estimator
        The certificate is of actions drawn from it, as its propensities say, not of its most probable actions.
    log : BanditLog
        Rows that neither the policy nor the cost model was made from.
    estimate : "ips", "snips" or "dr"
        The z are w c, or m(x) + w (c − ĉ); "snips" has the ball of the ratio, the root of v ↦ ball(w (c − v)), and so
        is for divergences alone. "dm" has no certificate: none covers the error of a model. Where few rows carry the
        weight asymptotic bounds can be too low: a warning says so below an effective size of 10, of 25 for "ips" with
        costs above 0; another where the mean weight is less than a tenth, and by 5 standard errors less than 1. Those
        of "ips" with costs of at most 0 are too high there, and count what is missing at 0 as they are.
    confidence, method, low, high, smoothing
        As of :func:`upper_bound`, for the z above, or their differences.
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
    baseline : policy, fitted estimator or "logging", optional
        The certificate is then of how much more the policy costs than this one, which was fixed too: the bound of the
        paired differences z_i − z_i⁰. Below 0, the policy is better, by at least as much. z⁰ are those of the baseline
        by the same estimate; of "logging", π0 as it logged, they are the logged costs. Those of "snips" are
        v̂ + w (c − v̂): no ball has a difference of two ratios as its root. So every asymptotic method will do.
    cost_range : (least, largest), optional
        Between which costs are known to be, those of actions that were never logged too. By default they are the least
        and the largest logged, or 0 beyond them: that no action of the policy costs more is then presumed. A good π0
        logs few bad actions, so say it of losses, and of costs whose origin is not their largest.

    Raises
    ------
    InputError
        What is named in the arguments above, or no row with a weight; or a method that is not asymptotic where the log
        lacks actions of the policy: its range is not of what is missing.
    """
    if isinstance(estimate, str) and estimate == "dm":
        raise InputError("estimate is 'dm', which has no certificate: none covers the error of a cost model")
    one_of(FEW, estimate, "estimate")
    one_of(UNITS, by, "by")
    if not (1 <= number(choices) <= MOST_CHOICES and choices == int(choices)):
        raise InputError(f"choices is {choices!r}, expected a whole number from 1 to {MOST_CHOICES}")
    log = as_log(log)
    each = 1 - (1 - above_half(confidence, "confidence")) / choices
    bound = as_bound(each, method, low, high, smoothing)
    effects = None
    if estimate == "dr":
        if cost_model is None:
            raise InputError("the certificate of 'dr' needs cost_model=, fitted to other rows than those of the log")
        effects = action_effects(cost_model, log.X, log.actions)
    sides = [_side(policy, log, effects, estimate, clip, "policy")]
    if isinstance(baseline, str):
        one_of((LOGGING,), baseline, "baseline")
    elif baseline is not None:
        sides.append(_side(baseline, log, effects, estimate, None, "baseline"))
    log, weight, z = side = sides[0]
    costs = _known_range(cost_range, log.cost)
    gaps = [gap(z, weight, log.cost, costs[1]), *(-gap(each.z, each.weight, log.cost, costs[0]) for each in sides[1:])]
    if baseline is not None:
        z = z - (log.cost if isinstance(baseline, str) else sides[1].z)
    if not all(np.isfinite(each).all() for each in (z, *gaps)):
        raise InputError("the policy's weights, or their costs, are beyond the range of numbers")
    rows = z, *gaps
    z, *gaps, count = (*rows, log.count.astype(float)) if by == "row" else group_means(log.context, log.count, *rows)
    if estimate == "snips" and baseline is None:
        value, upper = _ratio(bound, weight, log, by)
    elif estimate == "snips" and not bound.asymptotic:
        raise InputError(f"the certificate of a difference by 'snips' is by an asymptotic method, not by {bound.name}")
    else:
        value, upper = np.average(z, weights=count), bound(z, count)
    lacking = [each for each in gaps if is_missing(each, count, max(map(abs, costs)))]
    if lacking:
        if not bound.asymptotic:
            raise InputError(
                f"the log lacks actions of the policy: a bound by {bound.name} does not know of them, expected an "
                "asymptotic method, or 'ips' and costs of at most 0"
            )
        counted = z + sum(lacking)
        value, upper = np.average(counted, weights=count), bound(counted, count)
    for each, safe in zip(sides, (log.cost.max() <= 0, log.cost.min() >= 0), strict=False):
        if not (estimate == "ips" and safe):  # which is too high where weights are missing
            _warn(each, estimate, bound)
    return Certificate(
        value=float(value),
        bound=float(upper),
        confidence=float(confidence),
        method=bound.name,
        estimate=estimate,
        by=by,
        n=int(count.sum()),
        choices=int(choices),
        effective_size=side.effective_size,
        mean_weight=float(log.count @ weight / log.size),
        asymptotic=bound.asymptotic,
        baseline=baseline is not None,
        missing=bool(lacking),
        costs=costs,
    )


class _Side(NamedTuple):
    """What a log says of a policy: its rows that occur, their weights, and z."""

    log: BanditLog
    weight: np.ndarray
    z: np.ndarray

    @property
    def effective_size(self) -> float:
        return effective_size(self.weight / self.weight.max(), self.log.count)


def _side(policy, log: BanditLog, effects, estimate: str, clip, name: str) -> _Side:
    design, log_prob, expected = judged(policy, log, effects, name)
    log = design.log
    weight = _usable(importance_weights(log_prob, log), log, estimate, clip, name)
    kind = estimate_class(estimate)(log.cost, log.count, design.modelled, log.context)
    return _Side(log, weight, kind.z(weight, expected))


def _known_range(given, cost: np.ndarray) -> tuple[float, float]:
    """The range of costs, stated, or of those logged and 0; InputError where a logged one is not in that stated."""
    logged = float(cost.min()), float(cost.max())
    if given is None:
        return min(logged[0], 0.0), max(logged[1], 0.0)
    stated = tuple(map(number, given)) if isinstance(given, list | tuple) and len(given) == 2 else (np.nan, np.nan)
    if not -np.inf < stated[0] <= logged[0] <= logged[1] <= stated[1] < np.inf:
        raise InputError(
            f"cost_range is {given!r}, expected (least, largest) with all logged costs, {logged[0]:.6g} to "
            f"{logged[1]:.6g}, between them"
        )
    return stated


def _warn(side: _Side, estimate: str, bound: Bound) -> None:
    """Warn of few effective rows, and of low weights."""
    rows = side.effective_size
    few = (
        f"the effective size is {rows:.3g} rows: below {FEW[estimate]} an asymptotic bound by {estimate!r} can be "
        "too low, and hold less often than it says"
    )
    warn_of(few if bound.asymptotic and rows < FEW[estimate] else "", low_weights(side.weight, side.log))


def _usable(weight: np.ndarray, log: BanditLog, estimate: str, clip, name: str) -> np.ndarray:
    """The weights, clipped if so; InputError where there are none, or they are beyond the range of numbers."""
    if clip is not None:
        if not 1 <= number(clip) < np.inf:
            raise InputError(f"clip is {clip!r}, expected a number ≥ 1, or None")
        if estimate != "ips" or (log.cost > 0).any():
            raise InputError("clip is for 'ips' and costs of at most 0: elsewhere clipped weights can hide costs")
        weight = np.minimum(weight, clip)
    if not weight.any():
        raise InputError(f"no row of the log has a weight: it says nothing about this {name}")
    if not np.isfinite(log.count @ weight * (1 + np.abs(log.cost).max())):
        raise InputError(f"the {name}'s weights, or their costs, are beyond the range of numbers")
    return weight


def _ratio(bound: Bound, weight: np.ndarray, log: BanditLog, by: str) -> tuple[float, float]:
    """Return Σ wc/Σ w, and the root of v ↦ ball(w (c − v))."""
    if bound.ball is None:
        raise InputError(f"the certificate of 'snips' is by a divergence, not by {bound.name}")
    cost, count = log.cost, log.count.astype(float)
    weight = np.maximum(weight, LEAST_WEIGHT * weight.max())
    if by == "context":
        gain, weight, count = group_means(log.context, log.count, weight * cost, weight)
        cost = gain / weight
    bound.check_size(count.sum())
    rows = SelfNormalised(cost, count)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        upper = rows.evaluate(bound.ball, weight, weight, None, None)[0]
    return (count * weight) @ cost / (count @ weight), upper
