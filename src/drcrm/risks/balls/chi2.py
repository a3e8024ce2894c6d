"""The exact χ² ball, the objective of chi2-DRO."""

from typing import Any

import numpy as np

from drcrm.divergences import Chi2
from drcrm.risks.balls.base import SearchedBall
from drcrm.risks.base import SMALLEST_SAFE, Evaluation

SUM_TOLERANCE = 5e-13  # weights that sum to 1 within this error are not corrected
LARGE_RADIUS = 1e3  # above this radius, the weights of all costs except the largest lose precision
TINY_RADIUS = 1e-8  # up to this radius, the rounding error of Σ share matters


class Chi2Ball(SearchedBall):
    """Worst case over the χ² ball: the largest Σ q_i z_i with (1/n) Σ (n q_i − 1)² ≤ ε, over weights q ≥ 0 with sum 1.

    The risk equals mean + √(εV) as long as all weights stay non-negative, with the variance V of z. The gradient is the
    worst-case distribution Q, which is ∝ w (z − η)₊ for a threshold η, where w counts how often each z occurs. If ε is
    at least n/k − 1, for k rows with the largest z, Q is uniform on these rows. The divergence has no factor ½: φ(t) =
    (t − 1)², and φ''(1) = 2. Source: Faury et al. 2020, Lemma 3, also for large ε.

    Parameters
    ----------
    radius : float ≥ 0 or "auto"
        Radius ε. "auto" is ε = q²/n, where q is the one-sided normal quantile of ``confidence``. The risk is then an
        upper confidence bound on the mean as n → ∞, for one policy that was learned from other rows.
    confidence : float in (½, 1)
        Confidence level of the radius "auto".
    """

    curvature, divergence = 2.0, Chi2()

    def saturation_radius(self, mass: float) -> float:
        return 1 / mass - 1

    def search(self, radius: float, largest: float, below: np.ndarray, share: np.ndarray, guess: Any) -> Evaluation:
        # Start with all costs and repeatedly drop those below η. On a superset of the support, η is at most the true
        # threshold, so no cost of the support is dropped.
        support, size, unit = share, len(share), 1.0
        while True:
            mass = 1.0 if size == len(share) and radius < TINY_RADIUS else support.sum()
            mean = support @ below / mass
            centred = self._centre(below, mean, support, mass, radius)
            weighted = support * centred
            deviation = np.sqrt(weighted @ centred / mass)
            # The worst case on this support exceeds the mean by this many standard deviations.
            allowed = np.sqrt(max(radius + (mass - 1) * (1 + radius), 0))
            if (
                allowed > 0
                and deviation < SMALLEST_SAFE
                and 0 < (span := -below[support > 0].min()) < 1e10 * SMALLEST_SAFE
            ):
                below = np.where(support > 0, below / span, 0)  # rescale by the range, so that squares do not underflow
                unit *= span
                continue
            if deviation == 0 or allowed == 0:
                return largest + unit * mean, support / mass, None
            is_kept = centred > -deviation / allowed
            if size < len(share):
                is_kept &= support > 0
            remaining = int(np.count_nonzero(is_kept))
            if remaining == size:
                worst = weighted * (allowed / deviation)
                worst += support
                worst /= mass
                value = largest + unit * mean + unit * (deviation * allowed)
                return min(value, largest), _correct_rounding(worst, support, mass), None
            support, size = share * is_kept, remaining

    @staticmethod
    def _centre(below: np.ndarray, mean: float, support: np.ndarray, mass: float, radius: float) -> np.ndarray:
        """Return z minus its mean on the support."""
        centred = below - mean
        if radius > LARGE_RADIUS:
            # One cost may have nearly all mass and differ from the mean only in its last digits. Centre there first.
            centred = below - below[np.argmin(np.where(support > 0, abs(centred), np.inf))]
            centred -= support @ centred / mass
        return centred


def _correct_rounding(worst: np.ndarray, support: np.ndarray, mass: float) -> np.ndarray:
    """Make worst-case weights non-negative with sum 1, in place."""
    np.maximum(worst, 0, out=worst)
    excess = worst.sum() - 1
    if abs(excess) > SUM_TOLERANCE:  # the rounding error of Σ share · centred was multiplied by a large factor
        worst -= support * (excess / mass)
        np.maximum(worst, 0, out=worst)
        worst /= worst.sum()
    return worst
