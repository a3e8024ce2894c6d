"""Boltzmann means: exponentially weighted mean costs, the objectives of KL-CRM and aKL-CRM."""

from typing import Any

import numpy as np

from drcrm.arrays.validation import check_nonnegative, check_positive
from drcrm.errors import InputError
from drcrm.risks.base import Evaluation, Risk
from drcrm.risks.moments import boltzmann_mean, centred_moments, magnitude

OUTLIER_RATIO = 1e6  # if (max z − mean)/(max z − value) is larger, mean + centred value loses precision


class BoltzmannRisk(Risk):
    """Boltzmann mean: Σ s z with weights s ∝ w e^{z/γ} that favour large z, the objective of KL-CRM.

    Each z occurs w times, and Σ s = 1. The gradient is s_i (1 + (z_i − value)/γ). Source: Faury et al. 2020, eq. 13.

    Parameters
    ----------
    temperature : float > 0
        Temperature γ, in the unit of z. γ → ∞ gives the mean, γ → 0 the largest z.
    """

    robust_end = "low"

    def __init__(self, temperature: float):
        self.temperature = check_positive(temperature, "temperature")

    def evaluate(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> Evaluation:
        value, gradient, _ = boltzmann_mean(z, share, 1 / self.temperature)
        return value, gradient, None


class AdaptiveBoltzmannRisk(Risk):
    """Boltzmann mean at the temperature γ = √(V/(2ε)), the objective of aKL-CRM.

    :class:`BoltzmannRisk` defines the weights s. V is the variance of z, so γ depends on z, and the gradient is

        s_i (1 + (z_i − value)/γ) − (Var_s(z)/γ²) ∂γ/∂z_i,   ∂γ/∂z_i = γ w_i (z_i − z̄) / Σ w (z − z̄)².

    Here z̄ is the mean of z, and Var_s the variance under the weights s. Source: Faury et al. 2020, Lemma 5 and
    Algorithm 1.

    Parameters
    ----------
    radius : float ≥ 0
        Radius ε; 0 gives the mean.
    variance : "mean" or "sum"
        With "mean", V = (1/n) Σ w (z − z̄)², as in Lemma 5. "sum" omits 1/n, as the printed Algorithm 1 does.
    """

    def __init__(self, radius: float, variance: str = "mean"):
        if not (isinstance(variance, str) and variance in ("mean", "sum")):
            raise InputError(f"variance must be 'mean' or 'sum', got {variance!r}")
        self.radius = check_nonnegative(radius, "radius")
        self.variance = variance

    def evaluate(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> Evaluation:
        unit = magnitude(z)  # squares of larger numbers overflow
        z = z / unit
        mean, centred, weighted, variance = centred_moments(z, share)
        if variance == 0 or self.radius == 0:
            return unit * mean, share, None
        gamma = np.sqrt((n * variance if self.variance == "sum" else variance) / (2 * self.radius))
        centred_value, gradient, scaled_variance = boltzmann_mean(centred, share, 1 / gamma)
        weighted *= scaled_variance * gamma / variance
        gradient -= weighted
        largest = z.max()
        if largest - mean > OUTLIER_RATIO * (largest - mean - centred_value):
            # An outlier moves the mean so far that z − z̄ has lost the digits of the other costs.
            return unit * (largest + boltzmann_mean(z - largest, share, 1 / gamma)[0]), gradient, None
        return unit * (mean + centred_value), gradient, None
