"""Adapter of a cost model over features X to the mapped features X' = [X, s φ(X)]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drcrm.actions.base import Actions
from drcrm.arrays.mapped_arrays import Features
from drcrm.cost_models.ridge_model import action_effects


@dataclass(frozen=True)
class PaddedModel:
    """A cost model over X' that uses only its first columns X.

    Parameters
    ----------
    model : CostModel, or any object with ``predict`` and ``expectation``
        The cost model over X.
    feature_map : drcrm.policies.feature_maps.FeatureMap
        X ↦ X'.
    """

    model: Any
    feature_map: Any

    def action_effects(self, X: Features, actions: Actions) -> np.ndarray:
        """Return the effects of contexts with features X'."""
        return action_effects(self.model, X[:, : self.feature_map.n_features], actions)

    @property
    def coef_(self) -> np.ndarray:
        return self.feature_map.pad_coefficients(np.asarray(self.model.coef_))

    @property
    def intercept_(self) -> np.ndarray:
        return self.model.intercept_
