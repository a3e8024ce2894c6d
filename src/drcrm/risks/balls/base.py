"""Interface of risks max {E_Q z : D(Q‖P_n) ≤ ε}, the worst case over a ball around the empirical distribution P_n."""

from abc import abstractmethod
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from drcrm.arrays.validation import check_confidence, check_nonnegative
from drcrm.divergences.base import Divergence, SmoothDivergence
from drcrm.risks.base import Evaluation, Risk, rescale_extremes

LARGEST_SCALED_RADIUS = 0.1  # with larger balls, fits are so pessimistic that they can hardly be ranked


class Dual(NamedTuple):
    """Value of a ball, the optimum γ and c of its dual, in the unit of the costs, and the guess for the next search.

    γ is infinite at radius 0, and 0 if the radius does not bind.
    """

    value: float
    gamma: float
    c: float
    guess: Any


class Ball(Risk):
    """Base class of worst cases over a ball of distributions around equal weights P_n of the rows.

    The gradient of the risk is the worst-case distribution Q.

    Parameters
    ----------
    radius : float ≥ 0 or "auto"
        Radius ε. "auto" is ε = φ''(1) q²/(2n), where q is the one-sided normal quantile of ``confidence``. The risk is
        then an upper confidence bound on the mean as n → ∞, for one policy that was learned from other rows. Source:
        Faury et al. 2020, Lemma 1, with the correction explained in ``calibrated_radius``.
    confidence : float in (½, 1)
        Confidence level of the radius "auto".

    Attributes
    ----------
    curvature : float or None
        Second derivative φ''(1) of the divergence; None if it is not a positive number.
    """

    monotone = True
    curvature: float | None
    radius: Any

    def __init__(self, radius: float | str | None, confidence: float = 0.95):
        self.radius = radius if isinstance(radius, str) and radius == "auto" else check_nonnegative(radius, "radius")
        self.confidence = check_confidence(confidence, "confidence")

    def for_fewer_rows(self, factor: float) -> "Ball":
        """Return the ball to use on a sample of a log, with the radius ``factor`` · ε.

        The new radius is at most 0.1, or ε if that is larger. The radius "auto" stays "auto".

        Parameters
        ----------
        factor : float
            Rows of the whole log divided by rows of the sample.

        Returns
        -------
        Ball
            Ball for the sample.
        """
        ball = copy(self)
        if isinstance(self.radius, float):
            ball.radius = max(self.radius, min(factor * self.radius, LARGEST_SCALED_RADIUS))
        return ball

    @property
    @abstractmethod
    def phi_divergence(self) -> Divergence:
        """The divergence D of the ball."""

    @abstractmethod
    def solve_dual(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> "Dual":
        """Return the optimum of the dual inf_{γ ≥ 0, c} γε + c + γ Σ share φ*((z − c)/γ); arguments as in ``evaluate``.

        Parameters
        ----------
        z : array (n,)
            Finite costs.
        share : array (n,)
            Shares, all positive, with sum 1.
        n : float
            Number of costs.
        guess : object, optional
            As in ``evaluate``.

        Returns
        -------
        Dual
            Risk of z, γ, c and the next guess.
        """

    def evaluate_shares(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> Evaluation:
        """Evaluate the risk with its gradient in the shares instead of the costs.

        Parameters
        ----------
        z : array (n,)
            Finite costs.
        share : array (n,)
            Shares, all positive, with sum 1.
        n : float
            Number of costs.
        guess : object, optional
            As in ``evaluate``.

        Returns
        -------
        value : float
            Risk of z.
        gradient : array (n,)
            γ φ*((z − c)/γ) at the optimum of the dual: the derivatives with respect to the shares, up to a constant,
            which has no effect because the sum of the shares is fixed.
        guess : object
            As in ``evaluate``.
        """
        dual = self.solve_dual(z, share, n, guess)
        return dual.value, self.phi_divergence.perspective(z - dual.c, dual.gamma), dual.guess

    def radius_at(self, n: float) -> float:
        """Return the radius for n costs.

        Parameters
        ----------
        n : float
            Number of costs.

        Returns
        -------
        float
            Radius ε.
        """
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
    """Base class of balls with their own search for the worst case.

    Attributes
    ----------
    divergence : SmoothDivergence
        Divergence of the ball.
    """

    divergence: SmoothDivergence

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

    @property
    def phi_divergence(self) -> Divergence:
        return self.divergence

    def solve_dual(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> Dual:
        value, worst, guess = self.evaluate(z, share, n, guess)
        largest, has_mass = z.max(), worst > 0
        slope = self.divergence.slope(worst[has_mass] / share[has_mass])
        # φ'(density) = (z − c)/γ, so both differences of the largest z from the mean under Q have the ratio γ.
        in_costs, in_slopes = worst @ (largest - z), slope.max() - worst[has_mass] @ slope
        if in_costs > 0 and in_slopes > 0:
            gamma = in_costs / in_slopes
            return Dual(value, gamma, largest - gamma * slope.max(), guess)
        return Dual(value, np.inf if in_costs > 0 else 0.0, largest, guess)

    @abstractmethod
    def saturation_radius(self, mass: float) -> float:
        """Return the radius from which on Q has all mass on the largest costs.

        Parameters
        ----------
        mass : float
            Probability of the largest costs under P_n.

        Returns
        -------
        float
            Divergence from P_n of P_n restricted to the largest costs.
        """

    @abstractmethod
    def search(self, radius: float, largest: float, below: np.ndarray, share: np.ndarray, guess: Any) -> Evaluation:
        """Evaluate the costs ``largest + below`` for a radius above 0 and below the saturation radius.

        Parameters
        ----------
        radius : float
            Radius ε.
        largest : float
            Largest cost.
        below : array (n,)
            Costs minus the largest cost.
        share : array (n,)
            Shares w/n, as in ``evaluate``.
        guess : object
            As in ``evaluate``.

        Returns
        -------
        tuple
            Results in the form of ``evaluate``.
        """
