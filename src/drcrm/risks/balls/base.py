"""Interface of risks max {E_Q z : D(Q‖P_n) ≤ ε}, the worst case over a ball around the empirical distribution P_n."""

from abc import abstractmethod
from copy import copy
from typing import Any

import numpy as np
from scipy.special import ndtri

from drcrm.arrays.validation import check_confidence, check_nonnegative
from drcrm.risks.base import Evaluation, Risk, rescale_extremes

LARGEST_SCALED_RADIUS = 0.1  # with larger balls, fits are so pessimistic that they can hardly be ranked


class Ball(Risk):
    """Base class of balls. The gradient of the risk is the worst-case distribution Q.

    Parameters
    ----------
    radius : float or "auto"
        ε, at least 0. With "auto", ε = φ''(1) q²/(2n), where q is the one-sided normal quantile of ``confidence``. The
        risk is then an upper confidence bound on the mean as n → ∞, for one policy that was learned from other rows.
        Source: Lemma 1 of the paper, with the correction explained in `calibrated_radius`.
    confidence : float
        Level of the bound for "auto", above ½ and below 1.

    Attributes
    ----------
    curvature : float or None
        φ''(1) of the divergence; None if it is not a positive number.
    """

    monotone = True
    curvature: float | None
    radius: Any

    def __init__(self, radius: float | str | None, confidence: float = 0.95):
        self.radius = radius if isinstance(radius, str) and radius == "auto" else check_nonnegative(radius, "radius")
        self.confidence = check_confidence(confidence, "confidence")

    def for_fewer_rows(self, factor: float) -> "Ball":
        """Return the ball with radius ``factor`` · ε, but do not raise ε above 0.1. The radius "auto" stays "auto"."""
        ball = copy(self)
        if isinstance(self.radius, float):
            ball.radius = max(self.radius, min(factor * self.radius, LARGEST_SCALED_RADIUS))
        return ball

    def radius_at(self, n: float) -> float:
        """Return ε for n costs."""
        if isinstance(self.radius, str):
            assert self.curvature is not None
            return calibrated_radius(self.curvature, self.confidence, n)
        return self.radius


def calibrated_radius(curvature: float, confidence: float, n: float) -> float:
    """Return φ''(1) q²/(2n), where q is the one-sided normal quantile.

    Lemma 1 of the paper states the radius with the two-sided quantile and φ''(1) = 2 for every φ. At 95 % confidence
    that radius is too small if φ''(1) > 2.84, and larger than needed otherwise.
    """
    return curvature * ndtri(confidence) ** 2 / (2 * n)


class SearchedBall(Ball):
    """Base class of balls with their own search for the worst case."""

    @rescale_extremes
    def evaluate(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> Evaluation:
        radius, largest = self.radius_at(n), z.max()
        below = z - largest
        is_largest = below == 0
        if is_largest.all() or radius >= self.saturation_radius(share[is_largest].sum()):
            worst = share * is_largest
            return largest, worst / worst.sum(), guess
        if radius == 0:
            return share @ z, share, guess
        return self.search(radius, largest, below, share, guess)

    @abstractmethod
    def saturation_radius(self, mass: float) -> float:
        """Return D(Q‖P_n) of P_n restricted to the largest costs, whose probability under P_n is ``mass``."""

    @abstractmethod
    def search(self, radius: float, largest: float, below: np.ndarray, share: np.ndarray, guess: Any) -> Evaluation:
        """Evaluate costs ``largest + below`` for a radius above 0 and below the saturation radius."""
