"""Interface of φ-divergences D(Q‖P) = E_P φ(dQ/dP).

φ is convex on t ≥ 0, with φ(1) = 0 ≤ φ(t). Its conjugate is φ*(s) = sup_{t ≥ 0} st − φ(t). Conventions differ by a
factor ½; the formula in the docstring of a class is the one used.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from drcrm.divergences.coherence import check_coherence
from drcrm.divergences.dual_search import Sums, WorstCase, find_worst_case


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

    def check(self) -> None:  # noqa: B027, only smooth divergences need a check
        """Raise InputError if φ is not convex with minimum 0 at 1, or its methods do not agree."""

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

    def check(self) -> None:
        check_coherence(self)
