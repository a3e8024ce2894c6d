"""Cross-fitted cost models: the modelled costs of a context come from a model that was fitted to other contexts.

An estimate is biased, and its interval too narrow, if the cost model was fitted to the rows that it corrects. Source:
Chernozhukov et al. 2018.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from drcrm.cost_models.base import action_effects
from drcrm.cost_models.ridge_model import CostModel
from drcrm.cost_models.tabular_model import TabularModel
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import Block, ChunkedLog
from drcrm.data.folds import context_folds, merge_folds, training_parts
from drcrm.data.scaling import has_constant

FOLDS = 5


def cross_fit(log: BanditLog, folds: int = FOLDS, fit: Callable[[BanditLog], Any] | None = None) -> TabularModel:
    """Return the modelled costs of a log, each from a model that was fitted to the other folds.

    Parameters
    ----------
    log : BanditLog
        Log without rows of count 0, and with contexts of one unit each: see
        :func:`drcrm.data.folds.separate_units`.
    folds : int
        Number of folds. If the log has a single unit, the model is fitted to all rows.
    fit : callable, optional
        Function that fits a cost model to a log; by default a CostModel with intercepts where they are needed.
    """
    fold = context_folds(log, folds)
    has_intercept = log.actions.has_intercept and not has_constant(log.X)
    fit = fit or (lambda part: CostModel().fit(part, action_intercepts=has_intercept))
    models = [fit(part) for part in training_parts(log, fold)]
    return TabularModel(ChunkedLog(log).map_contexts(_effects_of_folds, models, fold))


def _effects_of_folds(block: Block, models: list[Any], fold: np.ndarray) -> np.ndarray:
    """Return the effects of a block's contexts, each from the model of its fold."""
    X, actions = block.log.X, block.log.actions
    return merge_folds(fold[block.contexts], actions, lambda number: action_effects(models[number], X, actions))
