"""Modelled costs of a training log, and held-out scores: estimates of, and bounds on, a policy's cost on other rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from drcrm.cost_models.base import action_effects, as_cost_model
from drcrm.cost_models.context_effects import Variances, context_effects
from drcrm.cost_models.regressor_model import RegressorModel, is_regressor
from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import Block, ChunkedLog
from drcrm.data.counted_rows import number_groups
from drcrm.errors import InputError
from drcrm.estimates import SelfNormalised
from drcrm.evaluation import EVALUATIONS, ROBUST, UNBIASED, default_estimate
from drcrm.evaluation.bounds.independent_units import unit_ratios, unit_values
from drcrm.evaluation.bounds.upper_bound import upper_bound
from drcrm.evaluation.evaluation import LOGGING, Evaluation
from drcrm.evaluation.policy_on_log import grade_overlap, has_missing_mass
from drcrm.logging_policy import SUPPORT, LoggingPolicy, SupportedModel
from drcrm.optimization.starts import clone_behaviour
from drcrm.policies.exponential import LinearPolicy
from drcrm.policies.prepared_log import PreparedLog, importance_weights
from drcrm.policies.tabular import TabularPolicy
from drcrm.risks import KLBall
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.candidates import PairedDifferences
from drcrm.selection.fit_settings import FitSettings, make_regressor
from drcrm.selection.score_names import SCORES, UNMODELLED

_ignore_overflow = np.errstate(over="ignore", invalid="ignore", divide="ignore")  # scores that are not finite are NaN


def fit_cost_model(
    log: BanditLog,
    algorithm: Algorithm,
    model: Any = None,
    logging: LoggingPolicy | None = None,
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
        A regressor is fitted to the log; None fits a CostModel. A regressor in the algorithm's settings replaces the
        model.
    logging : LoggingPolicy, optional
        π0; by default that of a SupportedModel, else the policy cloned from the log.
    offset : float
        Constant that is subtracted from the costs.
    """
    settings = algorithm.settings
    if settings.cost_model is not None:
        model = make_regressor(settings.cost_model)
    elif model is None:
        model = CostModel().fit(log, action_intercepts=settings.fit_intercept)
    model = RegressorModel(model).fit(log) if is_regressor(model) else as_cost_model(model)
    if isinstance(model, SupportedModel):
        model, logging = model.model, logging or model.logging
    if logging is None:
        logging = LoggingPolicy(clone_behaviour(log, settings.fit_intercept), is_approximate=True)
    logging = replace(logging, support=settings.support)
    prepared = PreparedLog(log)
    sample = prepared.sample.log
    sample_effects = action_effects(model, sample.X, sample.actions)
    limits = log.actions.cost_limits(log.cost, sample_effects)
    supported = SupportedModel(
        model, logging.with_logged_support(sample) if logging.is_approximate else logging, limits
    )
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


def compare_with_logging(policy: Any, log: BanditLog, model: SupportedModel | None) -> Evaluation:
    """Return the evaluation of a policy in comparison with the π0 of a cost model.

    Without a model, or if π0 was cloned, π0 has the logged costs.
    """
    baseline = LOGGING if model is None or model.logging.is_approximate else model.logging.policy
    return Evaluation.of(policy, log, baseline=baseline, cost_model=model)


def compare_robustly(policy: Any, log: BanditLog, model: SupportedModel, settings: FitSettings) -> Evaluation:
    """Return the evaluation by "dr" in comparison with π0, with the support and at the radius of a fit's settings."""
    model = model.with_support(settings.support or SUPPORT)
    return compare_with_logging(policy, log, model).by(ROBUST, radius=settings.shift)


class HeldoutScores:
    """Held-out scores of policies. There are nine, in the order of ``SCORES``.

    ips, clipped_ips      (1/n) Σ w c, which is unbiased (eq. 2 of the paper), and the same with min(M, w)
    snips, clipped_snips  Σ w c / Σ w with the same weights; if a constant is added to all costs, they grow by it
    dr                    the doubly robust mean with min(M, w)
    dr_bound, snips_bound the worst case of dr and of clipped_snips over the KL ball of radius q²/(2n), where q is the
                          normal quantile at 0.95; both are large if few rows have most of the weight
    ls_bound              the logarithmic smoothing bound on ips at δ = 0.05 and λ = 1/√n, for costs of at most 0; it
                          is valid for every n
    improvement_bound     the worst case, over the same ball, of the mean of z_i(π) − z_i(π0), with z_i of dr without
                          clipping; if it is below 0, π is shown to be better than π0

    Parameters
    ----------
    log : BanditLog
        The held-out part, of n rows. If it has groups, the bounds and the differences use one value for each group:
        see :func:`drcrm.evaluation.bounds.independent_units.grouped_values`.
    clip : float or None
        M of the training part.
    model : SupportedModel, optional
        Cost model with π0. If None, the scores that need a model are NaN. If π0 was cloned, improvement_bound compares
        with the logged costs. If the rows reveal missing mass, it charges this mass the largest cost: see
        :mod:`drcrm.evaluation.policy_on_log`.
    radius : float, optional
        Radius κ. improvement_bound then compares the worst cases of π and π0 around the environment: see
        :mod:`drcrm.evaluation.policy_terms`. It is NaN if a worst case is the largest cost.

    Attributes
    ----------
    logged : float
        The mean of the logged costs.
    """

    @_ignore_overflow
    def __init__(
        self, log: BanditLog, clip: float | None, model: SupportedModel | None = None, radius: float | None = None
    ):
        placeholder = TabularPolicy.for_log(log.log_propensity, log.actions.logging_mean, log)
        evaluation = compare_with_logging(placeholder, log, model)
        estimate = default_estimate(model is not None, UNBIASED)
        self._evaluation = replace(evaluation, estimate=estimate, radius=radius)
        self._log = log = evaluation.log
        self._clip, self._ball, self._model = np.inf if clip is None else clip, KLBall("auto"), model
        self._share, self._largest = log.count / log.size, max(log.cost.max(), 0.0)
        self.logged = self._share @ log.cost
        if model is not None:
            self._baseline = self._evaluation.reference.z

    @classmethod
    def of(
        cls, log: BanditLog | None, clip: float | None, model: SupportedModel | None, settings: FitSettings
    ) -> Self | None:
        """Return the scores at the radius of a fit's settings; None without held-out rows."""
        return None if log is None else cls(log, clip, model, settings.shift)

    @_ignore_overflow
    def unmodelled(self, policy: LinearPolicy) -> list[float]:
        """Return the four scores that need no cost model."""
        log_prob = policy.log_prob_of_rows(self._log)
        return list(self._unmodelled(importance_weights(log_prob, self._log)).values())

    def __call__(self, policy: LinearPolicy) -> dict[str, float]:
        """Return all scores of a policy over the features of the log, by their names in the order of ``SCORES``."""
        return self.evaluate(policy)[0]

    @_ignore_overflow
    def evaluate(self, policy: LinearPolicy) -> tuple[dict[str, float], PairedDifferences | None]:
        """Return all scores of a policy, and its differences from π0 (None without a model).

        ``improvement_bound`` bounds the mean of the valid differences.
        """
        evaluation, log = self._evaluation.of_policy(policy), self._log
        terms = replace(evaluation, radius=None).side_terms(evaluation.policy, self._largest)
        weight = terms.importance
        clipped = np.minimum(weight, self._clip)
        values = self._unmodelled(weight) | {"ls_bound": self._log_smoothing(weight)}
        cost, limited, count = unit_ratios(log, log.cost, clipped)
        values["snips_bound"] = SelfNormalised(cost, count).evaluate(self._ball, limited, limited, None, None)[0]
        differences = None
        if self._model is not None:
            z, is_plain = terms.modelled + clipped * terms.residual, evaluation.radius is None
            values |= {"dr": self._share @ z, "dr_bound": self._worst_case(*unit_values(log, z))}
            compared = terms if is_plain else evaluation.side_terms(evaluation.policy, self._largest)
            difference, residual, of_rows = compared.z - self._baseline, terms.residual, compared.gap(self._largest)
            gap, gap_count = unit_values(log, of_rows)
            is_unknown = self._model.logging.is_approximate and log.actions.logging_mean is None
            is_missing = is_unknown and np.isfinite(of_rows).all()
            is_marked, unit = evaluation.lacked is not None, np.abs(log.cost).max()
            if is_missing and has_missing_mass(gap, gap_count, unit, is_marked):
                difference, residual = difference + of_rows, log.cost - self._largest
            limited = z - self._baseline if is_plain else difference  # worst cases have no clipped terms
            valid, limited, count = unit_values(log, difference, limited)
            differences = PairedDifferences.of(valid, limited, grade_overlap(weight, log, residual), count)
            if np.isfinite(difference).all():
                values["improvement_bound"] = self._worst_case(valid, count)
        finite = {name: value if np.isfinite(value := values.get(name, np.nan)) else np.nan for name in SCORES}
        return finite, differences

    def _worst_case(self, z: np.ndarray, count: np.ndarray) -> float:
        """Return the worst case of the mean of z over the ball."""
        return self._ball.evaluate(z, count / count.sum(), count.sum())[0]

    def _unmodelled(self, weight: np.ndarray) -> dict[str, float]:
        clipped, log = np.minimum(weight, self._clip), self._log
        means = {}
        for name in UNMODELLED:
            kind, limited, *_ = EVALUATIONS[name]
            mean = kind(log.cost, log.count).mean(clipped if limited else weight)
            means[name] = mean if np.isfinite(mean) else np.nan
        return means

    def _log_smoothing(self, weight: np.ndarray) -> float:
        """Return the bound by logarithmic smoothing; NaN if a cost is above 0 or a product is beyond range.

        Each group has the sum of its terms, in units of the mean size of a group.
        """
        z, count = weight * self._log.cost, self._log.count
        if self._log.units is not None:
            z = np.bincount(number_groups(self._log.units, len(z)), count * z)
            z, count = z * (len(z) / self._log.size), np.ones(len(z))
        try:
            return upper_bound(z, method="log_smoothing", weights=count)
        except InputError:
            return np.nan
