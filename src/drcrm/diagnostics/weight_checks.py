"""Diagnostics and tables of a policy on a log: importance weights, and the terms z whose mean is the estimate.

effective sample size  (Σ w)²/Σ w²                                                          Kish 1965
Pareto k̂               of the largest weights, by a generalised Pareto law                  Vehtari et al. 2024
mean weight            E π/p = 1 where the log has every action of the policy
mass without support   the policy's probability of what π0 takes less than 0.05 times as often as the uniform policy

Pareto k̂ and the largest share of one row are also those of |w c| and of |w c − c|, the difference to the logging
policy. The skewness is γ of :mod:`drcrm.certificates.skewness`. Only the skewness decides whether a certificate is
issued.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from drcrm.certificates.intervals import compute_interval
from drcrm.certificates.skewness import LARGEST_SKEWNESS, upper_skewness
from drcrm.cost_models.support import SUPPORT
from drcrm.data.bandit_log import BanditLog, clipping_constant
from drcrm.diagnostics.diagnostic import Diagnostic, to_json_number, worst_level
from drcrm.weights import effective_sample_size

FEW_ROWS, FEW, VERY_FEW = 10, 0.1, 0.05  # effective rows, and shares of all rows
MANY_ROWS = 400  # effective ones, of which no share is too small: a policy of one of 50 actions has 2 % of any log
LEAST_TAIL = 5  # weights of which a tail is fitted
CAUTION_MASS, MOST_MASS = 0.01, 0.2  # without support
MEAN_BETWEEN = 0.9, 1.1
SURE = 4  # standard errors of a mean weight that fails
HEAVY_SHAPE = 0.7  # of a tail whose mean a sample of usual size estimates badly
CAUTION_SHARE, MOST_SHARE = 0.1, 0.5  # of one row in all weight
MOST_MOVED = 2  # standard errors, by clipping
LARGE = 20.0  # times the mean, of the 0.99 quantile
QUANTILES = (0.5, 0.9, 0.99, 1.0)
LARGEST = 20  # rows in a table
LEAST_SHOWN = 1e-4  # of the largest weight
BINS = 20


class PolicyWeights(NamedTuple):
    """A policy on a log in which every row occurs.

    ``probability``, ``weight`` and ``residual`` are π, w and c − ĉ of the rows, all (n,). With a cost model and known
    probabilities of all actions, ĉ is the model, or the mean cost if that is better. Else ĉ is the estimate by "snips".
    ``mean`` and ``logging_mean`` are the probabilities of all actions by the policy, or None, and by π0.
    """

    log: BanditLog
    probability: np.ndarray
    weight: np.ndarray
    mean: np.ndarray | None
    logging_mean: np.ndarray
    residual: np.ndarray


def check_weights(each: PolicyWeights, units=None) -> list[Diagnostic]:
    """Return the diagnostics of a policy's weights, causes before effects: a verdict names the first that fails."""
    log, weight = each.log, each.weight
    total = log.count @ weight
    if not 0 < total < np.inf:
        sentence = (
            "no logged row has an action of the policy" if not total else "weights are beyond the range of numbers"
        )
        return [Diagnostic("effective sample size", 0.0, None, None, _SIZE, "fail", sentence, "Kish 1965")]
    of_weights = {"all weight": weight}
    of_costs = {
        "the weighted costs": weight * np.abs(log.cost),
        "the differences to the logging policy": np.abs(weight - 1) * np.abs(log.cost),
    }
    diagnostics = (
        _support(each),
        _mean_weight(log, weight, units),
        _effective(log, weight),
        _pareto(log, weight),
        _largest("largest share of one row", of_weights, log.count),
        _quantile(log, weight),
        _clip(log, weight, units),
        _weighted_pareto(of_costs, log.count),
        _largest("largest share of weighted costs", of_costs, log.count),
        _skewness(each, units),
    )
    return [diagnostic for diagnostic in diagnostics if diagnostic]


_SIZE = "at least 10 % of the rows; fails below 5 %, if that is less than 400, and below 10 rows"


def _effective(log, weight) -> Diagnostic:
    size = effective_sample_size(weight, log.count)
    share = size / log.size
    level = worst_level((share < VERY_FEW and size < MANY_ROWS) or size < FEW_ROWS, share < FEW)
    sentence = f"the estimate rests on as much as {size:.3g} rows of {log.size}, {share:.1%}"
    return Diagnostic("effective sample size", share, None, None, _SIZE, level, sentence, "Kish 1965")


def fit_pareto_shape(values: np.ndarray) -> float:
    """Return k̂ of the generalised Pareto law of values above 0, (r,). Source: Zhang & Stephens 2009, with PSIS's prior.

    NaN of fewer than 5, or where all are equal.
    """
    x = np.sort(values)
    r = len(x)
    if r < LEAST_TAIL or not x[-1] > x[0]:
        return np.nan
    quarter = x[max(int(r / 4 + 0.5) - 1, 0)]
    if not quarter > 0:
        return np.nan
    grid = np.arange(1, 31 + int(np.sqrt(r)))
    b = 1 / x[-1] + (1 - np.sqrt(len(grid) / (grid - 0.5))) / (3 * quarter)
    k = np.log1p(-b[:, None] * x).mean(axis=1)
    likelihood = r * (np.log(-b / k) - k - 1)
    share = 1 / np.exp(np.clip(likelihood[None, :] - likelihood[:, None], -700, 700)).sum(axis=1)
    best = (b * share).sum() / share.sum()
    shape = np.log1p(-best * x).mean()
    return float((r * shape + 5) / (r + 10))


def _tail_shape(values: np.ndarray, count: np.ndarray, least: float = 0.0) -> float:
    """Return k̂ of at most min(0.2 n, 3 √n) values above ``least`` root mean squares; NaN if they are too few."""
    largest = values.max()
    if not 0 < largest < np.inf:
        return np.nan
    values = np.sort(np.repeat(values, count))
    n, threshold = len(values), least * largest * np.sqrt(np.mean((values / largest) ** 2))
    size = int(min(0.2 * n, 3 * np.sqrt(n), (values > threshold).sum()))
    if size < LEAST_TAIL or size >= n:
        return np.nan
    return fit_pareto_shape((values[-size:] - values[-size - 1]) / largest)


def _pareto(log, weight) -> Diagnostic | None:
    k = _tail_shape(weight, log.count)
    if not np.isfinite(k):
        return None
    most = min(1 - 1 / np.log10(log.size), 0.7)
    sentence = f"the tail of the weights has the shape {k:.2f}"
    if k >= 1:
        sentence += ": their mean does not exist, and no estimate by them converges"
    elif k > most:
        sentence += ": their mean converges too slowly for this many rows"
    level, threshold = worst_level(k >= 1, k > most), f"at most {most:.2f}; fails from 1"
    return Diagnostic("Pareto k̂", k, None, None, threshold, level, sentence, "Vehtari et al. 2024")


def _weighted_pareto(magnitudes: dict[str, np.ndarray], count: np.ndarray) -> Diagnostic | None:
    """Return the larger k̂ of values beyond their root mean square."""
    shapes = {name: _tail_shape(values, count, 1.0) for name, values in magnitudes.items()}
    name = max(shapes, key=lambda name: np.nan_to_num(shapes[name], nan=-np.inf))
    k = shapes[name]
    if not np.isfinite(k):
        return None
    sentence = f"the tail of {name} has the shape {k:.2f}"
    sentence += ": rare, large costs dominate, and standard errors are unreliable" if k > HEAVY_SHAPE else ""
    threshold, level = f"at most {HEAVY_SHAPE:g}", worst_level(False, k > HEAVY_SHAPE)
    return Diagnostic("Pareto k̂ of weighted costs", k, None, None, threshold, level, sentence, "Vehtari et al. 2024")


def _largest(title: str, magnitudes: dict[str, np.ndarray], count: np.ndarray) -> Diagnostic | None:
    """Return the largest share that one row has of a sum."""
    totals = {name: count @ values for name, values in magnitudes.items()}
    shares = {name: float(magnitudes[name].max() / total) for name, total in totals.items() if 0 < total < np.inf}
    if not shares:
        return None
    name = max(shares, key=shares.get)
    level = worst_level(shares[name] > MOST_SHARE, shares[name] > CAUTION_SHARE)
    sentence, threshold = (
        f"one row has {shares[name]:.1%} of {name}",
        f"at most {CAUTION_SHARE:.0%}; fails above {MOST_SHARE:.0%}",
    )
    return Diagnostic(title, shares[name], None, None, threshold, level, sentence, "this project")


def _skewness(each: PolicyWeights, units) -> Diagnostic | None:
    """Return the larger skewness of both tails of the estimate: large costs, or large rewards."""
    log = each.log
    if not np.isfinite(log.count @ each.weight * (1 + np.abs(each.residual).max())):
        return None
    n = log.size if units is None else len(np.unique(units))
    costs, rewards = (upper_skewness(each.weight, sign * each.residual, log.count, n) for sign in (1, -1))
    skewness = max(costs, rewards)
    sentence = f"the skewness of the estimate is {skewness:.2g}"
    is_skewed = skewness > LARGEST_SKEWNESS
    if is_skewed:
        sentence += (
            ": rare, large costs carry it, and its bound and interval can be far too low"
            if costs >= rewards
            else ": rare, large rewards carry it, and its interval covers the true value less often than it says"
        )
    threshold, level = f"at most {LARGEST_SKEWNESS:g}", worst_level(False, is_skewed)
    return Diagnostic("skewness of the estimate", skewness, None, None, threshold, level, sentence, "Hall 1992")


def _mean_weight(log, weight, units) -> Diagnostic:
    mean = float(log.count @ weight / log.size)
    found = compute_interval(mean, weight, log, units, 0.95)
    error, n = found["standard_error"], found["n"]
    wide = stdtrit(n - 1, 0.995) * error if n > 1 else np.inf
    low, high = MEAN_BETWEEN
    fails = mean + SURE * error < low or mean - SURE * error > high
    odd = not mean - wide <= 1 <= mean + wide
    sentence = f"the mean weight is {mean:.3g} ± {error:.2g}, and 1 is expected"
    if fails or odd:
        sentence += ": the log lacks actions of the policy" if mean < 1 else ": propensities are too small"
        sentence += ", or propensities are too large" if mean < 1 else ", or depend on what is not logged"
    return Diagnostic(
        "mean weight",
        mean,
        found["low"],
        found["high"],
        "1 in its 99 % interval",
        worst_level(fails, odd),
        sentence,
        "E π/p = 1",
    )


def _support(each: PolicyWeights) -> Diagnostic | None:
    if each.mean is None:
        return None
    log = each.log
    mass, _ = log.actions.support_rule.find_unsupported(log.row_map, each.mean, each.logging_mean, SUPPORT)
    share = float(log.count @ mass[log.context] / log.size)
    sentence = f"{share:.1%} of the policy's choices are of actions that the logging policy hardly takes"
    level = worst_level(share > MOST_MASS, share > CAUTION_MASS)
    threshold = f"at most {CAUTION_MASS:.0%}; fails above {MOST_MASS:.0%}"
    return Diagnostic(
        "mass without support", share, None, None, threshold, level, sentence, "Sachdeva, Su & Joachims 2020"
    )


def _quantile(log, weight) -> Diagnostic:
    mean = float(log.count @ weight / log.size)
    high = float(np.quantile(np.repeat(weight, log.count), 0.99)) / mean
    sentence = f"one row in a hundred has more than {high:.3g} times the mean weight"
    threshold = f"at most {LARGE:g} times the mean"
    return Diagnostic(
        "weight quantile 0.99", high, None, None, threshold, worst_level(False, high > LARGE), sentence, "this project"
    )


def _clip(log, weight, units) -> Diagnostic:
    """How far clipping moves the self-normalised estimate, in standard errors of it."""
    clip = clipping_constant(log)
    clipped = np.minimum(weight, clip)
    value, moved = (float(log.count @ (w * log.cost) / (log.count @ w)) for w in (weight, clipped))
    mean = log.count @ weight / log.size
    error = compute_interval(value, weight * (log.cost - value) / mean, log, units, 0.95)["standard_error"]
    moved -= value
    ratio = abs(moved) / error if error > 0 else 0.0 if not moved else np.inf
    sentence = f"clipping weights at {clip:.3g} moves the estimate by {moved:.3g}, {ratio:.2g} standard errors"
    level, threshold = worst_level(False, ratio > MOST_MOVED), f"at most {MOST_MOVED} standard errors"
    return Diagnostic("sensitivity to the clip", ratio, None, None, threshold, level, sentence, "Ionides 2008")


def weight_tables(each: PolicyWeights, names=None, rows=None) -> dict[str, object]:
    """Return weights, overlap, actions and largest rows as they go into JSON."""
    log, weight = each.log, each.weight
    if not 0 < log.count @ weight < np.inf:
        return {}
    expanded = np.repeat(weight, log.count)
    quantiles = {f"{q:g}": float(np.quantile(expanded, q)) for q in QUANTILES}
    return {
        "weights": {"quantiles": quantiles, "histogram": _histogram(expanded)},
        "overlap": _overlap(each),
        "actions": _actions(each, names),
        "largest_rows": _largest_rows(log, weight, np.arange(len(weight)) if rows is None else rows),
    }


def _histogram(weight: np.ndarray) -> dict[str, list[float]]:
    """Of log₁₀ w; weights far below the largest are in the first bin."""
    logs = np.log10(np.maximum(weight, weight.max() * LEAST_SHOWN))
    edges = np.histogram_bin_edges(logs, BINS)
    of_weight = np.histogram(logs, edges, weights=weight / weight.sum())[0]
    return {"edges": edges.tolist(), "rows": np.histogram(logs, edges)[0].tolist(), "share": of_weight.tolist()}


def _overlap(each: PolicyWeights) -> dict[str, list[float]]:
    edges = np.linspace(0, 1, BINS + 1)
    count = each.log.count
    logged, policy = (
        np.histogram(of_rows, edges, weights=count)[0].tolist() for of_rows in (each.log.propensity, each.probability)
    )
    return {"edges": edges.tolist(), "logged": logged, "policy": policy}


def _actions(each: PolicyWeights, names) -> list[dict[str, object]]:
    """How often each action, or label, was logged, and is by the policy; of lists nothing."""
    log = each.log
    if not log.actions.shape:
        return []
    chosen = log.Y if log.Y.ndim == 2 else (log.Y[:, None] == np.arange(*log.actions.shape))
    of_context = np.bincount(log.context, log.count / log.size, log.n_contexts)
    policy = missing = None
    if each.mean is not None:
        policy = of_context @ each.mean
        missing = of_context @ log.actions.support_rule.unsupported_mass(each.mean, each.logging_mean, SUPPORT)
    rows = log.count @ chosen
    costs = (log.count * log.cost) @ chosen
    return [
        {
            "action": str(a if names is None else names[a]),
            "rows": int(rows[a]),
            "logging": float(rows[a] / log.size),
            "policy": None if policy is None else float(policy[a]),
            "unsupported": None if missing is None else float(missing[a]),
            "cost": to_json_number(costs[a] / rows[a]) if rows[a] else None,
        }
        for a in range(*log.actions.shape)
    ]


def _largest_rows(log, weight, numbers) -> list[dict[str, object]]:
    """The rows on which the estimate rests most, by w |c| and then by w."""
    total = log.count @ weight
    order = np.lexsort([-weight, -weight * np.abs(log.cost)])[:LARGEST]
    return [
        {
            "row": int(numbers[i]),
            "weight": float(weight[i]),
            "cost": float(log.cost[i]),
            "share": float(weight[i] / total),
        }
        for i in order
    ]
