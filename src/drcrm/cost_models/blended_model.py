"""Cost models made of others: over X' = features(X), padded to X', and a blend b + Σ_j w_j ĉ_j with weights w_j ≥ 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import nnls

from drcrm.actions.base import Actions
from drcrm.arrays.mapped_arrays import Features
from drcrm.cost_models.ridge_model import action_effects
from drcrm.data.bandit_log import BanditLog


@dataclass(frozen=True, eq=False)
class MappedModel:
    """A cost model ĉ(X') over mapped features X' = features(X), as a cost model over X.

    Parameters
    ----------
    features : callable
        X ↦ X', such as a :class:`drcrm.policies.feature_maps.FeatureMap`.
    model : CostModel, or any other cost model
        ĉ, over X'.
    """

    features: Any
    model: Any

    def fit_log(self, log: BanditLog) -> MappedModel:
        """Return a model with a copy of ĉ that is fitted to a log."""
        return replace(self, model=copy(self.model).fit_log(log.replace(X=self.features(log.X))))

    def action_effects(self, X: Features, actions: Actions, predict: Any = None) -> np.ndarray:
        """Return the effects of contexts with features X. ``predict`` is ignored: regressors are called with X'."""
        return action_effects(self.model, self.features(X), actions)


@dataclass(frozen=True, eq=False)
class PaddedModel:
    """A cost model ĉ(X) as a cost model over X' = [X, s φ(X)] that ignores φ(X); it is linear if ĉ is.

    Parameters
    ----------
    features : drcrm.policies.feature_maps.FeatureMap
        X ↦ X'.
    model : CostModel, or any other cost model
        ĉ, over X.
    """

    features: Any
    model: Any

    def action_effects(self, X: Features, actions: Actions) -> np.ndarray:
        """Return the effects of contexts with features X'."""
        return action_effects(self.model, self.features.unmap(X), actions)

    @property
    def coef_(self) -> np.ndarray:
        return self.features.pad_coefficients(np.asarray(self.model.coef_))

    @property
    def intercept_(self) -> np.ndarray:
        return self.model.intercept_


@dataclass
class BlendedModel:
    """Cost model b + Σ_j w_j ĉ_j for one of K actions, or for a listed action.

    Attributes
    ----------
    models : sequence of models
        Fitted models ĉ_j: :class:`drcrm.RegressorModel` or MappedModel.
    weights : array (J,)
        Weights w_j ≥ 0, whose sum need not be 1.
    constant : float
        b, in the unit of the costs.
    """

    models: Sequence[Any]
    weights: np.ndarray
    constant: float

    def action_effects(
        self, X: Features, actions: Actions, predict: Callable[[Any, Features], np.ndarray] | None = None
    ) -> np.ndarray:
        """Return the modelled costs, (m, K) or (N,). ``predict(regressor, X)`` replaces ``regressor.predict(X)``."""
        effects = [model.action_effects(X, actions, predict) for model in self.models]
        return self.constant + np.tensordot(self.weights, effects, axes=1)


def blend_weights(log: BanditLog, predicted: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the weights w ≥ 0 and the constant b with the least squared error Σ_i count_i (c_i − b − predicted_i·w)².

    Source: Breiman 1996, Stacked regressions.

    Parameters
    ----------
    log : BanditLog
        Rows with their costs c, (n,).
    predicted : array (n, J)
        Costs of the rows that each model predicts, after a fit to other rows.
    """
    share = log.count / log.size
    means, mean = share @ predicted, share @ log.cost
    root = np.sqrt(share)
    weights, _ = nnls(root[:, None] * (predicted - means), root * (log.cost - mean))
    return weights, float(mean - means @ weights)
