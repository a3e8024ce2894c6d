"""Risks max {E_Q z : D(Q‖P_n) ≤ ε}: worst cases over balls around the empirical distribution P_n."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from drcrm.arrays.validation import check_confidence, check_nonnegative, to_float
from drcrm.divergences import KL, Chi2, CVaR, Divergence, as_divergence
from drcrm.divergences.costs import ChunkedCosts, CostArrays, UnitCosts, apply_to_unit_costs
from drcrm.divergences.worst_case_search import Costs, WorstDensity
from drcrm.errors import InputError
from drcrm.risks.base import Evaluation, Risk, check_costs
from drcrm.risks.mean import mean_cost, mean_gradient

LARGEST_SCALED_RADIUS = 0.1  # with larger balls, fits are so pessimistic that they can hardly be ranked


@dataclass(frozen=True)
class WorstCase:
    """Worst case in a ball, with the optimum of the dual.

    Attributes
    ----------
    value : float
        Largest mean E_Q z.
    weights : array (n,)
        Worst-case distribution Q.
    gamma : float
        Optimal multiplier γ ≥ 0 of the dual, in the unit of z. It is infinite at radius 0, where Q = P_n, and 0 if the
        radius does not bind.
    c : float
        Optimal c of the dual, in the unit of z.
    """

    value: float
    weights: np.ndarray
    gamma: float
    c: float


class PhiBall(Risk):
    """Worst case over the ball of a φ-divergence: the largest mean E_Q z over distributions Q with D_φ(Q‖P_n) ≤ ε.

    P_n gives each of the n rows the probability 1/n. The risk equals its dual, inf_{γ ≥ 0, c} γε + c + γ mean φ*((z −
    c)/γ). The gradient is the worst-case Q. In a large ball, Q has all mass on the largest z, and is uniform over the
    rows with this z. Source: Faury et al. 2020, section 3.2.

    Parameters
    ----------
    divergence : Divergence, str or dict
        An object of :mod:`drcrm.divergences` or its name, such as "squared_hellinger" or {"cressie_read": 3}.
    radius : float ≥ 0, "auto" or None
        Radius ε; None for CVaR, which has no radius. "auto" is ε = φ''(1) q²/(2n), where q is the one-sided normal
        quantile of ``confidence``, and needs φ''(1) > 0. The risk is then an upper confidence bound on the mean as n →
        ∞, for one policy that was learned from other rows. Source: Faury et al. 2020, Lemma 1, with the correction
        explained in ``calibrated_radius``.
    confidence : float in (½, 1)
        Confidence level of the radius "auto".
    atom : float, optional
        Largest possible cost B, for "reverse_kl". Q may then also have mass on B, which no row needs to have. The
        weights of the rows sum to 1 minus this mass. Source: Honda & Takemura 2010.

    Attributes
    ----------
    curvature : float or None
        Second derivative φ''(1) of the divergence; None if it is not a positive number.

    Raises
    ------
    InputError
        If the radius does not fit the divergence, or if φ fails the checks of :mod:`drcrm.divergences.coherence`.
    """

    monotone = True
    curvature: float | None
    radius: Any

    def __init__(
        self,
        divergence: Divergence | str | Mapping,
        radius: float | str | None = None,
        confidence: float = 0.95,
        atom: float | None = None,
    ):
        self.divergence = as_divergence(divergence)
        self.divergence.check()
        self.curvature = self.divergence.curvature
        if self.divergence.takes_radius:
            is_auto = isinstance(radius, str) and radius == "auto"
            self.radius = radius if is_auto else check_nonnegative(radius, "radius")
        elif radius is not None:
            raise InputError(f"radius must be None for {self.divergence!r}, which has no radius, got {radius!r}")
        else:
            self.radius = None
        self.confidence = check_confidence(confidence, "confidence")
        self.atom = None if atom is None else to_float(atom)
        if self.atom is not None and not (self.divergence.takes_atom and np.isfinite(self.atom)):
            raise InputError(f"atom must be a finite number and needs reverse_kl, got {atom!r} and {self.divergence!r}")
        if self.radius == "auto" and self.curvature is None:
            raise InputError(
                f"radius 'auto' needs a divergence with φ''(1) > 0, got {self.divergence!r}. Give radius as a number."
            )

    def for_fewer_rows(self, factor: float) -> "PhiBall":
        """Return the ball to use on a sample of a log, with the radius ``factor`` · ε.

        The new radius is at most 0.1, or ε if that is larger. The radius "auto" stays "auto".

        Parameters
        ----------
        factor : float
            Rows of the whole log divided by rows of the sample.

        Returns
        -------
        PhiBall
            Ball for the sample.
        """
        ball = copy(self)
        if isinstance(self.radius, float):
            ball.radius = max(self.radius, min(factor * self.radius, LARGEST_SCALED_RADIUS))
        return ball

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

    def evaluate(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> Evaluation:
        worst, guess = self._worst_case(z, share, n, guess)
        return worst.value, worst.weights, guess

    def evaluate_sums(self, costs: ChunkedCosts, n: float, guess: Any = None) -> tuple | None:
        low, high = costs.range()
        span = self._span(low, high)
        if self.radius_at(n) == 0 or span == 0:
            return float(costs.sum(mean_cost)), mean_gradient, guess
        if not (self.divergence.needs_only_sums and np.isfinite(span)):
            return None
        worst = self._search(UnitCosts(costs, high, span), n, high, span, guess)
        gradient = partial(apply_to_unit_costs, function=worst.weights, largest=high, span=span)
        return float(high + span * worst.value), gradient, worst.guess

    def worst_case(self, z: ArrayLike, weights: ArrayLike | None = None) -> WorstCase:
        """Return the worst case with the optimum of the dual.

        Parameters
        ----------
        z : array (n,)
            Costs.
        weights : array (n,), optional
            How often each cost occurs, at least 0; by default once.

        Returns
        -------
        WorstCase
            Risk, worst-case distribution, and γ and c of the dual.
        """
        z, weights = check_costs(z, weights)
        value, worst = self(z, weights)
        occurs = weights > 0
        dual, _ = self._worst_case(z[occurs], weights[occurs] / weights.sum(), weights.sum())
        return WorstCase(value, worst, dual.gamma, dual.c)

    def _worst_case(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> tuple[WorstCase, Any]:
        largest = z.max()
        span, distance = self._span(z.min(), largest), z - largest
        if self.radius_at(n) == 0 or span == 0:
            return WorstCase(share @ z, share, np.inf if span else 0.0, largest + share @ distance), guess
        distance /= span
        worst = self._search(CostArrays(distance, share), n, largest, span, guess)
        weights, gamma, c = worst.weights(distance, share), float(span * worst.gamma), float(largest + span * worst.c)
        return WorstCase(largest + span * worst.value, weights, gamma, c), worst.guess

    def _span(self, smallest: float, largest: float) -> float:
        """Return the unit of costs: their range, or the distance from the atom to equal costs."""
        if self.atom is None:
            return largest - smallest
        if largest > self.atom:
            raise InputError(f"atom must be at least the largest cost, {largest:.6g}, got {self.atom:.6g}")
        return largest - smallest or self.atom - largest

    def _search(self, costs: Costs, n: float, largest: float, span: float, guess: Any) -> WorstDensity:
        atom = {} if self.atom is None else {"atom": (self.atom - largest) / span}
        return self.divergence.worst_case(self.radius_at(n), costs, guess, **atom)


class KLBall(PhiBall):
    """Worst case over the KL ball: the largest mean E_Q z over distributions Q of the rows with KL(Q‖P_n) ≤ ε.

    The dual is inf_{γ>0} γε + γ log mean e^{z/γ}, and the worst-case Q is ∝ e^{z/γ}. The temperature γ solves
    KL(Q‖P_n) = ε. If ε is at least log(n/k), for k rows with the largest z, Q is uniform on these rows. φ''(1) = 1.
    Source: Faury et al. 2020, Lemma 4.

    Parameters
    ----------
    radius : float ≥ 0 or "auto"
        Radius ε, in nats. "auto" is ε = q²/(2n): see :class:`PhiBall`.
    confidence : float in (½, 1)
        Confidence level of the radius "auto".

    Examples
    --------
    >>> value, gradient = KLBall(0.1)([0.0, -1.0, -2.0])  # the mean is −1
    >>> round(value, 3)
    -0.639
    """

    def __init__(self, radius: float | str, confidence: float = 0.95):
        super().__init__(KL(), radius, confidence)


class Chi2Ball(PhiBall):
    """Worst case over the χ² ball: the largest Σ q_i z_i with (1/n) Σ (n q_i − 1)² ≤ ε, over weights q ≥ 0 with sum 1.

    The risk equals mean + √(εV) as long as all weights stay non-negative, with the variance V of z. The worst-case Q is
    ∝ w (z − η)₊ for a threshold η, where w counts how often each z occurs. If ε is at least n/k − 1, for k rows with
    the largest z, Q is uniform on these rows. The divergence has no factor ½: φ(t) = (t − 1)², and φ''(1) = 2. Source:
    Faury et al. 2020, Lemma 3, also for large ε.

    Parameters
    ----------
    radius : float ≥ 0 or "auto"
        Radius ε. "auto" is ε = q²/n: see :class:`PhiBall`.
    confidence : float in (½, 1)
        Confidence level of the radius "auto".
    """

    def __init__(self, radius: float | str, confidence: float = 0.95):
        super().__init__(Chi2(), radius, confidence)


class CVaRRisk(PhiBall):
    """Conditional value at risk: the mean of the largest costs, a share α of all rows.

    It is the worst case over the ball of :class:`drcrm.divergences.CVaR`. Source: Rockafellar & Uryasev 2000.

    Parameters
    ----------
    alpha : float in (0, 1]
        Share α; 1 gives the mean.
    """

    robust_end = "low"

    def __init__(self, alpha: float):
        divergence = CVaR(alpha)
        super().__init__(divergence)
        self.alpha = divergence.alpha


def calibrated_radius(curvature: float, confidence: float, n: float) -> float:
    """Return φ''(1) q²/(2n), where q is the one-sided normal quantile.

    Lemma 1 of the paper states the radius with the two-sided quantile and φ''(1) = 2 for every φ. At 95 % confidence
    that radius is too small if φ''(1) > 2.84, and larger than needed otherwise.
    """
    return curvature * ndtri(confidence) ** 2 / (2 * n)
