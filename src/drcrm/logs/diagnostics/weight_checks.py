"""Checks and tables of a policy's importance weights on a log, and of the weighted costs.

effective sample size  (Σ w)²/Σ w²                                                  Kish 1965
mean weight            E π/p = 1 if the log has every action of the policy
unsupported actions    the policy's probability of unsupported actions

Here w = π/p is the importance weight and c the cost. An action is unsupported if the logging policy takes it less than
0.05 times as often as the uniform policy.

The largest share of one row is computed for w, for |w c|, and for |w c − c|, the cost difference from the logging
policy. The skewness is γ of :mod:`drcrm.evaluation.bounds.asymptotic_bounds`. It is the only quantity here that decides
whether a certificate is issued.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from drcrm.arrays.formats import format_number, percent
from drcrm.arrays.numerics import weighted_quantiles
from drcrm.data.bandit_log import BanditLog
from drcrm.evaluation.bounds.asymptotic_bounds import LARGEST_SKEWNESS, upper_skewness
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.evaluation.policy_on_log import DOMINANT_SHARE, has_enough_rows, largest_share
from drcrm.logging_policy import SUPPORT
from drcrm.logs.diagnostics.check import (
    Check,
    Consequence,
    action_names,
    judge_share,
    row_numbers,
    to_json,
    worst_level,
)
from drcrm.weights import effective_sample_size

LOW_SHARE = 0.1  # effective sample size divided by the rows: caution
SOME_MASS, LARGE_MASS = 0.01, 0.2  # probability of unsupported actions: caution, fail
MIN_MEAN = 0.9  # a mean weight significantly below this fails even if unsupported actions explain it
STANDARD_ERRORS = 3  # a mean weight fails if it differs from its expectation by more standard errors
MISSED, ROUNDING = 1e-3, 1e-9  # a mean weight is not too low if the log could lack actions with this probability
LARGE_SHARE = 0.1  # share of one row in a sum: caution
EQUAL = 1e-3  # root mean square of w − 1, and mean of w − 1, up to which a policy is the logging policy, rounded
QUANTILES = (0.5, 0.9, 0.99, 1.0)
LARGEST_ROWS = 20
SMALLEST_SHOWN = 1e-4  # weights below this share of the largest weight are in the first bin
BINS = 20
SIZE_THRESHOLD = "at least 10 % of the rows; fails below 10 rows, or below both 5 % and 400 rows"


class PolicyWeights(NamedTuple):
    """A policy's importance weights on a log without rows of count 0, and what its checks need.

    Attributes
    ----------
    log : BanditLog
    weight : array (n,)
        w = π/p of the logged actions.
    mean : array in the shape of scores, or None
        The policy's probabilities of all actions, if known.
    logging_mean : array in the shape of scores
        The probabilities of all actions under the logging policy, or an estimate of them.
    residual : array (n,)
        c − ĉ. With a cost model and a known ``mean``, ĉ is the prediction of the model or the mean cost, whichever fits
        better. Otherwise ĉ is the estimate "snips".
    z : array (n,) or None
        Terms of the doubly robust estimate; None without a cost model or ``mean``.
    """

    log: BanditLog
    weight: np.ndarray
    mean: np.ndarray | None
    logging_mean: np.ndarray
    residual: np.ndarray
    z: np.ndarray | None = None


def check_weights(weights: PolicyWeights) -> list[Check]:
    """Return the checks of a policy's weights, without those that are impossible on these rows."""
    log, weight = weights.log, weights.weight
    total = log.count @ weight
    if not 0 < total < np.inf:
        reason = "the policy never takes a logged action" if not total else "importance weights overflow"
        lacks_actions = not total and _lacks_actions(log, Interval.of(weight, log, 0.95))
        consequence = Consequence.MISSING_ACTIONS if lacks_actions else Consequence.FEW_ROWS
        return [replace(_effective_size("fail", 0.0, reason), consequence=consequence)]
    relative, copies = log.relative_weight, log.copies
    of_costs = {"the weighted costs": weight * relative * np.abs(log.cost)}
    if copies @ (weight - 1) ** 2 > EQUAL**2 * copies.sum():  # otherwise differences are rounding
        of_costs["the cost differences to the logging policy"] = np.abs(weight - 1) * relative * np.abs(log.cost)
    support = _check_support(weights)
    checks = (
        support,
        _check_mean(weights, support.value if support else None),
        _check_effective_size(log, weight),
        _check_largest("largest_row", "largest share of one row", {"the total weight": weight * relative}, copies),
        _check_largest("largest_cost", "largest share of weighted costs", of_costs, copies),
        _check_skewness(weights),
    )
    return [check for check in checks if check]


def _check_effective_size(log: BanditLog, weight: np.ndarray) -> Check:
    size, n = effective_sample_size(weight * log.relative_weight, log.copies), int(log.copies.sum())
    share = size / n
    level = worst_level(not has_enough_rows(size, n), share < LOW_SHARE)
    return _effective_size(
        level, share, f"the effective sample size is {format_number(size)} of {n} rows, {percent(share, 1)}"
    )


def _effective_size(level: str, share: float, sentence: str) -> Check:
    name = "effective sample size"
    return Check("effective_size", level, Consequence.FEW_ROWS, name, share, SIZE_THRESHOLD, sentence, "Kish 1965")


def _check_largest(key: str, title: str, magnitudes: dict[str, np.ndarray], count: np.ndarray) -> Check | None:
    """Check the largest share of one row in the sum of magnitudes, arrays (n,) by name."""
    shares = {name: largest_share(values, count) for name, values in magnitudes.items()}
    shares = {name: share for name, share in shares.items() if not np.isnan(share)}
    if not shares:
        return None
    name = max(shares, key=lambda name: shares[name])
    share, sentence = shares[name], f"one row has {percent(shares[name], 1)} of {name}"
    threshold, level = judge_share(share, LARGE_SHARE, DOMINANT_SHARE)
    return Check(key, level, Consequence.FEW_ROWS, title, share, threshold, sentence, "this project")


def _check_skewness(weights: PolicyWeights) -> Check | None:
    """Check the skewness of the estimate towards large costs and towards large rewards; the larger one counts."""
    log, weight, residual = weights.log, weights.weight, weights.residual
    if not np.isfinite(log.count @ weight * (1 + np.abs(residual).max())):
        return None
    residual, copies = residual * log.relative_weight, log.copies
    n = int(copies.sum()) if log.units is None else len(np.unique(log.units))
    costs, rewards = (upper_skewness(weight, sign * residual, copies, n) for sign in (1, -1))
    skewness = max(costs, rewards)
    sentence = f"the skewness of the estimate is {format_number(skewness)}"
    if is_skewed := skewness > LARGEST_SKEWNESS:
        sentence += (
            ". A few rows dominate it, so its bound and interval can be far too low"
            if costs >= rewards
            else ". A few rows dominate it, so its interval covers the true value less often than stated"
        )
    return Check(
        "skewness",
        worst_level(False, is_skewed),
        Consequence.NONE,
        "skewness of the estimate",
        skewness,
        f"at most {LARGEST_SKEWNESS:g}",
        sentence,
        "Hall 1992",
    )


def _check_mean(weights: PolicyWeights, unsupported: float | None) -> Check:
    """Check E w = 1. A mean below 1 fails unless the policy's unsupported actions explain it, at most to MIN_MEAN."""
    log, weight = weights.log, weights.weight
    interval = Interval.of(weight, log, 0.95)
    mean, error, n = float(interval), interval.standard_error, interval.n
    width = stdtrit(n - 1, 0.995) * error if n > 1 else np.inf
    is_missing = _lacks_actions(log, interval)
    least = max(1 - (unsupported or 0.0), MIN_MEAN)
    fails = bool((is_missing and mean + STANDARD_ERRORS * error < least) or mean - STANDARD_ERRORS * error > 1)
    is_off = not mean - width <= 1 <= mean + width
    weight = f"{format_number(mean)} ± {format_number(error)}"
    sentence = f"the mean importance weight is {weight}; its expectation is 1"
    if fails or is_off:
        low = ". The log lacks actions of the policy, or propensities are too large"
        sentence += low if mean < 1 else ". Propensities are too small, or depend on information that is not logged"
    return Check(
        "mean_weight",
        worst_level(fails, is_off),
        Consequence.MISSING_ACTIONS,
        "mean weight",
        mean,
        "its 99 % interval contains 1",
        sentence,
        "E π/p = 1",
        interval.low,
        interval.high,
    )


def _lacks_actions(log: BanditLog, mean: Interval) -> bool:
    """Return whether chance does not explain that a mean weight is below 1.

    If actions of the missing mass have propensities of at least the smallest logged one, p, the probability that the
    log lacks all of them by chance is at most (1 − p)^(n (1 − mean)).
    """
    return mean.n * (1 - float(mean)) * -np.log1p(-min(log.propensity.min(), 1 - ROUNDING)) > -np.log(MISSED)


def _check_support(weights: PolicyWeights) -> Check | None:
    """Check the probability that the policy takes an unsupported action; None if it is unknown."""
    if weights.mean is None:
        return None
    log = weights.log
    mass, _ = log.actions.find_unsupported(log.row_map, weights.mean, weights.logging_mean, SUPPORT)
    share = float(log.count @ mass[log.context] / log.size)
    threshold, level = judge_share(share, SOME_MASS, LARGE_MASS)
    return Check(
        "unsupported",
        level,
        Consequence.OVERLAP,
        "unsupported actions",
        share,
        threshold,
        f"{percent(share, 1)} of the policy's choices are unsupported actions, which the logging policy hardly takes",
        "Sachdeva, Su & Joachims 2020",
    )


def weight_tables(weights: PolicyWeights) -> dict[str, object]:
    """Return the tables as JSON values: weights, overlap, actions and largest_rows.

    They are empty if no weight is positive, or their sum overflows.
    """
    log, weight = weights.log, weights.weight
    if not 0 < log.count @ weight < np.inf:
        return {}
    quantiles = weighted_quantiles(weight, log.count, QUANTILES)
    return {
        "weights": {
            "quantiles": {f"{q:g}": float(quantile) for q, quantile in zip(QUANTILES, quantiles, strict=True)},
            "histogram": _histogram(weight, log.count),
        },
        "overlap": _overlap(weights),
        "actions": _actions(weights),
        "largest_rows": _largest_rows(log, weight),
    }


def _histogram(weight: np.ndarray, count: np.ndarray) -> dict[str, list[float]]:
    """Return a histogram of log₁₀ w, with the rows and the share of the weight in each bin."""
    logs = np.log10(np.maximum(weight, weight.max() * SMALLEST_SHOWN))
    edges = np.histogram_bin_edges(logs, BINS)
    share = np.histogram(logs, edges, weights=count * (weight / (count @ weight)))[0]
    return {
        "edges": edges.tolist(),
        "rows": np.histogram(logs, edges, weights=count)[0].tolist(),
        "share": share.tolist(),
    }


def _overlap(weights: PolicyWeights) -> dict[str, list[float]]:
    """Return histograms of the probabilities of the logged actions under both policies."""
    edges = np.linspace(0, 1, BINS + 1)
    probabilities = {"logged": weights.log.propensity, "policy": weights.weight * weights.log.propensity}
    histograms = {
        name: np.histogram(values, edges, weights=weights.log.count)[0].tolist()
        for name, values in probabilities.items()
    }
    return {"edges": edges.tolist(), **histograms}


def _actions(weights: PolicyWeights) -> list[dict[str, object]]:
    """Return how often each action or label was logged, and its probability under the policy; empty for lists."""
    log = weights.log
    if not log.actions.are_shared:
        return []
    is_chosen = log.actions.is_taken(log.Y)
    policy = unsupported = np.full(log.actions.shape, np.nan)
    if weights.mean is not None:
        context_share = np.bincount(log.context, log.count / log.size, log.n_contexts)
        policy = context_share @ weights.mean
        unsupported = context_share @ log.actions.unsupported_mass(weights.mean, weights.logging_mean, SUPPORT)
    rows, costs = log.count @ is_chosen, (log.count * log.cost) @ is_chosen
    return [
        {
            "action": str(name),
            "rows": int(rows[action]),
            "logging": float(rows[action] / log.size),
            "policy": to_json(policy[action]),
            "unsupported": to_json(unsupported[action]),
            "cost": to_json(costs[action] / rows[action]) if rows[action] else None,
        }
        for action, name in enumerate(action_names(log))
    ]


def _largest_rows(log: BanditLog, weight: np.ndarray) -> list[dict[str, object]]:
    """Return the rows with the largest w |c|, on which the estimate depends most. Ties are broken by the larger w."""
    total, numbers = log.count @ weight, row_numbers(log)
    order = np.lexsort([-weight, -weight * np.abs(log.cost)])[:LARGEST_ROWS]
    return [
        {
            "row": int(numbers[row]),
            "weight": float(weight[row]),
            "cost": float(log.cost[row]),
            "share": float(weight[row] / total),
        }
        for row in order
    ]
