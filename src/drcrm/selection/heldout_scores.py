"""Held-out scores: estimates of, and bounds on, a policy's cost on held-out rows; and selection by these scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.certificates.bounds import upper_bound
from drcrm.certificates.independent_units import mean_and_deviation
from drcrm.certificates.terms.overlap import grade_overlap, has_missing_mass, worst_case_gaps
from drcrm.certificates.terms.policy_terms import PolicyTerms
from drcrm.certificates.terms.shifted_terms import ShiftedTermBuilder, logging_terms
from drcrm.cost_models.adapters import TabularModel
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.estimates import EVALUATIONS, DoublyRobust
from drcrm.optimization.objective import Objective
from drcrm.policies.exponential import LinearPolicy, make_policy
from drcrm.policies.linear_predictor import LinearPredictor, importance_weights
from drcrm.risks import KLBall, MeanRisk
from drcrm.selection.multiplicity import PairedDifferences
from drcrm.selection.score_names import SCORES, UNMODELLED
from drcrm.weights import Clipped

ROUNDING = 1e-9  # relative: smaller differences of bounds are rounding


def off_policy_scores(weight: Any, cost: Any, clip: float, count: Any = None) -> dict[str, float]:
    """Return the four estimates of a policy's mean cost that need no cost model.

    ips is (1/n) Σ w c, which is unbiased (eq. 2 of the paper). snips is Σ w c / Σ w; if a constant is added to all
    costs, snips grows by it. clipped_ips and clipped_snips use min(M, w) in place of w.

    Parameters
    ----------
    weight, cost : array (n,)
        w = π(y|x)/p ≥ 0, and c.
    clip : float
        M of the training part.
    count : array (n,), optional
        Multiplicity of each row; n = Σ count.

    Returns
    -------
    dict : name → estimate
        NaN if the denominator is 0 or the estimate is beyond the range of numbers.
    """
    weight, cost = np.asarray(weight, dtype=float), np.asarray(cost, dtype=float)
    count = np.ones(len(cost)) if count is None else np.asarray(count, dtype=float)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        means = {}
        for name in UNMODELLED:
            kind, limited, _ = EVALUATIONS[name]
            mean = float(kind(cost, count).mean(np.minimum(weight, clip) if limited else weight))
            means[name] = mean if np.isfinite(mean) else np.nan
    return means


class HeldoutScores:
    """Held-out scores of policies. There are nine, in the order of ``SCORES``.

    ips … clipped_snips   the four scores of ``off_policy_scores``
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
        M of the training part; None does not clip.
    effects : array (m, q + 1), (m, K) or (N,), optional
        Effects of the training part's cost model on the held-out contexts. If None, scores that need them are NaN.
    intercept : bool
        Whether the last row of Θ is an intercept.
    logging_policy : ExponentialPolicy or SoftmaxPolicy, optional
        π0. If None, improvement_bound is NaN.
    is_cloned : bool
        Whether π0 was cloned from the log. improvement_bound then compares with the logged costs. If the rows reveal
        missing mass, it charges this mass the largest cost: see :mod:`drcrm.certificates.terms.overlap`.
    explore : float
        Share ε of the uniform policy, which is mixed with each policy.
    shift : float, optional
        Radius κ. improvement_bound then compares the worst cases of π and π0 around the environment: see
        :mod:`drcrm.certificates.terms.shifted_terms`. It is NaN if a worst case is the largest cost.

    Attributes
    ----------
    logged : float
        The mean of the logged costs.
    """

    def __init__(
        self,
        log: BanditLog,
        clip: float | None,
        effects: np.ndarray | None = None,
        intercept: bool = False,
        logging_policy: LinearPolicy | None = None,
        is_cloned: bool = False,
        explore: float = 0.0,
        shift: float | None = None,
    ):
        self._clip, self._is_cloned, self._explore = np.inf if clip is None else clip, is_cloned, explore
        self.logged = log.count @ log.cost / log.size
        self._design = LinearPredictor(log, effects, intercept, trains=True)
        self._ball, weight = KLBall("auto"), Clipped(self._clip)
        self._objectives = {"snips_bound": Objective(self._design, self._ball, weight, "snips")}
        if effects is not None:
            self._objectives["dr"] = Objective(self._design, MeanRisk(), weight, "dr")
            self._objectives["dr_bound"] = Objective(self._design, self._ball, weight, "dr")
        self._baseline = None
        if effects is not None and logging_policy is not None:
            self._doubly_robust: Any = self._design.estimate(DoublyRobust)
            self._baseline, self._shifted = self._design.log.cost, None
            if shift is not None:
                model: Any = TabularModel(np.asarray(self._design.effects))
                self._shifted = ShiftedTermBuilder(self._design.log, "dr", model, None, shift)
                self._baseline = logging_terms(self._design.log, shift)[1]
                if not is_cloned:
                    self._baseline = self._shifted_terms(logging_policy).z
            elif not is_cloned:
                _, log_prob, expected = logging_policy.evaluate(log, effects)
                self._baseline = self._z(log_prob, expected)

    def unmodelled(self, coef: np.ndarray) -> list[float]:
        """Return the four scores of ``off_policy_scores`` at Θ, (d, …)."""
        return list(self._unmodelled(self._weight(self._forward(coef)[0])).values())

    def __call__(self, coef: np.ndarray) -> dict[str, float]:
        """Return all scores at Θ, (d, …), by their names in the order of ``SCORES``."""
        return self.evaluate(coef)[0]

    def evaluate(self, coef: np.ndarray) -> tuple[dict[str, float], tuple[np.ndarray, np.ndarray, int] | None]:
        """Return all scores at Θ, and a candidate's part of ``PairedDifferences``, or None if π0 is unknown.

        ``improvement_bound`` bounds the mean of the first differences.
        """
        forward = self._forward(coef)
        weight = self._weight(forward[0])
        values = self._unmodelled(weight) | {"ls_bound": self._log_smoothing(weight)}
        values |= {name: objective.evaluate_forward(*forward)[0] for name, objective in self._objectives.items()}
        differences: Any = None
        if self._baseline is not None:
            log, clipped = self._design.log, np.minimum(weight, self._clip)
            difference = self._improvement(coef, *forward)
            limited = difference  # worst cases have no clipped terms
            if self._shifted is None:
                limited = self._doubly_robust.z(clipped, forward[1]) - self._baseline
            differences = difference, limited, grade_overlap(weight, log, self._doubly_robust.residual)
            if np.isfinite(difference).all():
                values["improvement_bound"] = self._ball.evaluate(difference, log.count / log.size, log.size)[0]
        finite = {name: value if np.isfinite(value := values.get(name, np.nan)) else np.nan for name in SCORES}
        return finite, differences

    def pair(self, differences: list[tuple[np.ndarray, np.ndarray, int]]) -> PairedDifferences:
        """Return the differences of several candidates as arrays."""
        valid, clipped, grade = zip(*differences, strict=True)
        count = self._design.log.count
        return PairedDifferences(np.column_stack(valid), np.column_stack(clipped), np.array(grade), count)

    def noise(self, coef: np.ndarray) -> float:
        """Return the standard deviation over rows, at Θ, of z(π) − z(π0), whose mean ``improvement_bound`` bounds."""
        log = self._design.log
        z = self._terms_and_gaps(coef, *self._forward(coef))[0]
        return mean_and_deviation(z - self._baseline, log.count, log.size)[1]

    def _forward(self, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return log π of the rows and the expected modelled costs of the contexts, with exploration."""
        return self._design.forward(coef, self._explore)

    def _weight(self, log_prob: np.ndarray) -> np.ndarray:
        return importance_weights(log_prob, self._design.log)

    def _unmodelled(self, weight: np.ndarray) -> dict[str, float]:
        return off_policy_scores(weight, self._design.log.cost, self._clip, self._design.log.count)

    def _z(self, log_prob: np.ndarray, expected: Any) -> np.ndarray:
        """Return the doubly robust z of each row, without clipping."""
        return self._doubly_robust.z(self._weight(log_prob), expected)

    def _improvement(self, coef: np.ndarray, log_prob: np.ndarray, expected: Any) -> np.ndarray:
        """Return z(π) − z(π0) of each row, with missing mass charged the largest cost."""
        log = self._design.log
        z, gaps = self._terms_and_gaps(coef, log_prob, expected)
        difference = z - self._baseline
        if self._is_cloned and np.isfinite(gaps).all() and has_missing_mass(gaps, log.count, np.abs(log.cost).max()):
            difference = difference + gaps
        return difference

    def _terms_and_gaps(self, coef: np.ndarray, log_prob: np.ndarray, expected: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return z of each row, and its increase if the missing mass is charged the largest cost."""
        log = self._design.log
        if self._shifted is not None:
            coef = coef.reshape(self._design.shape)
            weights = (coef[:-1], coef[-1]) if self._design.intercept else (coef, None)
            terms = self._shifted_terms(make_policy(log.actions, *weights).with_exploration(self._explore))
            return terms.z, terms.gap
        z = self._z(log_prob, expected)
        return z, worst_case_gaps(z, self._weight(log_prob), log.cost, max(log.cost.max(), 0.0))

    def _shifted_terms(self, policy: LinearPolicy) -> PolicyTerms:
        """Return the terms of a policy around the environment."""
        builder: Any = self._shifted
        return builder.evaluate(policy, "policy", max(self._design.log.cost.max(), 0.0))[1]

    def _log_smoothing(self, weight: np.ndarray) -> float:
        """Return the bound by logarithmic smoothing; NaN if a cost is above 0 or a product is beyond range."""
        with np.errstate(over="ignore", invalid="ignore"):
            z = weight * self._design.log.cost
        try:
            return upper_bound(z, method="log_smoothing", weights=self._design.log.count)
        except InputError:
            return np.nan


def select_improvement(bounds: Any, noise: Any) -> int | None:
    """Return the index of the smallest bound that is shown to be below 0, or None.

    The tests have a fixed sequence: from the smallest noise on, until the first bound that is not below 0. Each bound
    holds with probability 1 − δ. If ``noise`` does not depend on the rows of the bounds, all claims are true with
    probability 1 − δ, for any number of tests. The reason: a claim can be false only if the first policy in the
    sequence that is not an improvement passes its test. Among bounds that differ only by rounding, the one with the
    least noise is chosen. Source: Maurer, Hothorn & Lehmacher 1995.
    """
    bounds = np.asarray(bounds, dtype=float)
    order = np.argsort(noise, kind="stable")
    passed = order[np.logical_and.accumulate(bounds[order] < 0)]
    if not passed.size:
        return None
    smallest = bounds[passed].min()
    return int(passed[np.argmax(bounds[passed] <= smallest + ROUNDING * abs(smallest))])


def choose(scores: Any, grid: Any, robust_end: str = "high") -> int | None:
    """Return the index of the smallest score, or None if all are NaN; the most robust grid value wins a tie."""
    scores = np.asarray(scores, dtype=float)
    if np.isnan(scores).all():
        return None
    ties = np.flatnonzero(scores == np.nanmin(scores))
    return int((max if robust_end == "high" else min)(ties, key=lambda index: grid[index]))
