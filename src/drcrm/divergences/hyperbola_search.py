"""Search for the worst case of the reverse KL divergence, Q ∝ share/(η − z) with η above the costs.

With b = 1/η, y = (1 − bz̄)/(1 − bz) and M = Σ share y, the density is y/M, and KL(share‖Q) = log M − Σ share log y.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drcrm.divergences.worst_case_search import (
    NO_STEP,
    Costs,
    DensityState,
    WorstDensity,
    search_radius,
    sum_costs,
    sum_squares,
)


@dataclass(frozen=True)
class Hyperbola:
    """Worst-case weights share · scale/(1 − bz), as a function of (z, share)."""

    b: float
    scale: float

    def weights(self, z: np.ndarray, share: np.ndarray) -> np.ndarray:
        return share * (self.scale / (1 - self.b * z))


def find_worst_hyperbola(radius: float, costs: Costs, guess: float | None = None) -> WorstDensity:
    """Return the worst case of the reverse KL divergence.

    Parameters
    ----------
    radius : float
        Radius ε, above 0.
    costs : CostArrays or UnitCosts
        Costs with minimum −1 and maximum 0.
    guess : float, optional
        log(b · standard deviation of z), from a previous search. The default suits small radii.
    """
    mean = costs.sum(sum_costs)[0]
    unit = 0.5 * np.log(costs.sum(sum_squares, mean))

    def evaluate(b: float) -> DensityState:
        first, second, log_mean = costs.sum(_sum_ratios, b, mean)
        mass, scale = 1 + first, 1 - b * mean
        growth = (second - first**2) / mass / scale
        value = mean + first * (scale / b) / mass
        return DensityState(Hyperbola(b, scale / mass), value, np.log1p(first) - log_mean, growth)

    with np.errstate(all="ignore"):
        start = 0.5 * np.log(2 * radius) if guess is None else guess
        state, step = search_radius(radius, start - unit, evaluate)
        if NO_STEP < abs(step) < np.inf:
            state = evaluate(state.density.b * np.exp(step))
    b, scale = state.density.b, state.density.scale
    return WorstDensity(state.value, state.density.weights, scale / b, (1 - scale) / b, float(np.log(b) + unit))


def _sum_ratios(z: np.ndarray, share: np.ndarray, b: float, mean: float) -> np.ndarray:
    """Return Σ share (y − 1), Σ share (y − 1)² and Σ share log y."""
    denominator = 1 - b * z
    excess = z - mean
    excess *= b
    excess /= denominator
    log_ratio = np.log1p(excess) if b < 1 else np.log((1 - b * mean) / denominator)
    weighted = share * excess
    return np.array([weighted.sum(), weighted @ excess, share @ log_ratio])


def find_mass_on_atom(radius: float, costs: Costs, atom: float) -> WorstDensity | None:
    """Return the worst case with mass on the atom, or None if the atom takes no mass.

    With ν = exp(Σ share log(atom − z) − ε), the density is ν/(atom − z), and the atom takes the rest. The worst case is
    atom − ν. Source: Honda & Takemura 2010.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        log_mean, inverse = costs.sum(_sum_distances, atom)
        scale = np.exp(log_mean - radius)
        if not scale * inverse <= 1:
            return None
    return WorstDensity(atom - scale, Hyperbola(1 / atom, scale / atom).weights, scale, atom - scale)


def _sum_distances(z: np.ndarray, share: np.ndarray, atom: float) -> np.ndarray:
    """Return Σ share log(atom − z) and Σ share/(atom − z)."""
    distance = atom - z
    return np.array([share @ np.log(distance), share @ (1 / distance)])
