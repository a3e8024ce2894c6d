"""Reward-weighted and importance-weighted classification of logged actions, one of K: a baseline without a risk."""

from typing import Any

import numpy as np
from scipy import sparse

from drcrm.arrays.validation import Features
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError

CLASSIFIERS = ("linear", "trees")
WEIGHTS = ("none", "inverse_propensity")
MAX_WEIGHT = 100.0  # of one occurrence of a row


def row_weights(log: BanditLog, weights: str) -> np.ndarray:
    """Return the weights of logged rows, (n,): count · (c_max − c), or count · min((c_max − c)/p, 100).

    c_max is the largest logged cost. Source: the IPWLearner of the Open Bandit Pipeline (Saito et al., arXiv
    2008.07146).
    """
    reward = log.cost.max() - log.cost
    if weights == "inverse_propensity":
        reward = np.minimum(reward / log.propensity, MAX_WEIGHT)
    return log.count * reward


def action_probabilities(log: BanditLog, X: Features, classifier: str, weights: str, seed: int) -> np.ndarray:
    """Return the probabilities of all actions in some contexts, (m, K), by a classifier of the weighted rows of a log.

    ``linear`` is scikit-learn's logistic regression, ``trees`` its histogram gradient boosting, with their defaults. An
    action without a row of positive weight gets probability 0. The classifiers do not see the last feature, which is
    constant. InputError if all costs are equal, so that no row has a weight.
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
    """Return a classifier of scikit-learn; early stopping of trees needs two rows of each action."""
    if classifier == "linear":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=1000)
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed, early_stopping="auto" if can_stratify else False)


def _drop_constant(X: Features, classifier: str) -> Features:
    """Return contexts without the constant feature, dense for trees."""
    X = X[:, :-1]
    return X.toarray() if sparse.issparse(X) and classifier == "trees" else X
