"""The training objective: log × policy × risk → value and gradient in Θ."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .bandit import BanditLog
from .policy import log_prob, partition
from .risks import Risk

DENSE_ACTIONS = 8  # actions per (context, label) from which gathering them beats scattering them: by measurement


class Objective:
    """Θ ↦ risk(z), z_i = c_i min(M, π_Θ(y_i|x_i)/p_i), and its gradient.

    The gradient follows by the chain rule, once for all risks: ∂z_i/∂log π_Θ(y_i|x_i) = z_i where the weight is not
    clipped and 0 where it is, ∂log π_Θ(y|x)/∂u = y − σ(u), and u = xᵀΘ. Source: eq. 3 of the paper.

    Parameters
    ----------
    log : BanditLog
    risk : Risk
    clip : float ≥ 1 or None
        M; None does not clip.
    """

    def __init__(self, log: BanditLog, risk: Risk, clip: float | None = None):
        self.log = log = log if log.count.all() else log.recount(log.count)
        self.risk = risk
        self.log_clip = np.inf if clip is None else np.log(clip)
        self.shape = (log.X.shape[1], log.Y.shape[1])
        self._weights = log.count.astype(float)
        n, m = len(log.Y), log.X.shape[0]
        to_labels = log.incidence.T
        self._to_labels = to_labels if log.incidence.nnz < DENSE_ACTIONS * to_labels.shape[0] else to_labels.tocsr()
        self._to_contexts = sparse.csr_array((np.ones(n), (log.context, np.arange(n))), shape=(m, n))
        self._buffers = np.empty((2, m, self.shape[1]))

    def __call__(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient at Θ, given flat or of shape (d, q); the gradient comes flat."""
        log = self.log
        scores = log.X @ coef.reshape(self.shape)
        log_partition, marginals = partition(scores, self._buffers)
        log_weight = log_prob(scores, log_partition, log.incidence, log.context)
        log_weight -= log.log_propensity
        unclipped = log_weight <= self.log_clip
        np.minimum(log_weight, self.log_clip, out=log_weight)
        z = np.multiply(log.cost, np.exp(log_weight, out=log_weight), out=log_weight)
        value, slope = self.risk.evaluate(z, self._weights)
        slope = slope * z
        slope *= unclipped
        score_slope = (self._to_labels @ slope).reshape(scores.shape)
        score_slope -= np.multiply(marginals, (self._to_contexts @ slope)[:, None], out=marginals)
        return value, (log.X.T @ score_slope).ravel()
