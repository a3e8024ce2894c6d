"""Modelled costs of a training log: the cost model, its support, and the effects that fits use."""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.cost_models.base import action_effects, as_cost_model
from drcrm.cost_models.context_effects import Variances, context_effects
from drcrm.cost_models.regressor_model import RegressorModel, is_regressor
from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import Block, ChunkedLog
from drcrm.logging_policy import LoggingPolicy, SupportedModel
from drcrm.optimization.starts import clone_behaviour
from drcrm.policies.exponential import LinearPolicy
from drcrm.policies.prepared_log import PreparedLog
from drcrm.selection.registry.algorithms import Algorithm
from drcrm.selection.registry.user_classes import make_regressor


def fit_cost_model(
    log: BanditLog,
    algorithm: Algorithm,
    model: Any = None,
    logging_policy: LinearPolicy | None = None,
    offset: float = 0.0,
) -> tuple[SupportedModel, Any]:
    """Return a cost model with support, and the effects of the log's contexts on costs minus ``offset``.

    Parameters
    ----------
    log : BanditLog
        Log without rows of count 0.
    algorithm : Algorithm
        Its estimate determines the effects: None if it uses no model, else the model's effects. Context effects are
        added if the algorithm has them.
    model : cost model, SupportedModel, regressor, function of X, or None
        A regressor is fitted to the log; None fits a CostModel.
    logging_policy : ExponentialPolicy or SoftmaxPolicy, optional
        π0; by default the logging policy of a SupportedModel, else the policy cloned from the log. If the log has the
        probabilities of all actions, they are π0, and this policy is an approximation.
    offset : float
        Constant that is subtracted from the costs.
    """
    settings = algorithm.settings
    regressor = make_regressor(settings.cost_model)
    model = model if regressor is None else regressor
    if model is None:
        model = CostModel().fit(log, action_intercepts=settings.fit_intercept)
    model = RegressorModel(model).fit(log) if is_regressor(model) else as_cost_model(model)
    is_known = logging_policy is not None and log.actions.logging_mean is None
    if isinstance(model, SupportedModel):
        is_known = is_known or not model.logging.is_cloned
        model, logging_policy = model.model, logging_policy or model.logging.policy
    prepared = PreparedLog(log)
    sample = prepared.sample.log
    sample_effects = action_effects(model, sample.X, sample.actions)
    limits = log.actions.cost_limits(log.cost, sample_effects)
    logging = LoggingPolicy(logging_policy or clone_behaviour(log, settings.fit_intercept), settings.support)
    supported = SupportedModel(model, logging if is_known else logging.with_logged_support(sample), limits)
    if not algorithm.kind.uses_model:
        return supported, None
    effects = None if prepared.has_samples else sample_effects
    is_auto, variances = settings.context_effects == "auto", getattr(model, "variances_", None)
    is_wanted = log.actions.prefers_context_effects if is_auto else settings.context_effects
    has_context_effects = bool(is_wanted)
    if has_context_effects and variances is None:
        of_sample = context_effects(sample, sample_effects)
        variances = of_sample.covariance, of_sample.noise
    arguments = supported, offset, has_context_effects, variances
    return supported, ChunkedLog(log, effects).map_contexts(_effects_of_block, *arguments)


def _effects_of_block(
    block: Block, model: SupportedModel, offset: float, has_context_effects: bool, variances: Variances | None
) -> np.ndarray:
    """Return a block's effects, or else the model's, with context effects and support, minus ``offset``."""
    log, [effects] = block.log, block.context_arrays
    effects = action_effects(model.model, log.X, log.actions) if effects is None else effects
    if has_context_effects:
        effects = effects + context_effects(log, effects, variances).delta
    effects = model.apply_support(effects, log.X, log.actions)
    if offset:
        effects = effects.copy()
        log.actions.add_constant(effects, -offset)
    return effects
