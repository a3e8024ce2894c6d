"""What the benchmarks compare with: every replayed row written out, as in the public POEM code, in double precision."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.special import expit

from drcrm.data.bandit_log import BanditLog


class NaiveObjective:
    """Θ ↦ the mean of c min(M, π_Θ(y|x)/p) and its gradient, over a sparse matrix with a row for each logged row."""

    def __init__(self, log: BanditLog, clip: float):
        rows = np.repeat(np.arange(len(log.Y)), log.count)
        self.X = sparse.csr_array(log.X)[log.context[rows]]
        self.Y = log.Y[rows].astype(float)
        self.propensity = log.propensity[rows]
        self.cost = log.cost[rows]
        self.clip = clip

    def __call__(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        scores = self.X @ coef.reshape(self.X.shape[1], -1)
        log_prob = (self.Y * scores - np.logaddexp(0, scores)).sum(axis=1)
        weight = np.exp(log_prob) / self.propensity
        z = self.cost * np.minimum(weight, self.clip)
        slope = np.where(weight <= self.clip, z, 0) / len(z)
        return z.mean(), (self.X.T @ (slope[:, None] * (self.Y - expit(scores)))).ravel()
