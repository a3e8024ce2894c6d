"""Long upper tails of an estimate: the skewness of its mean, and a bound that is corrected for it.

An estimate is the mean z̄ of terms z = m + a e. Here m does not depend on the logged cost, a is the importance weight,
and e the residual of the cost. For a difference, the baseline's weight is subtracted from a. Rare, large costs make z̄
skewed. Most samples have too few of them, so the mean, its standard error and the sample skewness are too small, and
asymptotic bounds fail. Separate moments of weights and residuals use every cost, whatever the weight of its row. With
⟨·⟩ for a mean over rows, x₊ = max(x, 0) and x₋ = max(−x, 0),

    γ = (⟨a₊³⟩⟨e₊³⟩ + ⟨a₋³⟩⟨e₋³⟩) / ((⟨a²⟩⟨e²⟩)^{3/2} √N)

is the skewness that terms with a and e of the same sign give to a mean over N independent units, as if a and e were
independent. It includes the factor 1/√N. If large weights and large residuals are in the same rows, the products have
longer tails, so γ is at least ⟨(a e)₊³⟩ / (⟨(a e)²⟩^{3/2} √N). With the standard deviation s of the N units, the normal
quantile u, and Student's quantile t with N − 1 degrees of freedom, the one-sided Cornish–Fisher bound is

    z̄ + s/√N (t + γ (2u² + 1)/6)

Moments see nothing of rows that the log lacks by chance. This matters if the j rows with the largest weights, at most
five, have a quarter of Σ a², and weights of at least twice all others. If a share q of such rows has the largest cost
C, none of the j has it with probability (1 − q)^j. So with confidence 1 − δ, q is at most 1 − δ^{1/j}, and such rows
raise the mean by at most

    r = max_j (b_1 + … + b_j)/N (1 − δ^{1/j}),    b = a₊ (C − ĉ)

The bound is at least z̄ + s/√N + r. One standard error suffices, because both must fail together.

Sources: Johnson 1978 and Hall 1992 for the correction. ``studies/heavy_tails.py`` measures how often the bound holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

from drcrm.evaluation.bounds.independent_units import mean_and_deviation

TINY = np.finfo(float).tiny
FEW, DOMINANT = 5, 0.25  # this many rows dominate the weights with this share of their squares
APART = 2  # their weights exceed all other weights by this factor
LARGEST_SKEWNESS = 0.3  # with a larger skewness, corrected bounds at level 0.95 failed in more than 7 % of logs


def upper_skewness(weight: np.ndarray, residual: np.ndarray, count: np.ndarray, units: int) -> float:
    """Return γ, the part of the skewness of a mean that lengthens its upper tail.

    Parameters
    ----------
    weight, residual : array (n,)
        a and e of each row.
    count : array (n,)
        How often each row occurs.
    units : int
        N, the number of independent units.
    """
    share = count / count.sum()
    weight_unit, residual_unit = np.abs(weight).max(), np.abs(residual).max()
    if not (weight_unit > 0 and residual_unit > 0):
        return 0.0
    a, e = weight / weight_unit, residual / residual_unit
    third = sum((share @ np.maximum(sign * a, 0) ** 3) * (share @ np.maximum(sign * e, 0) ** 3) for sign in (1, -1))
    second = (share @ a**2) * (share @ e**2)
    product = a * e / (np.abs(a * e).max() or 1.0)
    joint = (share @ np.maximum(product, 0) ** 3) / max(share @ product**2, TINY) ** 1.5
    return float(max(third / second**1.5, joint) / np.sqrt(units))


def tail_residual(residual: np.ndarray, cost: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the residuals of a cost model, (n,), or the centred costs if the model is worse than the mean cost.

    The residuals of a bad model are spread by its errors, which hides the tail of the costs.
    """
    share = count / count.sum()
    centred = cost - share @ cost
    unit = max(np.abs(centred).max(), np.abs(residual).max()) or 1.0
    return residual if share @ (residual / unit) ** 2 <= share @ (centred / unit) ** 2 else centred


def estimate_skewness(
    weight: np.ndarray, residual: np.ndarray, cost: np.ndarray, count: np.ndarray, units: int, relative: Any = 1.0
) -> float:
    """Return γ of an estimate, the larger one with its residuals and with its ``tail_residual``.

    ``relative`` are the weights of rows in a log whose logger dropped some. They depend on the costs, so they multiply
    the residuals.
    """
    residuals = residual, tail_residual(residual, cost, count)
    return max(upper_skewness(weight, values * relative, count / relative, units) for values in residuals)


def rare_charge(weight: np.ndarray, raised: np.ndarray, count: np.ndarray, confidence: float, units: int) -> float:
    """Return r, by which rows that the log lacks by chance can raise a mean; 0 if no few rows dominate the weights.

    Parameters
    ----------
    weight, raised : array (n,)
        a₊ and b of each row.
    count : array (n,)
        How often each row occurs.
    confidence : float
        1 − δ.
    units : int
        N, the number of independent units.
    """
    order, n = np.argsort(-weight), count.sum()
    rows = np.cumsum(count[order]) * units / n
    square, charges = (np.cumsum((count * values)[order]) for values in (weight**2, raised))
    sorted_weight = weight[order]
    is_apart = np.append(sorted_weight[1:] <= sorted_weight[:-1] / APART, True)
    is_tail = is_apart & (rows <= FEW) & (square >= DOMINANT * square[-1])
    return float((is_tail * charges / n * -np.expm1(np.log1p(-confidence) / rows)).max())


def corrected_bound(
    values: np.ndarray, count: np.ndarray, confidence: float, skewness: float, charge: float = 0.0
) -> float:
    """Return the upper bound on the mean of independent units, (N,), that occur ``count`` times; ``charge`` is r."""
    n = count.sum()
    mean, deviation = mean_and_deviation(values, count, n)
    factor = stdtrit(n - 1, confidence) + skewness * (2 * ndtri(confidence) ** 2 + 1) / 6
    return float(mean + max(factor * deviation / np.sqrt(n), deviation / np.sqrt(n) + charge))
