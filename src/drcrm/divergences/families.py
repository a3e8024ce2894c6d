"""φ-divergences D(Q‖P) = E_P φ(dQ/dP), and what is worst within a radius of each.

φ is convex on t ≥ 0, with φ(1) = 0 ≤ φ(t); φ*(s) = sup_{t ≥ 0} st − φ(t). A ½ is where it is written, and nowhere else.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from numbers import Real
from typing import NamedTuple

import numpy as np

from drcrm.arrays.validation import above_zero, number
from drcrm.divergences.coherence import check_coherent
from drcrm.divergences.dual_search import balance_at_radius
from drcrm.errors import InputError

TINY = np.finfo(float).tiny
NARROW = 1e-4  # nearer to 0 or 1 than this, k of Cressie and Read loses digits


class Worst(NamedTuple):
    """The worst case among costs z ≤ 0 whose largest is 0.

    ``density`` is dQ/dP of each z; ``gamma`` and ``c`` the γ* and c* of the dual, in the units of z; ``guess`` is
    for the search of one of similar costs, None where nothing is searched for.
    """

    density: np.ndarray
    gamma: float
    c: float
    guess: tuple[float, float] | None = None


class Divergence(ABC):
    """What all divergences share. ``curvature`` is φ''(1), None where φ has none that is above 0."""

    curvature: float | None = None
    takes_radius = True

    @abstractmethod
    def phi(self, t) -> np.ndarray:
        """φ(t), for t ≥ 0; infinite where Q may not go, which a smooth one of one's own may be at t = 0 alone."""

    @abstractmethod
    def conjugate(self, s) -> np.ndarray:
        """φ*(s), infinite where it is."""

    @abstractmethod
    def worst(self, z: np.ndarray, share: np.ndarray, radius: float, guess=None) -> Worst:
        """Return the worst case over D(Q‖share) ≤ radius, for z ≤ 0 whose largest is 0 and that are not all equal."""

    def check(self) -> None:  # noqa: B027, what has nothing to check
        """Raise InputError with the reason why φ is no coherent divergence, if it is none."""

    def __repr__(self) -> str:
        values = ", ".join(f"{each:g}" if isinstance(each, Real) else repr(each) for each in vars(self).values())
        return f"{type(self).__name__}({values})"


class SmoothDivergence(Divergence):
    """A divergence with φ'(1) = 0 and φ''(1) > 0; one's own is a subclass with ``curvature`` and four methods.

    The worst case has the density φ*'((z − c)/γ): see :mod:`drcrm.divergences.dual_search`.
    """

    curvature: float

    @abstractmethod
    def slope(self, t) -> np.ndarray:
        """φ'(t), for t > 0."""

    @abstractmethod
    def derivatives(self, s) -> tuple[np.ndarray, np.ndarray]:
        """φ*'(s), the t ≥ 0 at which st − φ(t) is largest, and φ*''(s); infinite where φ* is."""

    def density(self, top: float, drop) -> tuple[np.ndarray, np.ndarray]:
        """φ*' and φ*'' at φ'(top) + drop, top ≥ 1: to be overridden where φ' is bounded, and their sum loses digits."""
        return self.derivatives(self.slope(top) + drop)

    def worst(self, z, share, radius, guess=None):
        top = z == 0
        mass = share[top].sum()
        with np.errstate(all="ignore"):
            if radius >= mass * self.phi(1 / mass) + (1 - mass) * self.phi(np.float64(0)):
                return Worst(top / mass, 0.0, 0.0, guess)
            span = -z.min()
            density, a, b, guess = balance_at_radius(self, radius, z / span, share, guess)
            return Worst(density, span / b, -a * (span / b), guess)

    def check(self):
        check_coherent(self)


class KL(SmoothDivergence):
    """φ(t) = t log t − t + 1, φ''(1) = 1."""

    curvature = 1.0

    def phi(self, t):
        return t * np.log(np.maximum(t, TINY)) - (t - 1)

    def slope(self, t):
        return np.log(t)

    def conjugate(self, s):
        return np.expm1(s)

    def derivatives(self, s):
        density = np.exp(s)
        return density, density


class Chi2(SmoothDivergence):
    """φ(t) = (t − 1)², φ''(1) = 2."""

    curvature = 2.0

    def phi(self, t):
        return (t - 1) ** 2

    def slope(self, t):
        return 2 * (t - 1)

    def conjugate(self, s):
        s = np.maximum(s, -2)
        return s + s**2 / 4

    def derivatives(self, s):
        density = np.maximum(1 + s / 2, 0)
        return density, 0.5 * (density > 0)


class SquaredHellinger(SmoothDivergence):
    """φ(t) = (√t − 1)², φ''(1) = ½."""

    curvature = 0.5

    def phi(self, t):
        return (np.sqrt(t) - 1) ** 2

    def slope(self, t):
        return 1 - 1 / np.sqrt(t)

    def conjugate(self, s):
        return s * _over(1 - s)

    def derivatives(self, s):
        return self.density(1.0, s)

    def density(self, top, drop):
        root = _over(1 / np.sqrt(top) - drop)
        density = root * root
        return density, 2 * density * root


class ReverseKL(SmoothDivergence):
    """φ(t) = −log t + t − 1, φ''(1) = 1: KL(P‖Q). It has no largest radius."""

    curvature = 1.0

    def phi(self, t):
        with np.errstate(divide="ignore"):
            return (t - 1) - np.log(t)

    def slope(self, t):
        return 1 - 1 / t

    def conjugate(self, s):
        return np.log(_over(1 - s))

    def derivatives(self, s):
        return self.density(1.0, s)

    def density(self, top, drop):
        density = _over(1 / top - drop)
        return density, density * density


class CressieRead(SmoothDivergence):
    """φ(t) = (t^k − kt + k − 1)/(k(k − 1)), φ''(1) = 1. Source: Cressie & Read 1984.

    Parameters
    ----------
    k : float from −10 to 10
        1 is KL, 0 reverse KL, 2 half of Chi2, ½ twice SquaredHellinger.
    """

    curvature = 1.0

    def __init__(self, k: float):
        self.k = number(k)
        if not abs(self.k) <= 10 or (self.k not in (0, 1) and min(abs(self.k), abs(self.k - 1)) < NARROW):
            raise InputError(f"k is {k!r}, expected a number from −10 to 10, not within {NARROW:g} of 0 or 1")
        if limit := {0.0: ReverseKL(), 1.0: KL()}.get(self.k):
            for method in ("phi", "slope", "conjugate", "density"):
                setattr(self, method, getattr(limit, method))

    def phi(self, t):
        k = self.k
        with np.errstate(divide="ignore", over="ignore"):
            return (np.expm1(k * np.log(t)) - k * (t - 1)) / (k * (k - 1))

    def slope(self, t):
        return np.expm1((self.k - 1) * np.log(t)) / (self.k - 1)

    def conjugate(self, s):
        k, base = self.k, 1 + (self.k - 1) * np.asarray(s, dtype=float)
        with np.errstate(divide="ignore", over="ignore"):
            conjugate = (np.maximum(base, 0) ** (k / (k - 1)) - 1) / k
        return np.where(base < 0, np.inf, conjugate) if k < 1 else conjugate

    def derivatives(self, s):
        return self.density(1.0, s)

    def density(self, top, drop):
        k = self.k
        base = np.maximum(top ** (k - 1) + (k - 1) * np.asarray(drop, dtype=float), 0)
        with np.errstate(divide="ignore", over="ignore"):
            density = base ** (1 / (k - 1))
        return density, np.divide(density, base, out=np.zeros_like(density), where=base > 0)

    def __repr__(self):
        return f"CressieRead({self.k:g})"


class TotalVariation(Divergence):
    """φ(t) = |t − 1|, which has a kink at 1: up to half the radius of mass goes from the smallest z to the largest."""

    def phi(self, t):
        return abs(np.asarray(t, dtype=float) - 1)

    def conjugate(self, s):
        return np.where(np.asarray(s) <= 1, np.maximum(s, -1), np.inf)

    def worst(self, z, share, radius, guess=None):
        top = z == 0
        moved, mass = radius / 2, share[top].sum()
        if moved >= 1 - mass or moved >= share[~top].sum():
            return Worst(top / mass, 0.0, 0.0)
        density, edge = _tail(z, share, moved)
        density = 1 - density
        density[top] = 1 + moved / mass
        return Worst(density, -edge / 2, edge / 2)


class CVaR(Divergence):
    """φ(t) = 0 for t ≤ 1/α, infinite beyond: the mean of the largest z that make up a share α. It has no radius.

    Parameters
    ----------
    alpha : float in (0, 1]
        α; 1 is the mean.
    """

    takes_radius = False

    def __init__(self, alpha: float):
        self.alpha = above_zero(alpha, "alpha")
        if self.alpha > 1:
            raise InputError(f"alpha is {alpha!r}, expected at most 1")

    def phi(self, t):
        return np.where(np.asarray(t) * self.alpha <= 1 + 1e-12, 0.0, np.inf)

    def conjugate(self, s):
        return np.maximum(s, 0) / self.alpha

    def worst(self, z, share, radius, guess=None):
        density, edge = _tail(-z, share, self.alpha)
        return Worst(density / self.alpha, 0.0, -edge)


NAMED = {
    "kl": KL,
    "chi2": Chi2,
    "squared_hellinger": SquaredHellinger,
    "reverse_kl": ReverseKL,
    "cressie_read": CressieRead,
    "total_variation": TotalVariation,
    "cvar": CVaR,
}


def as_divergence(divergence) -> Divergence:
    """Return a divergence, given itself, its name, or a map of its name to its parameter: ``{"cressie_read": 3}``."""
    if isinstance(divergence, Divergence):
        return divergence
    name, parameter = divergence, ()
    if isinstance(divergence, Mapping) and len(divergence) == 1:
        [(name, value)] = divergence.items()
        parameter = (value,)
    kind = NAMED.get(name) if isinstance(name, str) else None
    if kind is None or (kind in (CressieRead, CVaR)) != bool(parameter):
        raise InputError(
            f"divergence is {divergence!r}, expected one of {', '.join(name for name in NAMED)}, "
            "the last and cressie_read with a parameter, as {cressie_read: 3}"
        )
    return kind(*parameter)


def _over(base):
    """1/base, infinite where base is not above 0."""
    return np.where(base > 0, 1 / np.where(base > 0, base, 1), np.inf)


def _tail(z: np.ndarray, share: np.ndarray, mass: float) -> tuple[np.ndarray, float]:
    """Return which part of each z is among the smallest that make up a mass, and the largest of these.

    Of equal z on the edge each has the same part.
    """
    order = np.argsort(z)
    below = np.cumsum(share[order])
    edge = z[order[min(np.searchsorted(below, mass), len(z) - 1)]]
    part, on = (z < edge).astype(float), z == edge
    part[on] = min(max(mass - share @ part, 0) / share[on].sum(), 1)
    return part, edge
