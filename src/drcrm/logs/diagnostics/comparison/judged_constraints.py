"""What rows show of guardrails and limits: whether bounds are within what they allow, for answers and sentences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from drcrm.arrays.formats import (
    Units,
    capitalize,
    decimals_for,
    format_number,
    format_signed,
    typeset_sign,
    with_confidence,
)
from drcrm.errors import InputError
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.logs.diagnostics.check import to_json
from drcrm.logs.diagnostics.comparison.advice import MORE_ROWS
from drcrm.mapping.entries import Guardrail
from drcrm.selection.candidates import EffectiveNumber, effective_number


@dataclass(frozen=True)
class JudgedConstraint(ABC):
    """A constraint of a mapping, and what the rows show of it.

    Attributes
    ----------
    constraint : Guardrail or ActionLimit
    estimate : Interval
    allowed : float
        The largest value that meets the constraint; NaN if it is unknown.
    bound, lower_bound : float
        Upper bound at level δ/k, and lower bound at level δ/(2k); infinite if there are none.
    refusal : str
        Why the constraint cannot be decided, or an empty string.
    effective_choices : int
        Effective number k of candidates.
    """

    KEY: ClassVar[str]  # of these constraints in an answer
    TITLE: ClassVar[str]
    ROUNDING: ClassVar[float] = 0.0

    constraint: Any
    estimate: Interval
    allowed: float
    bound: float = np.inf
    lower_bound: float = -np.inf
    refusal: str = ""
    effective_choices: int = 1

    @property
    def status(self) -> str:
        """Return "holds", "violated" or "not shown"."""
        if self.bound - self.allowed < self.ROUNDING:
            return "holds"
        return "violated" if self.lower_bound - self.allowed > self.ROUNDING else "not shown"

    @property
    def certified(self) -> float:
        """The bound that the status follows from: the lower bound if the constraint is violated."""
        return self.lower_bound if self.status == "violated" else self.bound

    @property
    @abstractmethod
    def subject(self) -> str:
        """The constraint as messages name it."""

    @abstractmethod
    def values(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the constraint and its result as JSON values."""

    @abstractmethod
    def describe(self, confidence: float) -> str:
        """Return a sentence on whether the constraint holds."""

    @abstractmethod
    def advise(self) -> tuple[str, bool]:
        """Return what would change the result, and whether more rows may help."""

    @classmethod
    def describe_all(cls, judged: Sequence[Self], confidence: float) -> str:
        """Return sentences on all constraints of this kind."""
        return "".join(f" {part.describe(confidence)}" for part in judged)

    def as_dict(self) -> dict[str, Any]:
        """Return the constraint and its result as JSON values."""
        constraint, result = self.values()
        ends = {"refused": self.refusal or None, "effective_choices": self.effective_choices}
        return {"name": self.constraint.name, **constraint, "status": self.status, **result, **ends}

    @property
    def bounds(self) -> dict[str, Any]:
        """The bounds as JSON values."""
        return {name: to_json(getattr(self, name)) for name in ("bound", "lower_bound")}


class JudgedGuardrail(JudgedConstraint):
    """A guardrail, and what the rows show of it.

    The estimate is the difference in costs, policy minus logging policy or baseline. It may be at most the margin.
    """

    KEY, TITLE = "guardrails", "Guardrail"

    @classmethod
    def of(cls, guardrail: Guardrail, outcome: Any, choices: int, rounding: float = 0.0) -> Self:
        """Return the result of an outcome, a Comparison or WatchedOutcome; bounds are wider by the ``rounding``."""
        try:
            margin = guardrail.margin_of(outcome.reference)
        except InputError as error:
            return cls(guardrail, outcome.difference, np.nan, refusal=str(error), effective_choices=choices)
        lower, upper = outcome.bounds
        return cls(guardrail, outcome.difference, margin, upper + rounding, lower - rounding, outcome.refusal, choices)

    @property
    def subject(self) -> str:
        """The guardrail as messages name it."""
        return f"guardrail {self.constraint.name}"

    def values(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the guardrail and its result as JSON values."""
        rail = self.constraint
        return {"outcome": rail.column, "reward": rail.is_reward}, {
            "margin": to_json(self.allowed),
            "condition": rail.describe_margin(),
            "estimate": self.estimate.estimate,
            "difference": self.estimate.as_dict() | self.bounds,
        }

    def describe(self, confidence: float) -> str:
        """Return a sentence about a guardrail that is violated, not shown to hold, or undecided."""
        rail, units, name = self.constraint, Units(self.constraint.is_reward), f"the {self.subject}"
        if self.refusal:
            return f"{name} cannot be decided: {self.refusal}."
        decimals = decimals_for([self.estimate.standard_error], [self.estimate])
        show = partial(format_number, decimals=decimals, sign=True)
        value, margin = show(units.sign * self.estimate), format_signed(units.sign * self.allowed)
        limit = f"{typeset_sign(rail.describe_margin())}, {margin}" if rail.is_relative else f"{units.side} {margin}"
        result, side = "is not shown to hold", units.side
        if self.status == "violated":
            result, side = "is violated", units.other_side
        bound = units.sign * self.certified
        certain = f", and by {side} {show(bound)} {with_confidence(confidence)}" if np.isfinite(bound) else ""
        return f"{name} {result}: {rail.column} changes by {value} per row{certain}, but must change by {limit}."

    def advise(self) -> tuple[str, bool]:
        """Return what would change the result of a guardrail, and whether more rows may help."""
        name = self.constraint.name
        if np.isnan(self.allowed):
            return f"Write the margin of {name} in units of {self.constraint.column}, not in per cent.", False
        if self.allowed < self.estimate <= 0:
            advice = "the estimate is better, but not by its margin."
            return f"Try another policy, or require less of {name}: {advice}", False
        if not self.estimate <= self.allowed:
            return f"Try another policy, or allow a wider margin for {name}: the estimate is beyond it.", False
        if self.refusal:
            return f"{MORE_ROWS}: these rows cannot decide {name}.", True
        return f"{MORE_ROWS}: the estimate of {name} is within its margin, but its bound is not.", True

    @classmethod
    def describe_all(cls, judged: Sequence[Self], confidence: float) -> str:
        """Return sentences on the guardrails that do not hold, or that all hold."""
        sentences = [rail.describe(confidence) for rail in judged if rail.status != "holds"]
        if sentences:
            return f" But {' '.join(sentences)}"
        return f" Guardrails that hold: {', '.join(rail.constraint.name for rail in judged)}."


@dataclass(frozen=True)
class JudgedLimit(JudgedConstraint):
    """A limit, and what the rows show of the share of its action, or of the mean price.

    Attributes
    ----------
    prices : dict
        Price of each action by its name.
    """

    KEY, TITLE = "limits", "Limit"
    ROUNDING = 1e-12

    prices: dict[str, float] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """The limit as messages name it."""
        return self.constraint.key

    def values(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the limit and its result as JSON values."""
        limit = {"action": self.constraint.action, "prices": self.prices, "at_most": self.allowed}
        return limit, self.estimate.as_dict() | self.bounds

    def describe(self, confidence: float) -> str:
        """Return a sentence on whether a limit holds, with its number and its bound."""
        limit, show = self.constraint, self.constraint.format
        subject = f"the {limit.name}, which must be at most {show(self.allowed)},"
        if self.refusal:
            return f"But {subject} cannot be decided: {self.refusal}."
        side = "above" if self.status == "violated" else "at most"
        result = f"is {show(float(self.estimate))}, and {side} {show(self.certified)} {with_confidence(confidence)}"
        if self.status == "holds":
            return f"{capitalize(subject)} {result}."
        return f"But {subject} is {'exceeded' if self.status == 'violated' else 'not shown to hold'}: it {result}."

    def advise(self) -> tuple[str, bool]:
        """Return what would change the result of a limit, and whether more rows may help."""
        name = self.constraint.name
        if self.refusal or self.estimate > self.allowed:
            return f"Learn with the limit on the {name} in the mapping, or allow more.", False
        return f"{MORE_ROWS}: the {name} is within its limit, but its bound is not.", True


def describe_constraints(judged: Sequence[JudgedConstraint], confidence: float) -> str:
    """Return sentences on constraints, by their kind."""
    kinds = dict.fromkeys(map(type, judged))
    return "".join(kind.describe_all([part for part in judged if type(part) is kind], confidence) for kind in kinds)


def rate(judged: Sequence[JudgedConstraint]) -> int:
    """Return 0 if an estimate is beyond what its constraint allows, 2 if all constraints hold, otherwise 1."""
    if not all(part.estimate <= part.allowed for part in judged):
        return 0
    return 2 if all(part.status == "holds" for part in judged) else 1


def effective_numbers(terms: Sequence[Mapping[str, Any]], confidence: float) -> dict[str, EffectiveNumber]:
    """Return the effective number of candidates for each constraint, by its key.

    ``terms`` has, for each candidate, the terms of each constraint by independent units, and the counts of the units.
    """
    return {
        key: effective_number(np.column_stack([part[key][0] for part in terms]), count, confidence)
        for key, (_, count) in terms[0].items()
    }
