"""Trees on the features of contexts, cross-fitted: propensities with interactions, and forecasts of the costs.

Extremely randomised trees split at random thresholds. So they find interactions of features, such as the sign of x·y,
whose parts predict nothing. Each leaf has at least ``FOREST["min_samples_leaf"]`` rows.

A forecast f(x) estimates the mean cost of a context under the logging policy. Right propensities p give weights w = π/p
with E w f = E f, because f does not depend on the action.

Source: Geurts, Ernst & Wehenkel 2006.
"""

from typing import Any

import numpy as np

from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import limit_openmp

MAX_FEATURES = 50  # if there are more, the trees see those that are most often not 0
MAX_ACTIONS = 255  # with more actions, forests take too much memory
MAX_ROWS = 40_000  # rows, times labels, that the trees of a fold are fitted to
FOREST: dict[str, Any] = {"n_estimators": 50, "min_samples_leaf": 10, "max_features": None, "random_state": 0}
BOOSTING: dict[str, Any] = {"max_iter": 100, "max_leaf_nodes": 8, "early_stopping": False, "random_state": 0}
SHARE = 0.01  # of the shares of the actions in the log, which are mixed with the forest's estimates


def dense_features(X: Any) -> np.ndarray:
    """Return at most MAX_FEATURES columns of X as a dense array."""
    if X.shape[1] > MAX_FEATURES:
        X = X[:, np.sort(np.argsort(-np.asarray((X != 0).sum(axis=0)).ravel(), kind="stable")[:MAX_FEATURES])]
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)


def draw_rows(log: BanditLog, rng: np.random.Generator) -> np.ndarray:
    """Return rows in random order, as often as they occur; weights in place of copies would make the trees slow."""
    if log.count.max() == 1:
        return rng.permutation(np.flatnonzero(log.count))
    return rng.choice(len(log.Y), min(log.size, 2 * MAX_ROWS), p=log.count / log.size)


def forest_propensities(log: BanditLog, fold: np.ndarray) -> np.ndarray:
    """Return probabilities of all K actions, (m, K), by forests that are fitted to the other folds.

    Parameters
    ----------
    log : BanditLog
        A log of one of K actions, without rows of count 0.
    fold : int array (m,)
        Fold of each context.
    """
    from sklearn.ensemble import ExtraTreesClassifier  # its import takes a second, and small logs need none

    X, K = dense_features(log.X), log.actions.n_classes
    mean = np.tile(SHARE * np.bincount(log.Y, log.count, K) / log.size, (log.n_contexts, 1))
    for rows, inside in _parts(log, fold):
        forest = ExtraTreesClassifier(**FOREST).fit(X[log.context[rows]], log.Y[rows])
        mean[np.ix_(inside, forest.classes_)] += (1 - SHARE) * forest.predict_proba(X[inside])
    return mean


def forecast_costs(log: BanditLog, fold: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """Return forecasts of outcomes (n, k), by boosted trees that are fitted to the contexts of the other folds."""
    from sklearn.ensemble import HistGradientBoostingRegressor  # imported here for the same reason

    X = log.actions.combine_rows(dense_features(log.X), _mean_of_lists)
    forecasts = np.empty((log.n_contexts, costs.shape[1]))
    with limit_openmp():
        for rows, inside in _parts(log, fold):
            for place, cost in enumerate(costs[rows].T):
                trees = HistGradientBoostingRegressor(**BOOSTING).fit(X[log.context[rows]], cost)
                forecasts[inside, place] = trees.predict(X[inside])
    return forecasts[log.context]


def _parts(log: BanditLog, fold: np.ndarray) -> Any:
    """Yield for each fold the rows outside it, at most MAX_ROWS of them, and the contexts inside."""
    order = draw_rows(log, np.random.default_rng(4))
    for number in range(fold.max() + 1):
        yield order[fold[log.context[order]] != number][:MAX_ROWS], np.flatnonzero(fold == number)


def _mean_of_lists(features: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the mean features of each list."""
    return np.add.reduceat(features, starts[:-1]) / np.diff(starts)[:, None]
