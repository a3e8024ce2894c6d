"""Importance weights: functions (log π, log p) → value and slope in log π, for each logged row.

``Clipped`` is the paper's; the others bound the weights smoothly, and are not clipped. They are the weights alone:
public code that learns with the implicit and the smoothed ones (of Sakhi et al. 2024) starts at the logging policy and
penalises the KL divergence from it.
"""

from abc import ABC, abstractmethod

import numpy as np

from drcrm.arrays.numerics import constructor_repr, exp
from drcrm.arrays.validation import above_zero, one_of
from drcrm.errors import InputError

Weighted = tuple[np.ndarray, np.ndarray]


class Weight(ABC):
    """What all weights share: ``weight(log_prob, log_propensity) → (value, slope)``, each (n,).

    ``robust_end`` says which end of a grid of its ``parameter`` is more robust.
    """

    robust_end = "high"
    parameter: str
    __repr__ = constructor_repr

    @abstractmethod
    def __call__(self, log_prob: np.ndarray, log_propensity: np.ndarray) -> Weighted:
        """Return w and ∂w/∂log π from log π(y|x) and log p, each (n,)."""


class Clipped(Weight):
    """min(M, π/p); a clipped weight has slope 0. Source: eq. 3 of the paper.

    Parameters
    ----------
    clip : float ≥ 1 or None
        M; None does not clip.
    """

    robust_end = "low"

    def __init__(self, clip: float | None = None):
        self.clip = clip
        self._log_clip = np.inf if clip is None else np.log(clip)

    def __call__(self, log_prob, log_propensity):
        log_weight = log_prob - log_propensity
        clipped = np.flatnonzero(log_weight > self._log_clip)
        log_weight[clipped] = self._log_clip
        value = exp(log_weight, out=log_weight)
        slope = value.copy()
        slope[clipped] = 0
        return value, slope


class Implicit(Weight):
    """π/(p + λ), implicit exploration. Source: Neu 2015; Gabbianelli, Neu & Papini 2023.

    Parameters
    ----------
    exploration : float > 0
        λ.
    """

    parameter = "exploration"

    def __init__(self, exploration: float):
        self.exploration = above_zero(exploration, "exploration")

    def __call__(self, log_prob, log_propensity):
        value = log_prob - np.logaddexp(log_propensity, np.log(self.exploration))
        exp(value, out=value)
        return value, value


class Smoothed(Weight):
    """π/p^α, exponential smoothing. Source: Aouali, Brunel, Rohde & Korba 2023.

    Parameters
    ----------
    exponent : float in (0, 1]
        α; 1 gives π/p.
    """

    robust_end = "low"
    parameter = "exponent"

    def __init__(self, exponent: float):
        self.exponent = above_zero(exponent, "exponent")
        if exponent > 1:
            raise InputError(f"exponent is {exponent!r}, expected at most 1")

    def __call__(self, log_prob, log_propensity):
        value = log_prob - self.exponent * log_propensity
        exp(value, out=value)
        return value, value


class Shrunk(Weight):
    """τw/(w² + τ), w = π/p, optimistic shrinkage: its slope in log π is τw(τ − w²)/(w² + τ)². Source: Su et al. 2020.

    Parameters
    ----------
    shrinkage : float > 0
        τ; τ → ∞ gives π/p.
    """

    robust_end = "low"
    parameter = "shrinkage"

    def __init__(self, shrinkage: float):
        self.shrinkage = above_zero(shrinkage, "shrinkage")

    def __call__(self, log_prob, log_propensity):
        weight = log_prob - log_propensity
        # By w/τ where w² is beyond τ, so that w² need not be formed: value = w / (w²/τ + 1).
        exp(np.minimum(weight, 300, out=weight), out=weight)
        ratio = weight * (weight / self.shrinkage)
        value = weight / (ratio + 1)
        return value, value * (1 - ratio) / (1 + ratio)


class Likelihood(Weight):
    """log π, with slope 1: no weight proper, but what makes the mean of z a log-likelihood of the logged actions."""

    def __call__(self, log_prob, log_propensity):
        return log_prob, np.ones(len(log_prob))


CLIPPED = "clipped"  # min(M, w), of which an estimator knows M
WEIGHTS = {"implicit": Implicit, "smoothed": Smoothed, "shrunk": Shrunk}


def as_weight(weight, name: str = "weight", values: dict[str, object] | None = None) -> Weight | None:
    """Return a weight, None for "clipped"; of the name of a kind that with ``weight.PARAMETER``, taken out of values.

    InputError for anything else, or a value that is missing.
    """
    if isinstance(weight, Weight):
        return weight
    if values is None and not (isinstance(weight, str) and weight == CLIPPED):
        raise InputError(f"{name} is {weight!r}, expected 'clipped' or a weight such as Implicit(0.1)")
    kind = WEIGHTS.get(one_of([CLIPPED, *WEIGHTS], weight, name))
    if kind is None:
        return None
    key = f"{name}.{kind.parameter}"
    if key not in values:
        raise InputError(f"the weight {weight!r} needs {key}")
    return kind(values.pop(key))
