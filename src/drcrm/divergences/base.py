"""Interface of φ-divergences D(Q‖P) = E_P φ(dQ/dP).

φ is convex on t ≥ 0, with φ(1) = 0 ≤ φ(t). Its conjugate is φ*(s) = sup_{t ≥ 0} st − φ(t). Conventions differ by a
factor ½; the formula in the docstring of a class is the one used.
"""

from abc import ABC, abstractmethod
from numbers import Real
from typing import Any

import numpy as np

from drcrm.divergences.coherence import check_coherence
from drcrm.divergences.worst_case_search import Costs, WorstDensity, find_worst_density


class Divergence(ABC):
    """Base class of φ-divergences, D(Q‖P) = E_P φ(dQ/dP).

    φ(t) ≥ 0 is convex on t ≥ 0, with φ(1) = 0. It is applied to the density t = dQ/dP of a row.

    Attributes
    ----------
    curvature : float or None
        Second derivative φ''(1); None if φ has no positive second derivative at 1.
    takes_radius : bool
        Whether balls of the divergence have a radius.
    needs_only_sums : bool
        Whether ``worst_case`` needs only sums over the rows, so that a large log needs no array of all costs.
    takes_atom : bool
        Whether ``worst_case`` has a parameter ``atom``, a cost of at least 0 on which Q may also have mass.
    """

    curvature: float | None = None
    takes_radius = True
    needs_only_sums = False
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
    def conjugate(self, s: Any) -> np.ndarray:
        """Return the conjugate φ*(s) = sup_{t ≥ 0} st − φ(t).

        Parameters
        ----------
        s : array
            Real numbers.

        Returns
        -------
        array
            Values of φ*, which may be infinite.
        """

    @abstractmethod
    def worst_case(self, radius: float, costs: Costs, guess: Any = None) -> WorstDensity:
        """Return the distribution Q with the largest mean of z in the ball D(Q‖P) ≤ ε.

        Parameters
        ----------
        radius : float
            Radius ε.
        costs : CostArrays, or UnitCosts if ``needs_only_sums``
            Costs z with minimum −1 and maximum 0, and shares of the rows under P, all positive with sum 1.
        guess : object, optional
            Start of the search, from the result of a call with similar z.

        Returns
        -------
        WorstDensity
            Q, the optimum of the dual, and the next guess.
        """

    def check(self) -> None:  # noqa: B027, only smooth divergences need a check
        """Raise InputError if φ is not convex with minimum 0 at 1, or its methods do not agree."""

    def __repr__(self) -> str:
        values = (f"{value:g}" if isinstance(value, Real) else repr(value) for value in vars(self).values())
        return f"{type(self).__name__}({', '.join(values)})"


class SmoothDivergence(Divergence):
    """Base class of divergences with φ'(1) = 0 and φ''(1) > 0.

    To define a divergence, write a subclass: set ``curvature`` and implement ``phi``, ``conjugate``, ``slope`` and
    ``derivatives``. :class:`drcrm.risks.PhiBall` checks that they belong to one convex φ. The worst case has the
    density φ*'((z − c)/γ), and :mod:`drcrm.divergences.worst_case_search` finds it.
    """

    curvature: float
    needs_only_sums = True

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

    def worst_case(self, radius: float, costs: Costs, guess: Any = None) -> WorstDensity:
        return find_worst_density(self, radius, costs, guess)

    def check(self) -> None:
        check_coherence(self)
