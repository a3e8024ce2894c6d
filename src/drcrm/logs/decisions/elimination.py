"""Elimination: which of several policies can still be the best one, by bounds on their costs that hold at every look.

Each of K policies has an upper and a lower bound on its cost, each at level δ/K. A policy leaves at the first look at
which its lower bound is above the smallest upper bound of the others. The best policy leaves only if its own lower
bound or another policy's upper bound is false. These are K bounds, so the probability that it ever leaves is at most δ.
Sources: Molitor 2026; Ryu, Kwon, Koppe & Jun 2025.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from drcrm.errors import InputError
from drcrm.evaluation.bounds.betting_terms import CostMixture
from drcrm.evaluation.bounds.independent_units import require_single_rows
from drcrm.evaluation.bounds.upper_bound import LeastFavourable
from drcrm.logs.decisions.every_look import Growth, Watch, watch_costs
from drcrm.logs.decisions.opened_log import OpenedLog
from drcrm.logs.diagnostics.comparison.constraints import require_keys
from drcrm.logs.diagnostics.comparison.reference import NOTHING


@dataclass(frozen=True, eq=False)
class WatchedPolicy:
    """A policy with the bets on the upper and on the lower bound on its cost."""

    name: str
    upper: CostMixture | LeastFavourable
    lower: CostMixture | LeastFavourable


@dataclass(frozen=True)
class Elimination:
    """The result for K policies on the same rows.

    Attributes
    ----------
    names : sequence of str
    bounds : sequence of (float, float)
        Lower and upper bound on the cost of each policy after all rows.
    left : sequence of int or None
        Number of rows after which each policy left; None if it can still be best.
    """

    names: Sequence[str]
    bounds: Sequence[tuple[float, float]]
    left: Sequence[int | None]

    @property
    def leader(self) -> int:
        """The policy with the smallest upper bound."""
        return int(np.argmin([upper for _, upper in self.bounds]))

    @property
    def sentence(self) -> str:
        """Say which policy the verdict is about, which ones can still be best, and when the others left."""
        pairs = list(zip(self.names, self.left, strict=True))
        remaining = " or ".join(name for name, row in pairs if row is None)
        gone = "".join(f" {name} left after row {row}." for name, row in pairs if row is not None)
        leader = f" Of {len(pairs)} policies, {self.names[self.leader]} has the best bound and is described here."
        return f"{leader} The best policy is {remaining}, with the same confidence.{gone}"

    def as_dict(self) -> list[dict[str, Any]]:
        """Return the name, the bounds on the cost, and the row after which each policy left."""
        parts = zip(self.names, self.bounds, self.left, strict=True)
        return [{"name": name, "low": low, "high": high, "left_after": row} for name, (low, high), row in parts]


def eliminate(policies: Sequence[tuple[str, OpenedLog, Any]], settings: Watch) -> Elimination:
    """Return which policies can still be best on the rows of a log, in the order of time.

    Parameters
    ----------
    policies : sequence of (str, OpenedLog, policy)
        Name, rows and policy. All have the same rows, encoded for each policy.
    settings : Watch
        ``settings.choices`` is K.

    Raises
    ------
    InputError
        If the policies have different rows, or bounds at every look cannot be computed.
    """
    first = policies[0][1]
    for name, opened, _ in policies[1:]:
        if not _have_equal_rows(first, opened):
            raise InputError(
                f"all policies must be compared on the same rows, but {name} and {policies[0][0]} have different ones: "
                "use a log that trained none of them, and the same mapping"
            )
    require_keys(first.evaluated)
    rows = Growth.of(first, settings).rows
    watched = []
    for name, opened, policy in policies:
        require_single_rows(opened.evaluated)
        costs = watch_costs(opened, policy, settings)
        watched.append(WatchedPolicy(name, *(costs.bet(NOTHING, sign) for sign in (1, -1))))
    steps = steps_until_left(watched, len(rows))
    return Elimination(
        [policy.name for policy in watched],
        [(policy.lower.bound(), policy.upper.bound()) for policy in watched],
        [None if step is None else int(rows[step - 1]) for step in steps],
    )


def steps_until_left(policies: Sequence[WatchedPolicy], size: int) -> list[int | None]:
    """Return the number of steps after which each policy left, by bisection; None if it can still be best.

    Bounds never become wider, so a policy that left stays out.
    """

    @cache
    def bound(bets: CostMixture | LeastFavourable, steps: int) -> float:
        return float(bets.bounds(np.array([steps]))[0])

    def is_out(policy: WatchedPolicy, steps: int) -> bool:
        least_upper = min(bound(rival.upper, steps) for rival in policies if rival is not policy)
        return bound(policy.lower, steps) > least_upper

    def first_out(policy: WatchedPolicy) -> int | None:
        if not is_out(policy, size):
            return None
        low, high = 0, size
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if is_out(policy, middle) else (middle, high)
        return high

    return [first_out(policy) for policy in policies]


def _have_equal_rows(first: OpenedLog, second: OpenedLog) -> bool:
    """Return whether two logs have the same rows, with the same costs."""
    if first.mapping.cost_range != second.mapping.cost_range:
        return False
    logs = first.evaluated, second.evaluated
    return all(np.array_equal(*(getattr(log, name) for log in logs)) for name in ("cost", "propensity", "count"))
