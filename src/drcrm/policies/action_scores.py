"""Transformer from contexts to learned scores of actions, for policies that are exponential in a few scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from drcrm.actions.single_choice import SingleChoice
from drcrm.arrays.mapped_arrays import Features
from drcrm.policies.classifier_policy import as_input
from drcrm.policies.exponential import SoftmaxPolicy

LEAST_PROBABILITY = 1e-4  # smaller probabilities are raised to it before their log is taken


class ActionScores(TransformerMixin, BaseEstimator):
    """Transformer X ↦ (m, J K): the first score of all K actions, then the second score, and so on.

    The first score is log π0(a|x). Fitted models give the others, as means over the folds of a cross-fit: a cost model
    gives −ĉ(x, a)/σ after the support rule, and a classifier log P(a|x). Probabilities are at least 10⁻⁴.

    Parameters
    ----------
    folds : sequence of sequences of models
        The fitted models of each fold: cost models with ``action_effects``, and classifiers of actions.
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
    """

    def __init__(
        self,
        folds: Sequence[Sequence[Any]],
        logging: SoftmaxPolicy,
        deviation: float,
        support: float,
        limits: tuple[float, float],
        is_supported: np.ndarray | None = None,
    ):
        self.folds, self.deviation, self.support, self.limits = folds, deviation, support, limits
        self.logging_coef, self.logging_intercept = logging.coef, logging.intercept
        self.is_supported = is_supported

    def __sklearn_clone__(self) -> ActionScores:
        return self  # its models are fitted before it is made

    @property
    def n_features_in_(self) -> int:
        """Number of features of a context."""
        return len(self.logging_coef)

    def fit(self, X: Features, y: Any = None) -> ActionScores:
        return self

    def transform(self, X: Features) -> np.ndarray:
        return self.scores(X, self.folds).reshape(X.shape[0], -1)

    def scores(self, X: Features, folds: Sequence[Sequence[Any]]) -> np.ndarray:
        """Return the scores, (m, J, K), as means over the models of some folds."""
        mean = SoftmaxPolicy(self.logging_coef, self.logging_intercept).marginals(X)
        learned = [
            np.mean([self._score(model, X, mean) for model in models], axis=0) for models in zip(*folds, strict=True)
        ]
        return np.stack([_log(mean), *learned], axis=1)

    def _score(self, model: Any, X: Features, logging_mean: np.ndarray) -> np.ndarray:
        """Return the score of one fitted model, (m, K)."""
        actions = SingleChoice(self.logging_coef.shape[1])
        if not hasattr(model, "action_effects"):
            probability = np.zeros(logging_mean.shape)
            probability[:, model.classes_] = model.predict_proba(as_input(X, model))
            return _log(probability)
        if self.is_supported is not None:
            logging_mean = actions.raise_to_support(logging_mean, self.is_supported, self.support)
        effects = model.action_effects(X, actions)
        return -actions.replace_unsupported(effects, logging_mean, self.support, self.limits) / self.deviation


def _log(probability: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(probability, LEAST_PROBABILITY))
