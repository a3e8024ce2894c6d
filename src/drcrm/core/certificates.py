"""Certificates: what held-out rows of a log say of a policy's cost, with a bound that holds with a stated probability.

It holds if the policy, and the cost model of a doubly robust estimate, were made from other rows: they are fixed. By a
ball, the default, it holds as n → ∞ only.
"""

from dataclasses import dataclass

import numpy as np

from ..errors import InputError, warn_of
from .bounds import Bound, as_bound, group_means
from .cost_model import action_effects
from .design import importance_weights, judged
from .estimates import SelfNormalised
from .log import BanditLog, as_log
from .scores import low_weights
from .starts import effective_size
from .validation import above_half, number, one_of

UNITS = ("row", "context")
MOST_CHOICES = 10**6
FEW = {"ips": 25, "snips": 10, "dr": 10}  # effective rows, below which bounds were measured to hold too rarely
LEAST_WEIGHT = 1e-30  # of the largest: a policy gives every action that may be chosen some probability


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
        share = (1 - self.confidence) / self.choices
        each = f", each of {self.choices} choices with 1 − {share:.4g}"
        how = (each if self.choices > 1 else "") + (", as n → ∞" if self.asymptotic else "")
        return (
            f"cost at most {self.bound:.6g} with probability {self.confidence!r}{how} "
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
    """Return a certificate of a fixed policy's expected cost, in the units of the cost; by default as n → ∞.

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
        costs above 0; and where actions of the policy are missing in the log, any bound can: another says so where the
        mean weight is less than a tenth, and by 5 standard errors less than 1. Those of "ips" with costs of at most 0
        are too high there.
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
    design, log_prob, expected = judged(policy, log, effects)
    log = design.log
    weight = _usable(importance_weights(log_prob, log), log, estimate, clip)
    if estimate == "snips":
        value, upper, n = _ratio(bound, weight, log, by)
    else:
        z = weight * log.cost if estimate == "ips" else expected[log.context] + weight * (log.cost - design.modelled)
        units = (z, log.count.astype(float)) if by == "row" else group_means(log.context, log.count, z)
        upper, value, n = bound(*units), np.average(units[0], weights=units[1]), units[1].sum()
    rows = effective_size(weight / weight.max(), log.count)
    if not (estimate == "ips" and log.cost.max() <= 0):  # which is too high where weights are missing
        few = (
            f"the effective size is {rows:.3g} rows: below {FEW[estimate]} an asymptotic bound by {estimate!r} can be "
            "too low, and hold less often than it says"
        )
        warn_of(few if bound.asymptotic and rows < FEW[estimate] else "", low_weights(weight, log))
    return Certificate(
        value=float(value),
        bound=float(upper),
        confidence=float(confidence),
        method=bound.name,
        estimate=estimate,
        by=by,
        n=int(n),
        choices=int(choices),
        effective_size=rows,
        mean_weight=float(log.count @ weight / log.size),
        asymptotic=bound.asymptotic,
    )


def _usable(weight: np.ndarray, log: BanditLog, estimate: str, clip) -> np.ndarray:
    """The weights, clipped if so; InputError where there are none, or they are beyond the range of numbers."""
    if clip is not None:
        if not 1 <= number(clip) < np.inf:
            raise InputError(f"clip is {clip!r}, expected a number ≥ 1, or None")
        if estimate != "ips" or (log.cost > 0).any():
            raise InputError("clip is for 'ips' and costs of at most 0: elsewhere clipped weights can hide costs")
        weight = np.minimum(weight, clip)
    if not weight.any():
        raise InputError("no row of the log has a weight: it says nothing about this policy")
    if not np.isfinite(log.count @ weight * (1 + np.abs(log.cost).max())):
        raise InputError("the policy's weights, or their costs, are beyond the range of numbers")
    return weight


def _ratio(bound: Bound, weight: np.ndarray, log: BanditLog, by: str) -> tuple[float, float, float]:
    """Return Σ wc/Σ w, the root of v ↦ ball(w (c − v)), and n."""
    if bound.ball is None:
        raise InputError(f"the certificate of 'snips' is by a divergence, not by {bound.name}")
    cost, count = log.cost, log.count.astype(float)
    weight = np.maximum(weight, LEAST_WEIGHT * weight.max())
    if by == "context":
        gain, weight, count = group_means(log.context, log.count, weight * cost, weight)
        cost = gain / weight
    n = count.sum()
    bound.check_size(n)
    rows = SelfNormalised(cost, count)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        upper = rows.evaluate(bound.ball, weight, weight, None, None)[0]
    return (count * weight) @ cost / (count @ weight), upper, n
