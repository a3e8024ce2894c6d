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


def follow_forecasts(model: Any, log: BanditLog, forecasts: np.ndarray | None) -> Any:
    """Return modelled costs of all actions that follow the forecast of each context's cost, as an array.

    A misspecified propensity model biases an estimate by the product of its error and that of the cost model. The
    forecast f has what contexts say about the cost, whatever the action. Then differences ĉ between actions that only
    reflect the contexts in which they were taken predict nothing more. The result is k + β f + δ ū + γ ĉ, the
    least-squares fit to the costs, where ū is the mean of ĉ over the actions. Return ``model`` if it is None, if
    there are no forecasts, or if the log has rows of count 0.

    Parameters
    ----------
    model : cost model, array or function
    log : BanditLog
    forecasts : array (n, k), optional
        The first column is f of each row.
    """
    if model is None or forecasts is None or not log.count.all():
        return model
    effects = model_for_log(model, log).action_effects(log.X, log.actions)
    uniform = log.actions.log_partition(np.zeros((len(effects), *log.actions.shape)))[1]
    forecast = np.zeros(log.n_contexts)
    forecast[log.context] = forecasts[:, 0]
    of_context = np.column_stack([np.ones(log.n_contexts), forecast, log.actions.expected_cost(uniform, effects)])
    of_row = np.column_stack([of_context[log.context], log.actions.costs_of_rows(log.row_map, effects)])
    weight = np.sqrt(log.count)
    coef = np.linalg.lstsq(of_row * weight[:, None], log.cost * weight)[0]
    return log.actions.add_offsets(coef[-1] * effects, (of_context @ coef[:-1])[:, None])


def _check_effects(effects: np.ndarray, X: Features, actions: Actions) -> None:
    if effects.shape != (expected := (X.shape[0], *actions.effect_shape)):
        raise InputError(f"cost_model has shape {effects.shape}, expected {expected}, the modelled costs of {actions}")
    if not np.isfinite(effects).all():
        raise InputError("cost_model has modelled costs that are not finite numbers")
