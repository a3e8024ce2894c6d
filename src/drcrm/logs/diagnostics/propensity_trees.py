"""Checks of propensities by boosted trees: wrong estimates where a policy moves its mass, and several logging policies.

**Estimates.** Let q be a model of the logged actions, and π a policy that was learned from other rows. Boosted trees
learn to distinguish logged actions from actions drawn from q, as in :mod:`drcrm.logs.estimated_propensities`. Their
features are x, log π(b|x)/q(b|x), and the rank of this ratio among the actions of x, so they see where π moves its
mass. Their log odds h correct the model: f ∝ q e^h. If the logging policy never takes some action that π prefers, f is
far below q there, even if no rule in x alone is simple.

The check fails if f predicts the logged actions better than the estimates do, by the likelihood ratio of
:func:`drcrm.logs.diagnostics.propensity_audit.log_evidence`, and π has much of its mass on actions with f < q/2. The
second condition is needed because every estimate is rejected with enough rows. The trees of a row are fitted to other
folds. On large logs, both use a random sample of the contexts; f = q elsewhere.

Another check compares the forecasts of costs before and after weighting: the prognostic scores of Hansen 2008.

**Several policies.** A single policy gives equal actions in equal contexts equal probabilities, whenever they were
logged. So log p is a function of context and action. Boosted trees predict it on other rows from context, action and
the place of the row in time, and again from places that are drawn at random. Several policies made the log, one after
the other, if the squared error with the true places is smaller than with each set of random places: significantly, by a
material share, and by more than random sets differ. They differ because the error near a jump of a propensity depends
on the rows that the trees were fitted to. Estimated propensities are a function of the context by construction, so
trees predict the logged action instead, and their log likelihoods are compared.

From some place on, predictions stay near those at the end of the log. The last policy made the rows from there on.
Policies that log at the same time, for example in an A/B test, count as one policy that draws among them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from drcrm.arrays.formats import format_number, percent
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import limit_openmp
from drcrm.data.folds import context_folds, row_folds
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.logs.diagnostics.check import LEVEL, Check, Consequence, time_order, worst_level
from drcrm.logs.diagnostics.propensity_audit import FOLDS, log_evidence
from drcrm.logs.estimated_propensities import (
    FORECASTS,
    MAX_CODES,
    MAX_ROWS,
    MAX_SCORES,
    MIN_CONTEXTS,
    dense_features,
    draw_rows,
    power_of,
)

OVERLAP = "overlap of estimated propensities"
UNBALANCED = 3  # standard errors
DRAWN_ACTIONS = 4  # actions drawn from q for each logged action
OVERLAP_TREES: dict[str, Any] = {"max_iter": 30, "max_leaf_nodes": 4, "min_samples_leaf": 100, "early_stopping": False}
HALF = 0.5  # an action with f below this share of q is overestimated
MOST_OVERESTIMATED = 0.05  # the check fails if the policy has more mass than this on overestimated actions
LEAST_SEARCHED, SEARCHED_ROWS = MIN_CONTEXTS, 20_000  # a sample of this size shows every material change
CHANGE_FOLDS = 2
MOST_ACTIONS = 20  # with more actions, estimated propensities are not tested
CHANGE_TREES: dict[str, Any] = {"max_iter": 20, "learning_rate": 0.3, "max_leaf_nodes": 16, "early_stopping": False}
# Actions are noisy, propensities are not, so the trees for actions are smaller.
ACTION_TREES: dict[str, Any] = {"max_iter": 20, "max_leaf_nodes": 4, "min_samples_leaf": 40, "early_stopping": False}
LEAST_GAIN = 0.1  # share of the squared error that the place in time must explain
LEAST_CHANGE = 0.1  # mean relative change of a propensity that matters
NEAR = 0.5  # the last policy's rows are nearer to the end than this share of the largest change
BINS, COMPARED = 200, 200  # places, and rows at each place, at which predictions are compared
RANDOM_ORDERS, MORE_ORDERS = 3, 7  # numbers of random orders of the places, and of further ones before a claim
BEYOND_CHANCE = 5  # standard deviations of the logarithms of mean losses in random orders
END = 10  # number of places that are the end of the log
POLICY_CHANGE = "several logging policies"


def correct_along_policy(
    log: BanditLog, mean: np.ndarray, modelled: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return f of all actions of each context, in the shape of scores, and which contexts were corrected, (m,).

    None for label vectors, and for logs that are too small for trees.

    Parameters
    ----------
    log : BanditLog
        A log of one action per context, or of lists, without rows of count 0.
    mean : array in the shape of scores
        The policy's probabilities of all actions.
    modelled : array in the shape of scores
        q of all actions.
    """
    fold = context_folds(log, FOLDS)
    if not log.actions.are_choices or log.n_contexts < MIN_CONTEXTS or not fold.any():
        return None
    from sklearn.ensemble import HistGradientBoostingClassifier  # its import takes a second

    rng, X = np.random.default_rng(3), dense_features(log.X)
    context = _contexts_of(log, modelled)
    is_kept = np.zeros(log.n_contexts, dtype=bool)
    is_kept[rng.permutation(log.n_contexts)[: MAX_SCORES * log.n_contexts // modelled.size + 1]] = True
    kept = np.flatnonzero(is_kept[context])  # cells
    movement = _movement(mean.ravel(), modelled.ravel(), context)[kept]
    features = np.column_stack([X[context[kept] if log.actions.are_shared else kept], movement])
    order, logit = draw_rows(log, rng), np.zeros(modelled.size)
    order = order[is_kept[log.context[order]]]
    with limit_openmp():
        for number in range(fold.max() + 1):
            rows = order[fold[log.context[order]] != number][: MAX_ROWS // (1 + DRAWN_ACTIONS)]
            contexts = log.context[rows]
            drawn = [log.actions.sample(modelled, rng)[contexts] for _ in range(DRAWN_ACTIONS)]
            cells = np.concatenate([_cell(log, modelled, actions, contexts) for actions in (log.Y[rows], *drawn)])
            is_logged = np.arange(len(cells)) < len(rows)
            trees = HistGradientBoostingClassifier(**OVERLAP_TREES, random_state=0)
            trees.fit(features[np.searchsorted(kept, cells)], is_logged)  # DRAWN_ACTIONS shifts all log odds alike
            inside = fold[context[kept]] == number
            if inside.any():
                logit[kept[inside]] = trees.decision_function(features[inside])
    return power_of(log, modelled, 1, logit.reshape(modelled.shape)), is_kept


def check_balance(log: BanditLog, weight: np.ndarray) -> Check | None:
    """Check that a policy's weights w do not move the forecasts f of the costs: E (w − 1)(f − f̄) = 0.

    A forecast depends on the context only, so right propensities pass. None if the log has no forecasts.
    """
    if (forecasts := log.column(FORECASTS)) is None:
        return None
    forecast = forecasts[:, 0] - log.count @ forecasts[:, 0] / log.size
    moved = Interval.of((weight - 1) * forecast, log, 0.95)
    ratio = float(moved) / moved.standard_error if moved.standard_error > 0 else 0.0
    sentence = (
        f"weights by the estimated propensities move the forecast of the cost by {format_number(ratio)} standard "
        "errors, expected 0 because it depends on the context only"
    )
    if fails := abs(ratio) > UNBALANCED:
        sentence += ". The propensity model misses how the logging policy depends on the context"
    return Check(
        "balance",
        worst_level(fails, False),
        Consequence.UNBALANCED,
        "balance of estimated propensities",
        ratio,
        f"from {format_number(-UNBALANCED)} to {UNBALANCED} standard errors",
        sentence,
        "Hansen 2008",
    )


def check_overlap(log: BanditLog, mean: np.ndarray, modelled: np.ndarray) -> tuple[Check, np.ndarray | None]:
    """Check estimated propensities where a policy moves its mass, and return f of :func:`correct_along_policy`.

    The policy may have been learned from some of the rows: the trees of a row are fitted to other folds, and a policy
    with few coefficients hardly depends on the row.
    """
    correction = correct_along_policy(log, mean, modelled)
    threshold = f"at most {percent(MOST_OVERESTIMATED)} of the policy, if the estimates are rejected"
    if correction is None:
        reason = f"the check needs {MIN_CONTEXTS} contexts, got {log.n_contexts}"
        reason = reason if log.actions.are_choices else "the check is not for label vectors"
        sentence = f"the overlap of the estimated propensities was not checked, because {reason}"
        return _overlap("caution", None, threshold, sentence), None
    corrected, is_kept = correction
    evidence = log_evidence(log, [corrected], log.log_propensity)
    context = _contexts_of(log, modelled)
    count = np.bincount(log.context, log.count) * is_kept
    overestimated = float(count[context] @ (mean * (corrected < HALF * modelled)).ravel() / count.sum())
    is_rejected = bool(evidence > -np.log(LEVEL))
    fails = is_rejected and overestimated > MOST_OVERESTIMATED
    sentence = f"the policy has {percent(overestimated, 1)} of its mass on actions whose propensities look too large"
    if is_rejected:
        sentence = (
            "a model fitted to other rows, which knows the policy, predicts the logged actions "
            f"10^{evidence / np.log(10):.0f} times better than the estimated propensities do, and {sentence}"
        )
    return _overlap(worst_level(fails, is_rejected), overestimated, threshold, sentence), corrected


def _overlap(level: str, value: float | None, threshold: str, sentence: str) -> Check:
    source = "Wasserman, Ramdas & Balakrishnan 2020"
    return Check("estimated_overlap", level, Consequence.OVERESTIMATED, OVERLAP, value, threshold, sentence, source)


def _contexts_of(log: BanditLog, modelled: np.ndarray) -> np.ndarray:
    """Return the context of each cell, an action in a context."""
    return np.broadcast_to(log.actions.broadcast(np.arange(log.n_contexts)), modelled.shape).ravel()


def _cell(log: BanditLog, modelled: np.ndarray, actions: np.ndarray, context: np.ndarray) -> np.ndarray:
    """Return the cells of actions, in the order of scores."""
    numbers = np.arange(modelled.size).reshape(modelled.shape)
    return log.actions.row_map(actions, context, log.n_contexts).to_rows(numbers, None)


def _movement(mean: np.ndarray, modelled: np.ndarray, context: np.ndarray) -> np.ndarray:
    """Return log π/q of each cell and its rank in the context, 0 for the largest, (cells, 2)."""
    tiny = np.finfo(float).tiny
    ratio = np.log(np.maximum(mean, tiny)) - np.log(np.maximum(modelled, tiny))
    order, rank = np.lexsort((-ratio, context)), np.empty(len(ratio))
    starts = np.flatnonzero(np.diff(context, prepend=-1))
    rank[order] = np.arange(len(ratio)) - starts[context]
    return np.column_stack([ratio, rank])


class PolicyChange(NamedTuple):
    """A change of the logging policy: the mask (n,) of the rows that the last policy made, and a caution."""

    is_last: np.ndarray
    check: Check


def find_policy_change(log: BanditLog) -> PolicyChange | None:
    """Return the last change of the logging policy, or None if the log shows none.

    Parameters
    ----------
    log : BanditLog
        An encoded log without rows of count 0, with the times of its file if it has any.
    """
    rows = np.sort(np.random.default_rng(4).permutation(len(log.Y))[:SEARCHED_ROWS])
    target, place = _target(log, rows), time_order(log) / len(log.Y)
    if len(rows) < LEAST_SEARCHED or target is None or len(np.unique(target)) == 1:
        return None
    sample = log.take(rows)
    features, fit = _features_of_rows(sample, target.dtype.kind == "f"), _fitter(sample, target.dtype.kind == "f")
    rng = np.random.default_rng(5)
    with limit_openmp():
        with_place = _losses(sample, features, target, fit, place[rows])
        orders = (rng.permutation(place[rows]) for _ in range(RANDOM_ORDERS + MORE_ORDERS))
        drawn = (_losses(sample, features, target, fit, order) for order in orders)
        first = [*islice(drawn, RANDOM_ORDERS)]
        by_chance = min(first, key=np.mean)
        gain = Interval.of(by_chance - with_place, sample, 1 - LEVEL)
        if not gain.low > 0 or (target.dtype.kind == "f" and gain < LEAST_GAIN * by_chance.mean()):
            return None
        means = np.array([np.mean(losses) for losses in chain([with_place], first, drawn)])
        true_order, *random_orders = np.log(np.maximum(means, np.finfo(float).tiny))
        if true_order > np.mean(random_orders) - BEYOND_CHANCE * np.std(random_orders, ddof=1):
            return None
        start, change = _last_start(features, fit(np.column_stack([features, place[rows]]), target))
    is_last = place >= start
    if change < LEAST_CHANGE or is_last.all():
        return None
    return PolicyChange(is_last, _describe_change(change, *_names_of_policies(log, is_last)))


def _describe_change(change: float, earlier: str, last: str) -> Check:
    """Return a caution that names the policies, and says with which one a policy is compared.

    The ``change`` is the mean |log p − log p'| of equal actions in equal contexts, between the last policy and the most
    distant one.
    """
    sentence = (
        f"several policies made this log, one after the other: {earlier}, then {last}. Between them, propensities of "
        f"equal actions in equal contexts differ by {percent(np.expm1(change))} on average. A policy is compared with "
        "the last one, on its rows. To compare on all rows, pass the file of the policy that runs now: --baseline FILE"
    )
    return Check(
        "policy_change",
        "caution",
        Consequence.NONE,
        POLICY_CHANGE,
        change,
        f"at most {percent(LEAST_CHANGE)}",
        sentence,
        "this project",
    )


def _target(log: BanditLog, rows: np.ndarray) -> np.ndarray | None:
    """Return log p of the rows, or their actions if p is estimated; None if there are too many actions."""
    if not log.imitated_propensities:
        return log.log_propensity[rows]
    is_possible = log.actions.n_classes and log.actions.n_classes <= MOST_ACTIONS
    return np.unique(log.Y[rows], return_inverse=True)[1] if is_possible else None


def _features_of_rows(log: BanditLog, with_actions: bool) -> np.ndarray:
    """Return the features of each row, (n, d); ``with_actions``, also its action or labels."""
    X = dense_features(log.X)[log.actions.feature_rows(log.Y, log.context)]
    if not (with_actions and log.actions.are_shared):
        return X
    return np.column_stack([X, log.Y])


def _fitter(log: BanditLog, is_regression: bool) -> Callable[[np.ndarray, np.ndarray], Callable]:
    """Return a function that fits trees and returns their prediction, of log p or of the log odds of the actions."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor  # it takes a second

    def fit(features: np.ndarray, target: np.ndarray) -> Callable:
        if not is_regression:
            return HistGradientBoostingClassifier(**ACTION_TREES, random_state=0).fit(features, target).predict_proba
        action = features.shape[1] - 2  # the last column is the place
        categories = [action] if 2 < log.actions.n_classes <= MAX_CODES else None
        trees = HistGradientBoostingRegressor(**CHANGE_TREES, categorical_features=categories, random_state=0)
        return trees.fit(features, target).predict

    return fit


def _losses(log: BanditLog, features: np.ndarray, target: np.ndarray, fit: Callable, place: np.ndarray) -> np.ndarray:
    """Return the loss of each row, (n,), by trees that were fitted to other contexts or groups."""
    fold = row_folds(log, CHANGE_FOLDS)
    inputs, losses = np.column_stack([features, place]), np.zeros(len(target))
    for number in range(fold.max() + 1):
        inside = fold == number
        if inside.all() or (target.dtype.kind != "f" and len(np.unique(target[~inside])) <= target.max()):
            return losses  # a single unit, or an action that only one fold has
        predicted = fit(inputs[~inside], target[~inside])(inputs[inside])
        if predicted.ndim == 1:
            losses[inside] = (target[inside] - predicted) ** 2
        else:
            losses[inside] = -np.log(np.maximum(predicted[np.arange(inside.sum()), target[inside]], 1e-12))
    return losses


def _last_start(features: np.ndarray, predict: Callable) -> tuple[float, float]:
    """Return the place at which the last policy begins, and the largest change of a prediction from the end."""
    rows = np.sort(np.random.default_rng(6).permutation(len(features))[:COMPARED])
    places = (np.arange(BINS) + 0.5) / BINS
    inputs = np.column_stack([np.tile(features[rows], (BINS, 1)), np.repeat(places, len(rows))])
    predicted = predict(inputs).reshape(BINS, len(rows), -1)
    if predicted.shape[2] > 1:  # probabilities of all actions
        predicted = np.log(np.maximum(predicted, 1e-3))
    distance = np.abs(predicted - predicted[-END:].mean(axis=0)).mean(axis=(1, 2))
    far = np.flatnonzero(distance > max(NEAR * LEAST_CHANGE, NEAR * distance.max()))
    return float((far[-1] + 1) / BINS) if len(far) else 0.0, float(distance.max())


def _names_of_policies(log: BanditLog, is_last: np.ndarray) -> tuple[str, str]:
    """Return the names of the policies before and after a change, from the column ``logged_by`` if there is one."""
    loggers = log.column("logger")
    phrases = f"the first {int((~is_last).sum())} rows", f"the last {int(is_last.sum())} rows"
    if loggers is None:
        return tuple(f"the policy of {phrase}" for phrase in phrases)
    names = log.rows.values["logger"]
    parts = (np.bincount(loggers[part], log.count[part]) for part in (~is_last, is_last))
    return tuple(f"{names[int(np.argmax(part))]} in {phrase}" for part, phrase in zip(parts, phrases, strict=True))
