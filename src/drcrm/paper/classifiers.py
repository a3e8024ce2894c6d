"""Baselines without a risk: classification of logged actions, one of K, with weighted rows, and a user's class."""

from typing import Any

import numpy as np

from drcrm.arrays.mapped_arrays import Features, as_input
from drcrm.arrays.validation import as_float_array
from drcrm.cost_models.regressor_model import RegressorModel
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError, refuse_errors
from drcrm.logging_policy import SUPPORT, restrict_to_support
from drcrm.policies.base import Policy
from drcrm.policies.classifier_policy import fit_classifier, row_weights
from drcrm.selection.fit_settings import make_object


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


def cheapest_actions(log: BanditLog, X: Features, logging: Policy, seed: int) -> np.ndarray:
    """Return 1 for the cheapest action of each of m contexts and 0 for the others, (m, K): the direct method.

    The cost of each action is modelled by histogram gradient boosting, with scikit-learn's defaults. An action without
    support under π0 has the largest logged cost: see :mod:`drcrm.logging_policy`. Equal costs share the
    probability.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    fitted = RegressorModel(HistGradientBoostingRegressor(random_state=seed)).fit(log)
    costs = restrict_to_support(fitted, log, logging, SUPPORT).effects(X, log.actions)
    is_cheapest = costs == costs.min(axis=1, keepdims=True)
    return is_cheapest / is_cheapest.sum(axis=1, keepdims=True)


def competitor_probabilities(log: BanditLog, X: Features, competitor: Any, seed: int) -> np.ndarray:
    """Return what a user's class predicts for m contexts after a fit to a log: π(a|x), (m, K), or π(y_l = 1|x), (m, q).

    The class is ``module:Class``, or a map from this name to parameters. ``fit(X, Y, propensity=p, cost=c)`` gets a row
    for each time that an action was logged; the last feature is constant. ``marginals(X)`` or ``predict_proba(X)``
    returns the probabilities: of labels, of the actions in ``classes_``, or of the first actions. Raise InputError if a
    method fails or returns anything else.
    """
    rows = np.repeat(np.arange(len(log.cost)), log.count)
    with refuse_errors(f"competitor {competitor} failed"):
        model = _seeded(make_object(competitor, "competitor", "fit"), seed)
        model.fit(log.X[log.context[rows]], log.Y[rows], propensity=log.propensity[rows], cost=log.cost[rows])
        predict = model.marginals if hasattr(model, "marginals") else model.predict_proba
        predicted = as_float_array(predict(X), "probabilities")
        actions, first = log.actions.shape, range(min(predicted.shape[-1], log.actions.n_classes))
        known = np.asarray(getattr(model, "classes_", first) if first else range(actions[0]), dtype=int)
        if predicted.shape != (expected := (X.shape[0], len(known))):
            raise InputError(
                f"competitor {competitor}: probabilities have shape {predicted.shape}, expected {expected}"
            )
        probability = np.zeros((X.shape[0], *actions))
        probability[:, known] = predicted
    sums_to_1 = np.allclose(log.actions.total_probability(probability), 1)
    if not (sums_to_1 and np.all((probability >= 0) & (probability <= 1))):
        raise InputError(
            f"competitor {competitor}: probabilities must be from 0 to 1, and those of K actions must add up to 1"
        )
    return probability


def _make_model(classifier: Any, seed: int, can_stratify: bool) -> Any:
    """Return a classifier; early stopping of trees needs two rows of each action."""
    if classifier == "linear":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=1000)
    if classifier == "trees":
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(random_state=seed, early_stopping="auto" if can_stratify else False)
    return _seeded(make_object(classifier, "classifier", "predict_proba"), seed)


def _seeded(model: Any, seed: int) -> Any:
    """Return a model with this seed if its ``random_state`` is None."""
    if not hasattr(model, "get_params"):
        return model
    is_random = "random_state" in model.get_params() and model.get_params()["random_state"] is None
    return model.set_params(random_state=seed) if is_random else model
