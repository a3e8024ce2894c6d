"""Costs in the units of the user's outcome: rewards are negated costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from drcrm.arrays.number_formats import is_number
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.logs.diagnostics.formats import clean


class ConfidenceInterval(NamedTuple):
    """An estimate with its confidence interval; None for unknown numbers."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether both ends are known."""
        return is_number(self.low) and is_number(self.high)


@dataclass(frozen=True)
class Units:
    """Convert costs, which answers contain, to rewards if the log has rewards."""

    is_reward: bool = False
    outcome: str = ""

    @property
    def name(self) -> str:
        """The name of the outcome, by default reward or cost."""
        return clean(self.outcome) or ("reward" if self.is_reward else "cost")

    @property
    def title(self) -> str:
        """The name with a capital letter, for titles."""
        return self.name[:1].upper() + self.name[1:]

    @property
    def sign(self) -> int:
        """The factor of a cost that gives the outcome."""
        return -1 if self.is_reward else 1

    @property
    def side(self) -> str:
        """The direction of a certificate: costs have upper bounds, rewards lower bounds."""
        return "at least" if self.is_reward else "at most"

    @property
    def other_side(self) -> str:
        """The direction of a lower bound on a cost."""
        return "at most" if self.is_reward else "at least"

    def convert(self, cost: object) -> float | None:
        """Return a cost in the reader's units."""
        if not is_number(cost):
            return None
        return 0.0 - float(cost) if self.is_reward else float(cost)

    def interval(self, estimate: Mapping | None) -> ConfidenceInterval:
        """Return the value, low and high of a mapping in the reader's units."""
        value, low, high = (self.convert((estimate or {}).get(key)) for key in ("value", "low", "high"))
        return ConfidenceInterval(value, high, low) if self.is_reward else ConfidenceInterval(value, low, high)

    def estimate(self, cost: Interval | None) -> ConfidenceInterval:
        """Return an estimate and its interval in the reader's units."""
        return self.interval({} if cost is None else {"value": cost, "low": cost.low, "high": cost.high})
