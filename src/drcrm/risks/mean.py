"""The mean cost, the objective of CIPS."""

from typing import Any

import numpy as np

from drcrm.risks.base import ChunkedCosts, Evaluation, Risk


def mean_cost(z: np.ndarray, share: np.ndarray) -> Any:
    """Return Σ share z."""
    return share @ z


def mean_gradient(z: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return the gradient of the mean in z, which is ``share``."""
    return share


class MeanRisk(Risk):
    """Mean (1/n) Σ w z, in which each z occurs w times, the objective of CIPS.

    Source: Faury et al. 2020, eq. 3.
    """

    monotone = True

    def evaluate(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> Evaluation:
        return mean_cost(z, share), share, None

    def evaluate_sums(self, costs: ChunkedCosts, n: float, guess: Any = None) -> tuple | None:
        return float(costs.sum(mean_cost)), mean_gradient, None
