"""Checks of a log that hold for every policy: exploration, drift over time, and how much a cost model explains."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from drcrm.arrays.formats import format_number, format_signed, percent
from drcrm.cost_models.base import action_effects
from drcrm.cost_models.cross_fitting import cross_fit
from drcrm.cost_models.missing_cells import LACKED
from drcrm.data.bandit_log import BanditLog
from drcrm.estimates import SelfNormalised
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.logs.diagnostics.check import LEVEL, MIN_ROWS, Check, Consequence, action_names, time_order, worst_level
from drcrm.policies.prepared_log import modelled_cost

CERTAIN = 1 - 1e-9  # logged propensities of at least this count as 1
NEARLY_CERTAIN = 0.99  # estimated propensities of at least this count as 1
MOST_CERTAIN, ALMOST_ALL_CERTAIN = 0.5, 0.99  # share of rows with propensity 1: a caution above, a failure at least
# Estimated propensities fail if at least this share of them counts as 1 and their mean is at least LEAST_MEAN.
ALMOST_ALL_ESTIMATED, LEAST_MEAN = 0.75, 0.94
ROUNDING = 1e-9  # relative to the largest cost
MIN_R2 = -0.02
MIN_EXPECTED = 5  # an action is tested if at least this many of its rows are expected in each part of the log
LAST_PARTS = {"half": 1 / 2, "fifth": 1 / 5, "tenth": 1 / 10, "twentieth": 1 / 20}  # shares of the rows
NO_DRIFT = f"0 in its interval, at {percent(1 - LEVEL, 2)} for all parts together"


class Parts(NamedTuple):
    """Means of two parts of a log, the interval of their difference, and the difference in half widths of it."""

    first: float
    last: float
    ends: tuple[float, float]
    distance: float

    @property
    def is_shifted(self) -> bool:
        """Whether the means differ significantly."""
        return self.distance > 1

    def check(self, key: str, name: str, threshold: str, sentence: str, fails: bool = False) -> Check:
        """Return the check of the difference."""
        return Check(
            key,
            worst_level(self.is_shifted and fails, self.is_shifted),
            Consequence.LOST_GAIN if fails else Consequence.NONE,
            name,
            float(self.last - self.first),
            threshold,
            sentence,
            "Welch 1947",
            *self.ends,
        )


def check_exploration(log: BanditLog) -> Check:
    """Check whether the logging policy takes several actions in similar contexts.

    Estimated propensities of a deterministic rule are below 1 near the boundaries of the rule. For them,
    the check fails if most propensities are near 1 and their mean is high. Randomised decisions lower the mean.
    """
    is_estimated = log.imitated_propensities
    share = float(log.count @ (log.propensity >= (NEARLY_CERTAIN if is_estimated else CERTAIN)) / log.size)
    if is_estimated:
        which = f"an estimated propensity of at least {NEARLY_CERTAIN:g}"
        failure = f"{percent(ALMOST_ALL_ESTIMATED)} or more, if the mean is at least {LEAST_MEAN:g}"
        fails = share >= ALMOST_ALL_ESTIMATED and log.count @ log.propensity / log.size >= LEAST_MEAN
    else:
        which, failure, fails = "propensity 1", f"{percent(ALMOST_ALL_CERTAIN)} or more", share >= ALMOST_ALL_CERTAIN
    level = worst_level(bool(fails), share > MOST_CERTAIN)
    sentence = f"{percent(share, 1)} of the rows have {which}"
    if level != "good":
        sentence += ". The logging policy is near-deterministic, so the log says nothing about other actions"
    return Check(
        "exploration",
        level,
        Consequence.DETERMINISTIC,
        "exploration",
        share,
        f"at most half of the rows; fails at {failure}",
        sentence,
        "this project",
    )


def check_cost_drift(log: BanditLog) -> Check | None:
    """Check whether the mean cost changes towards the end of a log.

    The last half, fifth, tenth and twentieth of the rows are compared with all rows before them. Outcomes that have
    not arrived yet are often logged as 0.

    Parameters
    ----------
    log : BanditLog

    Returns
    -------
    Check or None
        The part whose mean cost differs most, in standard errors; None if the log has fewer than 40 rows.
    """
    if not _has_enough_rows(log):
        return None
    last_parts = _last_parts(log)
    name, parts = compare_worst(log.cost, log, last_parts)
    sign, outcome = (1, "cost") if log.description is None else (log.description.sign, log.description.outcome)
    last, first = (format_number(sign * mean) for mean in (parts.last, parts.first))
    sentence = f"the mean {outcome} is {last} in the last {name} of the rows and {first} in the rows before"
    if parts.is_shifted and not log.cost[last_parts[name]].any():
        sentence += ". Every outcome there is 0, so outcomes may not have arrived yet. Leave these rows out"
    elif parts.is_shifted:
        _, left = compare_worst(_residual(log), log, last_parts)
        if not left.is_shifted:
            sentence += ". Equal actions cost about the same, so other actions or contexts explain the change"
            return replace(
                parts.check("cost_drift", "drift of costs", NO_DRIFT, sentence), level="good", low=None, high=None
            )
        sentence += ". Costs drift at equal actions, so the estimate describes the logged rows and not future ones"
    return parts.check("cost_drift", "drift of costs", NO_DRIFT, sentence)


def _residual(log: BanditLog, cost_model: Any = None) -> np.ndarray:
    """Return the costs minus those that a cost model of other rows predicts, (n,); by default it is cross-fitted."""
    with warnings.catch_warnings(action="ignore"):
        model = cross_fit(log, folds=2) if cost_model is None else cost_model
    return log.cost - modelled_cost(log, action_effects(model, log.X, log.actions))


def _last_parts(log: BanditLog) -> dict[str, np.ndarray]:
    """Return the mask of each last part of the rows that the drift checks compare with the rest, by name."""
    order = time_order(log)
    return {name: order >= len(order) - int(share * len(order)) for name, share in LAST_PARTS.items()}


def check_gain_drift(log: BanditLog, weight: np.ndarray, of_baseline: np.ndarray | None = None) -> Check | None:
    """Check whether a policy's gain over the logging policy differs between the first and the last half of a log.

    The gain is the self-normalised estimate of the cost difference. With the weights ``of_baseline``, it is the gain
    over the baseline, so a log of several logging policies has no drift by itself. The check fails if the gain changes
    significantly and the policy gains nothing in the last half. :func:`check_cost_drift` describes the parameters.
    """
    weights = [weight] if of_baseline is None else [weight, of_baseline]
    if not _has_enough_rows(log) or not all(0 < log.count @ part < np.inf for part in weights):
        return None
    of_policy, *of_reference = (SelfNormalised(log.cost, log.count).terms(part) for part in weights)
    terms = of_policy - (of_reference[0] if of_reference else log.cost)
    name = "baseline" if of_reference else "logging policy"
    parts = compare_parts(terms, log, time_order(log) >= len(log.Y) // 2)
    sentence = (
        f"the policy's cost per row minus the {name}'s is {format_signed(parts.first)} in the first half of "
        f"the rows and {format_signed(parts.last)} in the last half"
    )
    sentence += ". Its gain drifts" if parts.is_shifted else ""
    threshold = f"{NO_DRIFT}; fails if nothing is gained in the last half"
    return parts.check("gain_drift", "drift of the gain", threshold, sentence, fails=parts.last >= 0 > parts.first)


def _has_enough_rows(log: BanditLog) -> bool:
    return min(log.size, len(log.Y)) >= MIN_ROWS


def compare_parts(values: np.ndarray, log: BanditLog, is_last: np.ndarray, tests: int = len(LAST_PARTS)) -> Parts:
    """Compare the means of two parts, at level 10⁻⁴ for so many tests together.

    The standard error is the larger of two: one from the variance in each part, and one from the variance of all rows.
    The first is too small if a part has none of the rare outcomes, the second if a part has many of them.
    """
    first_n, last_n = log.count @ ~is_last, log.count @ is_last
    first, last = log.count @ (values * ~is_last) / first_n, log.count @ (values * is_last) / last_n
    terms = np.where(is_last, (values - last) * log.size / last_n, -(values - first) * log.size / first_n)
    intervals = (Interval.of(z, log, 1 - LEVEL / tests, value=0.0) for z in (terms, values))
    width, pooled = (interval.high for interval in intervals)
    width, change = max(width, pooled * log.size / np.sqrt(first_n * last_n)), last - first  # NaN for a single unit
    distance = abs(change) / width if width > 0 else np.inf if change and not width else 0.0
    return Parts(first, last, (change - width, change + width), distance)


def compare_worst(values: np.ndarray, log: BanditLog, parts: Mapping[str, np.ndarray]) -> tuple[str, Parts]:
    """Return the part, by name and mask (n,), whose mean differs most from that of the other rows, in half widths."""
    results = {name: compare_parts(values, log, rows, len(parts)) for name, rows in parts.items()}
    name = max(results, key=lambda name: results[name].distance)
    return name, results[name]


def check_action_drift(log: BanditLog) -> Check | None:
    """Check whether the shares of actions or labels change towards the end of a log.

    The parts of :func:`check_cost_drift` are compared in the share of the action that changes most, at the level of all
    actions together. Return None for lists of actions, for fewer than 40 rows, and if no action is expected often
    enough in a part. :func:`check_cost_drift` describes the parameters.
    """
    if not _has_enough_rows(log) or not log.actions.are_shared:
        return None
    is_taken, results = log.actions.is_taken(log.Y), {}
    share = log.count @ is_taken / log.size
    for name, is_last in _last_parts(log).items():
        size = log.count @ is_last
        tested = np.flatnonzero((min(size, log.size - size) * share >= MIN_EXPECTED) & (share < 1))
        if len(tested):
            change = (log.count * is_last) @ is_taken[:, tested] / size - share[tested]
            action = int(tested[np.argmax(change**2 / (share * (1 - share))[tested])])
            tests = len(tested) * len(LAST_PARTS)
            results[name, action] = compare_parts(is_taken[:, action].astype(float), log, is_last, tests)
    if not results:
        return None
    (name, action), parts = max(results.items(), key=lambda result: result[1].distance)
    sentence = (
        f"{log.actions.noun} {action_names(log)[action]} was logged in "
        f"{percent(parts.last, 1)} of the last {name} of the rows and in {percent(parts.first, 1)} of the rows before"
    )
    sentence += ". The logged actions drift" if parts.is_shifted else ""
    return parts.check("action_drift", "drift of actions", NO_DRIFT, sentence)


def check_action_names(log: BanditLog) -> Check | None:
    """Return a caution if two names of actions may mean the same action, such as 1 and 01; else None."""
    first: dict[str, object] = {}
    pairs = [(first[text], name) for name in action_names(log) if first.setdefault(text := _plain(name), name) != name]
    if not pairs:
        return None
    sentence = (
        f"the actions {str(pairs[0][0])!r} and {str(pairs[0][1])!r} have names that may mean the same action; if they "
        "are one action, write its name in one way in all files"
    )
    return Check(
        "action_names",
        "caution",
        Consequence.NONE,
        "names of actions",
        float(len(pairs)),
        "no similar names",
        sentence,
        "names equal as numbers or texts",
    )


def _plain(name: object) -> str:
    """Return a name without blanks, capital letters, leading zeros and Unicode variants."""
    text = "".join(unicodedata.normalize("NFKC", str(name)).casefold().split())
    with suppress(ValueError):
        return repr(float(text))
    return text


def check_cost_model(log: BanditLog, cost_model: Any = None) -> Check | None:
    """Check R² of a cost model on rows that it was not fitted to.

    By default, a model is fitted to each half of the contexts and predicts the other half. Return None if costs are
    constant, or if there is no model and fewer than 40 contexts.
    """
    total = log.count @ (log.cost - log.count @ log.cost / log.size) ** 2
    rounding = log.size * (ROUNDING * np.abs(log.cost).max()) ** 2
    if not total > rounding or (cost_model is None and log.n_contexts < MIN_ROWS):
        return None
    r_squared = float(1 - log.count @ _residual(log, cost_model) ** 2 / total)
    is_worse = r_squared < MIN_R2
    sentence = (
        f"a cost model explains {percent(r_squared, 1)} of the variance of costs on rows that it was not fitted to"
    )
    if is_worse:
        sentence += ". It predicts worse than the mean cost, so a doubly robust estimate gains no precision from it"
    return Check(
        "cost_model",
        worst_level(False, is_worse),
        Consequence.NONE,
        "R² of the cost model",
        r_squared,
        f"at least {format_number(MIN_R2)}, about 0 for noise",
        sentence,
        "out of fold",
    )


def check_missing(log: BanditLog) -> Check | None:
    """Return a caution if a marked log lacks actions in some rows."""
    lacked = log.column(LACKED)
    if lacked is None or not lacked.any():
        return None
    names = ", ".join(str(log.encoding.names[k]) for k in np.flatnonzero(lacked.any(axis=0)))
    share = float(log.count @ lacked.any(axis=1) / log.size)
    sentence = (
        f"in {percent(share, 1)} of the rows the log lacks an action that it has elsewhere ({names}). There the bounds "
        "charge it the largest cost. If the logging policy can take it there, state the smallest probability of any "
        "action as least_propensity in the mapping"
    )
    return Check(
        "missing_actions", "caution", Consequence.NONE, "missing actions", share, "0", sentence, "this project"
    )
