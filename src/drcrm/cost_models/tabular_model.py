"""Modelled costs of all actions in the contexts of one log, as an array: of a model, of a function, or of a user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drcrm.actions.base import Actions
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.validation import as_float_array, check_column_names
from drcrm.cost_models.base import BaseCostModel, FunctionModel, Predict, as_cost_model, check_effects
from drcrm.data.bandit_log import BanditLog
from drcrm.policies.prepared_log import select_occurring
from drcrm.policies.tabular import is_array


@dataclass(frozen=True, eq=False)
class TabularModel(BaseCostModel):
    """Modelled costs of all actions in the contexts of one log.

    Attributes
    ----------
    values : array (m, q + 1), (m, K) or (N,)
        Effects of the contexts whose rows have non-zero counts.
    """

    values: np.ndarray

    def effects(self, X: Features, actions: Actions, predict: Predict | None = None) -> np.ndarray:
        check_effects(self.values, X, actions)
        return self.values

    def select(self, contexts: np.ndarray, actions: Actions) -> TabularModel:
        """Return the modelled costs in some contexts of the log, whose actions are given."""
        return TabularModel(actions.select(contexts, self.values)[1])


def model_for_log(model: Any, log: BanditLog) -> Any:
    """Return a cost model for a log without rows of count 0.

    Costs in an array, or of a function, belong to all contexts of the log.
    """
    check_column_names(model, log.feature_names_in_, "cost model")
    if model is None:
        return None
    if is_array(model):
        effects = as_float_array(model, "cost_model")
        check_effects(effects, log.X, log.actions)
    elif isinstance(model := as_cost_model(model), FunctionModel):
        effects = model.effects(log.X, log.actions)
    else:
        return model
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
    effects = model_for_log(model, log).effects(log.X, log.actions)
    uniform = log.actions.log_partition(np.zeros((len(effects), *log.actions.shape)))[1]
    forecast = np.zeros(log.n_contexts)
    forecast[log.context] = forecasts[:, 0]
    of_context = np.column_stack([np.ones(log.n_contexts), forecast, log.actions.expected_cost(uniform, effects)])
    of_row = np.column_stack([of_context[log.context], log.actions.costs_of_rows(log.row_map, effects)])
    weight = np.sqrt(log.count)
    coef = np.linalg.lstsq(of_row * weight[:, None], log.cost * weight)[0]
    return log.actions.add_offsets(coef[-1] * effects, (of_context @ coef[:-1])[:, None])
