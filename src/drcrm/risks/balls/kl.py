"""The exact KL ball, the objective of KL-DRO."""

from typing import Any

import numpy as np

from drcrm.divergences import KL
from drcrm.risks.balls.base import SearchedBall
from drcrm.risks.balls.kl_search import tilt_chunks_to_radius, tilt_to_radius
from drcrm.risks.base import LARGEST_SAFE, SMALLEST_SAFE, ChunkedCosts, Evaluation
from drcrm.risks.mean import mean_cost, mean_gradient


class KLBall(SearchedBall):
    """Worst case over the KL ball: the largest mean E_Q z over distributions Q of the rows with KL(Q‖P_n) ≤ ε.

    P_n gives each of the n rows the probability 1/n. The risk equals its dual, inf_{γ>0} γε + γ log mean e^{z/γ}. The
    gradient is the worst-case Q, which is ∝ e^{z/γ}. The temperature γ solves KL(Q‖P_n) = ε. If ε is at least log(n/k),
    for k rows with the largest z, Q is uniform on these rows. φ''(1) = 1. Source: Faury et al. 2020, Lemma 4.

    Parameters
    ----------
    radius : float ≥ 0 or "auto"
        Radius ε, in nats. "auto" is ε = q²/(2n), where q is the one-sided normal quantile of ``confidence``. The risk
        is then an upper confidence bound on the mean as n → ∞, for one policy that was learned from other rows.
    confidence : float in (½, 1)
        Confidence level of the radius "auto".

    Examples
    --------
    >>> value, gradient = KLBall(0.1)([0.0, -1.0, -2.0])  # the mean is −1
    >>> round(value, 3)
    -0.639
    """

    curvature, divergence = 1.0, KL()

    def saturation_radius(self, mass: float) -> float:
        return -np.log(mass)

    def search(self, radius: float, largest: float, below: np.ndarray, share: np.ndarray, guess: Any) -> Evaluation:
        span = -below.min()
        below /= span
        worst, next_guess = tilt_to_radius(radius, below, share, guess)
        return largest + span * (worst @ below), worst, next_guess

    def evaluate_sums(self, costs: ChunkedCosts, n: float, guess: Any = None) -> tuple | None:
        radius, (low, high) = self.radius_at(n), costs.range()
        if radius == 0 or low == high:
            return float(costs.sum(mean_cost)), mean_gradient, guess
        if not SMALLEST_SAFE <= max(high, -low) <= LARGEST_SAFE:
            return None
        return tilt_chunks_to_radius(radius, costs, high, high - low, guess)
