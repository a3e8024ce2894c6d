"""Recognise a log that several policies made, one after the other, and find the rows of the last one.

A single policy gives equal actions in equal contexts equal probabilities, whenever they were logged. So log p is a
function of context and action. Boosted trees predict it on other rows from context, action and the place of the row in
time, and again from places that are drawn at random. Several policies made the log if the true place makes the squared
error significantly and materially smaller than each random one. Estimated propensities are a function of the context by
construction, so trees predict the logged action instead, and their log likelihoods are compared.

The last policy made the rows after which predictions stay near those at the end of the log. Policies that log at the
same time, for example in an A/B test, count as one policy that draws among them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from drcrm.arrays.number_formats import percent
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import limit_openmp
from drcrm.data.folds import row_folds
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.logs.diagnostics.check import LEVEL, Check, Consequence, time_order
from drcrm.logs.estimated_propensities import MAX_CODES, MIN_CONTEXTS, dense_features

MAX_ROWS = 20_000  # a sample of this size shows every material change
FOLDS = 2
MAX_ACTIONS = 20  # with more actions, estimated propensities are not tested
TREES: dict[str, Any] = {"max_iter": 20, "learning_rate": 0.3, "max_leaf_nodes": 16, "early_stopping": False}
# Actions are noisy, propensities are not, so the trees for actions are smaller.
SMALL_TREES: dict[str, Any] = {"max_iter": 20, "max_leaf_nodes": 4, "min_samples_leaf": 40, "early_stopping": False}
LEAST_GAIN = 0.1  # share of the squared error that the place in time must explain
LEAST_CHANGE = 0.1  # mean relative change of a propensity that matters
NEAR = 0.5  # the last policy's rows are nearer to the end than this share of the largest change
BINS, COMPARED = 200, 200  # places, and rows at each place, at which predictions are compared
DRAWS = 3  # number of random orders of the places
END = 10  # number of places that are the end of the log
NAME = "several logging policies"


@dataclass(frozen=True)
class PolicyChange:
    """A change of the logging policy.

    Attributes
    ----------
    is_last : bool array (n,)
        Mask of the rows that the last policy made.
    change : float
        Mean |log p − log p'| of equal actions in equal contexts, between the last policy and the most distant one.
    earlier, last : str
        Names of the policies before and after, for sentences.
    """

    is_last: np.ndarray
    change: float
    earlier: str
    last: str

    def check(self) -> Check:
        """Return a caution that names the policies, and says with which one a policy is compared."""
        sentence = (
            f"several policies made this log, one after the other: {self.earlier}, then {self.last}. Between them, "
            f"propensities of equal actions in equal contexts differ by {percent(np.expm1(self.change))} on average. "
            "A policy is compared with the last one, on its rows. To compare on all rows, pass the file of the policy "
            "that runs now: --baseline FILE"
        )
        return Check(
            "policy_change",
            "caution",
            Consequence.NONE,
            NAME,
            self.change,
            f"at most {percent(LEAST_CHANGE)}",
            sentence,
            "this project",
        )


def find_policy_change(log: BanditLog) -> PolicyChange | None:
    """Return the last change of the logging policy, or None if the log shows none.

    Parameters
    ----------
    log : BanditLog
        An encoded log without rows of count 0, with the times of its file if it has any.
    """
    rows = np.sort(np.random.default_rng(4).permutation(len(log.Y))[:MAX_ROWS])
    target, place = _target(log, rows), time_order(log) / len(log.Y)
    if len(rows) < MIN_CONTEXTS or target is None or len(np.unique(target)) == 1:
        return None
    sample = log.take(rows)
    features, fit = _features(sample, target.dtype.kind == "f"), _fitter(sample, target.dtype.kind == "f")
    rng = np.random.default_rng(5)
    with limit_openmp():
        with_place = _losses(sample, features, target, fit, place[rows])
        drawn = (_losses(sample, features, target, fit, rng.permutation(place[rows])) for _ in range(DRAWS))
        by_chance = min(drawn, key=np.mean)
        gain = Interval.of(by_chance - with_place, sample, 1 - LEVEL)
        if not gain.low > 0 or (target.dtype.kind == "f" and gain < LEAST_GAIN * by_chance.mean()):
            return None
        start, change = _last_start(features, fit(np.column_stack([features, place[rows]]), target))
    is_last = place >= start
    if change < LEAST_CHANGE or is_last.all():
        return None
    return PolicyChange(is_last, change, *_names(log, is_last))


def _target(log: BanditLog, rows: np.ndarray) -> np.ndarray | None:
    """Return log p of the rows, or their actions if p is estimated; None if there are too many actions."""
    if not log.imitated_propensities:
        return log.log_propensity[rows]
    is_possible = log.actions.n_classes and log.actions.n_classes <= MAX_ACTIONS
    return np.unique(log.Y[rows], return_inverse=True)[1] if is_possible else None


def _features(log: BanditLog, with_actions: bool) -> np.ndarray:
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
            return HistGradientBoostingClassifier(**SMALL_TREES, random_state=0).fit(features, target).predict_proba
        action = features.shape[1] - 2  # the last column is the place
        categories = [action] if 2 < log.actions.n_classes <= MAX_CODES else None
        trees = HistGradientBoostingRegressor(**TREES, categorical_features=categories, random_state=0)
        return trees.fit(features, target).predict

    return fit


def _losses(log: BanditLog, features: np.ndarray, target: np.ndarray, fit: Callable, place: np.ndarray) -> np.ndarray:
    """Return the loss of each row, (n,), by trees that were fitted to other contexts or groups."""
    fold = row_folds(log, FOLDS)
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


def _names(log: BanditLog, is_last: np.ndarray) -> tuple[str, str]:
    """Return the names of the policies before and after a change, from the column ``logged_by`` if there is one."""
    loggers = log.column("logger")
    phrases = f"the first {int((~is_last).sum())} rows", f"the last {int(is_last.sum())} rows"
    if loggers is None:
        return tuple(f"the policy of {phrase}" for phrase in phrases)
    names = log.rows.values["logger"]
    parts = (np.bincount(loggers[part], log.count[part]) for part in (~is_last, is_last))
    return tuple(f"{names[int(np.argmax(part))]} in {phrase}" for part, phrase in zip(parts, phrases, strict=True))
