"""Off-policy scores of a policy on held-out logs, and choosing by them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .log import BanditLog
from .policies import ExponentialPolicy

SCORES = ("ips", "clipped_ips", "snips", "clipped_snips")


def log_weights(policy: ExponentialPolicy, log: BanditLog) -> np.ndarray:
    """Return log(π(y_i|x_i)/p_i), shape (n,)."""
    return policy.log_prob(log.X, log.Y, log.context) - log.log_propensity


def off_policy_scores(weight, cost, clip: float, count=None) -> dict[str, float]:
    """Estimate the mean cost of a policy from importance weights, in the four ways of ``SCORES``.

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
    dict : name → estimate, NaN where its denominator is 0.
    """
    weight, cost = np.asarray(weight, dtype=float), np.asarray(cost, dtype=float)
    count = np.ones(len(cost)) if count is None else np.asarray(count, dtype=float)
    clipped = np.minimum(weight, clip)
    n = count.sum()

    def ratio(w, denominator):
        return float((count * w) @ cost / denominator) if denominator > 0 else float("nan")

    return {
        "ips": ratio(weight, n),
        "clipped_ips": ratio(clipped, n),
        "snips": ratio(weight, count @ weight),
        "clipped_snips": ratio(clipped, count @ clipped),
    }


def choose(scores: Sequence[float], grid: Sequence[float], robust_end: str = "high") -> int | None:
    """Return the index of the smallest score; of equal ones that of the most robust grid value; None if all are NaN."""
    scores = np.asarray(scores, dtype=float)
    if np.isnan(scores).all():
        return None
    ties = np.flatnonzero(scores == np.nanmin(scores))
    return int((max if robust_end == "high" else min)(ties, key=lambda index: grid[index]))
