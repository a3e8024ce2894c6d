"""Interface of φ-divergences D(Q‖P) = E_P φ(dQ/dP), and the check of a user's φ.

φ is convex on t ≥ 0, with φ(1) = 0 ≤ φ(t). Its conjugate is φ*(s) = sup_{t ≥ 0} st − φ(t). Conventions differ by a
factor ½; the formula in the docstring of a class is the one used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any

import numpy as np

from drcrm.arrays.numerics import derivative_fault
from drcrm.arrays.validation import to_float
from drcrm.divergences.dual_search import Sums, WorstCase, find_worst_case
from drcrm.errors import InputError, refuse_errors

FINITE_UP_TO = 100  # φ must be finite up to this t and may overflow beyond
SMALLEST = 1e-9  # density at which φ' is compared with s if φ*'(s) is 0
DENSITIES = np.unique(np.round(np.r_[np.geomspace(1e-3, 1e3, 301), 1 + np.linspace(-0.1, 0.1, 41)], 12))
SLOPES = np.linspace(-4, 4, 81)  # with 0 in the middle


class Divergence(ABC):
    """Base class of φ-divergences, D(Q‖P) = E_P φ(dQ/dP).

    φ(t) ≥ 0 is convex on t ≥ 0, with φ(1) = 0. It is applied to the density t = dQ/dP of a row.

    Attributes
    ----------
    curvature : float or None
        Second derivative φ''(1); None if φ has no positive second derivative at 1.
    takes_radius : bool
        Whether balls of the divergence have a radius.
    takes_atom : bool
        Whether ``worst_case_with_atom`` is implemented.
    """

    curvature: float | None = None
    takes_radius = True
    takes_atom = False

    @abstractmethod
    def phi(self, t: Any) -> np.ndarray:
        """Return φ(t).

        Parameters
        ----------
        t : array
            Densities t ≥ 0.

        Returns
        -------
        array
            Values of φ. They are ∞ for densities that no ball contains. A smooth φ may be infinite only at 0.
        """

    @abstractmethod
    def worst_case(self, z: np.ndarray, share: np.ndarray, radius: float, guess: Any = None) -> WorstCase:
        """Return the distribution Q with the largest mean of z in the ball D(Q‖P) ≤ ε.

        Parameters
        ----------
        z : array (n,)
            Costs with maximum 0, not all equal.
        share : array (n,)
            Probabilities of the rows under P, all positive, with sum 1.
        radius : float
            Radius ε.
        guess : object, optional
            Start of the search, from the result of a call with similar z.

        Returns
        -------
        WorstCase
            Mean under Q, the weights q of the rows, the optimum of the dual, and the next guess.
        """

    def worst_case_with_atom(self, z: np.ndarray, share: np.ndarray, radius: float, atom: float) -> WorstCase | None:
        """Return the worst case Q with mass on an atom, a cost above all z; by default None, if Q has no mass there.

        Parameters
        ----------
        z : array (n,)
            Costs with maximum 0.
        share : array (n,)
            Probabilities of the rows under P, all positive, with sum 1.
        radius : float
            Radius ε.
        atom : float
            Largest possible cost, at least 0.

        Returns
        -------
        WorstCase or None
            As for ``worst_case``. The atom has the mass that is missing from the weights.
        """
        return None

    def __repr__(self) -> str:
        values = (f"{value:g}" if isinstance(value, Real) else repr(value) for value in vars(self).values())
        return f"{type(self).__name__}({', '.join(values)})"


class SmoothDivergence(Divergence):
    """Base class of divergences with φ'(1) = 0 and φ''(1) > 0.

    To define a divergence, write a subclass: set ``curvature`` and implement ``phi``, ``slope`` and ``derivatives``.
    :class:`drcrm.risks.PhiBall` checks that they belong to one convex φ. The worst case has the density
    φ*'((z − c)/γ), and :mod:`drcrm.divergences.dual_search` finds it.
    """

    curvature: float

    @abstractmethod
    def slope(self, t: Any) -> np.ndarray:
        """Return the derivative φ'(t).

        Parameters
        ----------
        t : array
            Densities t > 0.

        Returns
        -------
        array
            Values of φ'.
        """

    @abstractmethod
    def derivatives(self, s: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the second derivative of the conjugate φ*.

        Parameters
        ----------
        s : array
            Real numbers.

        Returns
        -------
        first : array
            Values of φ*'(s), the t ≥ 0 that maximise st − φ(t); infinite where φ*(s) is.
        second : array
            Values of φ*''(s); infinite where φ*(s) is.
        """

    def density(self, top: float, drop: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return both derivatives of φ* at φ'(top) + drop.

        Override this method if φ' is bounded, because φ'(top) + drop then loses digits to rounding.

        Parameters
        ----------
        top : float
            Density of the largest z, at least 1.
        drop : array
            Differences from φ'(top), at most 0.

        Returns
        -------
        first : array
            Values of φ*', the densities.
        second : array
            Values of φ*''.
        """
        return self.derivatives(self.slope(top) + drop)

    def sums(self, share: np.ndarray, top: float, drop: np.ndarray) -> Sums:
        """Return sums over rows for the search of the worst case; override it if there is a faster way.

        Parameters
        ----------
        share : array (n,)
            Shares of the rows.
        top : float
            As in ``density``.
        drop : array (n,)
            As in ``density``.

        Returns
        -------
        Sums
            Σ share t, Σ share t drop, Σ share φ(t), and Σ share φ*'' dropᵏ for k = 0, 1, 2.
        """
        density, slope = self.density(top, drop)
        tilted = share * slope
        powers = [tilted.sum(), tilted @ drop, np.multiply(tilted, drop, out=tilted) @ drop]
        weighted = np.multiply(share, density, out=tilted)
        return Sums(weighted.sum(), weighted @ drop, share @ self.phi(density), *powers)

    def worst_case(self, z: np.ndarray, share: np.ndarray, radius: float, guess: Any = None) -> WorstCase:
        span = -z.min()

        def sum_rows(function: Callable[..., np.ndarray], *arguments: Any) -> np.ndarray:
            return function(z, share, *arguments)

        worst = find_worst_case(self, radius, sum_rows, 0.0, span, guess)
        weights = worst.weights(z, share)
        weights /= weights.sum()
        return worst._replace(value=float(weights @ z), weights=weights)


def check_coherence(divergence: SmoothDivergence) -> None:
    """Raise InputError with the reason if a smooth φ is not coherent or its methods do not agree."""
    name = type(divergence).__name__
    failed = (
        f"{name}: methods must take and return arrays, and derivatives and density must return two arrays, but a "
        "method failed"
    )
    with refuse_errors(failed), np.errstate(all="ignore"):
        for is_sound, fault in _conditions(divergence, name):
            if not is_sound:
                raise InputError(f"{name}: {fault}")


def _conditions(divergence: SmoothDivergence, name: str) -> Iterator[tuple[Any, str]]:
    """Yield whether each condition holds, and what to say if not; later conditions rely on earlier ones."""
    curvature, t = to_float(divergence.curvature), DENSITIES
    yield 0 < curvature < np.inf, f"curvature must be φ''(1), a finite number above 0, got {divergence.curvature!r}"
    values = _as_numbers(divergence.phi(t), t, f"{name}.phi")
    _as_numbers(divergence.phi(np.zeros(1)), np.zeros(1), f"{name}.phi")
    is_finite = np.isfinite(values)
    place = f"{t[np.argmin(is_finite)]:.6g}"
    yield is_finite[t <= FINITE_UP_TO].all(), f"φ(t) must be finite for t from 0.001 to 100, got infinity at {place}"
    at_one = float(divergence.phi(np.float64(1)))
    yield abs(at_one) <= 1e-12, f"φ(1) must be 0, got {at_one:.6g}"
    t, values = t[is_finite], values[is_finite]
    low = f"{values.min():.6g} at t = {t[np.argmin(values)]:.6g}"
    advice = "Subtract φ'(1)(t − 1) from φ; this does not change the divergence."
    yield values.min() >= -1e-12, f"φ must be 0 or more, got {low}. {advice}"
    slope = _as_numbers(divergence.slope(t), t, f"{name}.slope")
    fault = derivative_fault(divergence.phi, t, slope, 1e-5, 1e-4)
    yield not fault, f"slope must be the derivative of phi. {fault}"
    rise = np.diff(slope) / (1 + abs(slope[1:]))
    yield rise.min() >= -1e-8, f"φ must be convex, but its slope falls near t = {t[1 + np.argmin(rise)]:.6g}"
    yield from _conditions_of_derivatives(divergence, name, curvature)


def _conditions_of_derivatives(divergence: SmoothDivergence, name: str, curvature: float) -> Iterator[tuple[Any, str]]:
    """Yield whether t = φ*'(s) maximises st − φ(t), where φ'(t) is s or t is 0, and whether φ*'' is its slope at 0."""
    s = SLOPES
    density, rise = (_as_numbers(array, s, f"{name}.derivatives") for array in divergence.derivatives(s))
    for array in divergence.density(1.0, -np.ones(3)):
        _as_numbers(array, -np.ones(3), f"{name}.density")
    at_zero, is_finite = rise[len(s) // 2], np.isfinite(density)
    s, density = s[is_finite], density[is_finite]
    gap = divergence.slope(np.maximum(density, SMALLEST)) - s
    is_wrong = (density < 0) | ~(np.where(density > 0, abs(gap), -gap) <= 1e-8 * (1 + abs(s)))
    place = f"at s = {s[np.argmax(is_wrong)]:.6g}, derivatives returns t = {density[np.argmax(is_wrong)]:.6g}"
    yield not is_wrong.any(), f"derivatives must return the t that maximises s t − φ(t): {place}"
    yield abs(at_zero * curvature - 1) < 1e-6, f"φ*''(0) must be 1/φ''(1) = {1 / curvature:.6g}, got {at_zero:.6g}"


def _as_numbers(values: object, points: np.ndarray, name: str) -> np.ndarray:
    """Return values as floats, or raise InputError if there is not one number for every point."""
    values = np.asarray(values, dtype=float)
    if values.shape != points.shape or np.isnan(values).any():
        raise InputError(f"{name} must return one number for every argument from {points[0]:g} to {points[-1]:g}")
    return values
