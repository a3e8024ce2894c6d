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
        value, inside = self.evaluate(z[support], weights[support])
        gradient = np.zeros(len(z))
        gradient[support] = inside
        return float(value), gradient

    @abstractmethod
    def evaluate(self, z: np.ndarray, w: np.ndarray) -> Evaluation:
        """The formula itself, unchecked: z finite, w positive, of one length, at least one."""


class MeanRisk(Risk):
    """CIPS: (1/n) Σ w z. Source: eq. 3 of the paper."""

    def evaluate(self, z, w):
        share = w / w.sum()
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

    def evaluate(self, z, w):
        n = w.sum()
        share = w / n
        mean, centred = _centre(z, share)
        squares = w @ centred**2
        if squares == 0 or n <= 1:
            return mean, share
        deviation = np.sqrt(squares / (n - 1) / n)
        return mean + self.penalty * deviation, share + self.penalty * deviation / squares * w * centred


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

    def evaluate(self, z, w):
        value, share = _tilt(z, w, 1 / self.temperature)
        return value, share * (1 + (z - value) / self.temperature)


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

    def evaluate(self, z, w):
        n = w.sum()
        mean, centred = _centre(z, w / n)
        squares = w @ centred**2
        if squares == 0 or self.radius == 0:
            return mean, w / n
        gamma = np.sqrt((squares if self.variance == "sum" else squares / n) / (2 * self.radius))
        value, share = _tilt(z, w, 1 / gamma)
        scaled = (z - value) / gamma
        return value, share * (1 + scaled) - (share @ scaled**2) * gamma / squares * w * centred


class KLBall(Risk):
    """Exact KL ball: inf_{γ>0} γε + γ log mean e^{z/γ} = max {E_Q z : KL(Q‖P_n) ≤ ε}. Source: Lemma 4 of the paper.

    The gradient is the worst-case Q, the Boltzmann weights at the temperature where KL(Q‖P_n) = ε; for
    ε ≥ log(n/#argmax) Q is uniform on the largest z.

    Parameters
    ----------
    radius : float ≥ 0
        ε, in nats.
    """

    def __init__(self, radius: float):
        self.radius = _at_least_zero(radius, "radius")

    def evaluate(self, z, w):
        n = w.sum()
        if self.radius >= np.log(n / w[z == z.max()].sum()):
            return _worst_case(z, w)
        share = w / n
        mean, centred = _centre(z, share)
        variance = share @ centred**2
        if variance == 0 or self.radius == 0:
            return mean, share
        worst = self._worst_case(centred, share, variance)
        return mean + worst @ centred, worst

    def _worst_case(self, z: np.ndarray, share: np.ndarray, variance: float) -> np.ndarray:
        """Return Q_β with KL(Q_β‖P_n) = ε, β = 1/γ, for centred z: Newton in log β, kept inside a bracket.

        KL(Q_β‖P_n) = β Φ'(β) − Φ(β), Φ(β) = log Σ share e^{βz}, starts like β² V/2, so that its logarithm is nearly
        linear in log β where ε is small.
        """
        below = z - z.max()
        spread = -below.min()
        low, high = -np.inf, np.inf
        t = 0.5 * (np.log(2 * self.radius) - np.log(variance))
        tolerance = 1e-12 + 1e-15 / np.sqrt(self.radius)
        while True:
            beta = np.exp(t)
            if beta * spread < 1:
                # Φ is small: its terms are taken as differences from 1, of which centred z has none to first order.
                shifted = z
                tilted = np.expm1(beta * z)
                excess = share @ tilted
                tilted = share * (tilted + 1) / (1 + excess)
                log_mass = np.log1p(excess)
            else:
                shifted = below
                tilted = share * np.exp(beta * below)
                mass = tilted.sum()
                tilted /= mass
                log_mass = np.log(mass)
            mean = tilted @ shifted
            divergence = beta * mean - log_mass
            slope = tilted @ (beta * (shifted - mean)) ** 2
            if divergence > self.radius:
                high = t
            elif slope > 0:
                low = t
            else:
                return tilted  # all weight is on the largest z: only rounding can have let the radius reach it
            step = np.log(self.radius / divergence) * divergence / slope if divergence > 0 and slope > 0 else np.inf
            # Costs in clusters make KL a staircase in log β; a Newton step from a tread may go anywhere.
            following = t + np.clip(step, -4, 4)
            if not low < following < high:
                following = _between(low, high)
            if abs(step) <= tolerance or following in (low, high):
                return tilted
            t = following


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

    def evaluate(self, z, w):
        n = w.sum()
        if self.radius >= n / w[z == z.max()].sum() - 1:
            return _worst_case(z, w)
        if self.radius == 0:
            return w @ z / n, w / n
        # The threshold for a superset of the support never exceeds the true one, so shrinking the support to what
        # lies above it ends, in a few rounds, at the support itself.
        largest = z.max()
        below = z - largest
        active = np.ones(len(z), dtype=bool)
        while True:
            inside, weight = below[active], w[active]
            mass = weight.sum()
            mean = weight @ inside / mass
            spread = np.sqrt(weight @ (inside - mean) ** 2 / mass)
            reach = np.sqrt(max(self.radius + (mass - n) / n * (1 + self.radius), 0))
            if spread == 0 or reach == 0:
                return largest + mean, np.where(active, w, 0) / mass
            above = active & (below > mean - spread / reach)
            if np.array_equal(above, active):
                worst = np.where(active, w * (1 + (below - mean) / spread * reach), 0) / mass
                return largest + mean + spread * reach, worst
            active = above


def _centre(z: np.ndarray, share: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the mean of z and z − mean, which is exactly 0 where z is constant."""
    largest = z.max()
    below = z - largest
    shift = share @ below
    return largest + shift, below - shift


def _tilt(z: np.ndarray, w: np.ndarray, beta: float) -> Evaluation:
    """Return Σ s z and the Boltzmann weights s ∝ w e^{βz}."""
    share = w * np.exp(beta * (z - z.max()))
    share /= share.sum()
    return share @ z, share


def _worst_case(z: np.ndarray, w: np.ndarray) -> Evaluation:
    """Return the largest z and the weights uniform on where it is reached."""
    largest = z.max()
    share = np.where(z == largest, w, 0)
    return largest, share / share.sum()


def _between(low: float, high: float) -> float:
    """A point inside a bracket of which one end may be infinite."""
    if np.isinf(low):
        return high - 1
    if np.isinf(high):
        return low + 1
    return (low + high) / 2


def _at_least_zero(value: float, name: str) -> float:
    if not (isinstance(value, Real) and 0 <= value < np.inf):
        raise InputError(f"{name} is {value!r}, expected a finite number ≥ 0")
    return value


def _above_zero(value: float, name: str) -> float:
    if not (isinstance(value, Real) and 0 < value < np.inf):
        raise InputError(f"{name} is {value!r}, expected a finite number > 0")
    return value
