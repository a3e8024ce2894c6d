"""Cost models made of others: over X' = features(X), and a blend b + Σ_j w_j ĉ_j with weights w_j ≥ 0."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy  # loads scipy.optimize, which is slow, at its first use

from drcrm.actions.base import Actions
from drcrm.arrays.mapped_arrays import Features
from drcrm.cost_models.base import BaseCostModel, Predict
from drcrm.data.bandit_log import BanditLog


@dataclass(frozen=True, eq=False)
class MappedModel(BaseCostModel):
    """A cost model ĉ(X') over mapped features X' = features(X), as a cost model over X.

    Parameters
    ----------
    features : callable
        X ↦ X', such as a :class:`drcrm.policies.feature_maps.FeatureMap`.
    model : BaseCostModel
        ĉ, over X'. ``fit`` fits a copy of it.
    """

    features: Any
    model: BaseCostModel

    def _fit(self, log: BanditLog, **settings: Any) -> MappedModel:
        return replace(self, model=copy(self.model).fit(log.replace(X=self.features(log.X)), **settings))

    def effects(self, X: Features, actions: Actions, predict: Predict | None = None) -> np.ndarray:
        return self.model.effects(self.features(X), actions)  # regressors are called with X'


@dataclass
class BlendedModel(BaseCostModel):
    """Cost model b + Σ_j w_j ĉ_j for one of K actions, or for a listed action.

    Attributes
    ----------
    models : sequence of BaseCostModel
        Fitted models ĉ_j: :class:`drcrm.RegressorModel` or MappedModel.
    weights : array (J,)
        Weights w_j ≥ 0, whose sum need not be 1.
    constant : float
        b, in the unit of the costs.
    """

    models: Sequence[BaseCostModel]
    weights: np.ndarray
    constant: float

    def effects(self, X: Features, actions: Actions, predict: Predict | None = None) -> np.ndarray:
        effects = [model.effects(X, actions, predict) for model in self.models]
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
    weights, _ = scipy.optimize.nnls(root[:, None] * (predicted - means), root * (log.cost - mean))
    return weights, float(mean - means @ weights)
