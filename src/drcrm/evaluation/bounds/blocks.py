"""Bound on the mean gain of policies that were learned one after the other, each tested on the next block of rows.

Policy j is learned from the rows before block j. Given these rows, the terms z of block j are independent, and their
mean is Δ_j, the cost of policy j minus that of the reference. Block j has n_j units, the mean z̄_j and the standard
deviation sd_j; n is the number of units in all J blocks. The blocks bound the mean of Δ_j with weights
ω_j ∝ n_j/sd_j:

    value  v = Σ ω_j z̄_j,    standard error  s = √n / Σ (n_j/sd_j),    upper bound  v + s (t + γ (2u² + 1)/6)

Here t is Student's quantile with n − J degrees of freedom, and u the normal quantile. γ = Σ (n_j/n)^{3/2} γ_j is the
skewness of the standardised sum, and γ_j that of z̄_j: see :mod:`drcrm.evaluation.bounds.skewness`. As there, the bound
is at least v + s + Σ ω_j r_j, with the charge r_j for rare rows.

Each standardised term has the variance 1, whatever the earlier blocks showed. With weights n_j this would not be so. A
learner whose spread depends on its past success would then be called better too often. The number of candidates needs
no correction, because the choice among them uses earlier rows only.

Source: Luedtke & van der Laan 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtri, stdtrit

from drcrm.evaluation.bounds.independent_units import mean_and_deviation

NEGLIGIBLE = 1e-9  # of the largest standard deviation; smaller ones are rounding errors


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
