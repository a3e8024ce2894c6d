"""Off-policy scores of a policy on held-out logs, and choosing by them."""

from collections.abc import Sequence

import numpy as np

from ..errors import InputError
from .bounds import upper_bound
from .design import Design, importance_weights
from .log import BanditLog
from .names import SCORES
from .objective import Objective
from .policies import LinearPolicy
from .risks import KLBall, MeanRisk
from .weights import Clipped

RISK = 0.05  # of a bound of the improvement
LOW_WEIGHT, SURE = 0.1, 5  # a mean weight, and standard errors from 1


def low_weights(weight: np.ndarray, log: BanditLog) -> str:
    """Say where the mean weight is less than a tenth, and by 5 standard errors less than 1; nothing elsewhere.

    The expectation of π/p is 1 where the log could show every action of the policy.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        share = log.count / log.size
        mean = share @ weight
        error = np.sqrt(share @ (weight - mean) ** 2 / log.size)
    if not (mean < LOW_WEIGHT and mean + SURE * error < 1):
        return ""
    return (
        f"the mean weight is {mean:.3g}, far below 1: the log has few of the actions that this policy takes, and says "
        "little about their costs"
    )


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
    z_i(π) − z_i(π0) row by row under dr, their weights not clipped, at 1 − 0.05/K where one of K policies is to be
    chosen: below 0, π is shown to be better than π0.

    Parameters
    ----------
    log : BanditLog
        The held-out part, of n rows.
    clip : float
        M, from the training part.
    effects : array (m, q + 1), (m, K) or (N,), optional
        Of the training part's cost model on the held-out contexts; without it, the scores that use one are NaN.
    intercept : bool
        Whether the last row of Θ is an intercept.
    logging_policy : ExponentialPolicy or SoftmaxPolicy, optional
        π0, or an imitation of it; without it, improvement_bound is NaN.
    choices : int
        K.

    Attributes
    ----------
    logged : float
        The mean of the logged costs.
    """

    def __init__(
        self,
        log: BanditLog,
        clip: float,
        effects: np.ndarray | None = None,
        intercept: bool = False,
        logging_policy: LinearPolicy | None = None,
        choices: int = 1,
    ):
        self._clip = clip
        self.logged = log.count @ log.cost / log.size
        # Two passes forward, whose last digits differ: published scores are of both.
        self._weighed = Design(log, intercept=intercept)
        self._bounded = Design(log, effects, intercept, trains=True)
        bound, weight = KLBall("auto"), Clipped(clip)
        self._paired = KLBall("auto", 1 - RISK / choices)
        self._objectives = {"snips_bound": Objective(self._bounded, bound, weight, "snips")}
        if effects is not None:
            self._objectives["dr"] = Objective(self._bounded, MeanRisk(), weight, "dr")
            self._objectives["dr_bound"] = Objective(self._bounded, bound, weight, "dr")
        self._baseline = None
        if effects is not None and logging_policy is not None:
            design = Design(log, effects, intercept=True)
            self._baseline = self._doubly_robust(*design.forward(logging_policy.stacked))

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

    def _doubly_robust(self, log_prob: np.ndarray, expected: np.ndarray) -> np.ndarray:
        """z of each row, under dr."""
        log = self._bounded.log
        return expected[log.context] + importance_weights(log_prob, log) * (log.cost - self._bounded.modelled)

    def _improvement(self, log_prob: np.ndarray, expected: np.ndarray) -> float:
        """The bound of the mean of z(π) − z(π0)."""
        log = self._bounded.log
        z = self._doubly_robust(log_prob, expected) - self._baseline
        return self._paired.evaluate(z, log.count / log.size, log.size)[0]

    def _log_smoothing(self, weight: np.ndarray) -> float:
        """The bound by logarithmic smoothing; NaN for costs above 0, or beyond the range of numbers."""
        with np.errstate(over="ignore", invalid="ignore"):
            z = weight * self._weighed.log.cost
        try:
            return upper_bound(z, method="log_smoothing", weights=self._weighed.log.count)
        except InputError:
            return np.nan


def choose(scores: Sequence[float], grid: Sequence[float], robust_end: str = "high") -> int | None:
    """Return the index of the smallest score; of equal ones that of the most robust grid value; None if all are NaN."""
    scores = np.asarray(scores, dtype=float)
    if np.isnan(scores).all():
        return None
    ties = np.flatnonzero(scores == np.nanmin(scores))
    return int((max if robust_end == "high" else min)(ties, key=lambda index: grid[index]))
