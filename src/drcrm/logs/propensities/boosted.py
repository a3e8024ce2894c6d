"""A model of the logged actions that boosted trees correct where it is wrong, also if the error is not linear in x.

Let q(b|x) be a model of the logged actions. For each logged row one more action is drawn from q. Boosted trees on
context and action learn to distinguish logged from drawn actions. Their log odds h(x, b) estimate log π0/q, so the
corrected model is

    q'(b|x) ∝ q(b|x) e^{h(x, b)}.

For label vectors, each label is corrected separately. Like q, the trees that correct a row are fitted to other folds.

Source: Friedman 2001 for the trees; Gutmann & Hyvärinen 2010 for log ratios by classification.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.data.bandit_log import BanditLog
from drcrm.data.executors import limit_openmp

MAX_CONTEXTS = 20_000  # contexts that the model of a fold is fitted to
MAX_ROWS = 40_000  # logged rows, times labels, that the trees of a fold are fitted to
MAX_SCORES = 2**21  # probabilities that are corrected; those of further contexts stay unchanged
MAX_FEATURES = 50  # if there are more, the trees see those that are most often not 0
MAX_CODES = 255  # largest number of categories of the trees; more actions are ordered by their numbers
MIN_CONTEXTS = 400  # on smaller logs, trees find nothing
TREES: dict[str, Any] = {"max_iter": 30, "max_leaf_nodes": 8, "min_samples_leaf": 40, "early_stopping": False}


def boost_propensities(log: BanditLog, modelled: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Return probabilities of all actions, corrected by boosted trees, in the shape of scores.

    Parameters
    ----------
    log : BanditLog
        A log without rows of count 0.
    modelled : array in the shape of scores
        q of all actions of each context.
    fold : int array (m,)
        Fold of each context.
    """
    if log.n_contexts < MIN_CONTEXTS or not fold.any():
        return modelled
    from sklearn.ensemble import HistGradientBoostingClassifier  # its import takes a second, and small logs need none

    rng = np.random.default_rng(2)
    X, drawn, order = dense_features(log.X), log.actions.sample(modelled, rng), rng.permutation(log.n_contexts)
    kept = np.zeros(log.n_contexts, dtype=bool)
    kept[order[: MAX_SCORES * log.n_contexts // modelled.size + 1]] = True
    pairs = [_pairs(log, X, actions) for actions in (log.Y, drawn[log.context])]
    n_codes = int(np.prod(log.actions.shape)) * (2 - log.actions.are_choices) if log.actions.are_shared else 0
    categories = [X.shape[1]] if 0 < n_codes <= MAX_CODES else None
    place, logit = draw_rows(log, rng), np.zeros_like(modelled)
    with limit_openmp():
        for number in range(fold.max() + 1):
            outside = place[fold[log.context[place]] != number][: MAX_ROWS // pairs[0].shape[1]]
            rows = np.concatenate([values[outside].reshape(-1, values.shape[-1]) for values in pairs])
            is_logged = np.repeat([True, False], len(rows) // 2)
            trees = HistGradientBoostingClassifier(**TREES, categorical_features=categories, random_state=0)
            trees.fit(rows, is_logged)
            inside = np.flatnonzero((fold == number) & kept)
            _, features, place_of = log.actions.select(inside, X, np.arange(len(X)))
            logit[place_of] = _log_odds(trees, features, n_codes, not log.actions.are_choices)
    return power_of(log, modelled, 1, logit)


def draw_rows(log: BanditLog, rng: np.random.Generator) -> np.ndarray:
    """Return rows in random order, as often as they occur; weights in place of copies would make the trees slow."""
    if log.size == len(log.Y):
        return rng.permutation(len(log.Y))
    return rng.choice(len(log.Y), min(log.size, 2 * MAX_ROWS), p=log.count / log.size)


def power_of(log: BanditLog, modelled: np.ndarray, power: float, tilt: Any = 0.0) -> np.ndarray:
    """Return probabilities proportional to q^power e^tilt, in the shape of scores; ``tilt`` is added to the scores."""
    tiny = np.finfo(float).tiny
    scores = np.log(np.maximum(modelled, tiny))
    if not log.actions.are_choices:
        scores -= np.log(np.maximum(1 - modelled, tiny))
    return log.actions.log_partition(power * scores + tilt)[1]


def dense_features(X: Any) -> np.ndarray:
    """Return at most MAX_FEATURES columns of X as a dense array."""
    if X.shape[1] > MAX_FEATURES:
        X = X[:, np.sort(np.argsort(-np.asarray((X != 0).sum(axis=0)).ravel(), kind="stable")[:MAX_FEATURES])]
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)


def _pairs(log: BanditLog, X: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Return the features of each row's context and action, (n, 1, d), or of its q label values, (n, q, d).

    The last feature is the number of the action or label value. Lists have features of the action itself instead.
    """
    features = X[log.actions.feature_rows(actions, log.context)][:, None]
    if not log.actions.are_shared:
        return features
    codes = log.actions.codes(actions)
    repeated = np.broadcast_to(features, (*codes.shape, X.shape[1]))
    return np.concatenate([repeated, codes[:, :, None]], axis=2)


def _log_odds(trees: Any, X: np.ndarray, n_codes: int, has_labels: bool) -> np.ndarray:
    """Return the log odds of each action of the contexts; for labels, of the value 1 minus those of the value 0."""
    if not n_codes:
        return trees.decision_function(X)
    odds = [trees.decision_function(np.column_stack([X, np.full(len(X), code)])) for code in range(n_codes)]
    return np.stack(odds[1::2], axis=1) - np.stack(odds[::2], axis=1) if has_labels else np.stack(odds, axis=1)
