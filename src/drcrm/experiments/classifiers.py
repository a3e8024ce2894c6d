"""Reward-weighted and importance-weighted classification of logged actions, one of K: a baseline without a risk."""

from typing import Any

import numpy as np

from drcrm.arrays.mapped_arrays import Features
from drcrm.data.bandit_log import BanditLog
from drcrm.policies.classifier_policy import as_input, fit_classifier, row_weights
from drcrm.selection.user_classes import make_object


def action_probabilities(log: BanditLog, X: Features, classifier: Any, weights: str, seed: int) -> np.ndarray:
    """Return the probabilities of all actions in m contexts, (m, K), by a classifier fitted to weighted rows of a log.

    ``linear`` is scikit-learn's logistic regression, ``trees`` its histogram gradient boosting, with their defaults.
    Any other classifier is ``module:Class``, or a map from this name to parameters. An action without a row of positive
    weight gets probability 0. The classifiers do not see the last feature, which is constant. Raise InputError if all
    costs are equal, so that no row has a weight.
    """
    counts = np.unique(log.Y[row_weights(log, weights) > 0], return_counts=True)[1]
    model = _make_model(classifier, seed, can_stratify=counts.min(initial=2) > 1)
    fitted = fit_classifier(log.replace(X=log.X[:, :-1]), model, weights)
    probability = np.zeros((X.shape[0], *log.actions.shape))
    probability[:, fitted.classes_] = fitted.predict_proba(as_input(X[:, :-1], fitted))
    return probability


def _make_model(classifier: Any, seed: int, can_stratify: bool) -> Any:
    """Return a classifier; early stopping of trees needs two rows of each action."""
    if classifier == "linear":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=1000)
    if classifier == "trees":
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(random_state=seed, early_stopping="auto" if can_stratify else False)
    model = make_object(classifier, "classifier", "predict_proba")
    is_random = "random_state" in model.get_params() and model.get_params()["random_state"] is None
    return model.set_params(random_state=seed) if is_random else model
