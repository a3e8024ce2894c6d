"""Off-policy scores of a policy on held-out logs, and choosing by them."""

from collections.abc import Sequence

import numpy as np

from drcrm.certificates.bounds import upper_bound
from drcrm.certificates.independent_units import mean_and_deviation
from drcrm.certificates.overlap import has_missing_mass, worst_case_gaps
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.estimates import DoublyRobust
from drcrm.optimization.objective import Objective
from drcrm.policies.exponential import LinearPolicy
from drcrm.policies.linear_predictor import LinearPredictor, importance_weights
from drcrm.risks import KLBall, MeanRisk
from drcrm.selection.score_names import SCORES
from drcrm.weights import Clipped

EQUAL = 1e-9  # relative: what differs by less is rounding


def off_policy_scores(weight, cost, clip: float, count=None) -> dict[str, float]:
    """Estimate the mean cost of a policy from importance weights, in the four ways of ``UNMODELLED``.

    ips: (1/n) Σ w c, unbiased (eq. 2 of the paper); clipped_ips: the same with min(M, w); snips: Σ w c / Σ w, which
    does not depend on a translation of the costs; clipped_snips: the same with min(M, w).

    Parameters
    ----------
    weight, cost : array (n,)
        w = π(y|x)/p ≥ 0, and c.
    clip : float
        M, from the training part.
    count : array (n,), optional
        How often each row occurs, n = Σ count.

    Returns
    -------
    dict : name → estimate, NaN where its denominator is 0, or it is beyond the range of floating-point numbers.
    """
    weight, cost = np.asarray(weight, dtype=float), np.asarray(cost, dtype=float)
    count = np.ones(len(cost)) if count is None else np.asarray(count, dtype=float)
    clipped = np.minimum(weight, clip)
    n = count.sum()

    def ratio(w, denominator):
        mean = float((count * w) @ cost / denominator) if denominator > 0 else np.nan
        return mean if np.isfinite(mean) else np.nan

    return {
        "ips": ratio(weight, n),
        "clipped_ips": ratio(clipped, n),
        "snips": ratio(weight, count @ weight),
        "clipped_snips": ratio(clipped, count @ clipped),
    }


class HeldoutScores:
    """The held-out scores of policies: how much they promise to cost, on rows that were not learned from.

    Beside the four of ``off_policy_scores``: dr, the doubly robust mean with min(M, w); dr_bound and snips_bound, the
    worst case of dr and of clipped_snips over the KL ball of radius z²/(2n), z the normal quantile at 0.95, so that a
    choice by few effective rows is not believed; ls_bound, the bound of ips by logarithmic smoothing at δ = 0.05 and
    λ = 1/√n, which holds for every n, and is for costs of at most 0; improvement_bound, of the paired differences
    z_i(π) − z_i(π0) row by row under dr, their weights not clipped, at 0.95: below 0, π is shown to be better than π0.

    Parameters
    ----------
    log : BanditLog
        The held-out part, of n rows.
    clip : float or None
        M, from the training part; None does not clip.
    effects : array (m, q + 1), (m, K) or (N,), optional
        Of the training part's cost model on the held-out contexts; without it, the scores that use one are NaN.
    intercept : bool
        Whether the last row of Θ is an intercept.
    logging_policy : ExponentialPolicy or SoftmaxPolicy, optional
        π0, or an imitation of it; without it, improvement_bound is NaN.
    is_cloned : bool
        Whether it is an imitation. Improvement_bound is then of the differences to the logged costs, which are those of
        π0 itself, and what rows show that the log lacks counts at the largest cost: see
        :mod:`drcrm.certificates.overlap`.

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
    ):
        self._clip, self._is_imitated = np.inf if clip is None else clip, is_cloned
        self.logged = log.count @ log.cost / log.size
        # Two passes forward, whose last digits differ: published scores are of both.
        self._weighed = LinearPredictor(log, intercept=intercept)
        self._bounded = LinearPredictor(log, effects, intercept, trains=True)
        self._ball, weight = KLBall("auto"), Clipped(self._clip)
        self._objectives = {"snips_bound": Objective(self._bounded, self._ball, weight, "snips")}
        if effects is not None:
            self._objectives["dr"] = Objective(self._bounded, MeanRisk(), weight, "dr")
            self._objectives["dr_bound"] = Objective(self._bounded, self._ball, weight, "dr")
        self._baseline = None
        if effects is not None and logging_policy is not None:
            bounded = self._bounded.log
            self._doubly_robust = DoublyRobust(
                bounded.cost, bounded.count, self._bounded.modelled_cost, bounded.context
            )
            passed = (
                None
                if is_cloned
                else LinearPredictor(log, effects, intercept=True).forward(logging_policy.coef_with_intercept)
            )
            self._baseline = bounded.cost if passed is None else self._z(*passed)

    def unmodelled(self, coef: np.ndarray) -> list[float]:
        """Return the four scores of ``off_policy_scores`` at Θ, (d, …)."""
        return list(self._unmodelled(self._weight(coef)).values())

    def __call__(self, coef: np.ndarray) -> dict[str, float]:
        """Return all scores at Θ, (d, …), by their names in the order of ``SCORES``."""
        weight, estimated = self._weight(coef), self._bounded.forward(coef)
        values = self._unmodelled(weight) | {"ls_bound": self._log_smoothing(weight)}
        values |= {name: objective.estimated(*estimated)[0] for name, objective in self._objectives.items()}
        if self._baseline is not None:
            values["improvement_bound"] = self._improvement(*estimated)
        return {name: value if np.isfinite(value := values.get(name, np.nan)) else np.nan for name in SCORES}

    def _weight(self, coef: np.ndarray) -> np.ndarray:
        return importance_weights(self._weighed.forward(coef)[0], self._weighed.log)

    def _unmodelled(self, weight: np.ndarray) -> dict[str, float]:
        return off_policy_scores(weight, self._weighed.log.cost, self._clip, self._weighed.log.count)

    def _z(self, log_prob: np.ndarray, expected: np.ndarray) -> np.ndarray:
        """z of each row, under dr."""
        return self._doubly_robust.z(importance_weights(log_prob, self._bounded.log), expected)

    def _improvement(self, log_prob: np.ndarray, expected: np.ndarray) -> float:
        """The bound of the mean of z(π) − z(π0)."""
        log = self._bounded.log
        z = self._z(log_prob, expected)
        difference = z - self._baseline
        if self._is_imitated:
            most = max(log.cost.max(), 0.0)
            gaps = worst_case_gaps(z, importance_weights(log_prob, log), log.cost, most)
            if np.isfinite(gaps).all() and has_missing_mass(gaps, log.count, np.abs(log.cost).max()):
                difference = difference + gaps
        return self._ball.evaluate(difference, log.count / log.size, log.size)[0]

    def noise(self, coef: np.ndarray) -> float:
        """Return the standard deviation over rows of z(π) − z(π0), the differences of improvement_bound, at Θ."""
        log = self._bounded.log
        return mean_and_deviation(self._z(*self._bounded.forward(coef)) - self._baseline, log.count, log.size)[1]

    def _log_smoothing(self, weight: np.ndarray) -> float:
        """The bound by logarithmic smoothing; NaN for costs above 0, or beyond the range of numbers."""
        with np.errstate(over="ignore", invalid="ignore"):
            z = weight * self._weighed.log.cost
        try:
            return upper_bound(z, method="log_smoothing", weights=self._weighed.log.count)
        except InputError:
            return np.nan


def select_improvement(bounds: Sequence[float], noise: Sequence[float]) -> int | None:
    """Return the index of the least of the bounds that are shown to be below 0; None where none is.

    Of bounds that differ by rounding alone that with the least noise.

    Tests in a fixed sequence, each at the level of the bounds, 1 − δ: from the least noise on, until the first bound
    that is not below 0. If the order was fixed before the rows of the bounds were seen, all that is shown is true with
    probability 1 − δ, however many were tested: the first one that is not true would have to be shown. Source: Maurer,
    Hothorn & Lehmacher 1995.
    """
    bounds = np.asarray(bounds, dtype=float)
    order = np.argsort(noise, kind="stable")
    passed = order[np.logical_and.accumulate(bounds[order] < 0)]
    if not passed.size:
        return None
    least = bounds[passed].min()
    return int(passed[np.argmax(bounds[passed] <= least + EQUAL * abs(least))])


def choose(scores: Sequence[float], grid: Sequence[float], robust_end: str = "high") -> int | None:
    """Return the index of the smallest score; of equal ones that of the most robust grid value; None if all are NaN."""
    scores = np.asarray(scores, dtype=float)
    if np.isnan(scores).all():
        return None
    ties = np.flatnonzero(scores == np.nanmin(scores))
    return int((max if robust_end == "high" else min)(ties, key=lambda index: grid[index]))
