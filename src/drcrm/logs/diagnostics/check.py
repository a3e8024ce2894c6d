"""The result of a check: its level, what a failure means, and a sentence; and what checks read of a log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

import numpy as np

from drcrm.arrays.formats import capitalize, percent
from drcrm.data.bandit_log import BanditLog
from drcrm.data.folds import ranks

LEVEL = 1e-4  # significance level of all tests of one check together
MIN_ROWS = 40  # logs with fewer rows are not checked for drift and leakage


class Consequence(Enum):
    """What a check means for the verdict, unless it passes. Causes precede their effects.

    A verdict's sentence and its advice are about the first failure in this order. A failure gives *the log cannot say*,
    unless :func:`drcrm.logs.diagnostics.comparison.verdict.decide` says otherwise. A new member needs its place here
    and its advice in ``advice.BY_CONSEQUENCE``; its sentence is that of the check. ``NONE`` belongs to checks that
    never fail, and ``UNTESTED`` to cautions. The values are notes for readers of the code.
    """

    NONE = "no failure: the check is at most a caution"
    UNTESTED = "claims hold only if the propensities are right"
    WRONG_PROPENSITIES = "the log is wrong, unless a leak explains it"
    WRONG_OR_DEPENDENT = "the log is wrong, unless a leak or dependent rows explain it"
    LEARNED_ROWS = "rows may have trained the policy, so the log cannot say"
    LEAK = "a feature knows the outcome, so the log cannot say"
    DEPENDENT_ROWS = "rows predict each other, so the log cannot say"
    DETERMINISTIC = "the logging policy hardly explores, so the log cannot say"
    UNBALANCED = "estimated propensities miss something, so the log cannot say"
    OVERESTIMATED = "estimates are too large for the policy's actions, so the log cannot say"
    OVERLAP = "the log has too little of the policy's actions; bounds that charge missing actions hold"
    MISSING_ACTIONS = "the log lacks actions or propensities are wrong, so the log cannot say"
    FEW_ROWS = "few rows have most of the weight: more rows help; bounds that charge missing actions hold"
    LOST_GAIN = "the policy's gain is gone in later rows, so the log cannot say"


@dataclass(frozen=True)
class Check:
    """The result of one check of a log or a policy.

    Attributes
    ----------
    key : str
        Name of the check in code.
    level : str
        "good", "caution" or "fail".
    consequence : Consequence
    name : str
        Name for readers: the common name of the quantity that the check computes. Code does not compare it.
    value : float or None
        The quantity.
    threshold : str
        The condition for the level "good", as a phrase.
    sentence : str
        The result with its numbers, without an initial capital letter and a full stop.
    source : str
        Source of the check, in most cases a publication.
    low, high : float or None
        Ends of the confidence interval of the value, at 95 % unless the threshold names another level.
    """

    key: str
    level: str
    consequence: Consequence
    name: str
    value: float | None
    threshold: str
    sentence: str
    source: str
    low: float | None = None
    high: float | None = None

    @property
    def has_failed(self) -> bool:
        return self.level == "fail"

    @property
    def statement(self) -> str:
        """The sentence with its capital letter and its full stop."""
        return f"{capitalize(self.sentence)}."

    def as_dict(self) -> dict[str, object]:
        """Return the attributes as JSON values. The sentence is the statement."""
        values = {name: value for name, value in asdict(self).items() if name not in ("key", "consequence")}
        return to_json(values) | {"sentence": self.statement}


def to_json(value: Any) -> Any:
    """Return a value as JSON values: numbers that are not finite become None, and arrays become lists."""
    if isinstance(value, Mapping):
        return {str(key): to_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [to_json(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def judge_share(share: float, most: float, fails: float) -> tuple[str, str]:
    """Return the threshold in words, and the level of a share that should be at most ``most``."""
    return f"at most {percent(most)}; fails above {percent(fails)}", worst_level(share > fails, share > most)


def worst_level(fails: bool, cautions: bool) -> str:
    """Return "fail" if the first condition holds, "caution" if only the second does, else "good"."""
    return "fail" if fails else "caution" if cautions else "good"


def time_order(log: BanditLog) -> np.ndarray:
    """Return the place of each row in the order of time, (n,); without times, rows are in order."""
    time = log.column("time")
    return np.arange(len(log.Y)) if time is None else ranks(time)


def row_numbers(log: BanditLog) -> np.ndarray:
    """Return the number of each row in its file, (n,)."""
    numbers = log.column("number")
    return np.arange(len(log.Y)) if numbers is None else numbers


def action_names(log: BanditLog) -> list:
    """Return the names of the actions or labels; their numbers without an encoding; none for lists."""
    if log.encoding is not None:
        return log.encoding.names
    return [*range(*log.actions.shape)] if log.actions.are_shared else []


def infer_cost_range(
    known: tuple[float, float] | None, cost: np.ndarray, is_reward: bool
) -> tuple[float, float] | None:
    """Return the range of the costs, which outcomes of 0 and 1, or 0 and −1, reveal; None if it is unknown."""
    usual = -1.0 if is_reward else 0.0  # of the least cost; it decides if all costs are 0
    for least in (usual, -1 - usual):
        if known is None and np.isin(cost, (least, least + 1)).all():
            return least, least + 1
    return known
