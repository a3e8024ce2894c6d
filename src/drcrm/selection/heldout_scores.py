"""Held-out scores: estimates of, and bounds on, a policy's cost on held-out rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.certificates.bounds import upper_bound
from drcrm.certificates.independent_units import mean_and_deviation
from drcrm.certificates.terms.overlap import grade_overlap, has_missing_mass, worst_case_gaps
from drcrm.certificates.terms.shifted_terms import ShiftedTermBuilder, logging_terms
from drcrm.cost_models.adapters import TabularModel
from drcrm.cost_models.support import SupportedModel
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.estimates import EVALUATIONS, DoublyRobust, SelfNormalised
from drcrm.policies.exponential import LinearPolicy
from drcrm.policies.linear_predictor import LinearPredictor, importance_weights
from drcrm.risks import KLBall
from drcrm.selection.multiplicity import PairedDifferences
from drcrm.selection.score_names import SCORES, UNMODELLED

_ignore_overflow = np.errstate(over="ignore", invalid="ignore", divide="ignore")  # scores that are not finite are NaN


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
        The held-out part, of n rows.
    clip : float or None
        M of the training part.
    model : SupportedModel, optional
        Cost model with π0. If None, the scores that need a model are NaN. If π0 was cloned, improvement_bound compares
        with the logged costs. If the rows reveal missing mass, it charges this mass the largest cost: see
        :mod:`drcrm.certificates.terms.overlap`.
    shift : float, optional
        Radius κ. improvement_bound then compares the worst cases of π and π0 around the environment: see
        :mod:`drcrm.certificates.terms.shifted_terms`. It is NaN if a worst case is the largest cost.

    Attributes
    ----------
    logged : float
        The mean of the logged costs.
    """

    def __init__(
        self, log: BanditLog, clip: float | None, model: SupportedModel | None = None, shift: float | None = None
    ):
        effects = None if model is None else model.action_effects(log.X, log.actions)
        self._design = LinearPredictor(log, effects, intercept=True)
        self._log, self._clip, self._ball = self._design.log, np.inf if clip is None else clip, KLBall("auto")
        self.logged = self._log.count @ self._log.cost / self._log.size
        self._ratio, self._is_cloned = self._design.estimate(SelfNormalised), model is not None and model.is_cloned
        self._baseline = self._shifted = None
        if model is None:
            return
        self._doubly_robust: Any = self._design.estimate(DoublyRobust)
        if shift is not None:
            tabular: Any = TabularModel(np.asarray(self._design.effects))
            self._shifted = ShiftedTermBuilder(self._log, "dr", tabular, None, shift)
        if not model.is_cloned:
            self._baseline = self._terms_and_gaps(model.logging_policy, *self._forward(model.logging_policy))[0]
        else:
            self._baseline = self._log.cost if shift is None else logging_terms(self._log, shift)[1]

    @_ignore_overflow
    def unmodelled(self, policy: LinearPolicy) -> list[float]:
        """Return the four scores that need no cost model."""
        return list(self._unmodelled(self._forward(policy)[0]).values())

    def __call__(self, policy: LinearPolicy) -> dict[str, float]:
        """Return all scores of a policy over the features of the log, by their names in the order of ``SCORES``."""
        return self.evaluate(policy)[0]

    @_ignore_overflow
    def evaluate(self, policy: LinearPolicy) -> tuple[dict[str, float], tuple[np.ndarray, np.ndarray, int] | None]:
        """Return all scores of a policy, and a candidate's part of ``PairedDifferences``, or None without a model.

        ``improvement_bound`` bounds the mean of the first differences.
        """
        weight, expected = self._forward(policy)
        clipped, ball, log = np.minimum(weight, self._clip), self._ball, self._log
        values = self._unmodelled(weight) | {"ls_bound": self._log_smoothing(weight)}
        values["snips_bound"] = self._ratio.evaluate(ball, clipped, clipped, None, None)[0]
        differences = None
        if self._baseline is not None:
            share, z = self._doubly_robust.share, self._doubly_robust.z(clipped, expected)
            values |= {"dr": share @ z, "dr_bound": ball.evaluate(z, share, log.size)[0]}
            difference, residual = self._improvement(policy, weight, expected)
            limited = difference if self._shifted else z - self._baseline  # worst cases have no clipped terms
            differences = difference, limited, grade_overlap(weight, log, residual)
            if np.isfinite(difference).all():
                values["improvement_bound"] = ball.evaluate(difference, share, log.size)[0]
        finite = {name: value if np.isfinite(value := values.get(name, np.nan)) else np.nan for name in SCORES}
        return finite, differences

    def pair(self, differences: list[tuple[np.ndarray, np.ndarray, int]]) -> PairedDifferences:
        """Return the differences of several candidates as arrays."""
        valid, clipped, grade = zip(*differences, strict=True)
        return PairedDifferences(np.column_stack(valid), np.column_stack(clipped), np.array(grade), self._log.count)

    def noise(self, policy: LinearPolicy) -> float:
        """Return the standard deviation over rows of z(π) − z(π0), whose mean ``improvement_bound`` bounds."""
        z = self._terms_and_gaps(policy, *self._forward(policy))[0]
        return mean_and_deviation(z - self._baseline, self._log.count, self._log.size)[1]

    def _forward(self, policy: LinearPolicy) -> tuple[np.ndarray, Any]:
        """Return the weights of the rows and the expected modelled costs of the contexts."""
        log_prob, expected = self._design.forward(policy.coef_with_intercept, policy.explore)
        return importance_weights(log_prob, self._log), expected

    def _unmodelled(self, weight: np.ndarray) -> dict[str, float]:
        clipped = np.minimum(weight, self._clip)
        means = {}
        for name in UNMODELLED:
            kind, limited, _ = EVALUATIONS[name]
            mean = self._design.estimate(kind).mean(clipped if limited else weight, None)
            means[name] = mean if np.isfinite(mean) else np.nan
        return means

    def _improvement(self, policy: LinearPolicy, weight: np.ndarray, expected: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return z(π) − z(π0) of each row, and the residuals. Missing mass is charged the largest cost."""
        z, gaps = self._terms_and_gaps(policy, weight, expected)
        is_missing, cost = self._is_cloned and np.isfinite(gaps).all(), self._log.cost
        if is_missing and has_missing_mass(gaps, self._log.count, np.abs(cost).max()):
            return z + gaps - self._baseline, cost - max(cost.max(), 0.0)
        return z - self._baseline, self._doubly_robust.residual

    def _terms_and_gaps(self, policy: LinearPolicy, weight: np.ndarray, expected: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return z of each row without clipping, and its increase if the missing mass is charged the largest cost."""
        largest = max(self._log.cost.max(), 0.0)
        if self._shifted:
            _, terms = self._shifted.evaluate(policy, "policy", largest)
            return terms.z, terms.gap
        z = self._doubly_robust.z(weight, expected)
        return z, worst_case_gaps(z, weight, self._log.cost, largest)

    def _log_smoothing(self, weight: np.ndarray) -> float:
        """Return the bound by logarithmic smoothing; NaN if a cost is above 0 or a product is beyond range."""
        try:
            return upper_bound(weight * self._log.cost, method="log_smoothing", weights=self._log.count)
        except InputError:
            return np.nan
