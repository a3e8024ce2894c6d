"""Certificates: what held-out rows of a log say of a policy's cost, with a bound that holds with a stated probability.

It holds if the policy, and the cost model of a doubly robust estimate, were made from other rows: they are fixed. By a
ball, the default, it holds as n → ∞ only. What the log cannot show it does not promise. Where π0 is known, actions that
it hardly takes, S (:mod:`drcrm.cost_models.support` says which), count at the largest cost a:

    E_π c ≤ E [w 1[y ∉ S] c + M a] = E w' c',    M(x) = π(S|x),  w' = w 1[y ∉ S] + M,  E w' = 1

"ips" and "snips" are of w' and c', and "dr" of a model that says a of S. Where π0 is not known, rows have to show that
some are missing: see :mod:`drcrm.certificates.missing_mass`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from drcrm.arrays.validation import check_choice, check_confidence, to_float
from drcrm.certificates.bounds import Bound, as_bound
from drcrm.certificates.independent_units import check_groups, group_means, unit_values
from drcrm.certificates.missing_mass import has_missing_mass, low_weight_warning, worst_case_gaps
from drcrm.certificates.skewness import LARGEST_SKEWNESS, corrected_bound, tail_residual, upper_skewness
from drcrm.cost_models.ridge_model import action_effects
from drcrm.cost_models.support import SUPPORT, SupportedModel, find_unsupported
from drcrm.data.bandit_log import BanditLog, as_log
from drcrm.errors import InputError, warn_all
from drcrm.estimates import SelfNormalised, find_estimate
from drcrm.policies.exponential import LinearPolicy, as_policy
from drcrm.policies.linear_predictor import forward_policy, importance_weights
from drcrm.policies.tabular import policy_for_log
from drcrm.weights import effective_sample_size

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
    contexts (``by``); ``effective_size``, (Σ w)²/Σ w², counts rows. A mean weight far from 1, of w, or where π0 is
    known of w 1(y ∉ S) + M, says that propensities are wrong, or that actions of the policy are missing in the log.
    Where rows show that some are, ``missing`` says so, and estimate and bound count their mass at the largest of
    ``costs``, that of a baseline at the least. ``unsupported`` is the policy's probability of what π0 hardly takes,
    which counts so too; None where π0 is not known. ``skewness`` is γ of :mod:`drcrm.certificates.skewness`, by which
    an
    asymptotic bound was corrected; None if it was not.
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
    unsupported: float | None
    costs: tuple[float, float]
    skewness: float | None

    def __repr__(self) -> str:
        share = (1 - self.confidence) / self.choices
        each = f", each of {self.choices} choices with 1 − {share:.4g}"
        how = (each if self.choices > 1 else "") + (", as n → ∞" if self.asymptotic else "")
        what = "cost of the difference" if self.baseline else "cost"
        low, high = self.costs
        at = f"the worst of the costs {low:.6g} to {high:.6g}" if self.baseline else f"a cost of {high:.6g}"
        counted = f", what the log lacks counted at {at}" if self.missing else ""
        counted += f", {self.unsupported:.3g} without support" if round(self.unsupported or 0, 3) else ""
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
    logging_policy: LinearPolicy | None = None,
    groups=None,
    check_tails: bool = True,
) -> Certificate:
    """Return a certificate of a fixed policy's expected cost, in the units of the cost; by default as n → ∞.

    What the log lacks of the policy's actions counts at the largest cost a. Where π0 is known, that is what π0 hardly
    takes. Where it is not, or the mean of w' is less than a tenth, and by 5 standard errors less than 1, rows that show
    that they lack actions have estimate and bound of a + w (c − a) in place of the z below.

    Parameters
    ----------
    policy : any, as :func:`drcrm.off_policy_value` takes them
        Known by its probabilities of the logged actions alone, for "ips" and "snips" without ``logging_policy``. The
        certificate is of actions drawn from it, as its propensities say, not of its most probable actions.
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
        For "dr": one that was fitted to other rows. That of a fit with ``logging_policy``, its ``cost_model_``, knows
        π0. Of label vectors each label that π0 hardly gives then counts as dear as labels are in that model.
    logging_policy : ExponentialPolicy or SoftmaxPolicy, optional
        π0, where it is known; it takes the place of a model's own. An imitation of the log is not known to be it.
    baseline : any policy, or "logging", optional
        The certificate is then of how much more the policy costs than this one, which was fixed too: the bound of the
        paired differences z_i − z_i⁰. Below 0, the policy is better, by at least as much. z⁰ are those of the baseline
        by the same estimate; of "logging", π0 as it logged, they are the logged costs. Those of "snips" are
        v̂ + w (c − v̂): no ball has a difference of two ratios as its root. So every asymptotic method will do.
    cost_range : (least, largest), optional
        Between which costs are known to be, those of actions that were never logged too. By default they are the least
        and the largest logged, or 0 beyond them: that no action of the policy costs more is then presumed. A good π0
        logs few bad actions, so say it of losses, and of costs whose origin is not their largest.

    groups : array (n,), optional
        Ids of rows that belong together, in place of ``by``: groups are independent of each other, and the bound is of
        the mean over rows all the same. For asymptotic methods.
    check_tails : bool
        Correct an asymptotic bound for the skewness of the estimate, and refuse a certificate if the logged costs are
        all equal or the skewness exceeds 0.3. Rare, large costs then make uncorrected bounds too low: see
        :mod:`drcrm.certificates.skewness`. False gives the method's own bound, for comparisons between methods.

    Raises
    ------
    InputError
        What is named in the arguments above, or no row with a weight; rare, large costs; or a method that is not
        asymptotic where rows show that they lack actions of the policy: its range is not of what is missing.
    """
    if isinstance(estimate, str) and estimate == "dm":
        raise InputError("estimate is 'dm', which has no certificate: none covers the error of a cost model")
    check_choice(FEW, estimate, "estimate")
    check_choice(UNITS, by, "by")
    if not (1 <= to_float(choices) <= MOST_CHOICES and choices == int(choices)):
        raise InputError(f"choices is {choices!r}, expected a whole number from 1 to {MOST_CHOICES}")
    policy, baseline, groups, log = _occurring(policy, baseline, groups, as_log(log))
    each = 1 - (1 - check_confidence(confidence, "confidence")) / choices
    bound = as_bound(each, method, low, high, smoothing)
    if groups is not None and not bound.asymptotic:
        raise InputError(f"groups are for asymptotic methods, not for {bound.name}")
    if estimate == "dr" and cost_model is None:
        raise InputError("the certificate of 'dr' needs cost_model=, fitted to other rows than those of the log")
    if logging_policy is not None:
        logging_policy = as_policy(logging_policy, "logging_policy")
    costs = _known_range(cost_range, log.cost)
    judge = _Judge(log, estimate, cost_model, logging_policy)
    sides = [judge(policy, "policy", costs[1], 1, clip)]
    if baseline is not None and not isinstance(baseline, str):
        sides.append(judge(baseline, "baseline", costs[0], -1))
    side, z, gaps = sides[0], sides[0].z, [each.gap for each in sides]
    if baseline is not None:
        z = z - (log.cost if isinstance(baseline, str) else sides[1].z)
    if not all(np.isfinite(each).all() for each in (z, *gaps)):
        raise InputError("the policy's weights, or their costs, are beyond the range of numbers")
    rows = z, *gaps
    z, *gaps, count = _in_units(rows, log, by, groups)
    if estimate == "snips" and baseline is None:
        value, upper = _ratio(bound, side.counted, log.replace(cost=side.cost), by, groups)
    elif estimate == "snips" and not bound.asymptotic:
        raise InputError(f"the certificate of a difference by 'snips' is by an asymptotic method, not by {bound.name}")
    else:
        value, upper = np.average(z, weights=count), bound(z, count)
    if judge.support is None:
        are_missing = [has_missing_mass(each, count, max(map(abs, costs))) for each in gaps]
    else:  # what has none is counted, for every n; a sample may lack vectors all of whose labels have support
        are_missing = [bound.asymptotic and bool(low_weight_warning(each.counted, log)) for each in sides]
    lacking = [each for each, is_lacking in zip(gaps, are_missing, strict=True) if is_lacking]
    if lacking:
        if not bound.asymptotic:
            raise InputError(
                f"the log lacks actions of the policy: a bound by {bound.name} does not know of them, expected an "
                "asymptotic method, or 'ips' and costs of at most 0"
            )
        counted = z + sum(lacking)
        value, upper = np.average(counted, weights=count), bound(counted, count)
    skewness = None
    if bound.asymptotic and check_tails:
        weight, residuals = _tail(sides, log, baseline, costs[1] if lacking else None)
        skewness = max(upper_skewness(weight, residual, log.count, int(count.sum())) for residual in residuals)
        _check_tails(log, skewness, bound)
        upper = max(upper, corrected_bound(counted if lacking else z, count, each, skewness))
    for each, safe in zip(sides, (log.cost.max() <= 0, log.cost.min() >= 0), strict=False):
        if not (estimate == "ips" and safe):  # which is too high where weights are missing
            _warn(each, log, estimate, bound)
    return Certificate(
        value=float(value),
        bound=float(upper),
        confidence=float(confidence),
        method=bound.name,
        estimate=estimate,
        by=by if groups is None else "group",
        n=int(count.sum()),
        choices=int(choices),
        effective_size=side.effective_size(log),
        mean_weight=float(log.count @ side.counted / log.size),
        asymptotic=bound.asymptotic,
        baseline=baseline is not None,
        missing=bool(lacking),
        unsupported=side.unsupported,
        costs=costs,
        skewness=skewness,
    )


class _Side(NamedTuple):
    """What a log says of a policy: the weights of its rows, w' and c', z, what z̃ adds to it, and the mean of M."""

    weight: np.ndarray
    counted: np.ndarray
    cost: np.ndarray
    residual: np.ndarray
    z: np.ndarray
    gap: np.ndarray
    unsupported: float | None

    def effective_size(self, log: BanditLog) -> float:
        return effective_sample_size(self.weight, log.count)


class _Judge:
    """What makes the sides of a certificate, of a log in which every row occurs.

    ``support`` is π0, τ and the map to what π0 takes; None where π0 is not known.
    """

    def __init__(self, log: BanditLog, estimate: str, model, logging_policy: LinearPolicy | None):
        self.log, self.estimate, self.model, self.support = log, estimate, None, None
        if estimate == "dr":
            if logging_policy is not None:
                support = model.support if isinstance(model, SupportedModel) else 0
                model = SupportedModel.of(model, log, logging_policy, support or SUPPORT)
            if isinstance(model, SupportedModel) and model.support and not model.is_cloned:
                self.support = model.logging_policy, model.support, model.features
            self.model = model
        elif logging_policy is not None:
            self.support = logging_policy, SUPPORT

    def __call__(self, policy, name: str, extreme: float, sign: int, clip: float | None = None) -> _Side:
        """The side of a policy: what is missing counts at an extreme cost, the largest (sign 1) or the least (−1)."""
        log = self.log
        design, log_prob, expected = forward_policy(policy, log, self._effects(extreme, sign), name)
        weight = _usable(importance_weights(log_prob, log), log, self.estimate, clip, name)
        seen, counted, cost, unsupported = weight, weight, log.cost, None
        if self.support is not None:
            mass, is_rare = find_unsupported(policy, log, *self.support)
            mass, seen = mass[log.context], weight * ~is_rare
            counted, unsupported = seen + mass, float(log.count @ mass / log.size)
            share = np.divide(mass, counted, out=np.zeros_like(mass), where=counted > 0)
            cost = cost + share * (extreme - cost)
        if self.estimate == "dr":
            z = find_estimate("dr")(log.cost, log.count, design.modelled_cost, log.context).z(weight, expected)
            residual = log.cost - design.modelled_cost
        else:
            z, weight = find_estimate(self.estimate)(cost, log.count).z(counted, None), seen
            total = log.count @ counted
            mean = log.count @ (counted * cost) / total if self.estimate == "snips" and total > 0 else 0.0
            residual = cost - mean
        return _Side(weight, counted, cost, residual, z, sign * worst_case_gaps(z, counted, cost, extreme), unsupported)

    def _effects(self, extreme: float, sign: int) -> np.ndarray | None:
        if self.model is None:
            return None
        if self.support is not None:
            return self.model.effects_at_extreme(self.log.X, self.log.actions, extreme, sign)
        return action_effects(self.model, self.log.X, self.log.actions)


def _occurring(policy, baseline, groups, log: BanditLog):
    """Policies, baseline and groups of what occurs in a log, and the log of that."""
    policy = policy_for_log(policy, log)
    if isinstance(baseline, str):
        check_choice((LOGGING,), baseline, "baseline")
    elif baseline is not None:
        baseline = policy_for_log(baseline, log, "baseline")
    return policy, baseline, check_groups(groups, log), log.recount(log.count)


def _in_units(rows: tuple[np.ndarray, ...], log: BanditLog, by: str, groups) -> tuple[np.ndarray, ...]:
    """Values of the rows, each (n,), as those of independent units, and how often each of these occurs."""
    count = log.count.astype(float)
    if groups is not None:
        values = [unit_values(each, count, groups) for each in rows]
        return *values, np.ones(len(values[0]))
    return (*rows, count) if by == "row" else group_means(log.context, log.count, *rows)


def _known_range(given, cost: np.ndarray) -> tuple[float, float]:
    """The range of costs, stated, or of those logged and 0; InputError where a logged one is not in that stated."""
    logged = float(cost.min()), float(cost.max())
    if given is None:
        return min(logged[0], 0.0), max(logged[1], 0.0)
    stated = tuple(map(to_float, given)) if isinstance(given, list | tuple) and len(given) == 2 else (np.nan, np.nan)
    if not -np.inf < stated[0] <= logged[0] <= logged[1] <= stated[1] < np.inf:
        raise InputError(
            f"cost_range is {given!r}, expected (least, largest) with all logged costs, {logged[0]:.6g} to "
            f"{logged[1]:.6g}, between them"
        )
    return stated


def _tail(sides, log: BanditLog, baseline, largest: float | None) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Return a and possible e of the terms z = m + a e, each (n,); ``largest`` is the cost of missing actions, if any.

    The costs of "ips" are not centred, so that their mean can hide their tail: both forms count.
    """
    side = sides[0]
    reference = 0.0
    if baseline is not None:
        reference = sides[1].counted if len(sides) > 1 else 1.0
    if largest is not None:
        return side.counted - reference, (side.cost - largest,)
    return side.counted - reference, (side.residual, tail_residual(side.residual, log.cost, log.count))


def _check_tails(log: BanditLog, skewness: float, bound: Bound) -> None:
    """Raise InputError if the costs are all equal, or too skewed for an asymptotic bound."""
    if np.ptp(log.cost) == 0:
        raise InputError(
            f"every logged cost is {log.cost[0]:.6g}: a certificate needs costs that vary, or a method such as betting "
            "with a range that is known"
        )
    if not skewness <= LARGEST_SKEWNESS:
        raise InputError(
            f"rare, large costs carry the estimate: the skewness of its mean is {skewness:.2g}, and a bound by "
            f"{bound.name} needs at most {LARGEST_SKEWNESS}. Log more rows, cap the costs, or use betting with a range "
            "that is known"
        )


def _warn(side: _Side, log: BanditLog, estimate: str, bound: Bound) -> None:
    """Warn of few effective rows, and of low weights."""
    rows = side.effective_size(log)
    few = (
        f"the effective size is {rows:.3g} rows: below {FEW[estimate]} an asymptotic bound by {estimate!r} can be "
        "too low, and hold less often than it says"
    )
    warn_all(few if bound.asymptotic and rows < FEW[estimate] else "", low_weight_warning(side.weight, log))


def _usable(weight: np.ndarray, log: BanditLog, estimate: str, clip, name: str) -> np.ndarray:
    """The weights, clipped if so; InputError where there are none, or they are beyond the range of numbers."""
    if clip is not None:
        if not 1 <= to_float(clip) < np.inf:
            raise InputError(f"clip is {clip!r}, expected a number ≥ 1, or None")
        if estimate != "ips" or (log.cost > 0).any():
            raise InputError("clip is for 'ips' and costs of at most 0: elsewhere clipped weights can hide costs")
        weight = np.minimum(weight, clip)
    if not weight.any():
        raise InputError(f"no row of the log has a weight: it says nothing about this {name}")
    if not np.isfinite(log.count @ weight * (1 + np.abs(log.cost).max())):
        raise InputError(f"the {name}'s weights, or their costs, are beyond the range of numbers")
    return weight


def _ratio(bound: Bound, weight: np.ndarray, log: BanditLog, by: str, groups=None) -> tuple[float, float]:
    """Return Σ wc/Σ w, and the root of v ↦ ball(w (c − v))."""
    if bound.ball is None:
        raise InputError(f"the certificate of 'snips' is by a divergence, not by {bound.name}")
    cost, count = log.cost, log.count.astype(float)
    weight = np.maximum(weight, LEAST_WEIGHT * weight.max())
    if groups is not None:
        gain, weight = (np.bincount(groups, count * each) for each in (weight * cost, weight))
        gain, weight = gain[weight > 0], weight[weight > 0]
        count, cost, weight = np.ones(len(weight)), gain / weight, weight * (len(weight) / log.size)
    elif by == "context":
        gain, weight, count = group_means(log.context, log.count, weight * cost, weight)
        cost = gain / weight
    bound.check_size(count.sum())
    rows = SelfNormalised(cost, count)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        upper = rows.evaluate(bound.ball, weight, weight, None, None)[0]
    return (count * weight) @ cost / (count @ weight), upper
