"""The exact KL ball, the objective of KL-DRO."""

from typing import Any

import numpy as np

from drcrm.risks.balls.base import SearchedBall
from drcrm.risks.balls.kl_search import tilt_chunks_to_radius, tilt_to_radius
from drcrm.risks.base import LARGEST_SAFE, SMALLEST_SAFE, ChunkedCosts, Evaluation
from drcrm.risks.mean import mean_cost, mean_gradient


class KLBall(SearchedBall):
    """max {E_Q z : KL(Q‖P_n) ≤ ε} = inf_{γ>0} γε + γ log mean e^{z/γ}. Source: Lemma 4 of the paper.

    The gradient is the worst-case Q. Its entries are Boltzmann weights at the temperature γ at which KL(Q‖P_n) = ε.
    If ε ≥ log(n/#argmax), Q is uniform on the largest z. The radius is in nats, and φ''(1) = 1.

    See `Ball` for the parameters.
    """

    curvature = 1.0

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
