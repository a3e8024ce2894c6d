"""φ-divergences of the theory study that the library does not have."""

from typing import Any

import numpy as np

from drcrm.divergences import Divergence, SmoothDivergence, lower_tail
from drcrm.divergences.dual_search import WorstCase


class CressieRead3(SmoothDivergence):
    """Divergence of Cressie and Read with k = 3: φ(t) = (t³ − 3t + 2)/6, φ''(1) = 1. Source: Cressie & Read 1984."""

    curvature = 1.0

    def phi(self, t: Any) -> np.ndarray:
        return (t - 1) ** 2 * (t + 2) / 6

    def slope(self, t: Any) -> np.ndarray:
        return (t - 1) * (t + 1) / 2

    def derivatives(self, s: Any) -> tuple[np.ndarray, np.ndarray]:
        return self.density(1.0, s)

    def density(self, top: float, drop: Any) -> tuple[np.ndarray, np.ndarray]:
        density = np.sqrt(np.maximum(top**2 + 2 * np.asarray(drop, dtype=float), 0))
        return density, np.divide(1, density, out=np.zeros_like(density), where=density > 0)


class TotalVariation(Divergence):
    """Total variation, without a factor ½: φ(t) = ``|t − 1|``, with a kink at 1.

    The worst case moves a mass of radius/2 from the smallest z to the largest.
    """

    def phi(self, t: Any) -> np.ndarray:
        return abs(np.asarray(t, dtype=float) - 1)

    def worst_case(self, z: np.ndarray, share: np.ndarray, radius: float, guess: Any = None) -> WorstCase:
        is_largest = z == 0
        moved, mass = radius / 2, share[is_largest].sum()
        if moved >= 1 - mass or moved >= share[~is_largest].sum():
            return WorstCase(0.0, share * is_largest / mass, 0.0, 0.0)
        fraction, edge = lower_tail(z, share, moved)
        weights = share * np.where(is_largest, 1 + moved / mass, 1 - fraction)
        return WorstCase(weights @ z, weights, -edge / 2, edge / 2)
