"""Policies that experiments compare fits with: logging policies, skylines, classifiers, and a user's competitor.

Logging policies and skylines are CRFs of label vectors, softmax regressions of one action of K, or functions of these.
With features x ⊗ y and no transitions, a CRF consists of one CRF of length 1 for each label. Each is a logistic
regression with coefficients θ = w_1 − w_0 and inverse regularisation C, which applies to the constant too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy  # loads scipy.optimize, which is slow, at its first use
from scipy import sparse

from drcrm.arrays.mapped_arrays import Features, as_input
from drcrm.arrays.numerics import as_column, feature_scales
from drcrm.arrays.validation import as_float_array
from drcrm.bench.simulated_policies import checked_probabilities, make_policy
from drcrm.cost_models.regressor_model import RegressorModel
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError, refuse_errors
from drcrm.logging_policy import SUPPORT, restrict_to_support
from drcrm.policies.base import Policy
from drcrm.policies.exponential import ExponentialPolicy, LinearPolicy, SoftmaxPolicy, class_for
from drcrm.selection.fit_settings import make_object

CERTAIN = 1000.0
UNMOVED = 1e-3  # a fit with all weights 0 has failed if the gradient at 0 exceeds this share of max(1/C, Σ |x|)
SKYLINE_MEMORY = 50  # pairs of CRFsuite's L-BFGS. With its default of 6, a skyline takes 1.6 to 2.8 times as long.
UNSEEN = -5.0  # coefficient of the constant for a class without a context; its probability stays above 0
TOLERANCE = 1e-6  # tolerance for the gradient of the mean loss
MAX_ITERATIONS = 10_000
RIDGE = 1e-6  # λ of the closest policy, whose coefficients would be infinite if π0 is deterministic
NEVER = -1000.0  # log-probability of an action that is never taken; its exponential is 0


def choose_by_greedy_loss(
    fit: Callable[[float], Any], grid: Sequence[float], X: Features, labels: np.ndarray
) -> tuple[Any, float]:
    """Return the policy with the smallest greedy loss on held-out contexts, and its C. The grid of C must increase.

    The search stops as soon as the loss rises, because fits with a large C take most of the time. On Scene, Yeast and
    samples of RCV1 and TMC2007 the loss first falls to its minimum and then rises. The first of equally good policies
    wins.
    """
    best, fewest = None, np.inf
    for C in grid:
        policy = fit(C)
        errors = np.count_nonzero(policy.greedy(X) != labels)
        if errors > fewest:
            break
        if errors < fewest:
            best, fewest = (policy, C), errors
    return best


def fit_crf(X: Features, labels: np.ndarray, C: float) -> ExponentialPolicy:
    """Fit a CRF to labelled contexts and return it as an exponential policy.

    A label without a positive context is 0 with certainty: its constant has the weight −1000. A label that every
    context has is 1 with certainty.

    Parameters
    ----------
    X : array or CSR (n, d)
        Features; the last is the constant 1.
    labels : array (n, q) of 0 and 1
    C : float > 0
        Inverse regularisation.

    Raises
    ------
    InputError
        If CRFsuite's line search fails at its start and leaves all weights at 0. Features around 1000 cause this.
    """
    return _fit(_sequences(X), X, labels, C)


def fit_skyline(
    X: Features, labels: np.ndarray, X_heldout: Features, labels_heldout: np.ndarray, grid: Sequence[float]
) -> tuple[ExponentialPolicy, float]:
    """Return the CRF that :func:`choose_by_greedy_loss` chooses by the Hamming loss on held-out contexts, and its C."""
    fit = partial(_fit, _sequences(X), X, labels, num_memories=SKYLINE_MEMORY)
    return choose_by_greedy_loss(fit, grid, X_heldout, labels_heldout)


def _sequences(X: Features) -> list[Any]:
    from pycrfsuite import ItemSequence

    X = sparse.csr_array(X, copy=True)
    X.sum_duplicates()
    names = np.arange(X.shape[1]).astype(str)
    rows = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    return [ItemSequence([dict(zip(names[X.indices[a:b]], X.data[a:b].tolist(), strict=True))]) for a, b in rows]


def _fit(sequences: list[Any], X: Features, labels: np.ndarray, C: float, **solver: int) -> ExponentialPolicy:
    import sklearn_crfsuite  # slow, and steps that read a logging policy do not need it

    coef = np.zeros((X.shape[1], labels.shape[1]))
    for column, positive in zip(coef.T, labels.T, strict=True):
        if positive.min() == positive.max():
            column[-1] = CERTAIN if positive[0] else -CERTAIN
            continue
        crf = sklearn_crfsuite.CRF(
            algorithm="lbfgs",
            all_possible_states=True,
            c1=0,
            c2=1 / C,
            epsilon=1e-9,
            delta=1e-14,
            max_iterations=5000,
            min_freq=-np.inf,  # a frequency is a sum of feature values, so a minimum of 0 would drop negative features
            **solver,
        )
        crf.fit(sequences, [[str(int(value))] for value in positive])
        for (feature, label), weight in crf.state_features_.items():
            column[int(feature)] += weight if label == "1" else -weight
        gradient = abs(X.T @ (positive - 0.5))
        if not column.any() and (gradient > UNMOVED * np.maximum(1 / C, abs(X).sum(axis=0))).any():
            raise InputError(f"the CRF does not move from 0: features reach {abs(X).max():.3g}; scale the features")
    return ExponentialPolicy(coef)


def fit_softmax(X: Features, classes: np.ndarray, n_actions: int, C: float) -> SoftmaxPolicy:
    """Fit a softmax regression to labelled contexts.

    The intercept, which is not regularised, becomes the coefficient of the constant feature. For a class without a
    context, this coefficient is −5 and all others are 0.

    Parameters
    ----------
    X : array or CSR (n, d)
        Features; the last is the constant 1.
    classes : integer array (n,)
        Classes from 0 to K − 1.
    n_actions : int
        The number K of classes.
    C : float > 0
        Inverse regularisation.
    """
    coef, present = np.zeros((X.shape[1], n_actions)), np.unique(classes)
    coef[-1] = UNSEEN
    coef[-1, present] = 0
    if len(present) > 1:
        from sklearn.linear_model import LogisticRegression

        fitted = LogisticRegression(C=C, tol=TOLERANCE, max_iter=MAX_ITERATIONS).fit(X[:, :-1], classes)
        weights = np.column_stack([fitted.coef_, fitted.intercept_]).T
        # For two classes, scikit-learn returns only the difference of their coefficients.
        coef[:, present] = weights if len(present) > 2 else np.hstack([-weights, weights]) / 2
    return SoftmaxPolicy(coef)


class PolicyScores:
    """Feature map from contexts to the scores of the actions under a policy of simulators.

    The policy gets the contexts without the constant feature, and as scores the probabilities of the actions under the
    CRF. For label vectors, it decides on each label separately: its two actions are the values 0 and 1.

    Parameters
    ----------
    crf : ExponentialPolicy or SoftmaxPolicy
    value : str or dict
        A policy of :func:`drcrm.bench.simulated_policies.make_policy`.
    """

    def __init__(self, crf: LinearPolicy, value: Any):
        self.crf, self.policy, self.n_features = crf, make_policy(value), crf.n_features

    def __call__(self, X: Features) -> np.ndarray:
        """Return the log-probabilities of K actions, (n, K), or the log-odds of q labels, (n, q)."""
        mean, contexts = self.crf.marginals(X), X[:, :-1]
        if not isinstance(self.crf, ExponentialPolicy):
            return self._log_probabilities(contexts, mean)
        labels = [self._log_probabilities(contexts, np.column_stack([1 - p, p])) for p in mean.T]
        return np.column_stack([log_p[:, 1] - log_p[:, 0] for log_p in labels])

    def _log_probabilities(self, contexts: Features, scores: np.ndarray) -> np.ndarray:
        probabilities = checked_probabilities(self.policy, contexts, scores)
        return np.log(probabilities, where=probabilities > 0, out=np.full(probabilities.shape, NEVER))


def function_of_crf(crf: LinearPolicy, value: Any) -> LinearPolicy:
    """Return the policy of simulators that a value describes, over the actions of a CRF."""
    return type(crf)(np.eye(crf.coef.shape[1]), features=PolicyScores(crf, value))


def with_probabilities(log: BanditLog, policy: LinearPolicy) -> BanditLog:
    """Return a log with a policy's probabilities of all actions in its contexts."""
    return log.replace(actions=log.actions.with_logging_mean(policy.marginals(log.X)))


def closest_policy(log: BanditLog) -> LinearPolicy:
    """Return the policy with linear scores that is closest to the known probabilities π0 of a log.

    It minimises the mean of KL(π0(·|x) ‖ π_Θ(·|x)) plus (λ/2) ‖Θ‖², with Θ in units of the features.
    """
    actions, X, mean = log.actions, log.X, log.actions.logging_mean
    share = actions.broadcast(np.bincount(log.context, log.count, log.n_contexts) / log.size)
    shape = X.shape[1], *actions.shape
    scales = as_column(feature_scales(X, log.feature_range), actions.shape)

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        scores = X @ (x.reshape(shape) / scales)
        log_partition, fitted = actions.log_partition(scores)
        cross_entropy = share.ravel() @ log_partition - (share * mean * scores).sum()
        gradient = (X.T @ (share * (fitted - mean))) / scales
        return cross_entropy + RIDGE / 2 * x @ x, gradient.ravel() + RIDGE * x

    options = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-7}
    fit = scipy.optimize.minimize(loss, np.zeros(np.prod(shape)), jac=True, method="L-BFGS-B", options=options)
    return class_for(actions)(fit.x.reshape(shape) / scales)


def action_probabilities(log: BanditLog, X: Features, classifier: Any, weights: str, seed: int) -> np.ndarray:
    """Return the probabilities of all actions in m contexts, (m, K), by a classifier fitted to weighted rows of a log.

    ``linear`` is scikit-learn's logistic regression, ``trees`` its histogram gradient boosting, with their defaults.
    Any other classifier is ``module:Class``, or a map from this name to parameters. An action without a row of positive
    weight gets probability 0. The classifiers do not see the last feature, which is constant. Raise InputError if all
    costs are equal, so that no row has a weight.
    """
    from drcrm.policies.classifier_policy import fit_classifier, row_weights  # imported here: it takes a second

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
