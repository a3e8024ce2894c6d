"""Risks with a closed form: the mean, the variance penalty, Boltzmann means, log-sum-exp and logarithmic smoothing.

Variances and exponential weights are computed from z − max z, to avoid cancellation.
"""

from typing import Any

import numpy as np

from drcrm.arrays.numerics import exp
from drcrm.arrays.validation import check_nonnegative, check_positive
from drcrm.errors import InputError
from drcrm.risks.base import ChunkedCosts, Evaluation, Risk

RARE = 1e-70  # if the total mass is smaller, terms that underflow to 0 may matter
LARGEST_EXPONENT = 1e150  # squares of larger β |z| may overflow
LARGE_EXPONENT = 1e3  # if β |max z| is larger, z minus its tilted mean loses digits
OUTLIER_RATIO = 1e6  # if (max z − mean)/(max z − value) is larger, mean + centred value loses precision
SMALL_RANGE = 1e-4  # range of z/γ below which log mean e^{z/γ} loses digits


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


def magnitude(z: np.ndarray) -> float:
    """Return a power of 2 that is about the largest |z|; dividing by it changes no digits."""
    return 2.0 ** (np.frexp(np.abs(z).max())[1] - 1)


def centred_moments(z: np.ndarray, share: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, float]:
    """Return the mean z̄, z − z̄, share · (z − z̄) and the variance Σ share (z − z̄)².

    The variance of equal costs is exactly 0.
    """
    largest = z.max()
    below = z - largest
    mean = share @ below
    centred = below - mean
    weighted = share * centred
    return largest + mean, centred, weighted, weighted @ centred


def exponential_weights(z: np.ndarray, share: np.ndarray, beta: float) -> tuple[np.ndarray, float]:
    """Return Q = share · e^{βz} / Σ share e^{βz} and log Σ share e^{βz}, for z ≤ 0 with maximum 0."""
    tilted = beta * z
    exp(tilted, out=tilted)
    tilted *= share
    mass = tilted.sum()
    if mass < RARE:
        tilted = beta * z + np.log(share)
        largest = tilted.max()
        mass = exp(tilted - largest, out=tilted).sum()
        tilted /= mass
        return tilted, largest + np.log(mass)
    tilted /= mass
    return tilted, np.log(mass)


def boltzmann_mean(z: np.ndarray, share: np.ndarray, beta: float) -> tuple[float, np.ndarray, float]:
    """Return m, the mean of z under s ∝ share · e^{βz}; its gradient in z at fixed β; and β² Var_s(z).

    The gradient is s (1 + β (z − m)).
    """
    largest = z.max()
    below, origin = z - largest, 0.0
    if abs(largest) * beta > LARGE_EXPONENT or below.min() * beta < -LARGEST_EXPONENT:
        z = below = np.maximum(below, -LARGEST_EXPONENT / beta)  # from here on relative to the largest z
        origin = largest
    tilted, _ = exponential_weights(below, share, beta)
    mean = tilted @ z
    scaled = z - mean
    scaled *= beta
    weighted = tilted * scaled
    variance = weighted @ scaled
    tilted += weighted
    return origin + mean, tilted, variance


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
