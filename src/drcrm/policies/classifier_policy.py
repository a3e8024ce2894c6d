"""Policies by classifiers of the logged actions, one of K, with rows weighted by their rewards."""

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn import config_context
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import has_fit_parameter

from drcrm.arrays.mapped_arrays import Features, as_input, take_rows
from drcrm.arrays.validation import check_choice
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import limit_openmp
from drcrm.errors import InputError
from drcrm.policies import CLASSIFIER_WEIGHTS
from drcrm.policies.exponential import SoftmaxPolicy
from drcrm.policies.feature_maps import FeatureMap, FittedTransformer, policy_of_logits

MAX_WEIGHT = 100.0  # largest weight of a row, before it is multiplied by the row's count
MOST_ROWS = 20_000  # of a logistic regression, evenly spaced if there are more
LEAST = 1e-6  # smallest probability of an action, before the probabilities are normalised


def classifier_policy(log: BanditLog, classifier: Any, weights: str = "inverse_propensity") -> SoftmaxPolicy:
    """Return the policy π(a|x) = P(a|x) of a classifier that is fitted to the logged actions.

    With c_max for the largest logged cost, the reward of a row is c_max − c. Rows are weighted by their rewards, so the
    classifier learns to predict the actions that had small costs. The policy serves as a baseline: it minimises no risk
    and has no guarantee.

    Parameters
    ----------
    log : BanditLog
        Log with one of K actions in each row.
    classifier : classifier of scikit-learn
        Classifier to clone and fit. It needs ``predict_proba``, and ``sample_weight`` in ``fit``.
    weights : "inverse_propensity" or "none"
        Weight of a row: min((c_max − c)/p, 100) or c_max − c.

    Returns
    -------
    SoftmaxPolicy
        Policy whose feature map calls the classifier. Probabilities below 10⁻⁶ are raised to 10⁻⁶.

    Raises
    ------
    InputError
        If the actions are not one of K, the classifier cannot be fitted, or all costs are equal.
    """
    fitted = fit_classifier(log, clone(classifier), weights)
    n_actions = log.actions.shape[0]
    return policy_of_logits(LogProbabilities(FrozenEstimator(fitted), n_actions), log.X, n_actions)


def row_weights(log: BanditLog, weights: str) -> np.ndarray:
    """Return the weights of logged rows, (n,): count · (c_max − c), or count · min((c_max − c)/p, 100).

    c_max is the largest logged cost. Source: the IPWLearner of the Open Bandit Pipeline (Saito et al., arXiv
    2008.07146).
    """
    reward = log.cost.max() - log.cost
    if check_choice(CLASSIFIER_WEIGHTS, weights, "weights") == "inverse_propensity":
        reward = np.minimum(reward / log.propensity, MAX_WEIGHT)
    return log.count * reward


def fit_classifier(log: BanditLog, classifier: Any, weights: str) -> Any:
    """Return a classifier fitted to the rows with a positive weight, or a constant one if they all have one action."""
    log.actions.require_classes("a classifier")
    if not (hasattr(classifier, "predict_proba") and has_fit_parameter(classifier, "sample_weight")):
        raise InputError(f"{classifier!r} must have predict_proba, and fit with sample_weight")
    weight = row_weights(log, weights)
    rows = np.flatnonzero(weight)
    if not len(rows):
        raise InputError(f"costs must differ to weight the rows, but every logged cost is {log.cost[0]:g}")
    Y = log.Y[rows]
    classifier = classifier if (Y[0] != Y).any() else DummyClassifier()
    try:
        with limit_openmp(), config_context(transform_output="default"):  # as the feature map calls it
            X = as_input(take_rows(log.X, log.context[rows]), classifier)
            return classifier.fit(X, Y, sample_weight=weight[rows])
    except (TypeError, ValueError) as error:
        raise InputError(f"{classifier!r} cannot be fitted: {error}") from None


@dataclass(frozen=True, eq=False)
class MappedLogistic:
    """Logistic regression over mapped features X' = features(X): P(a|x) ∝ exp(x'·coef_a + intercept_a).

    Parameters
    ----------
    features : FeatureMap
        X ↦ X'.
    coef : array (d', K)
    intercept : array (K,)
        −∞ for the actions that the fit did not see.
    """

    features: FeatureMap
    coef: np.ndarray
    intercept: np.ndarray

    @classmethod
    def fit(cls, log: BanditLog, features: FeatureMap, weights: str) -> Self:
        """Return a fit to φ(X) of at most 20 000 rows.

        It minimises ½ Σ_a |coef_a|² − C Σ_i w_i log P(a_i|x_i) with C = 10 and the weights w of :func:`row_weights`,
        scaled so that their sum is the number of rows. If only two actions occur, the first one has coefficients 0.
        """
        weight = row_weights(log, weights)
        rows = np.flatnonzero(weight)
        rows = rows[:: -(-len(rows) // MOST_ROWS)]
        coef, intercept = np.zeros((features.n_mapped, *log.actions.shape)), np.full(log.actions.shape, -np.inf)
        seen = np.unique(log.Y[rows])
        intercept[seen] = 0
        if len(seen) > 1:
            mapped = features(take_rows(log.X, log.context[rows]))[:, features.n_features :] / features.scale
            scaled = log.count[rows].sum() * weight[rows] / weight[rows].sum()
            model = LogisticRegression(C=10, tol=1e-3, max_iter=200)
            # The scores of a fit with fewer iterations serve as well.
            with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
                model.fit(mapped, log.Y[rows], scaled)
            places = seen if len(seen) > 2 else seen[1:]  # of two classes, the first one has coefficients 0
            coef[:, places], intercept[places] = model.coef_.T, model.intercept_
        coef = np.concatenate([np.zeros((features.n_features, *log.actions.shape)), coef / features.scale])
        return cls(features, coef, intercept)

    def predict_proba(self, X: Features) -> np.ndarray:
        """Return P(a|x), (m, K)."""
        return softmax(self.features(X) @ self.coef + self.intercept, axis=1)


class LogProbabilities(FittedTransformer):
    """Transformer X ↦ log P(a|x), (m, K), of a fitted classifier.

    Parameters
    ----------
    classifier : FrozenEstimator
    n_actions : int
        K; the classifier may know fewer actions.
    """

    def __init__(self, classifier: Any, n_actions: int):
        self.classifier, self.n_actions = classifier, n_actions

    @property
    def n_features_in_(self) -> int:
        """Number of features that the classifier was fitted to."""
        return self.classifier.n_features_in_

    def transform(self, X: Features) -> np.ndarray:
        probability = np.zeros((X.shape[0], self.n_actions))
        probability[:, self.classifier.classes_] = self.classifier.predict_proba(as_input(X, self.classifier))
        return np.log(np.maximum(probability, LEAST))
