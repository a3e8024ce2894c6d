"""Cross-fitted cost models: the modelled costs of a context come from a model that was fitted to other contexts.

An estimate is biased, and its interval too narrow, if the cost model was fitted to the rows that it corrects. Source:
Chernozhukov et al. 2018.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from drcrm.cost_models.base import action_effects
from drcrm.cost_models.regressor_model import RegressorModel, is_regressor
from drcrm.cost_models.ridge_model import CostModel
from drcrm.cost_models.tabular_model import TabularModel
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import Block, ChunkedLog
from drcrm.data.folds import context_folds, merge_folds, training_parts
from drcrm.data.scaling import has_constant
from drcrm.errors import InputError

FOLDS = 5


def cross_fit(log: BanditLog, model: Any = None, folds: int = FOLDS) -> TabularModel:
    """Return the modelled costs of a log, each from a model that was fitted to the other folds.

    Several estimates can share the result: pass it as ``cost_model`` to :func:`drcrm.off_policy_value`.

    Parameters
    ----------
    log : BanditLog
        Log without rows of count 0. Its folds keep contexts and units together. If rows of several units share a
        context, the unit of its first row decides on its fold.
    model : optional
        What is fitted to each part of the log: a cost model with a method ``fit(log)``, which is copied, a regressor of
        scikit-learn, or a function that maps a log to a fitted cost model. By default a ``CostModel`` with intercepts
        where they are needed.
    folds : int
        Number of folds. If the log has a single unit, the model is fitted to all rows.

    Returns
    -------
    TabularModel
        Its ``values`` have the modelled costs of all actions: (m, K), (N,) for lists, or (m, q + 1) for labels.

    Raises
    ------
    InputError
        If the model cannot be fitted to the log.
    """
    fold, fit = context_folds(log, folds), _fitter(log, model)
    models = [fit(part) for part in training_parts(log, fold)]
    return TabularModel(ChunkedLog(log).map_contexts(_effects_of_folds, models, fold))


def _fitter(log: BanditLog, model: Any) -> Callable[[BanditLog], Any]:
    """Return the function that fits a model of :func:`cross_fit` to a part of the log."""
    if model is None:
        has_intercept = log.actions.has_intercept and not has_constant(log.X)
        return lambda part: CostModel().fit(part, action_intercepts=has_intercept)
    if is_regressor(model):
        return lambda part: RegressorModel(model).fit(part)  # a new model for each part
    if hasattr(model, "fit"):
        return lambda part: deepcopy(model).fit(part)
    if not callable(model):
        raise InputError(f"model is of type {type(model).__name__}, expected a cost model, a regressor or a function")
    return model


def _effects_of_folds(block: Block, models: list[Any], fold: np.ndarray) -> np.ndarray:
    """Return the effects of a block's contexts, each from the model of its fold."""
    X, actions = block.log.X, block.log.actions
    return merge_folds(fold[block.contexts], actions, lambda number: action_effects(models[number], X, actions))
