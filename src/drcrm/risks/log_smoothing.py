"""Logarithmic smoothing of costs."""

from typing import Any

import numpy as np

from drcrm.arrays.validation import check_positive
from drcrm.errors import InputError
from drcrm.risks.base import Evaluation, Risk


class LogSmoothingRisk(Risk):
    """Logarithmic smoothing: −(1/λ) mean log(1 − λz), for z below 1/λ.

    The authors' code also starts the optimisation at the logging policy and adds a KL penalty towards it. This class
    implements only the risk. Source: Sakhi, Aouali, Alquier & Chopin 2024.

    Parameters
    ----------
    smoothing : float > 0
        Strength λ, in the inverse unit of z; λ → 0 gives the mean.

    Raises
    ------
    InputError
        When evaluated at a cost of 1/λ or more.
    """

    estimates = "ips", "dm"  # "snips" and "dr" have z above 1/λ

    def __init__(self, smoothing: float):
        self.smoothing = check_positive(smoothing, "smoothing")

    def evaluate(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> Evaluation:
        return share @ self.smooth(z), share / (1 - self.smoothing * z), None

    def smooth(self, z: np.ndarray) -> np.ndarray:
        """Return −log(1 − λz)/λ of each cost, (n,).

        Parameters
        ----------
        z : array (n,)
            Costs, with their importance weights.

        Raises
        ------
        InputError
            If a cost is 1/λ or more.
        """
        smoothed = self.smoothing * z
        if smoothed.max() >= 1:
            raise InputError(
                f"logarithmic smoothing with λ = {self.smoothing:.6g} needs every importance-weighted cost below 1/λ = "
                f"{1 / self.smoothing:.6g}, got {z.max():.6g}. Shift the costs to at most 0 or choose a smaller λ."
            )
        return np.log1p(-smoothed) / -self.smoothing
