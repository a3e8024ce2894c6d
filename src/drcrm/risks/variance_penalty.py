"""The mean plus a multiple of its standard error, the objective of POEM."""

from typing import Any

import numpy as np

from drcrm.arrays.validation import check_nonnegative
from drcrm.risks.base import Evaluation, Risk
from drcrm.risks.moments import centred_moments, magnitude


class VariancePenalizedRisk(Risk):
    """Mean plus λ standard errors, z̄ + λ √(V/n), the objective of POEM.

    Each z occurs w times, n = Σ w, and V = Σ w (z − z̄)² / (n − 1) is the sample variance. Source: Swaminathan &
    Joachims 2015; Faury et al. 2020, eq. 6.

    Parameters
    ----------
    variance_penalty : float ≥ 0
        Number λ of standard errors.
    """

    def __init__(self, variance_penalty: float):
        self.variance_penalty = check_nonnegative(variance_penalty, "variance_penalty")

    def evaluate(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> Evaluation:
        unit = magnitude(z)  # squares of larger numbers overflow
        mean, _, gradient, variance = centred_moments(z / unit, share)
        if variance == 0 or n <= 1:
            return unit * mean, share, None
        standard_error = np.sqrt(variance / (n - 1))
        gradient *= self.variance_penalty * standard_error / variance
        gradient += share
        return unit * (mean + self.variance_penalty * standard_error), gradient, None
