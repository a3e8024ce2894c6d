"""The log-sum-exp of costs."""

from typing import Any

import numpy as np

from drcrm.arrays.validation import check_positive
from drcrm.risks.base import Evaluation, Risk
from drcrm.risks.moments import LARGEST_EXPONENT, exponential_weights

SMALL_RANGE = 1e-4  # range of z/γ below which log mean e^{z/γ} loses digits


class LogSumExpRisk(Risk):
    """Log-sum-exp: γ log mean e^{z/γ}.

    It is the dual of the KL ball at a fixed multiplier γ, without the constant γε: see :class:`KLBall`. Source:
    Behnamnia et al. 2025.

    Parameters
    ----------
    temperature : float > 0
        Multiplier γ, in the unit of z. γ → ∞ gives the mean, γ → 0 the largest z.
    """

    robust_end = "low"

    def __init__(self, temperature: float):
        self.temperature = check_positive(temperature, "temperature")

    def evaluate(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> Evaluation:
        largest = z.max()
        below = z - largest
        if -below.min() < SMALL_RANGE * self.temperature:
            # Here e^{z/γ} is close to 1. Use the mean of e^{(z−z̄)/γ} − 1, which has no first-order term.
            mean = share @ below
            excess = np.expm1((below - mean) / self.temperature)
            log_mass = np.log1p(share @ excess)
            return largest + mean + self.temperature * log_mass, share * (1 + excess) / np.exp(log_mass), None
        np.maximum(below, -LARGEST_EXPONENT * self.temperature, out=below)
        tilted, log_mass = exponential_weights(below, share, 1 / self.temperature)
        return largest + self.temperature * log_mass, tilted, None
