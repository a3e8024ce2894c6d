"""Risks max {E_Q z : D(Q‖P_n) ≤ ε}, the worst case over a ball of a φ-divergence around the empirical distribution P_n.

:mod:`drcrm.divergences.dual_search` finds the worst case.
"""

from collections.abc import Mapping
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from drcrm.arrays.validation import check_confidence, check_nonnegative, to_float
from drcrm.divergences import DIVERGENCES, KL, Chi2, CVaR, Divergence, SmoothDivergence, as_divergence
from drcrm.divergences.base import check_coherence
from drcrm.divergences.dual_search import WorstCase, find_worst_case
from drcrm.errors import InputError
from drcrm.risks.base import ChunkedCosts, Evaluation, Risk, check_weighted_costs
from drcrm.risks.closed_forms import mean_cost, mean_gradient

SMALLEST_SHARE = np.finfo(float).tiny  # rows with a smaller share of the total weight do not count
LARGEST_SCALED_RADIUS = 0.1  # with larger balls, fits are so pessimistic that they can hardly be ranked


class PhiBall(Risk):
    """Worst case over the ball of a φ-divergence: the largest mean E_Q z over distributions Q with D_φ(Q‖P_n) ≤ ε.

    The risk equals its dual, inf_{γ ≥ 0, c} γε + c + γ mean φ*((z − c)/γ). The gradient is the worst-case Q. In a large
    ball, Q has all mass on the largest z, and is uniform over the rows with this z. Source: Faury et al. 2020, section
    3.2.

    Parameters
    ----------
    divergence : Divergence, str or dict
        An object of :mod:`drcrm.divergences` or its name, such as "squared_hellinger" or {"cvar": 0.1}.
    radius : float ≥ 0, "auto" or None
        Radius ε; None for CVaR, which has no radius. "auto" is ε = φ''(1) q²/(2n), where q is the one-sided normal
        quantile of ``confidence``, and needs φ''(1) > 0. The risk is then an upper confidence bound on the mean as
        n → ∞, for one policy that was learned from other rows. Source: Faury et al. 2020, Lemma 1, with the correction
        explained in ``calibrated_radius``.
    confidence : float in (½, 1)
        Confidence level of the radius "auto".
    atom : float, optional
        Largest possible cost B, for "reverse_kl". Q may then have mass on B too. The gradient is the part of Q on the
        rows, so its sum is 1 minus the mass on B.

    Attributes
    ----------
    curvature : float or None
        Second derivative φ''(1) of the divergence; None if it is not a positive number.

    Raises
    ------
    InputError
        If the radius or the atom does not fit the divergence, if φ fails the checks of
        :mod:`drcrm.divergences.base`, or if a cost is above the atom.
    """

    monotone, hyper_parameter = True, "radius"

    def __init__(
        self,
        divergence: Divergence | str | Mapping,
        radius: float | str | None = None,
        confidence: float = 0.95,
        atom: float | None = None,
    ):
        self.divergence = as_divergence(divergence)
        if isinstance(self.divergence, SmoothDivergence) and type(self.divergence) not in DIVERGENCES.values():
            check_coherence(self.divergence)
        self.curvature, is_auto = self.divergence.curvature, isinstance(radius, str) and radius == "auto"
        if radius is not None and not self.divergence.takes_radius:
            raise InputError(f"radius must be None for {self.divergence!r}, which has no radius, got {radius!r}")
        self.radius: Any = radius
        if self.divergence.takes_radius and not is_auto:
            self.radius = check_nonnegative(radius, "radius")
        self.confidence = check_confidence(confidence, "confidence")
        self.atom = None if atom is None else to_float(atom)
        if self.atom is not None and not (self.divergence.takes_atom and np.isfinite(self.atom)):
            raise InputError(f"atom must be a finite number, for reverse_kl only, got {atom!r} for {self.divergence!r}")
        if is_auto and self.curvature is None:
            raise InputError(
                f"radius 'auto' needs a divergence with φ''(1) > 0, got {self.divergence!r}. Give radius as a number."
            )

    def for_fewer_rows(self, factor: float) -> Self:
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
        if not np.isfinite(z).all():
            return np.nan, np.full(len(z), np.nan), None
        worst = self.solve(z, share, n, guess)
        return worst.value, worst.weights, worst.guess

    def evaluate_sums(self, costs: ChunkedCosts, n: float, guess: Any = None) -> tuple | None:
        radius, (low, high) = self.radius_at(n), costs.range()
        if radius == 0 or low == high:
            return float(costs.sum(mean_cost)), mean_gradient, guess
        if self.atom is not None or not isinstance(self.divergence, SmoothDivergence) or not np.isfinite(high - low):
            return None
        worst = find_worst_case(self.divergence, radius, costs.sum, high, high - low, guess)
        return worst.value, worst.weights, worst.guess

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
        z, weights = check_weighted_costs(z, weights)
        value, worst = self(z, weights)
        occurs, n = weights > 0, weights.sum()
        return self.solve(z[occurs], weights[occurs] / n, n)._replace(value=value, weights=worst)

    def solve(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> WorstCase:
        """Return the worst case without checks.

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
        WorstCase
            Risk, worst-case distribution, γ and c of the dual, and the next guess.
        """
        radius, largest, worst = self.radius_at(n), z.max(), None
        below = z - largest
        if self.atom is not None and radius > 0:
            if largest > self.atom:
                raise InputError(f"costs must be at most the atom {self.atom:.6g}, got {largest:.6g}")
            worst = self.divergence.worst_case_with_atom(below, share, radius, self.atom - largest)
        span = -below.min()
        if worst is None and (radius == 0 or not span):
            mean = largest + share @ below
            return WorstCase(mean, share, np.inf if span else 0.0, mean, guess)
        worst = worst or self.divergence.worst_case(below, share, radius, guess)
        return worst._replace(value=largest + worst.value, c=float(largest + worst.c))


class KLBall(PhiBall):
    """Worst case over the KL ball: the largest mean E_Q z over distributions Q of the rows with KL(Q‖P_n) ≤ ε.

    P_n gives each of the n rows the probability 1/n. The risk equals its dual, inf_{γ>0} γε + γ log mean e^{z/γ}. The
    gradient is the worst-case Q, which is ∝ e^{z/γ}. The temperature γ solves KL(Q‖P_n) = ε. If ε is at least log(n/k),
    for k rows with the largest z, Q is uniform on these rows. φ''(1) = 1. Source: Faury et al. 2020, Lemma 4.

    Parameters
    ----------
    radius : float ≥ 0 or "auto"
        Radius ε, in nats. "auto" is ε = q²/(2n) with the normal quantile q at ``confidence``: see :class:`PhiBall`.
        Below 10⁻¹², rounding limits the weights to about eight digits.
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

    The risk equals mean + √(εV) as long as all weights stay non-negative, with the variance V of z. The gradient is the
    worst-case distribution Q, which is ∝ w (z − η)₊ for a threshold η, where w counts how often each z occurs. If ε is
    at least n/k − 1, for k rows with the largest z, Q is uniform on these rows. The divergence has no factor ½: φ(t) =
    (t − 1)², and φ''(1) = 2. Source: Faury et al. 2020, Lemma 3, also for large ε.

    Parameters
    ----------
    radius : float ≥ 0 or "auto"
        Radius ε. "auto" is ε = q²/n with the normal quantile q at ``confidence``: see :class:`PhiBall`.
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

    robust_end, hyper_parameter = "low", "alpha"

    def __init__(self, alpha: float):
        divergence = CVaR(alpha)
        super().__init__(divergence)
        self.alpha = divergence.alpha


class EnvironmentBall(PhiBall):
    """Worst case R_κ over laws of (context, action, cost) with divergence at most κ from the law P_π under a policy.

    R_κ(π) = sup {E_Q c : D(Q‖P_π) ≤ κ}. With KL, R_κ bounds the mean cost on every subpopulation that makes up a share
    of at least e^{−κ} of the deployed traffic. The policy's own draw of actions is part of the law, so Q may also tilt
    it. An estimate of R_κ evaluates the ball at the costs themselves, with importance weights as multiplicities.
    Sources: Si, Zhang, Zhou & Blanchet 2020; Kallus, Mao, Wang & Zhou 2022.

    Parameters
    ----------
    radius : float ≥ 0 or None
        Radius κ, in nats for KL. It is a property of the environment and does not depend on the number of rows. CVaR
        needs None.
    divergence : Divergence, str or dict
        An object of :mod:`drcrm.divergences` or its name.
    """

    is_shift, estimates = True, ("snips",)

    def __init__(self, radius: float | None, divergence: Divergence | str | Mapping = "kl"):
        super().__init__(divergence, None if radius is None else check_nonnegative(radius, "radius"))

    def for_fewer_rows(self, factor: float) -> Self:
        return self

    def evaluate_weighted(
        self, cost: np.ndarray, weight: np.ndarray, share: np.ndarray, n: float, guess: Any = None
    ) -> Evaluation:
        """Evaluate the ball around the law of the costs under a policy, Σ share w δ_cost / Σ share w.

        With the derivative g_i = γ φ*((c_i − c)/γ) of the risk in the probability of cost c_i, the derivative in w_i is
        share_i (g_i − Σ share w g/Σ share w)/Σ share w.

        Parameters
        ----------
        cost, weight, share : array (n,)
            Costs, importance weights w and shares of the rows.
        n, guess
            As in ``evaluate``.

        Returns
        -------
        value : float
            Risk of the costs.
        gradient : array (n,)
            Derivatives with respect to the weights.
        guess : object
            As in ``evaluate``.
        """
        rows, law, worst = self.solve_weighted(cost, weight, share, n, guess)
        density = worst.weights / law
        slope = density * (cost[rows] - worst.c)
        if worst.gamma < np.inf:
            slope -= worst.gamma * self.divergence.phi(density)  # γ φ*((c_i − c)/γ), without the pole of φ*
        gradient = np.zeros(len(weight))
        gradient[rows] = share[rows] / (share @ weight) * (slope - law @ slope)
        return worst.value, gradient, worst.guess

    def solve_weighted(
        self, cost: np.ndarray, weight: np.ndarray, share: np.ndarray, n: float, guess: Any = None
    ) -> tuple[Any, np.ndarray, WorstCase]:
        """Find the worst case around the law of the costs under a policy.

        Parameters
        ----------
        cost, weight, share, n, guess
            As in ``evaluate_weighted``.

        Returns
        -------
        rows : slice or bool array (n,)
            Rows with a positive share of the total weight.
        law : array
            These shares.
        worst : WorstCase
            As for ``solve``, of these rows.
        """
        law = share * (weight / (share @ weight))
        rows = slice(None) if law.min() >= SMALLEST_SHARE else law >= SMALLEST_SHARE
        return rows, law[rows], self.solve(cost[rows], law[rows], n, guess)


def calibrated_radius(curvature: float, confidence: float, n: float) -> float:
    """Return φ''(1) q²/(2n), where q is the one-sided normal quantile.

    Lemma 1 of the paper states the radius with the two-sided quantile and φ''(1) = 2 for every φ. At 95 % confidence
    that radius is too small if φ''(1) > 2.84, and larger than needed otherwise.
    """
    return curvature * ndtri(confidence) ** 2 / (2 * n)
