"""Cross-fitted cost models: the modelled costs of a context come from a model that was fitted to other contexts.

An estimate is biased, and its interval too narrow, if the cost model was fitted to the rows that it corrects. Source:
Chernozhukov et al. 2018.

Exponentiated costs are modelled by Duan's smearing estimator, f_γ(x, a) = e^{(ĉ(x, a) − C)/γ} · mean_j e^{ε_j/γ}, with
the residuals ε = c − ĉ of a cross-fitted model ĉ. A context uses the residuals of the folds that do not contain it. For
single choices, an action with at least 50 residuals uses its own. Otherwise the residuals of all actions are pooled.
One cost model serves every γ. C is the largest cost, so that no exponential of a cost exceeds 1. Source: Duan 1983.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from drcrm.arrays.numerics import has_constant
from drcrm.cost_models.base import TabularModel, action_effects
from drcrm.cost_models.regressor_model import RegressorModel, is_regressor
from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import Block, ChunkedLog
from drcrm.data.folds import context_folds, merge_folds, training_parts
from drcrm.errors import InputError
from drcrm.policies.prepared_log import modelled_cost

FOLDS = 5
LEAST_RESIDUALS = 50  # an action with fewer residuals uses those of all actions
LARGEST_EXPONENT = 200.0  # limit of log f: a model that exceeds C by 200 γ is of no use, and e^710 would overflow


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


def smeared_moments(
    log: BanditLog, effects: np.ndarray, mean: np.ndarray, fold: np.ndarray, gamma: float, largest: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return f_γ(x_i, a_i) of the rows, (n,), and E_π f_γ(x, ·) of the contexts, (m,).

    Parameters
    ----------
    log : BanditLog
    effects : array
        Effects of the cross-fitted cost model on the contexts.
    mean : array
        μ of the policy π, in the shape of scores.
    fold : integer array (m,)
        Fold of each context.
    gamma, largest : float
        γ and C.
    """
    chunked = ChunkedLog(log, effects, mean)
    log_smear = smear_residuals(log, log.cost - modelled_cost(log, effects), fold, gamma)
    of_rows, of_contexts = np.empty(len(log.Y)), np.empty(log.n_contexts)
    results = chunked.blocks.map(_moments_of_block, fold, log_smear, gamma, largest)
    for block, (rows, contexts) in zip(chunked.blocks, results, strict=True):
        of_rows[block.rows], of_contexts[block.contexts] = rows, contexts
    return of_rows, of_contexts


def smear_residuals(log: BanditLog, residual: np.ndarray, fold: np.ndarray, gamma: float) -> np.ndarray:
    """Return log mean_j e^{ε_j/γ} for the contexts of each fold, by action or pooled: (folds, K) or (folds, 1).

    A fold uses the residuals ε, (n,), of the other folds, or of all rows if these are empty.
    """
    cell, width = (log.Y, log.actions.n_classes) if log.actions.n_classes else (0, 1)
    cell, top = fold[log.context] * width + cell, residual.max()
    weight = log.count * np.exp((residual - top) / gamma)
    sums = np.reshape([np.bincount(cell, values, FOLDS * width) for values in (log.count, weight)], (2, FOLDS, width))
    remaining = (1 - np.eye(FOLDS)) @ sums
    remaining = np.where(remaining[0].sum(axis=1, keepdims=True) > 0, remaining, sums.sum(axis=1, keepdims=True))
    pooled = remaining.sum(axis=2, keepdims=True)
    count, weight = np.where(remaining[0] >= LEAST_RESIDUALS, remaining, pooled)
    return top / gamma + np.log(np.maximum(weight, np.finfo(float).tiny) / count)


def _moments_of_block(
    block: Block, fold: np.ndarray, log_smear: np.ndarray, gamma: float, largest: float
) -> tuple[np.ndarray, np.ndarray]:
    log, (effects, mean) = block.log, block.context_arrays
    exponent, offsets = effects.copy(order="K"), np.take(log_smear.T, fold[block.contexts], axis=1).T  # in column order
    log.actions.add_constant(exponent, -largest)
    exponent *= 1 / gamma
    exponent = log.actions.add_offsets(exponent, offsets)
    exponents = log.actions.costs_of_rows(log.row_map, exponent), log.actions.log_moment(mean, exponent)
    of_rows, of_contexts = (np.exp(np.minimum(values, LARGEST_EXPONENT)) for values in exponents)
    return of_rows, of_contexts
