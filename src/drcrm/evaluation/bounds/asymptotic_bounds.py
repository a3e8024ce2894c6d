"""Asymptotic bounds on one mean or on the mean of blocks, sample sizes, and corrections for the choice of the best.

**Skewness.** An estimate is the mean z̄ of terms z = m + a e. Here m does not depend on the logged cost, a is the
importance weight, and e the residual of the cost. For a difference, the baseline's weight is subtracted from a. Rare,
large costs make z̄ skewed. Most samples have too few of them, so the mean, its standard error and the sample skewness
are too small, and asymptotic bounds fail. Separate moments of weights and residuals use every cost, whatever the weight
of its row. With ⟨·⟩ for a mean over rows, x₊ = max(x, 0) and x₋ = max(−x, 0),

    γ = (⟨a₊³⟩⟨e₊³⟩ + ⟨a₋³⟩⟨e₋³⟩) / ((⟨a²⟩⟨e²⟩)^{3/2} √N)

is the skewness that terms with a and e of the same sign give to a mean over N independent units, as if a and e were
independent. It includes the factor 1/√N. If large weights and large residuals are in the same rows, the products have
longer tails, so γ is at least ⟨(a e)₊³⟩ / (⟨(a e)²⟩^{3/2} √N). With the standard deviation s of the N units, the normal
quantile u, and Student's quantile t with N − 1 degrees of freedom, the one-sided Cornish–Fisher bound is

    z̄ + s/√N (t + γ (2u² + 1)/6)

Moments see nothing of rows that the log lacks by chance. This matters if the j ≤ 5 rows with the largest weights have
at least a quarter of Σ a², and the weight of each is at least twice that of any other row. If a share q of such rows
has the largest cost C, none of the j has it with probability (1 − q)^j. So with confidence 1 − δ, q is at most
1 − δ^{1/j}, and such rows raise the mean by at most

    r = max_j (b_1 + … + b_j)/N (1 − δ^{1/j}),    b = a₊ (C − ĉ)

The bound is at least z̄ + s/√N + r. One standard error suffices, because both must fail together.

Sources: Johnson 1978 and Hall 1992 for the correction. ``studies/heavy_tails.py`` measures how often the bound holds.

**Blocks.** Policies are learned one after the other, each tested on the next block of rows. Policy j is learned from
the rows before block j. Given these rows, the terms z of block j are independent, and their mean is Δ_j, the cost of
policy j minus that of the reference. Block j has n_j units, the mean z̄_j and the standard deviation sd_j; n is the
number of units in all J blocks. The blocks bound the mean of Δ_j with weights ω_j ∝ n_j/sd_j:

    value  v = Σ ω_j z̄_j,    standard error  s = √n / Σ (n_j/sd_j),    upper bound  v + s (t + γ (2u² + 1)/6)

Here t is Student's quantile with n − J degrees of freedom, and u the normal quantile. γ = Σ (n_j/n)^{3/2} γ_j is the
skewness of the standardised sum, and γ_j that of z̄_j: see above. As above, the bound is at least v + s + Σ ω_j r_j,
with the charge r_j for rare rows.

Each standardised term has the variance 1, whatever the earlier blocks showed. With weights n_j this would not be so. A
learner whose spread depends on its past success would then be called better too often. The number of candidates needs
no correction, because the choice among them uses earlier rows only.

Source: Luedtke & van der Laan 2016.

**Sample size.** How many rows show a difference, and which difference does a number of rows show? The difference d > 0
is the cost that a policy saves per row, and s is the standard deviation of its terms z, whose mean is −d. A policy is
shown to be better if the upper bound z̄ + z_{1−α/K} s/√n on the mean of z is below 0, where α = 1 − confidence, and K
candidates share α. The power of this test is Φ(d √n/s − z_{1−α/K}), so

    n = (z_{1−α/K} + z_power)² s²/d²

rows have the stated power. Source: Cohen 1988. A certificate also corrects for skewness and for missing actions, so it
needs more rows if the log has few rows with large weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import ndtri, stdtrit

from drcrm.evaluation.bounds.independent_units import mean_and_deviation

TINY = np.finfo(float).tiny
FEW, DOMINANT = 5, 0.25  # this many rows dominate the weights with this share of their squares
APART = 2  # their weights exceed all other weights by this factor
LARGEST_SKEWNESS = 0.3  # with a larger skewness, corrected bounds at level 0.95 failed in more than 7 % of logs
POWER = 0.8
NOT_TOO_GOOD = 2 / 3  # probability that the corrected best of equal candidates is not better than the truth
NEGLIGIBLE = 1e-9  # of the largest standard deviation; smaller ones are rounding errors


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
    :func:`shrink_difference` is another correction for the same choice, for advice on the number of rows.
    """
    largest = float(ndtri(NOT_TOO_GOOD ** (1 / candidates))) * standard_error
    return min(difference + largest, max(difference, 0.0)) if candidates > 1 else difference


def shrink_difference(difference: float, standard_error: float) -> float:
    """Return an estimated difference, shrunk because the policy was chosen on the rows that estimate it.

    The policy with the best estimate has, on average, an estimate that is too good. If true differences are normal with
    mean 0 and variance τ², and the estimate d̂ has the standard error σ, then the mean of d given d̂ is τ²/(τ² + σ²)
    d̂, and the choice of the best does not change this. The estimate of τ² is max(d̂² − σ², 0), so the result is max(1
    − σ²/d̂², 0) d̂.

    Sources: James & Stein 1961 (positive part) and Efron 2011 on selection. It still is too good if many different
    candidates competed, because the best of them then decides τ².
    """
    if difference == 0 or not standard_error >= 0:
        return 0.0
    return float(difference * max(1 - (standard_error / difference) ** 2, 0.0))


@dataclass(frozen=True)
class BlockTerms:
    """The terms of one block, summarised.

    Attributes
    ----------
    n : float
        Number n_j of independent units.
    mean, deviation : float
        z̄_j and sd_j, with the divisor n_j − 1. A block that says nothing about its policy has NaN and ∞.
    skewness : float
        γ_j, the skewness of the mean.
    charge : float
        r_j, by which rows that the block lacks by chance can raise the mean.
    """

    n: float
    mean: float
    deviation: float
    skewness: float = 0.0
    charge: float = 0.0

    @classmethod
    def of(cls, values: np.ndarray, count: np.ndarray, skewness: float = 0.0, charge: float = 0.0) -> Self:
        """Return the summary of the values of independent units, which occur ``count`` times."""
        n = float(count.sum())
        mean, deviation = mean_and_deviation(values, count, n)
        return cls(n, float(mean), float(deviation), skewness, charge)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return both ends of Student's interval for the mean; −∞ and ∞ if the block says nothing."""
        if np.isinf(self.deviation):
            return -np.inf, np.inf
        width = float(stdtrit(self.n - 1, (1 + confidence) / 2)) * self.deviation / np.sqrt(self.n)
        return self.mean - width, self.mean + width


@dataclass(frozen=True)
class BlocksBound:
    """Estimate of the weighted mean of Δ_j, and the upper bound on it.

    Attributes
    ----------
    weights : array (J,)
        ω_j; 0 for a block that says nothing, or whose terms do not vary. If no block has terms that vary, they are
        proportional to n_j.
    value, bound, standard_error : float
        v, its upper bound, and s. The bound is infinite if no block has terms that vary.
    skewness : float
        γ.
    """

    weights: np.ndarray
    value: float
    bound: float
    standard_error: float
    skewness: float


def bound_blocks(blocks: Sequence[BlockTerms], confidence: float, weights: np.ndarray | None = None) -> BlocksBound:
    """Return the upper bound on the weighted mean of the blocks' differences.

    A block whose terms do not vary has no standard error. It gets the weight 0: either its policy is the reference, or
    the block has too few costs to say anything. A block in which the policy takes no logged action has the weight 0,
    too. Whether it does depends on the logged actions, not on their costs.

    Parameters
    ----------
    blocks : sequence of BlockTerms
    confidence : float
    weights : array (J,), optional
        Other weights than ω_j, for example those of another outcome of the same policies.
    """
    n, mean, deviation, skewness, charge = np.array(
        [[b.n, b.mean, b.deviation, b.skewness, b.charge] for b in blocks], dtype=float
    ).T
    is_known = np.isfinite(deviation)
    mean, deviation = np.where(is_known, mean, 0.0), np.where(is_known, deviation, 0.0)
    varies = deviation > NEGLIGIBLE * deviation.max()
    if weights is None:
        of_equal = np.where(is_known, n, 0.0) if is_known.any() else n
        weights = np.divide(n, deviation, out=np.zeros(len(n)), where=varies) if varies.any() else of_equal
        weights = weights / weights.sum()
    if (weights[~is_known] > 0).any():
        return BlocksBound(weights, np.nan, np.inf, 0.0, 0.0)
    errors = weights * np.where(varies, deviation, 0.0) / np.sqrt(n)
    value, error = float(weights @ mean), float(np.sqrt(errors @ errors))
    if not error > 0:
        return BlocksBound(weights, value, np.inf, 0.0, 0.0)
    used = errors > 0
    gamma = float((errors / error) ** 3 @ skewness)
    factor = stdtrit(n[used].sum() - used.sum(), confidence) + gamma * (2 * ndtri(confidence) ** 2 + 1) / 6
    return BlocksBound(weights, value, value + max(factor * error, error + float(weights @ charge)), error, gamma)
