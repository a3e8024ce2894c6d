"""Interface of the cost models: ĉ(x, y), linear in effects of the contexts that an action space defines.

A user may also pass modelled costs as a function of the contexts, or as an array for the contexts of one log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from drcrm.actions.base import Actions
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.validation import as_float_array, check_column_names
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.policies.prepared_log import select_occurring
from drcrm.policies.tabular import is_array

Predict = Callable[[Any, Features], np.ndarray]  # known predictions of a regressor for X


class BaseCostModel(ABC):
    """Base class of cost models. A subclass implements ``effects``, and ``_fit`` if it can be fitted.

    Attributes
    ----------
    feature_names_in_ : array (d,) or None
        Names of the columns to which the model was fitted.
    """

    feature_names_in_: np.ndarray | None = None

    def fit(self, log: BanditLog, **settings: Any) -> Self:
        """Fit the model to a log, without using the propensities; a model that needs no fit stays the same.

        Parameters
        ----------
        log : BanditLog
            Training rows. A regressor for each action needs one of K actions, or a listed action.
        **settings
            Settings of the fit, if the model has any.

        Returns
        -------
        Self
            The fitted model.

        Raises
        ------
        InputError
            If the model cannot be fitted to the log.
        """
        return self._fit(log.without_empty_rows(), **settings)

    def fit_log(self, log: BanditLog, **settings: Any) -> Self:
        """Fit the model to a log. An older name of ``fit``."""
        return self.fit(log, **settings)

    def _fit(self, log: BanditLog, **settings: Any) -> Self:
        """Return the model, fitted to a log without rows of count 0."""
        return self

    @abstractmethod
    def effects(self, X: Features, actions: Actions, predict: Predict | None = None) -> np.ndarray:
        """Return the effects of a log's contexts; ``actions`` computes modelled costs from them.

        Parameters
        ----------
        X : array or CSR (m, d) or (N, D)
            Attribute ``X`` of the log.
        actions : Actions
            Attribute ``actions`` of the log.
        predict : function, optional
            Function of a regressor and X that replaces ``regressor.predict``, if the predictions are known.

        Returns
        -------
        array (m, q + 1), (m, K) or (N,)
            For label vectors e_1 … e_q and then e_0, otherwise the modelled cost of each action.

        Raises
        ------
        InputError
            If the model is not fitted, or was fitted to other features or actions.
        """


@dataclass(frozen=True, eq=False)
class FunctionModel(BaseCostModel):
    """Cost model by a user's function, which gets contexts in the form that users pass.

    Attributes
    ----------
    function : callable
        X ↦ effects of all contexts, (m, q + 1), (m, K) or (N,).
    """

    function: Callable[[Any], Any]

    def effects(self, X: Features, actions: Actions, predict: Predict | None = None) -> np.ndarray:
        effects = as_float_array(self.function(actions.unbind(X)), "cost_model")
        check_effects(effects, X, actions)
        return effects


def as_cost_model(model: Any) -> BaseCostModel:
    """Return a cost model that a user passes: a cost model itself, or a function of X; InputError for anything else."""
    if isinstance(model, BaseCostModel) or hasattr(model, "effects"):
        return model
    if not callable(model) or hasattr(model, "predict"):
        raise InputError(
            f"cost_model is of type {type(model).__name__}, expected a cost model, a regressor of scikit-learn, or a "
            "function of X that returns the modelled costs of all actions"
        )
    return FunctionModel(model)


def action_effects(model: Any, X: Features, actions: Actions) -> np.ndarray:
    """Return the effects of contexts under a cost model or a function of X."""
    return as_cost_model(model).effects(X, actions)


def check_effects(effects: np.ndarray, X: Features, actions: Actions) -> None:
    """Raise InputError unless modelled costs are finite and have the shape of the effects of contexts."""
    if effects.shape != (expected := (X.shape[0], *actions.effect_shape)):
        raise InputError(f"cost_model has shape {effects.shape}, expected {expected}, the modelled costs of {actions}")
    if not np.isfinite(effects).all():
        raise InputError("cost_model has modelled costs that are not finite numbers")


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
