"""Baselines that classify logged actions, one of K, with rows weighted by reward or by reward and importance."""

from typing import Any

import numpy as np
from scipy import sparse

from drcrm.arrays.validation import Features
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError

CLASSIFIERS = ("linear", "trees")
WEIGHTS = ("none", "inverse_propensity")
MAX_WEIGHT = 100.0  # of a row, before its count is taken into account


def row_weights(log: BanditLog, weights: str) -> np.ndarray:
    """Return the weights of logged rows, (n,).

    With the largest logged cost c_max, a weight is count · (c_max − c). With inverse propensities it is
    count · min((c_max − c)/p, 100). Source: the IPWLearner of the Open Bandit Pipeline (Saito et al., arXiv
    2008.07146).
    """
    reward = log.cost.max() - log.cost
    if weights == "inverse_propensity":
        reward = np.minimum(reward / log.propensity, MAX_WEIGHT)
    return log.count * reward


def action_probabilities(log: BanditLog, X: Features, classifier: str, weights: str, seed: int) -> np.ndarray:
    """Train a classifier on the weighted rows of a log, and return the probabilities of all actions for X, (m, K).

    ``linear`` is scikit-learn's logistic regression and ``trees`` its histogram gradient boosting, both with their
    default parameters. An action without a row of positive weight gets probability 0. The classifiers do not use the
    last feature, which is constant. InputError if all costs are equal, because all weights are then 0.
    """
    weight = row_weights(log, weights)
    rows = np.flatnonzero(weight)
    if not len(rows):
        raise InputError(f"costs must differ to weight the rows, but every logged cost is {log.cost[0]:g}")
    actions, counts = np.unique(log.Y[rows], return_counts=True)
    probability = np.zeros((X.shape[0], *log.actions.shape))
    if len(actions) == 1:
        probability[:, actions] = 1
        return probability
    model = _make_model(classifier, seed, can_stratify=counts.min() > 1)
    model.fit(_drop_constant(log.X[log.context[rows]], classifier), log.Y[rows], sample_weight=weight[rows])
    probability[:, actions] = model.predict_proba(_drop_constant(X, classifier))
    return probability


def _make_model(classifier: str, seed: int, can_stratify: bool) -> Any:
    """Return a classifier of scikit-learn. Early stopping of trees needs two rows of each action."""
    if classifier == "linear":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=1000)
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed, early_stopping="auto" if can_stratify else False)


def _drop_constant(X: Features, classifier: str) -> Features:
    """Return contexts without the constant feature, dense for trees."""
    X = X[:, :-1]
    return X.toarray() if sparse.issparse(X) and classifier == "trees" else X
