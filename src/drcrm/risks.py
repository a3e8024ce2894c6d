"""Risk functionals: a vector z of counterfactual costs → a value and its gradient in z.

Every risk is called as ``risk(z, weights)``, where ``weights`` says how often each z occurs, and returns
``(value, gradient)``. With weights w, n = Σ w, a mean is (1/n) Σ w z, and the gradient is the derivative in the shared
z_i, so it contains w_i. Two variances appear and are never mixed: V = (1/n) Σ w (z − z̄)², and V with n − 1 in POEM's
penalty. At V = 0 every gradient is w/n.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Real

import numpy as np

from .errors import InputError
from .tilt import exponential_weights, tilt_to
from .validation import check_vector, reject

Evaluation = tuple[float, np.ndarray]


class Risk(ABC):
    """What all risks share: ``risk(z, weights=None) → (value, gradient)``.

    Parameters of the call
    ----------------------
    z : array (n,)
        Counterfactual costs.
    weights : array (n,), optional
        How often each z occurs, 0 or more; 1 by default.

    Raises
    ------
    InputError
        z or weights not finite vectors of one length, a negative weight, or no positive weight.

    ``most_robust`` picks the most robust of several values of the hyper-parameter, the constructor's first argument.
    """

    most_robust = max

    def __call__(self, z, weights=None) -> Evaluation:
        z = check_vector(z, np.size(z), "z")
        if weights is None:
            weights = np.ones(len(z))
        weights = check_vector(weights, len(z), "weights")
        reject(weights < 0, weights, "weights", "0 or more")
        support = weights > 0
        if not support.any():
            raise InputError(f"the risk of {len(z)} costs, none of which occurs, is undefined")
        n = weights.sum()
        value, inside = self.evaluate(z[support], weights[support] / n, n)
        gradient = np.zeros(len(z))
        gradient[support] = inside
        return float(value), gradient

    @abstractmethod
    def evaluate(self, z: np.ndarray, share: np.ndarray, n: float) -> Evaluation:
        """The formula itself, unchecked, with share = w/n: z finite, share positive, of one length, at least one."""


class MeanRisk(Risk):
    """CIPS: (1/n) Σ w z. Source: eq. 3 of the paper."""

    def evaluate(self, z, share, n):
        return share @ z, share


class VariancePenalizedRisk(Risk):
    """POEM: mean + λ √(V_n/n), V_n = Σ w (z − z̄)² / (n − 1). Source: eq. 6 of the paper (Swaminathan & Joachims).

    Parameters
    ----------
    penalty : float ≥ 0
        λ.
    """

    def __init__(self, penalty: float):
        self.penalty = _at_least_zero(penalty, "penalty")

    def evaluate(self, z, share, n):
        mean, _, pull, variance = _moments(z, share)
        if variance == 0 or n <= 1:
            return mean, share
        deviation = np.sqrt(variance / (n - 1))
        pull *= self.penalty * deviation / variance
        pull += share
        return mean + self.penalty * deviation, pull


class BoltzmannRisk(Risk):
    """KL-CRM: Σ s z, s = w e^{z/γ} / Σ w e^{z/γ}; ∂/∂z_i = s_i (1 + (z_i − value)/γ). Source: eq. 13 of the paper.

    Parameters
    ----------
    temperature : float > 0
        γ, in the units of z; γ → ∞ gives the mean, γ → 0 the largest z.
    """

    most_robust = min

    def __init__(self, temperature: float):
        self.temperature = _above_zero(temperature, "temperature")

    def evaluate(self, z, share, n):
        return _tilt(z, share, 1 / self.temperature)[:2]


class AdaptiveBoltzmannRisk(Risk):
    """aKL-CRM: the Boltzmann risk at the temperature γ(z) = √(V/(2ε)). Source: Lemma 5 and Algorithm 1 of the paper.

    The gradient is the total derivative, through γ(z) too:
    s_i (1 + (z_i − value)/γ) − (Var_s(z)/γ²) ∂γ/∂z_i,  ∂γ/∂z_i = γ w_i (z_i − z̄) / Σ w (z − z̄)².

    Parameters
    ----------
    radius : float ≥ 0
        ε; 0 gives the mean.
    variance : "mean" or "sum"
        V = (1/n) Σ w (z − z̄)² (Lemma 5), or without the 1/n (the printed Algorithm 1).
    """

    def __init__(self, radius: float, variance: str = "mean"):
        if variance not in ("mean", "sum"):
            raise InputError(f"variance is {variance!r}, expected 'mean' or 'sum'")
        self.radius = _at_least_zero(radius, "radius")
        self.variance = variance

    def evaluate(self, z, share, n):
        mean, centred, pull, variance = _moments(z, share)
        if variance == 0 or self.radius == 0:
            return mean, share
        gamma = np.sqrt((n * variance if self.variance == "sum" else variance) / (2 * self.radius))
        value, gradient, spread = _tilt(centred, share, 1 / gamma)
        pull *= spread * gamma / variance
        gradient -= pull
        return mean + value, gradient


class KLBall(Risk):
    """Exact KL ball: inf_{γ>0} γε + γ log mean e^{z/γ} = max {E_Q z : KL(Q‖P_n) ≤ ε}. Source: Lemma 4 of the paper.

    The gradient is the worst-case Q, the Boltzmann weights at the temperature where KL(Q‖P_n) = ε; for
    ε ≥ log(n/#argmax) Q is uniform on the largest z.

    Parameters
    ----------
    radius : float ≥ 0
        ε, in nats.

    The search for the temperature starts where the last call's ended, so that calls on slowly changing z are cheap;
    where it starts moves KL(Q‖P_n) by a relative 1e-11 at most.
    """

    def __init__(self, radius: float):
        self.radius = _at_least_zero(radius, "radius")
        self._start = None

    def evaluate(self, z, share, n):
        largest = z.max()
        below = z - largest
        at_most = below == 0
        if self.radius >= -np.log(share[at_most].sum()):
            return _largest(z, share, at_most)
        if self.radius == 0:
            return share @ z, share
        reach = -below.min()
        below /= reach
        worst, self._start = tilt_to(self.radius, below, share, self._start)
        return largest + reach * (worst @ below), worst


class Chi2Ball(Risk):
    """Exact χ² ball: max {E_Q z : (1/n) Σ (n q_i − 1)² ≤ ε, q ≥ 0}. Source: Lemma 3 of the paper, without its proviso.

    Equals mean + √(ε V) while all weights stay ≥ 0. The gradient is the worst-case Q, q_i ∝ w_i (z_i − η)_+; for
    ε ≥ n/#argmax − 1 it is uniform on the largest z.

    Parameters
    ----------
    radius : float ≥ 0
        ε. No ½ in the divergence: φ(t) = (t − 1)², φ''(1) = 2.
    """

    def __init__(self, radius: float):
        self.radius = _at_least_zero(radius, "radius")

    def evaluate(self, z, share, n):
        largest = z.max()
        below = z - largest
        at_most = below == 0
        if self.radius >= 1 / share[at_most].sum() - 1:
            return _largest(z, share, at_most)
        if self.radius == 0:
            return share @ z, share
        # The threshold for a superset of the support never exceeds the true one, so shrinking the support to what
        # lies above it ends, in a few rounds, at the support itself.
        active, size = share, len(z)
        while True:
            mass = active.sum()
            mean = active @ below / mass
            centred = below - mean
            pull = active * centred
            spread = np.sqrt(pull @ centred / mass)
            reach = np.sqrt(max(self.radius + (mass - 1) * (1 + self.radius), 0))
            if spread == 0 or reach == 0:
                return largest + mean, active / mass
            above = centred > -spread / reach
            remaining = np.count_nonzero(above)
            if remaining == size:
                pull *= reach / spread
                pull += active
                pull /= mass
                return largest + mean + spread * reach, pull
            active, size = share * above, remaining


def _moments(z: np.ndarray, share: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, float]:
    """Return the mean of z, z − mean, share · (z − mean) and the variance: exactly 0 where z is constant."""
    largest = z.max()
    below = z - largest
    mean = share @ below
    centred = below - mean
    pull = share * centred
    return largest + mean, centred, pull, pull @ centred


def _tilt(z: np.ndarray, share: np.ndarray, beta: float) -> tuple[float, np.ndarray, float]:
    """Return the mean of z under s ∝ share · e^{βz}, its gradient s (1 + β (z − mean)), and β² times the variance."""
    tilted, _ = exponential_weights(z - z.max(), share, beta)
    mean = tilted @ z
    scaled = z - mean
    scaled *= beta
    pull = tilted * scaled
    spread = pull @ scaled
    tilted += pull
    return mean, tilted, spread


def _largest(z: np.ndarray, share: np.ndarray, at_most: np.ndarray) -> Evaluation:
    """Return the largest z and the weights uniform on where it is reached."""
    worst = share * at_most
    return z.max(), worst / worst.sum()


def _at_least_zero(value: float, name: str) -> float:
    if not (isinstance(value, Real) and 0 <= value < np.inf):
        raise InputError(f"{name} is {value!r}, expected a finite number ≥ 0")
    return value


def _above_zero(value: float, name: str) -> float:
    if not (isinstance(value, Real) and 0 < value < np.inf):
        raise InputError(f"{name} is {value!r}, expected a finite number > 0")
    return value
