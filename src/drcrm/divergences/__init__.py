"""φ-divergences: those of the library, and how users name them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from drcrm.arrays.numerics import exp
from drcrm.arrays.validation import check_positive
from drcrm.divergences.base import Divergence, SmoothDivergence
from drcrm.divergences.dual_search import Sums, WorstCase
from drcrm.errors import InputError

__all__ = [
    "DIVERGENCES",
    "KL",
    "CVaR",
    "Chi2",
    "Divergence",
    "ReverseKL",
    "SmoothDivergence",
    "SquaredHellinger",
    "as_divergence",
]

TINY = np.finfo(float).tiny
LARGEST_DENSITY = 100.0  # above it, differences of squares lose digits


class KL(SmoothDivergence):
    """Kullback–Leibler divergence KL(Q‖P): φ(t) = t log t − t + 1, φ''(1) = 1."""

    curvature = 1.0

    def phi(self, t: Any) -> np.ndarray:
        return t * np.log(np.maximum(t, TINY)) - (t - 1)

    def slope(self, t: Any) -> np.ndarray:
        return np.log(t)

    def derivatives(self, s: Any) -> tuple[np.ndarray, np.ndarray]:
        density = np.array(s, dtype=float)
        exp(density, out=density)
        return density, density

    def sums(self, share: np.ndarray, top: float, drop: np.ndarray) -> Sums:
        weighted, _ = self.density(top, drop)
        weighted *= share
        mass, mean = weighted.sum(), weighted @ drop
        weighted *= drop
        return Sums(mass, mean, mean + (np.log(top) - 1) * mass + share.sum(), mass, mean, weighted @ drop)


class _ByDensity(SmoothDivergence):
    """Base class of divergences that compute ``density`` by a closed form, without φ'(top)."""

    def derivatives(self, s: Any) -> tuple[np.ndarray, np.ndarray]:
        return self.density(1.0, s)


class Chi2(_ByDensity):
    """Chi-squared divergence, without a factor ½: φ(t) = (t − 1)², φ''(1) = 2."""

    curvature = 2.0

    def phi(self, t: Any) -> np.ndarray:
        return (t - 1) ** 2

    def slope(self, t: Any) -> np.ndarray:
        return 2 * (t - 1)

    def density(self, top: float, drop: Any) -> tuple[np.ndarray, np.ndarray]:
        density = np.maximum(top + 0.5 * np.asarray(drop), 0)
        return density, 0.5 * (density > 0)

    def sums(self, share: np.ndarray, top: float, drop: np.ndarray) -> Sums:
        if top > LARGEST_DENSITY:
            return super().sums(share, top, drop)
        # t = top + drop/2 where it is positive, so three sums over these rows give all others.
        weighted = share * (drop > -2 * top)
        size, first = weighted.sum(), weighted @ drop
        weighted *= drop
        second = weighted @ drop
        distance = (top - 1) ** 2 * size + (top - 1) * first + second / 4 + (share.sum() - size)
        return Sums(top * size + first / 2, top * first + second / 2, distance, size / 2, first / 2, second / 2)


class SquaredHellinger(_ByDensity):
    """Squared Hellinger distance: φ(t) = (√t − 1)², φ''(1) = ½."""

    curvature = 0.5

    def phi(self, t: Any) -> np.ndarray:
        return (np.sqrt(t) - 1) ** 2

    def slope(self, t: Any) -> np.ndarray:
        return 1 - 1 / np.sqrt(t)

    def density(self, top: float, drop: Any) -> tuple[np.ndarray, np.ndarray]:
        root = _inverse(1 / np.sqrt(top) - drop)
        density = root * root
        return density, 2 * density * root


class ReverseKL(_ByDensity):
    """Reverse Kullback–Leibler divergence KL(P‖Q): φ(t) = −log t + t − 1, φ''(1) = 1.

    No Q in a ball gives a row zero mass. The worst case may have mass on an atom, a cost that no row needs to have. Let
    ν = exp(Σ share log(atom − z) − ε). The density is ν/(atom − z), and the atom has the remaining mass. Source: Honda
    & Takemura 2010.
    """

    curvature = 1.0
    takes_atom = True

    def phi(self, t: Any) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return (t - 1) - np.log(t)

    def slope(self, t: Any) -> np.ndarray:
        return 1 - 1 / t

    def density(self, top: float, drop: Any) -> tuple[np.ndarray, np.ndarray]:
        density = _inverse(1 / top - drop)
        return density, density * density

    def worst_case_with_atom(self, z: np.ndarray, share: np.ndarray, radius: float, atom: float) -> WorstCase | None:
        distance = atom - z
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = float(np.exp(share @ np.log(distance) - radius))
            density = scale / distance
            has_rest = share @ density <= 1
        return WorstCase(atom - scale, share * density, scale, atom - scale) if has_rest else None


class CVaR(Divergence):
    """Divergence whose worst case is CVaR, the mean of the largest costs, a share α of all.

    φ(t) is 0 for t ≤ 1/α and ∞ beyond. Balls of this divergence have no radius.

    Parameters
    ----------
    alpha : float in (0, 1]
        Share α; 1 gives the mean.
    """

    takes_radius = False

    def __init__(self, alpha: float):
        self.alpha = check_positive(alpha, "alpha")
        if self.alpha > 1:
            raise InputError(f"alpha must be at most 1, got {alpha!r}")

    def phi(self, t: Any) -> np.ndarray:
        return np.where(np.asarray(t) * self.alpha <= 1 + 1e-12, 0.0, np.inf)

    def worst_case(self, z: np.ndarray, share: np.ndarray, radius: float, guess: Any = None) -> WorstCase:
        fraction, edge = lower_tail(-z, share, self.alpha)
        weights = share * fraction / self.alpha
        return WorstCase(weights @ z, weights, 0.0, -edge)


DIVERGENCES = {
    "kl": KL,
    "chi2": Chi2,
    "squared_hellinger": SquaredHellinger,
    "reverse_kl": ReverseKL,
    "cvar": CVaR,
}


def as_divergence(divergence: object) -> Divergence:
    """Return a divergence, from an object or from its name.

    Parameters
    ----------
    divergence : Divergence, str or dict
        A divergence, its name in ``DIVERGENCES``, or a dict of its name and parameter, such as ``{"cvar": 0.1}``.

    Returns
    -------
    Divergence
        The object itself, or a new one.

    Raises
    ------
    InputError
        If the name is unknown, or a parameter is missing or not expected.
    """
    if isinstance(divergence, Divergence):
        return divergence
    name: object = divergence
    parameters: tuple = ()
    if isinstance(divergence, Mapping) and len(divergence) == 1:
        [(name, value)] = divergence.items()
        parameters = (value,)
    kind: Any = DIVERGENCES.get(name) if isinstance(name, str) else None
    if kind is None or (kind is CVaR) != bool(parameters):
        raise InputError(
            f"divergence must be one of {', '.join(DIVERGENCES)}, got {divergence!r}. cvar takes a parameter: "
            "{'cvar': 0.1}"
        )
    return kind(*parameters)


def _inverse(base: np.ndarray) -> np.ndarray:
    """Return 1/base, or infinity where base is not positive."""
    return np.where(base > 0, 1 / np.where(base > 0, base, 1), np.inf)


def lower_tail(z: np.ndarray, share: np.ndarray, mass: float) -> tuple[np.ndarray, float]:
    """Return the share of each z in the lower tail of the given mass, and the largest z in this tail.

    Equal z at the edge have equal fractions.
    """
    order = np.argsort(z)
    cumulative = np.cumsum(share[order])
    edge = z[order[min(int(np.searchsorted(cumulative, mass)), len(z) - 1)]]
    fraction, is_edge = (z < edge).astype(float), z == edge
    fraction[is_edge] = min(max(mass - share @ fraction, 0) / share[is_edge].sum(), 1)
    return fraction, edge
