"""Bounds that hold at every look at a growing log, for ``drcrm certify --anytime``."""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.certificates.anytime import anytime_terms
from drcrm.certificates.bounds import ANYTIME, Bound
from drcrm.certificates.evaluation import LOGGING, EvaluationInputs
from drcrm.certificates.independent_units import group_means, number_groups
from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.opened_log import OpenedLog
from drcrm.errors import InputError

LOOKS = 100  # how often the bound is computed


def watch(opened: OpenedLog, policy: Any, confidence: float, choices: int) -> dict[str, Any]:
    """Return the bounds after all rows and at earlier looks, and when the policy was first shown to be better.

    The mapping's ``time``, or else the files, give the order of the rows. A group is one unit. It counts from its last
    row on, and its term is the mean of its rows' terms.

    Parameters
    ----------
    opened : OpenedLog
        Rows that did not train the policy.
    policy : any policy that :func:`drcrm.off_policy_value` accepts
    confidence : float
        Level 1 − δ of each of the two bounds: it holds at all looks together with this probability.
    choices : int
        Number K of candidates that share δ.

    Returns
    -------
    dict
        - value and bound: the estimate of the policy's cost, and its upper bound.
        - difference and difference_bound: the same for its difference from the logged costs.
        - first_better: the number of rows after which this bound was first below 0, or None.
        - n and by: the number of units, and "row" or "group".
        - curve: pairs of a number of rows and the bound on the difference.

    Raises
    ------
    InputError
        If the range of costs is unknown.
    """
    log, costs = opened.log, known_cost_range(opened)
    if costs is None:
        raise InputError(
            "--anytime needs cost_range in the mapping: [least, largest], the possible costs of any action"
        )
    order = np.arange(len(log.Y)) if opened.records.time is None else np.argsort(opened.records.time, kind="stable")
    unit = np.arange(len(log.Y)) if opened.units is None else number_groups(opened.units, len(log.Y))
    level = 1 - (1 - confidence) / choices
    cost, difference = (_Running.of(policy, log, baseline, costs, order, unit, level) for baseline in (None, LOGGING))
    looks = np.unique(np.linspace(1, len(cost.z), LOOKS).astype(int))
    bounds = np.array([difference.bound(n) for n in looks])
    first = _first_below_zero(difference, looks, bounds)
    return {
        "value": float(cost.z.mean()),
        "bound": cost.bound(len(cost.z)),
        "difference": float(difference.z.mean()),
        "difference_bound": float(bounds[-1]),
        "first_better": None if first is None else int(cost.rows[first - 1]),
        "n": len(cost.z),
        "by": "row" if opened.records.groups is None else "group",
        "curve": [[int(cost.rows[n - 1]), float(bound)] for n, bound in zip(looks, bounds, strict=True)],
    }


class _Running:
    """Terms of the units in the order in which they are complete, and the number of rows until then."""

    def __init__(self, z: np.ndarray, rows: np.ndarray, bound: Bound):
        self.z, self.rows, self._bound = z, rows, bound

    @classmethod
    def of(
        cls,
        policy: Any,
        log: BanditLog,
        baseline: str | None,
        costs: tuple[float, float],
        order: np.ndarray,
        unit: np.ndarray,
        level: float,
    ) -> _Running:
        inputs = EvaluationInputs.create(policy, log, baseline, None, None, None)
        terms, high = anytime_terms(inputs, "ips", costs)
        means, _ = group_means(unit, log.count, terms.z)
        last = np.zeros(len(means), dtype=int)
        np.maximum.at(last, unit[order], np.arange(len(unit)))
        complete = np.argsort(last)
        return cls(np.minimum(means[complete], high), last[complete] + 1, Bound(ANYTIME, level, high=high))

    def bound(self, n: int) -> float:
        """Return the bound after the first n units."""
        return self._bound(self.z[:n], np.ones(n))


def _first_below_zero(running: _Running, looks: np.ndarray, bounds: np.ndarray) -> int | None:
    """Return the first number of units with a bound below 0, at the first such look or after the look before it."""
    is_below = bounds < 0
    if not is_below.any():
        return None
    place = int(np.argmax(is_below))
    before = looks[place - 1] if place else 0
    return next(n for n in range(before + 1, looks[place] + 1) if running.bound(n) < 0)


def known_cost_range(opened: OpenedLog) -> tuple[float, float] | None:
    """Return the range of costs of the mapping; for outcomes of 0 and 1 it is known. None if it is unknown."""
    known, cost = opened.records.mapping.cost_range, opened.log.cost
    if known is None and np.isin(cost, (0, -1) if opened.records.is_reward else (0, 1)).all():
        return (-1.0, 0.0) if opened.records.is_reward else (0.0, 1.0)
    return known
