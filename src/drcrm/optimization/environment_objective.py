"""Doubly robust objective around the environment: the worst case over a KL ball around the law of the costs.

With E_i = e^{(c_i − C)/γ}, the model f of :mod:`drcrm.cost_models.smearing`, importance weights w and w̃ = w/Σ w,

    R_κ(Θ) = C + inf_γ γ (κ + log W),    W = mean_k E_π f(x_k, ·) + Σ w̃ (E − f)

A fit varies Θ and log γ together, because W is not convex in γ. γ stays within fixed bounds. At small γ, W can be 0 or
negative, so log W = log W_s + log r with the self-normalised W_s = Σ w̃ E and r = W/W_s, and a barrier is added to log r
below r = 0.8. A value at Θ alone, without γ, takes one step from the self-normalised optimum (R_s, γ): R_s + γ (r − 1).
Source: Kallus, Mao, Wang & Zhou 2022, whose method fits a regression for each γ.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from drcrm.cost_models.cross_fitting import FOLDS
from drcrm.data.executors import report_pass
from drcrm.data.folds import context_folds
from drcrm.data.scaling import cost_deviation
from drcrm.divergences import KL
from drcrm.divergences.dual_search import WorstCase
from drcrm.errors import InputError
from drcrm.optimization.environment_blocks import EnvironmentBlocks
from drcrm.optimization.objective import Objective
from drcrm.policies.prepared_log import PreparedLog
from drcrm.risks.balls import EnvironmentBall
from drcrm.risks.base import Evaluation
from drcrm.weights import Weight

RANGE = 20.0  # γ is within this factor of σ/√(2κ), the γ of normal costs with the standard deviation σ of the log
LARGEST_EXPONENT = 500.0  # and at least the range of costs and residuals divided by this
INSIDE = 0.9  # a fit starts within this share of the range of log γ
BARRIER, LINEAR = 0.8, 0.3  # the barrier begins at the first r, and is linear below the second
STRENGTH = 4.0  # of the barrier; with a weaker one, fits lowered W by a few rows whose costs the model misses most


class EnvironmentObjective(Objective):
    """Doubly robust estimate of R_κ as a function of Θ, and of Θ and a variable for γ, with gradients.

    Parameters
    ----------
    prepared : PreparedLog
        The log, with the effects of a cross-fitted cost model: see :func:`drcrm.cost_models.cross_fitting.cross_fit`.
    risk : EnvironmentBall
        KL ball of radius κ > 0.
    weight : Weight, optional
        By default π/p without clipping.
    fold : integer array (m,), optional
        Fold of each context, by default that of ``cross_fit``.

    Raises
    ------
    InputError
        If the divergence is not KL, the radius is 0, or the log has no effects.
    """

    def __init__(
        self,
        prepared: PreparedLog,
        risk: EnvironmentBall,
        weight: Weight | None = None,
        fold: np.ndarray | None = None,
    ):
        super().__init__(prepared, risk, weight, "snips")
        self.risk: EnvironmentBall = risk
        if prepared.effects is None:
            raise InputError("the estimate 'dr' needs a cost model")
        if not isinstance(risk.divergence, KL) or not risk.radius > 0:
            raise InputError(
                f"the estimate 'dr' around the environment needs divergence='kl' and a radius above 0, got {risk!r}. "
                "Use estimate='snips' for other divergences."
            )
        self._fold = context_folds(prepared.log, None, FOLDS) if fold is None else fold

    def samples(self) -> Iterator[Objective]:
        for prepared, rows in self.prepared.samples():
            contexts = np.unique(self.prepared.log.context[rows])
            yield EnvironmentObjective(prepared, self.risk, self.weight, self._fold[contexts])

    @cached_property
    def _unit(self) -> float:
        """Unit of γ, the standard deviation of the logged costs."""
        return cost_deviation(self.prepared.log.cost, self.prepared.log.count)

    @cached_property
    def _log_range(self) -> tuple[float, float]:
        """Centre and half width of the range of log γ, in units of the costs."""
        span = max(np.ptp(self.prepared.log.cost), self._blocks().residual_span) / self._unit
        centre, log_range = -0.5 * np.log(2 * self.risk.radius), np.log(RANGE)
        low, high = max(centre - log_range, np.log((span or 1.0) / LARGEST_EXPONENT)), centre + log_range
        return float(low + high) / 2, max(float(high - low), 1.0) / 2

    def _make_blocks(self, keeps: bool) -> EnvironmentBlocks:
        return EnvironmentBlocks(self.prepared, self._fold, self.weight, keeps)

    def start_extras(self, coef: np.ndarray) -> np.ndarray:
        """Return the variable u of a fit, (1,), at the self-normalised optimum of γ.

        log γ = centre + half · sin(u/half) keeps γ, in units of the costs, within its bounds.
        """
        centre, half = self._log_range
        log_gamma = np.log(np.maximum(self._solve_self_normalised(coef).gamma / self._unit, np.finfo(float).tiny))
        return np.array([half * np.arcsin(np.clip((log_gamma - centre) / half, -INSIDE, INSIDE))])

    def evaluate(self, coef: np.ndarray, guess: object = None) -> Evaluation:
        """Return the value and the gradient at Θ, followed by the variable for γ; or at Θ alone, where γ is fixed."""
        coef, extra = np.split(np.ravel(coef), [int(np.prod(self.prepared.shape))])
        coef = coef.reshape(self.prepared.shape)
        report_pass(len(self.prepared.log.Y))
        if not extra.size:
            return self._evaluate_one_step(coef)
        gamma, change = self._gamma_at(extra[0])
        point = self._evaluate_at(coef, gamma)
        slope = point.in_gamma * change
        return point.value, np.append(point.gradient, slope), None

    def _gamma_at(self, variable: float) -> tuple[float, float]:
        """Return γ and its derivative for the variable u of a fit."""
        centre, half = self._log_range
        gamma = self._unit * float(np.exp(centre + half * np.sin(variable / half)))
        return gamma, gamma * np.cos(variable / half)

    def _evaluate_one_step(self, coef: np.ndarray) -> Evaluation:
        dual = self._solve_self_normalised(coef)
        if not 0 < dual.gamma < np.inf:
            return dual.value, np.zeros(coef.size), None
        point = self._evaluate_at(coef, dual.gamma)
        return dual.value + dual.gamma * (point.ratio - 1), point.gradient, None

    def _solve_self_normalised(self, coef: np.ndarray) -> WorstCase:
        weight, _ = self.weight(self.prepared.forward(coef)[0], self.prepared.log.log_propensity)
        estimate = self.estimate
        return self.risk.solve_weighted(estimate.cost, weight, estimate.share, estimate.size)

    def _evaluate_at(self, coef: np.ndarray, gamma: float) -> _Point:
        blocks, risk = self._blocks(), self.risk
        smear = blocks.smear(gamma)
        weight, *weighted, expected, expected_slope = blocks.sums(coef, gamma, smear)
        if not 0 < weight < np.inf:
            return _Point(np.nan, np.nan, 0.0, np.zeros(coef.size))
        normalised, logged_slope, model, model_slope = np.array(weighted) / weight
        ratio = (expected + normalised - model) / normalised
        log_ratio, slope = log_with_barrier(ratio)
        exponent = risk.radius + np.log(normalised) + log_ratio
        # W and W_s have the derivatives dW and dW_s; V has γ/W_s (h' dW + (1 − r h') dW_s), with h the barred log.
        of_model, of_logged = slope, 1 - ratio * slope
        change = of_model * (expected_slope + logged_slope - model_slope) + of_logged * logged_slope
        unit = gamma / normalised / weight
        constant = of_model * (normalised - model) + of_logged * normalised
        factors = unit * (of_model + of_logged), unit * of_model, unit * constant, unit * of_model * weight
        gradient = blocks.gradient(coef, gamma, smear, factors).ravel()
        value = float(self.prepared.log.cost.max() + gamma * exponent)
        return _Point(value, ratio, exponent + gamma * change / normalised, gradient)


class _Point(NamedTuple):
    """Value at Θ and γ, r = W/W_s, the derivative in γ, and the flat gradient in Θ."""

    value: float
    ratio: float
    in_gamma: float
    gradient: np.ndarray


def log_with_barrier(ratio: float) -> tuple[float, float]:
    """Return log r and its derivative, plus a barrier 4 (0.8/r − 1)² below r = 0.8 that is linear below r = 0.3."""
    point = max(ratio, LINEAR)
    excess = max(BARRIER / point - 1, 0.0)
    slope = 1 / point - 2 * STRENGTH * excess * BARRIER / point**2
    return np.log(point) + STRENGTH * excess**2 + slope * (ratio - point), slope
