"""Modelled costs of a training log: the cost model, its support, and the effects with which policies are fitted."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from drcrm.actions.base import Actions
from drcrm.cost_models.context_effects import context_effects
from drcrm.cost_models.cross_fitting import cross_fit
from drcrm.cost_models.ridge_model import CostModel, action_effects
from drcrm.cost_models.support import SupportedModel
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import Block, ChunkedLog
from drcrm.optimization.behaviour_cloning import clone_behaviour
from drcrm.policies.exponential import LinearPolicy
from drcrm.policies.linear_predictor import LinearPredictor


def model_training_costs(
    log: BanditLog,
    model: Any,
    logging_policy: LinearPolicy | None,
    support: float,
    shift: float = 0.0,
    intercept: bool = False,
    has_context_effects: bool = False,
    fit: Callable[[BanditLog], Any] | None = None,
) -> tuple[SupportedModel, np.ndarray]:
    """Return a cost model with support, and the effects of the log's contexts on costs minus ``shift``.

    Parameters
    ----------
    log : BanditLog
    model : CostModel, SupportedModel, any model with ``predict`` and ``expectation``, or None
        None fits a CostModel to the log.
    logging_policy : ExponentialPolicy or SoftmaxPolicy, optional
        π0; by default the logging policy of a SupportedModel, else the policy cloned from the log.
    support : float in [0, 1]
        τ.
    shift : float
        Constant that is subtracted from the costs.
    intercept : bool
        Whether a fitted model and a cloned policy have intercepts.
    has_context_effects : bool
        Whether the effects include context effects: see :mod:`drcrm.cost_models.context_effects`.
    fit : callable, optional
        Function that fits a cost model to a log. If it is given, the effects are those of :func:`cross_fit`.
    """
    is_known = logging_policy is not None or (isinstance(model, SupportedModel) and not model.is_cloned)
    if isinstance(model, SupportedModel):
        model, logging_policy = model.model, logging_policy or model.logging_policy
    variances = getattr(model, "variances_", None)
    design = LinearPredictor(log.replace(cost=log.cost - shift))
    shifted, sample = design.log, design.sample.log
    if model is None:
        fitted = CostModel().fit_log(shifted, action_intercepts=intercept)
        model, predict = deepcopy(fitted), partial(_shifted_effects, fitted, 0.0)
        model.add_constant(shift, log)
    else:
        predict = partial(_shifted_effects, model, shift)
    sample_effects = predict(sample.X, sample.actions)
    if has_context_effects and variances is None and design.has_samples:
        of_sample = context_effects(sample, sample_effects)
        variances = of_sample.covariance, of_sample.noise
    limits = [log.actions.cost_limits(part.cost, sample_effects) for part in (log, shifted)]
    logging_policy = logging_policy or clone_behaviour(log, intercept)
    supported = SupportedModel(model, logging_policy, support, limits[0])
    supported = supported if is_known else supported.trust_propensities(sample)
    shifted_model = replace(supported, limits=limits[1])

    if fit is not None:
        crossed = ChunkedLog(shifted, cross_fit(shifted, fit=fit).effects)
        return supported, crossed.map_contexts(_apply_support, shifted_model)

    def effects_of(part: BanditLog) -> np.ndarray:
        effects = predict(part.X, part.actions)
        if has_context_effects:
            effects = effects + context_effects(part, effects, variances).delta
        return shifted_model.apply_support(effects, part.X, part.actions)

    if design.has_samples:
        return supported, design.chunked.map_contexts(_apply_to_block, effects_of)
    return supported, effects_of(shifted)


def _shifted_effects(model: Any, shift: float, X: Any, actions: Actions) -> np.ndarray:
    """Return the effects of a model on costs minus ``shift``."""
    effects = action_effects(model, X, actions)
    if shift:
        effects = effects.copy()
        actions.add_constant(effects, -shift)
    return effects


def _apply_support(block: Block, model: SupportedModel) -> np.ndarray:
    [effects] = block.context_arrays
    return model.apply_support(effects, block.log.X, block.log.actions)


def _apply_to_block(block: Block, function: Callable[[BanditLog], np.ndarray]) -> np.ndarray:
    return function(block.log)
