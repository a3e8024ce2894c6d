"""Independent units of a log in the order in which bets are placed on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from drcrm.arrays.validation import check_integers
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError

ROUNDING = 1e-9  # relative, of multiplicities
MOST_UNITS = 10**8  # copies of rows, of which each is one unit
ADVICE = (
    "bounds by betting on groups or weighted rows need most_rows, the largest number of rows that a group can have, or "
    "the largest weight of a row. It must be known beforehand. Or use asymptotic bounds"
)


@dataclass(frozen=True, eq=False)
class BettingUnits:
    """The units of a log, in the order of the bets.

    Attributes
    ----------
    rows : int array (M,)
        Row of each observation. A row of count c occurs c times if its copies are units.
    place : int array (M,) or None
        Number of each observation's unit; None if each is a unit.
    multiplicity : array (M,) or None
        Weight of each observation in its unit; None if each is a unit.
    largest_size : float
        Largest possible sum of the weights of a unit.
    """

    rows: np.ndarray
    place: np.ndarray | None = None
    multiplicity: np.ndarray | None = None
    largest_size: float = 1.0

    @classmethod
    def of(
        cls,
        log: BanditLog,
        is_every_look: bool,
        most_rows: float | None = None,
        order: np.ndarray | None = None,
    ) -> Self:
        """Return the units in order, or in a fixed random order for one look.

        Parameters
        ----------
        log : BanditLog
            Log with its units. The first row of a group gives its place.
        is_every_look : bool
        most_rows : float, optional
            Largest possible number of rows of a group.
        order : int array (n,), optional
            The rows in order; by default that of the log.
        """
        order, groups = np.arange(len(log.Y)) if order is None else order, log.units
        if groups is None:
            if log.size > MOST_UNITS:
                raise InputError(f"bounds by betting need at most {MOST_UNITS:.0e} rows and copies, got {log.size:.6g}")
            rows = np.repeat(order, check_integers(log.count, len(log.Y), "count")[order])
            return cls(rows if is_every_look else rows[_shuffle(len(rows))])
        if most_rows is None:
            raise InputError(ADVICE)
        number, multiplicity = log.unit_numbers[order], log.count[order].astype(float)
        _, first, number = np.unique(number, return_index=True, return_inverse=True)
        sequence = np.argsort(first)
        place = np.argsort(sequence if is_every_look else sequence[_shuffle(len(sequence))])[number]
        sizes = np.bincount(place, multiplicity)
        if sizes.max() > most_rows * (1 + ROUNDING):
            raise InputError(
                f"most_rows is {most_rows:g}, expected at least the number of rows of every group, or the weight of "
                f"every row, but they are up to {sizes.max():.6g}"
            )
        if most_rows == 1 and len(sizes) == len(order):
            return cls(order[np.argsort(place)])
        return cls(order, place, multiplicity, float(most_rows))

    @property
    def size(self) -> int:
        """Number N of units."""
        return len(self.rows) if self.place is None else int(self.place.max()) + 1

    @property
    def completed(self) -> np.ndarray:
        """Number of observations after which each unit and all earlier ones are complete, (N,)."""
        last = np.arange(len(self.rows))
        if self.place is not None:
            last = np.zeros(self.size, dtype=int)
            np.maximum.at(last, self.place, np.arange(len(self.rows)))
        return np.maximum.accumulate(last) + 1

    @property
    def total(self) -> float:
        """Sum of the weights of all observations."""
        return float(len(self.rows) if self.multiplicity is None else self.multiplicity.sum())

    @property
    def sizes(self) -> np.ndarray | None:
        """Sum h of the weights of each unit, (N,); None if each observation is a unit."""
        return None if self.place is None else np.bincount(self.place, self.multiplicity)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return the weighted sum of values of the observations, (M,), in each unit, (N,)."""
        return values if self.place is None else np.bincount(self.place, self.multiplicity * values)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return the value of its unit, from (N,), for each observation, (M,)."""
        return values if self.place is None else values[self.place]


def _shuffle(n: int) -> np.ndarray:
    """Return a random order of n units, which is always the same."""
    return np.random.default_rng(0).permutation(n)


def check_most_rows(value: Any) -> float | None:
    """Return the largest number of rows of a group as a float; InputError unless it is at least 1."""
    if value is None:
        return None
    if not isinstance(value, int | float | np.number) or not 1 <= value < np.inf:
        raise InputError(f"most_rows is {value!r}, expected a number of at least 1")
    return float(value)
