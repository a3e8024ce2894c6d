"""Classification of logged actions, one of K, weighted by their rewards: what peers do in place of an estimate."""

import numpy as np
from scipy import sparse

from drcrm.arrays.validation import Features
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError

CLASSIFIERS = ("linear", "trees")
WEIGHTS = ("none", "inverse_propensity")
MOST_WEIGHT = 100.0  # of one occurrence of a row


def rewarded_weights(log: BanditLog, weights: str) -> np.ndarray:
    """Return the weights of logged rows, (n,): count · (c_max − c), or count · min((c_max − c)/p, 100).

    c_max is the largest logged cost. Source: the IPWLearner of the Open Bandit Pipeline (Saito et al., arXiv
    2008.07146).
    """
    reward = log.cost.max() - log.cost
    if weights == "inverse_propensity":
        reward = np.minimum(reward / log.propensity, MOST_WEIGHT)
    return log.count * reward


def classified(log: BanditLog, X: Features, classifier: str, weights: str, seed: int) -> np.ndarray:
    """Return the probabilities of all actions in some contexts, (m, K), by a classifier of the rewarded rows of a log.

    ``linear`` is scikit-learn's logistic regression, ``trees`` its boosted trees, as they are by default. An action
    that no rewarded row has gets probability 0. The last feature is the constant, which they do not see. InputError
    where no row is rewarded: all costs are the same.
    """
    weight = rewarded_weights(log, weights)
    rows = np.flatnonzero(weight)
    if not len(rows):
        raise InputError(f"every logged cost is {log.cost[0]:g}: no row is better than another")
    actions, times = np.unique(log.Y[rows], return_counts=True)
    probability = np.zeros((X.shape[0], *log.actions.shape))
    if len(actions) == 1:
        probability[:, actions] = 1
        return probability
    model = _model(classifier, seed, stratified=times.min() > 1)
    model.fit(_seen(log.X[log.context[rows]], classifier), log.Y[rows], sample_weight=weight[rows])
    probability[:, actions] = model.predict_proba(_seen(X, classifier))
    return probability


def _model(classifier: str, seed: int, stratified: bool):
    """A classifier of scikit-learn; trees stop early, where they would, only if each action has two rows or more."""
    if classifier == "linear":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=1000)
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed, early_stopping="auto" if stratified else False)


def _seen(X: Features, classifier: str) -> Features:
    """Contexts without the constant; trees take no sparse ones."""
    X = X[:, :-1]
    return X.toarray() if sparse.issparse(X) and classifier == "trees" else X
