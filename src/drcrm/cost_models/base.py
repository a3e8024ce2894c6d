"""Interface of the cost models: ĉ(x, y), linear in effects of the contexts that an action space defines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from drcrm.actions.base import Actions
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.validation import as_float_array
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError

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
