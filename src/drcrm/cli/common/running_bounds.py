"""Bounds that hold at every look at a growing log, for ``drcrm certify --anytime``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from drcrm.certificates.bounds import ANYTIME, Bound
from drcrm.certificates.independent_units import group_means, number_groups
from drcrm.certificates.terms.anytime import anytime_terms
from drcrm.certificates.terms.evaluation import LOGGING, EvaluationInputs
from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.opened_log import OpenedLog
from drcrm.errors import InputError

LOOKS = 100  # how often the bound is computed


def watch(
    opened: OpenedLog, policy: Any, confidence: float, choices: int, largest_weight: float | None = None
) -> dict[str, Any]:
    """Return the bounds after all rows and at earlier looks, and when the policy was first shown to be better.

    The mapping's ``time``, or else the files, give the order of the rows. A group is one unit. It counts from its last
    row on, and its term is the mean of its rows' terms. The policy is better from the row on at which the bound on the
    main outcome, and those on the guardrails, have been below their limits: all these bounds hold together.

    Parameters
    ----------
    opened : OpenedLog
        Rows that did not train the policy.
    policy : any policy that :func:`drcrm.off_policy_value` accepts
    confidence : float
        Level 1 − δ of each of the two bounds: it holds at all looks together with this probability.
    choices : int
        Number K of candidates that share δ.
    largest_weight : float, optional
        Known limit on the weights of the baseline, if the log was opened with one.

    Returns
    -------
    dict
        - value and bound: the estimate of the policy's cost, and its upper bound.
        - difference and difference_bound: the same for its difference from the logged costs, or from the baseline.
        - first_better: the number of rows after which the policy was first shown to be better, or None.
        - guardrails: the bound on the difference of each guardrail's outcome.
        - n and by: the number of units, and "row" or "group".
        - curve: pairs of a number of rows and the bound on the difference.

    Raises
    ------
    InputError
        If the range of costs, or of a guardrail's outcome, is unknown.
    """
    log, rows, is_reward = opened.log, opened.log.rows, opened.log.description.is_reward
    time: Any = rows.get("time")
    order = np.arange(len(log.Y)) if time is None else np.argsort(time, kind="stable")
    unit = np.arange(len(log.Y)) if opened.units is None else number_groups(opened.units, len(log.Y))
    level = 1 - (1 - confidence) / choices
    running = partial(_Running.of, policy, order=order, unit=unit, level=level, largest_weight=largest_weight)
    needed = "cost_range in the mapping: [least, largest], the possible costs of any action"
    costs = _known_range(opened.mapping.cost_range, log.cost, is_reward, needed)
    reference = LOGGING if opened.baseline is None else opened.baseline
    cost, difference = (running(log, baseline, costs) for baseline in (None, reference))
    firsts, guardrails = [difference.first_below(0.0)], []
    for number, guardrail in enumerate(opened.mapping.guardrails):
        outcome, factor = log.with_cost(np.array(rows.get("guardrails")[:, number])), guardrail.baseline_factor
        needed = f"range in the {guardrail.label.rstrip(',')}: [least, largest], its possible outcomes"
        costs = _known_range(guardrail.cost_range, outcome.cost, guardrail.is_reward, needed)
        excess = running(outcome, LOGGING, costs, factor=factor)
        # The bound of a relative margin is on the difference minus the margin, a multiple of the logging policy's cost.
        firsts.append(excess.first_below(0.0 if guardrail.is_relative else guardrail.margin))
        guardrails.append(float(excess.bounds[-1] + (factor - 1) * (log.count @ outcome.cost) / log.size))
    return {
        "value": float(cost.z.mean()),
        "bound": cost.bound(len(cost.z)),
        "difference": float(difference.z.mean()),
        "difference_bound": float(difference.bounds[-1]),
        "first_better": None if None in firsts else int(cost.rows[max(firsts) - 1]),
        "guardrails": guardrails,
        "n": len(cost.z),
        "by": "row" if rows.get("groups") is None else "group",
        "curve": [
            [int(cost.rows[n - 1]), float(bound)] for n, bound in zip(cost.looks, difference.bounds, strict=True)
        ],
    }


@dataclass(frozen=True, eq=False)
class _Running:
    """Terms z of the units in the order in which they are complete, and the number of rows until then."""

    z: np.ndarray
    rows: np.ndarray
    method: Bound

    @classmethod
    def of(
        cls,
        policy: Any,
        log: BanditLog,
        baseline: Any,
        costs: tuple[float, float],
        order: np.ndarray,
        unit: np.ndarray,
        level: float,
        largest_weight: float | None = None,
        factor: float = 1.0,
    ) -> _Running:
        inputs = EvaluationInputs.create(policy, log, baseline, None, None, None)
        terms, high = anytime_terms(inputs, "ips", costs, largest_weight, factor)
        means, _ = group_means(unit, log.count, terms.z)
        last = np.zeros(len(means), dtype=int)
        np.maximum.at(last, unit[order], np.arange(len(unit)))
        complete = np.argsort(last)
        return cls(np.minimum(means[complete], high), last[complete] + 1, Bound(ANYTIME, level, high=high))

    def bound(self, n: int) -> float:
        """Return the bound after the first n units."""
        return self.method(self.z[:n], np.ones(n))

    @property
    def looks(self) -> np.ndarray:
        """Numbers of units after which the bound is computed."""
        return np.unique(np.linspace(1, len(self.z), LOOKS).astype(int))

    @cached_property
    def bounds(self) -> np.ndarray:
        """The bound at each look."""
        return np.array([self.bound(n) for n in self.looks])

    def first_below(self, limit: float) -> int | None:
        """Return the first number of units with a bound below a limit, at the first such look or since the last."""
        is_below = self.bounds < limit
        if not is_below.any():
            return None
        before, look = np.append(0, self.looks)[np.argmax(is_below) + np.arange(2)]
        return next(n for n in range(before + 1, look + 1) if self.bound(n) < limit)


def _known_range(
    known: tuple[float, float] | None, cost: np.ndarray, is_reward: bool, needed: str
) -> tuple[float, float]:
    """Return the range of the costs; for outcomes of 0 and 1 it is known. Otherwise the error names what is needed."""
    costs = infer_cost_range(known, cost, is_reward)
    if costs is None:
        raise InputError(f"--anytime needs {needed}")
    return costs


def infer_cost_range(
    known: tuple[float, float] | None, cost: np.ndarray, is_reward: bool
) -> tuple[float, float] | None:
    """Return the range of the costs; for outcomes of 0 and 1 it is known. None if it is unknown."""
    least = -1.0 if is_reward else 0.0
    if known is None and np.isin(cost, (least, least + 1)).all():
        return least, least + 1
    return known
