"""How a log grows, and running bounds after some of its steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from drcrm.errors import InputError
from drcrm.evaluation.bounds.betting_mixture import BettingUnits
from drcrm.evaluation.bounds.betting_terms import CostMixture
from drcrm.logs.decisions.opened_log import OpenedLog

LOOKS = 100  # how often the bound is computed, and for asymptotic bounds again between two looks


@dataclass(frozen=True, eq=False)
class Growth:
    """Steps by which the log grows: rows, or complete groups if bounds are not asymptotic.

    Attributes
    ----------
    order : int array (n,)
        The rows in the order of time.
    bets : BettingUnits or None
        Units of bets; None for asymptotic bounds, which are on the rows so far.
    """

    order: np.ndarray
    bets: BettingUnits | None

    @classmethod
    def of(cls, opened: OpenedLog, is_asymptotic: bool, most_rows: float | None) -> Growth:
        log, time = opened.evaluated, opened.evaluated.rows.get("time")
        order = np.arange(len(log.Y)) if time is None else np.argsort(time, kind="stable")
        if is_asymptotic:
            return cls(order, None)
        if log.units is not None and most_rows is None:
            raise InputError(
                "--anytime needs most_rows in the mapping, the largest number of rows that a group can have, or the "
                "largest weight 1/(1 - pdrop) of a row. Or add --asymptotic, whose bounds need no such limit"
            )
        return cls(order, BettingUnits.of(log, True, most_rows, order))

    @cached_property
    def place(self) -> np.ndarray:
        """Position of each row in the order of time, (n,)."""
        return np.argsort(self.order)

    @cached_property
    def rows(self) -> np.ndarray:
        """Number of rows after each step, (N,)."""
        return np.arange(1, len(self.order) + 1) if self.bets is None else self.bets.completed

    @property
    def size(self) -> int:
        """Number N of steps."""
        return len(self.rows)

    @property
    def looks(self) -> np.ndarray:
        """Numbers of steps after which the bound is computed."""
        return np.unique(np.linspace(1, self.size, LOOKS).astype(int))


@dataclass(frozen=True, eq=False)
class RunningCertificates:
    """Asymptotic bounds: ``look(n)`` after the first n steps."""

    look: Callable[[int], float]
    looks: np.ndarray

    @property
    def final(self) -> float:
        """The bound after all steps; InputError if it is refused."""
        return self.look(int(self.looks[-1]))

    def bound(self, n: int) -> float:
        """Return the bound after n steps; infinite if it is refused."""
        try:
            return self.look(n)
        except InputError:
            return np.inf

    @cached_property
    def bounds(self) -> np.ndarray:
        """The bound at each look."""
        return np.array([self.bound(n) for n in self.looks])

    def first_below(self, limit: float) -> int | None:
        """Return the first number of steps with a bound below a limit, searched between the two looks around it."""
        is_below = self.bounds < limit
        if not is_below.any():
            return None
        before, look = np.append(0, self.looks)[np.argmax(is_below) + np.arange(2)]
        between = np.unique(np.linspace(before + 1, look, LOOKS).astype(int))
        return next(int(n) for n in between if self.bound(n) < limit)


@dataclass(frozen=True, eq=False)
class RunningBets:
    """Bounds by betting after the first n steps. They never rise with n."""

    bets: CostMixture
    looks: np.ndarray

    @property
    def final(self) -> float:
        """The bound after all steps."""
        return self.bets.bound()

    @property
    def bounds(self) -> np.ndarray:
        """The bound at each look."""
        return self.bets.bounds(self.looks)

    def first_below(self, limit: float) -> int | None:
        """Return the first number of steps that show a cost of at most a limit."""
        return self.bets.first_beyond(limit)
