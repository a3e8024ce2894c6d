"""Importance weights as functions of log π and log p, their clipping constant, and the effective sample size.

A weight maps log π and log p of each logged action to a value w and its derivative in log π. Here π is the probability
under the policy and p the logging propensity. ``Clipped`` is the weight of the paper; the others reduce large weights
smoothly. The published algorithms with these weights also start at the logging policy and add a KL penalty towards this
policy (Sakhi et al. 2024). This module has only the weights.
"""

from abc import ABC, abstractmethod
from typing import Any, Literal, Self

import numpy as np

from drcrm.arrays.formats import constructor_parameters, constructor_repr
from drcrm.arrays.numerics import derivative_fault, exp
from drcrm.arrays.validation import check_choice, check_positive, to_float
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError

ValueAndSlope = tuple[np.ndarray, np.ndarray]


class Weight(ABC):
    """Base class of importance weights: functions of log π and log p.

    A constructor stores its arguments under their names. A configuration gives the first one a grid.

    Attributes
    ----------
    robust_end : "high" or "low"
        Which end of a grid of the hyper-parameter is more robust.
    """

    robust_end: Literal["low", "high"] = "high"
    __repr__ = constructor_repr

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name, for grid searches of scikit-learn (``weight__exploration``)."""
        return {name: getattr(self, name) for name in constructor_parameters(type(self))}

    def set_params(self, **parameters: Any) -> Self:
        """Set constructor arguments by name, and return the weight; InputError for an unknown name."""
        for name in parameters:
            check_choice(constructor_parameters(type(self)), name, "parameter of the weight")
        self.__init__(**{**self.get_params(), **parameters})  # type: ignore[misc]
        return self

    @abstractmethod
    def __call__(self, log_prob: np.ndarray, log_propensity: np.ndarray) -> ValueAndSlope:
        """Return w and ∂w/∂log π, both (n,), from log π(y|x) and log p, both (n,)."""


class Clipped(Weight):
    """Clipped importance weight min(M, π/p), with slope 0 if it is clipped.

    Source: Faury et al. 2020, eq. 3.

    Parameters
    ----------
    clip : float ≥ 1 or None
        Limit M; None does not clip.
    """

    robust_end = "low"

    def __init__(self, clip: float | None = None):
        if clip is not None and not to_float(clip) >= 1:
            raise InputError(f"clip is {clip!r}, expected a number ≥ 1, or None")
        self.clip = clip
        self._log_clip = np.inf if clip is None else np.log(clip)

    def __call__(self, log_prob: np.ndarray, log_propensity: np.ndarray) -> ValueAndSlope:
        log_weight = log_prob - log_propensity
        clipped = np.flatnonzero(log_weight > self._log_clip)
        log_weight[clipped] = self._log_clip
        value = exp(log_weight, out=log_weight)
        slope = value.copy()
        slope[clipped] = 0
        return value, slope


class Switched(Clipped):
    """Importance weight π/p if it is at most M, otherwise 0. So a doubly robust estimate uses only the cost model.

    Source: Wang, Agarwal & Dudík 2017.

    Parameters
    ----------
    clip : float ≥ 1 or None
        Limit M.
    """

    def __call__(self, log_prob: np.ndarray, log_propensity: np.ndarray) -> ValueAndSlope:
        _, slope = super().__call__(log_prob, log_propensity)  # 0 above M, otherwise the weight
        return slope, slope


class Implicit(Weight):
    """Importance weight with implicit exploration, π/(p + λ), which is below 1/λ.

    Source: Neu 2015; Gabbianelli, Neu & Papini 2023.

    Parameters
    ----------
    exploration : float > 0
        Constant λ, which is added to the propensity p.
    """

    def __init__(self, exploration: float):
        self.exploration = check_positive(exploration, "exploration")

    def __call__(self, log_prob: np.ndarray, log_propensity: np.ndarray) -> ValueAndSlope:
        value = log_prob - np.logaddexp(log_propensity, np.log(self.exploration))
        exp(value, out=value)
        return value, value


class Smoothed(Weight):
    """Importance weight with exponential smoothing, π/p^α.

    Source: Aouali, Brunel, Rohde & Korba 2023.

    Parameters
    ----------
    exponent : float in (0, 1]
        Exponent α of the propensity p; 1 gives π/p.
    """

    robust_end = "low"

    def __init__(self, exponent: float):
        self.exponent = check_positive(exponent, "exponent")
        if exponent > 1:
            raise InputError(f"exponent is {exponent!r}, expected at most 1")

    def __call__(self, log_prob: np.ndarray, log_propensity: np.ndarray) -> ValueAndSlope:
        value = log_prob - self.exponent * log_propensity
        exp(value, out=value)
        return value, value


class Shrunk(Weight):
    """Importance weight with optimistic shrinkage, τw/(w² + τ) with w = π/p.

    Its slope in log π is τw(τ − w²)/(w² + τ)². Source: Su et al. 2020.

    Parameters
    ----------
    shrinkage : float > 0
        Constant τ; τ → ∞ gives π/p.
    """

    robust_end = "low"

    def __init__(self, shrinkage: float):
        self.shrinkage = check_positive(shrinkage, "shrinkage")

    def __call__(self, log_prob: np.ndarray, log_propensity: np.ndarray) -> ValueAndSlope:
        weight = log_prob - log_propensity
        # The form w / (w²/τ + 1) does not overflow for large w.
        exp(np.minimum(weight, 300, out=weight), out=weight)
        ratio = weight * (weight / self.shrinkage)
        value = weight / (ratio + 1)
        return value, value * (1 - ratio) / (1 + ratio)


class Subgaussian(Weight):
    """Importance weight w/(1 − λ + λw) with w = π/p, the weighted harmonic mean of w and 1/λ, which is its limit.

    Its slope in log π is (1 − λ) w/(1 − λ + λw)². Source: Metelli, Russo & Restelli 2021.

    Parameters
    ----------
    correction : float in (0, 1]
        Constant λ; λ → 0 gives π/p.
    """

    def __init__(self, correction: float):
        self.correction = check_positive(correction, "correction")
        if correction > 1:
            raise InputError(f"correction is {correction!r}, expected at most 1")

    def __call__(self, log_prob: np.ndarray, log_propensity: np.ndarray) -> ValueAndSlope:
        inverse = log_propensity - log_prob
        exp(np.minimum(inverse, 700, out=inverse), out=inverse)  # p/π, which does not overflow
        rest = (1 - self.correction) * inverse
        value = 1 / (rest + self.correction)
        return value, value * (rest * value)


class Likelihood(Weight):
    """The value log π in place of a weight: the mean of c log π is a weighted log-likelihood."""

    def __call__(self, log_prob: np.ndarray, log_propensity: np.ndarray) -> ValueAndSlope:
        return log_prob, np.ones(len(log_prob))


CLIPPED = "clipped"  # name of Clipped in configurations; its M is then computed from the log
WEIGHTS: dict[str, type[Implicit] | type[Smoothed] | type[Shrunk]] = {
    "implicit": Implicit,
    "smoothed": Smoothed,
    "shrunk": Shrunk,
}


def as_weight(weight: object, name: str = "weight") -> Weight | None:
    """Return a weight, or None for "clipped", whose M the caller computes from the log; InputError for others."""
    if isinstance(weight, Weight):
        return weight
    if not (isinstance(weight, str) and weight == CLIPPED):
        raise InputError(f"{name} is {weight!r}, expected 'clipped' or a weight such as Implicit(0.1)")
    return None


def check_weight(weight: Weight) -> None:
    """Raise InputError unless a weight returns two finite arrays (n,), and its slope is the derivative in log π.

    The check compares the slope with finite differences at 200 pairs of log π and log p. A weight may have kinks, so
    two differences of a hundred may disagree.
    """
    log_prob, log_propensity = (
        grid.ravel() for grid in np.meshgrid(np.linspace(-5, -0.01, 20), np.linspace(-3, -0.1, 10))
    )
    value, slope = (np.asarray(part, dtype=float) for part in weight(log_prob.copy(), log_propensity.copy()))
    if not (value.shape == slope.shape == log_prob.shape and np.isfinite([value, slope]).all()):
        raise InputError(f"{weight!r} must return a finite value and a finite slope for each row")
    if fault := derivative_fault(lambda x: weight(x, log_propensity.copy())[0], log_prob, slope, 1e-5, 1e-4, 0.02):
        raise InputError(f"{weight!r}: the slope must be the derivative of the weight in log π. {fault}")


def effective_sample_size(weight: np.ndarray, count: np.ndarray) -> float:
    """Return the effective number of rows, (Σ w)² / Σ w².

    Weights are divided by the largest weight, so squares do not overflow. Source: Kish 1965.

    Parameters
    ----------
    weight : array (n,)
        Weights w of the rows.
    count : array (n,)
        How often each row occurs.

    Returns
    -------
    float
        Effective sample size. If some weights are infinite, it is the number of rows with an infinite weight.
    """
    largest = weight.max()
    if not 0 < largest < np.inf:
        return float(count @ (weight == np.inf))
    scaled = weight / largest
    return float((count @ scaled) ** 2 / (count @ scaled**2))


def clipping_constant(log: BanditLog) -> float:
    """Return M, the 90th over the 10th percentile of the logged propensities, at least e.

    Both percentiles are rounded to logged values, the 90th down and the 10th up, like in the public code of POEM. If
    the ratio is beyond the range of floats, M is infinite and no weight is clipped.
    """
    order = np.argsort(log.log_propensity)
    last = np.cumsum(log.count[order])
    steps = log.size - 1
    low, high = log.log_propensity[order[np.searchsorted(last, [-(-steps // 10), 9 * steps // 10], side="right")]]
    with np.errstate(over="ignore"):
        return float(np.exp(max(high - low, 1)))


def as_clip(clip: Any, log: BanditLog) -> float | None:
    """Return M: the clipping constant of the log if ``clip`` is "auto", else ``clip``, a number ≥ 1 or None."""
    if clip is None:
        return None
    if isinstance(clip, str) and clip == "auto":
        return clipping_constant(log)
    if to_float(clip) >= 1:
        return float(clip)
    raise InputError(f"clip is {clip!r}, expected 'auto', a number ≥ 1, or None")
