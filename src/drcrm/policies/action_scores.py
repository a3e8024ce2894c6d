"""Transformer from features to learned scores of actions, for policies that are exponential in a few scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from drcrm.actions.base import Actions
from drcrm.arrays.mapped_arrays import Features, as_input
from drcrm.policies.boosted_trees import BoostedTrees, is_boosted
from drcrm.policies.exponential import SoftmaxPolicy

LEAST_PROBABILITY = 1e-4  # smaller probabilities are raised to it before their log is taken


class ActionScores(TransformerMixin, BaseEstimator):
    """Transformer X ↦ (m, J K): the first score of all K actions, then the second score, and so on.

    The first score is log π0(a|x). Fitted models give the others, as weighted means over several fits: a cost model
    gives −ĉ(x, a)/σ after the support rule, and a classifier log P(a|x). Probabilities are at least 10⁻⁴.

    For lists of actions, X has the features of candidates, without their lists, and the result is (N, J). The first
    score is then log π0 up to a constant of each list, and only the limits of the support rule apply.

    Parameters
    ----------
    folds : sequence of sequences of models
        The models of each fit, to a fold or to all rows: cost models with ``action_effects``, and classifiers.
    logging : SoftmaxPolicy
        π0, without a feature map.
    deviation : float
        σ, the standard deviation of the residuals of the first cost model.
    support : float
        τ of the support rule: see :mod:`drcrm.cost_models.support`.
    limits : (float, float)
        Smallest and largest cost of the support rule.
    is_supported : bool array, optional
        Actions that have support whatever π0 says.
    weights : sequence of float, optional
        Weight of each fit; equal by default.
    """

    weights: Sequence[float] | None = None  # policy files of earlier versions have no weights

    def __init__(
        self,
        folds: Sequence[Sequence[Any]],
        logging: SoftmaxPolicy,
        deviation: float,
        support: float,
        limits: tuple[float, float],
        is_supported: np.ndarray | None = None,
        weights: Sequence[float] | None = None,
    ):
        self.folds, self.deviation, self.support, self.limits = folds, deviation, support, limits
        self.logging_coef, self.logging_intercept = logging.coef, logging.intercept
        self.is_supported, self.weights = is_supported, weights

    def __sklearn_clone__(self) -> ActionScores:
        return self  # its models are fitted before it is made

    @property
    def n_features_in_(self) -> int:
        """Number of features of a context."""
        return len(self.logging_coef)

    def fit(self, X: Features, y: Any = None) -> ActionScores:
        return self

    def transform(self, X: Features) -> np.ndarray:
        return self.combine(X, self._predictions(X, self.folds), self.weights).reshape(X.shape[0], -1)

    def scores(self, X: Features, folds: Sequence[Sequence[Any]]) -> np.ndarray:
        """Return the scores, (m, J, K) or (N, J), as means over the models of some fits."""
        return self.combine(X, self._predictions(X, folds))

    def parts(self) -> list[Any]:
        """Return the fitted models of scikit-learn, fold by fold; None for an action without rows."""
        return [part for fold in self.folds for model in fold for part in parts_of(model)]

    @property
    def has_only_trees(self) -> bool:
        """Whether boosted trees of scikit-learn compute all scores but the first."""
        return all(part is None or is_boosted(part) for part in self.parts())

    def combine(
        self, X: Features, predictions: Sequence[Sequence[np.ndarray]], weights: Sequence[float] | None = None
    ) -> np.ndarray:
        """Return the scores, (m, J, K) or (N, J), from the predictions of the models of each fit."""
        logits, actions = X @ self.logging_coef + self.logging_intercept, self._actions_of(X)
        _, mean = actions.log_partition(logits.copy())
        learned = []
        for model, of_folds in zip(self.folds[0], zip(*predictions, strict=True), strict=True):
            is_cost = hasattr(model, "action_effects")
            scores = [self._cost_score(each, mean, actions) if is_cost else _log(each) for each in of_folds]
            learned.append(np.average(scores, axis=0, weights=weights))
        return np.stack([_log(mean) if actions.are_shared else logits, *learned], axis=1)

    def _predictions(self, X: Features, folds: Sequence[Sequence[Any]]) -> list[list[np.ndarray]]:
        return [[self._predict(model, X) for model in models] for models in folds]

    def _predict(self, model: Any, X: Features) -> np.ndarray:
        """Return the costs or the probabilities of all actions by one fitted model, (m, K) or (N,)."""
        if hasattr(model, "action_effects"):
            return model.action_effects(X, self._actions_of(X))
        return self.spread(model, [model.predict_proba(as_input(X, model))])

    def spread(self, model: Any, predicted: Sequence[Any]) -> np.ndarray:
        """Return an array (m, K) of the predictions of a model's parts: its regressors, or its one classifier."""
        if hasattr(model, "regressors_"):
            return np.column_stack([[model.mean_] if part is None else part for part in predicted])
        probability = np.zeros((len(predicted[0]), self.logging_coef.shape[1]))
        probability[:, model.classes_] = predicted[0]
        return probability

    def _actions_of(self, X: Features) -> Actions:
        return SoftmaxPolicy(self.logging_coef).actions.of_rows(X.shape[0])

    def _cost_score(self, effects: np.ndarray, logging_mean: np.ndarray, actions: Actions) -> np.ndarray:
        """Return −ĉ/σ after the support rule, (m, K) or (N,)."""
        if self.is_supported is not None:
            logging_mean = actions.raise_to_support(logging_mean, self.is_supported, self.support)
        return -actions.replace_unsupported(effects, logging_mean, self.support, self.limits) / self.deviation


class SingleContextScores:
    """``ActionScores.transform`` for one context, by boosted trees only, in a twentieth of the time.

    Parameters
    ----------
    scores : ActionScores
        Scores for which ``has_only_trees`` is true.
    """

    def __init__(self, scores: ActionScores):
        self._scores = scores
        self._trees = BoostedTrees([part for part in scores.parts() if part is not None])

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the scores of the features of one context, (d,), as an array (J K,)."""
        scores, predicted = self._scores, iter(self._trees.predict(x))
        values = [
            [scores.spread(model, [part and next(predicted) for part in parts_of(model)]) for model in fold]
            for fold in scores.folds
        ]
        return scores.combine(x[None, :], values, scores.weights).ravel()


def parts_of(model: Any) -> list[Any]:
    """Return the fitted models of scikit-learn in a model: one for each action, or a single classifier."""
    return getattr(model, "regressors_", [model])


def _log(probability: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(probability, LEAST_PROBABILITY))
