"""Sample size: how many rows show a difference, and which difference a number of rows shows.

The difference d > 0 is the cost that a policy saves per row, and s is the standard deviation of its terms z, whose mean
is −d. A policy is shown to be better if the upper bound z̄ + z_{1−α/K} s/√n on the mean of z is below 0, where
α = 1 − confidence, and K candidates share α. The power of this test is Φ(d √n/s − z_{1−α/K}), so

    n = (z_{1−α/K} + z_power)² s²/d²

rows have the stated power. Source: Cohen 1988. A certificate also corrects for skewness and for missing actions, so it
needs more rows if the log has few rows with large weights.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

POWER = 0.8
NOT_TOO_GOOD = 2 / 3  # probability that the corrected best of equal candidates is not better than the truth


def bound_quantile(confidence: float, choices: int = 1) -> float:
    """Return the normal quantile z_{1−α/K} of the bound, for K candidates that share α = 1 − confidence."""
    return float(-ndtri((1 - confidence) / choices))


def required_size(difference: float, deviation: float, confidence: float = 0.95, choices: int = 1) -> float:
    """Return the number of rows of which 80 % of all logs show a difference d > 0: (z_{1−α/K} + z_power)² s²/d²."""
    return float((bound_quantile(confidence, choices) + ndtri(POWER)) * deviation / difference) ** 2


def smallest_difference(rows: float, deviation: float, confidence: float = 0.95, choices: int = 1) -> float:
    """Return the difference that 80 % of all logs with a number of rows show."""
    return float((bound_quantile(confidence, choices) + ndtri(POWER)) * deviation / np.sqrt(rows))


def correct_for_choice(difference: float, standard_error: float, candidates: int) -> float:
    """Return the estimated difference of the policy with the best of several estimates, corrected for this choice.

    The best estimate is too good by about the largest error of the candidates. So a quantile of the largest of k
    independent normal errors is added, σ Φ⁻¹(q^{1/k}), but the result does not change its sign. k is the effective
    number of candidates. q is 2/3 and not 1/2, because estimates are stated as *better* only if they are large.
    :func:`shrink_difference` suits a policy that was not chosen by its estimate.
    """
    largest = float(ndtri(NOT_TOO_GOOD ** (1 / candidates))) * standard_error
    return min(difference + largest, max(difference, 0.0)) if candidates > 1 else difference


def shrink_difference(difference: float, standard_error: float) -> float:
    """Return an estimated difference, shrunk because the policy was chosen on the rows that estimate it.

    The policy with the best estimate has, on average, an estimate that is too good. If true differences are normal with
    mean 0 and variance τ², and the estimate d̂ has the standard error σ, then the mean of d given d̂ is τ²/(τ² + σ²) d̂,
    and the choice of the best does not change this. The estimate of τ² is max(d̂² − σ², 0), so the result is
    max(1 − σ²/d̂², 0) d̂.

    Sources: James & Stein 1961 (positive part) and Efron 2011 on selection. It still is too good if many different
    candidates competed, because the best of them then decides τ².
    """
    if difference == 0 or not standard_error >= 0:
        return 0.0
    return float(difference * max(1 - (standard_error / difference) ** 2, 0.0))
