"""Search for the worst case of the χ² divergence, which is linear in z above a threshold η and 0 below."""

from __future__ import annotations

import numpy as np

SMALLEST_SAFE = 1e-130  # squares of smaller numbers may lose digits
SUM_TOLERANCE = 5e-13  # weights that sum to 1 within this error are not corrected
LARGE_RADIUS = 1e3  # above this radius, the weights of all costs except the largest lose precision
TINY_RADIUS = 1e-8  # up to this radius, the rounding error of Σ share matters


def find_linear_weights(radius: float, z: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Return Q, and γ and c of the dual, for costs with maximum 0 and a radius at which Q has other costs, too."""
    # Start with all costs and repeatedly drop those below η. On a superset of the support, η is at most the true
    # threshold, so no cost of the support is dropped.
    support, size, unit = share, len(share), 1.0
    while True:
        mass = 1.0 if size == len(share) and radius < TINY_RADIUS else support.sum()
        mean = support @ z / mass
        centred = _centre(z, mean, support, mass, radius)
        weighted = support * centred
        deviation = np.sqrt(weighted @ centred / mass)
        # The worst case on this support exceeds the mean by this many standard deviations.
        allowed = np.sqrt(max(radius + (mass - 1) * (1 + radius), 0))
        span = -z[support > 0].min() if deviation < SMALLEST_SAFE else 0.0
        if allowed > 0 and 0 < span < 1e10 * SMALLEST_SAFE:
            z, unit = np.where(support > 0, z / span, 0), unit * span  # rescale, so that squares do not underflow
            continue
        if deviation == 0 or allowed == 0:
            return support / mass, 0.0, 0.0
        is_kept = centred > -deviation / allowed
        if size < len(share):
            is_kept &= support > 0
        remaining = int(np.count_nonzero(is_kept))
        if remaining == size:
            worst = weighted * (allowed / deviation)
            worst += support
            worst /= mass
            gamma = unit * mass * deviation / (2 * allowed)
            return _correct_rounding(worst, support, mass), gamma, 2 * gamma * (1 - 1 / mass) + unit * mean
        support, size = share * is_kept, remaining


def _centre(z: np.ndarray, mean: float, support: np.ndarray, mass: float, radius: float) -> np.ndarray:
    """Return z minus its mean on the support."""
    centred = z - mean
    if radius > LARGE_RADIUS:
        # One cost may have nearly all mass and differ from the mean only in its last digits. Centre there first.
        centred = z - z[np.argmin(np.where(support > 0, abs(centred), np.inf))]
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
