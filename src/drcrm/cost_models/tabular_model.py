"""Modelled costs of all actions in the contexts of one log, as an array: of a model, of a function, or of a user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drcrm.actions.base import Actions
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.validation import as_float_array, check_column_names
from drcrm.cost_models.ridge_model import action_effects
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.policies.prepared_log import select_occurring
from drcrm.policies.tabular import is_array


@dataclass(frozen=True, eq=False)
class TabularModel:
    """Modelled costs of all actions in the contexts of one log.

    Attributes
    ----------
    effects : array (m, q + 1), (m, K) or (N,)
        Effects in the form of ``CostModel.effects``, for the contexts whose rows have non-zero counts.
    """

    effects: np.ndarray

    def action_effects(self, X: Features, actions: Actions) -> np.ndarray:
        """Return the effects; InputError for contexts of another log."""
        _check_effects(self.effects, X, actions)
        return self.effects


def model_for_log(model: Any, log: BanditLog) -> Any:
    """Return a cost model for a log without rows of count 0, from a model, an array of modelled costs, or a function.

    A function maps contexts, in the form that users pass, to an array.
    """
    check_column_names(model, log.feature_names_in_, "cost model")
    if model is None or hasattr(model, "action_effects"):
        return model
    if is_array(model) or (callable(model) and not hasattr(model, "predict")):
        effects = as_float_array(model if is_array(model) else model(log.actions.unbind(log.X)), "cost_model")
        _check_effects(effects, log.X, log.actions)
    else:
        effects = action_effects(model, log.X, log.actions)
    return TabularModel(select_occurring(effects, log))


def _check_effects(effects: np.ndarray, X: Features, actions: Actions) -> None:
    if effects.shape != (expected := (X.shape[0], *actions.effect_shape)):
        raise InputError(f"cost_model has shape {effects.shape}, expected {expected}, the modelled costs of {actions}")
    if not np.isfinite(effects).all():
        raise InputError("cost_model has modelled costs that are not finite numbers")
