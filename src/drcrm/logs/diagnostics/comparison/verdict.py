"""Decide on a policy. This is the only place where a verdict is made; :mod:`.words` puts it in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from drcrm.arrays.formats import Units, format_number
from drcrm.logs.diagnostics.check import Check, Consequence, to_json
from drcrm.logs.diagnostics.comparison.reference import Reference

if TYPE_CHECKING:
    from drcrm.evaluation.results import Sensitivity
    from drcrm.logs.diagnostics.comparison.judged_constraints import JudgedConstraint
    from drcrm.logs.diagnostics.comparison.policy_comparison import Comparison
    from drcrm.logs.diagnostics.diagnosis import Diagnosis

VERDICTS = "better", "not shown", "worse", "the log cannot say", "the log is wrong"
BETTER, NOT_SHOWN, WORSE, CANNOT_SAY, WRONG = VERDICTS
ROUNDING = 1e-12  # relative to the largest cost
WRONG_LOG = {Consequence.WRONG_PROPENSITIES, Consequence.WRONG_OR_DEPENDENT}
# Bounds by betting hold without these checks: they charge missing actions, and hold for every number of heavy rows.
CHARGED = {Consequence.OVERLAP, Consequence.FEW_ROWS}


@dataclass(frozen=True)
class Bounds:
    """Bounds on the difference of a policy's cost from that of the reference, or why there are none.

    Attributes
    ----------
    lower, upper : float
    rounding : float
        Differences up to this size count as 0.
    refusal : str or None
        Why there are no bounds; None if there are.
    needs_overlap : bool
        Whether the bounds need overlap; False for bounds by betting, which charge actions that the log lacks.
    has_every_action : bool
        Whether the logging policy is known to take every action in every context.
    constraints : sequence of JudgedConstraint
        What the bounds on other outcomes, and on shares and mean prices of actions, show.
    needs_rows : bool
        Whether the bounds are refused because rare rows dominate the estimate.
    """

    lower: float = -np.inf
    upper: float = np.inf
    rounding: float = 0.0
    refusal: str | None = None
    needs_overlap: bool = True
    has_every_action: bool = False
    constraints: Sequence[JudgedConstraint] = ()
    needs_rows: bool = False

    @classmethod
    def of(cls, comparison: Comparison) -> Bounds:
        """Return the bounds of a comparison at one look."""
        certificate, has_every_action = comparison.certificate, comparison.settings.full_support
        if certificate is None or comparison.cost_certificate is None:
            known = {"has_every_action": has_every_action, "needs_rows": comparison.needs_rows}
            return cls(refusal=comparison.refusal, **known)
        rounding = ROUNDING * max(map(abs, certificate.costs))
        return cls(comparison.lower_bound, certificate.bound, rounding, has_every_action=has_every_action)


@dataclass(frozen=True)
class Verdict:
    """One of ``VERDICTS``, and why.

    Attributes
    ----------
    name : str
    failed : tuple of Check
        The failed checks that decide, causes first. The sentence and the advice are about the first.
    refusal : str or None
        Why there are no bounds.
    direction : str
        What the bounds show about the policy: "better", "worse" or "not shown".
    constraints : sequence of JudgedConstraint
        What the log shows of each guardrail and each limit.
    is_own_log : bool
        Whether the policy logged the rows, so that it is compared with itself.
    lacks_rows : bool
        Whether more rows would make the failed checks pass, or allow bounds, because the logging policy takes every
        action.
    """

    name: str
    failed: tuple[Check, ...] = ()
    refusal: str | None = None
    direction: str = NOT_SHOWN
    constraints: Sequence[JudgedConstraint] = ()
    is_own_log: bool = False
    lacks_rows: bool = False

    @property
    def is_better(self) -> bool:
        """Whether the policy is better."""
        return self.name == BETTER

    @property
    def unmet(self) -> tuple[JudgedConstraint, ...]:
        """The guardrails and limits that are not shown to hold, if only they prevent *better*."""
        return tuple(part for part in self.constraints if part.status != "holds") if self.direction == BETTER else ()

    @property
    def violated(self) -> list[str]:
        """The violated guardrails and limits as messages name them, if the verdict is *not shown* by its bounds."""
        is_judged = self.name == NOT_SHOWN and self.has_bounds
        return [part.subject for part in self.constraints if is_judged and part.status == "violated"]

    @property
    def has_bounds(self) -> bool:
        """Whether the verdict follows from bounds."""
        return not self.failed and self.refusal is None


@dataclass(frozen=True)
class Evidence:
    """The results that a verdict follows from, and the names in its sentences.

    Attributes
    ----------
    comparison : Comparison
    diagnosis : Diagnosis
    label : str
        Name of the policy.
    units : Units
        Of the outcome.
    running : mapping or None
        Bounds that hold at every look: see :func:`drcrm.logs.decisions.every_look.watch`.
    rows_per_week : float or None
        Rows that the log has per week, if the mapping names their times.
    remedies : sequence of str
        Advice if there are no bounds; by default it follows from the checks.
    sensitivity : Sensitivity or None
        For a better policy, the worst case if propensities are wrong.
    """

    comparison: Comparison
    diagnosis: Diagnosis
    label: str = "the policy"
    units: Units = field(default_factory=Units)
    running: Mapping[str, Any] | None = None
    rows_per_week: float | None = None
    remedies: Sequence[str] = ()
    sensitivity: Sensitivity | None = None

    @property
    def confidence(self) -> float:
        return self.comparison.settings.confidence

    @property
    def reference(self) -> str:
        """The name of the reference."""
        return self.comparison.settings.reference.name

    @property
    def radius(self) -> float | None:
        """Radius of the shift."""
        return self.comparison.settings.reference.radius

    @property
    def quantity(self) -> str:
        """The name of the compared quantity."""
        name = self.units.name
        return name if self.radius is None else f"worst-case {name} under a shift of {format_number(self.radius)}"

    @property
    def bound(self) -> float | None:
        """The upper bound on the cost difference per row, if there is one."""
        if self.running is not None:
            return self.running["difference_bound"]
        return None if self.comparison.certificate is None else self.comparison.certificate.bound

    def gain(self, rows: float = 1.0) -> dict[str, Any]:
        """Return the difference from the reference in a number of rows, as a cost and in units of the outcome.

        The estimate is corrected for the choice among several candidates.
        """
        parts = self.comparison.corrected | ({} if self.bound is None else {"bound": self.bound})
        cost = to_json({key: rows * value for key, value in parts.items()})
        outcome = self.units.interval(cost)._asdict() | {"bound": self.units.convert(cost.get("bound"))}
        return {"cost": {"bound": None} | cost, "outcome": outcome}

    def as_dict(self) -> dict[str, Any]:
        """Return the part "gain" of an answer: the difference per row, and per week if times are known."""
        week = None if self.rows_per_week is None else self.gain(self.rows_per_week)
        names = {"outcome": self.units.name, "rows_per_week": self.rows_per_week}
        return names | {"per_row": self.gain(), "per_week": week}


def decide(checks: Sequence[Check], bounds: Bounds, reference: Reference | None = None) -> Verdict:
    """Return the verdict on a policy.

    =====================  ==================================================================================
    verdict                condition; the first one that holds decides
    =====================  ==================================================================================
    *the log is wrong*     The propensity audit fails; dependent rows or a leak do not explain it.
    *not shown*            Few rows have most of the weight, or rare rows prevent bounds; no other check fails, and the
                           logging policy is known to take every action, so more rows would help.
    *the log cannot say*   Another check fails, or there are no bounds.
    *not shown*            The policy would be compared with itself.
    *better*               The upper bound on the cost difference is below 0, and all guardrails and limits hold.
    *worse*                The lower bound on the cost difference is above 0.
    *not shown*            None of these.
    =====================  ==================================================================================

    Bounds by betting hold despite failures in ``CHARGED``, which then do not count. If another check fails, bounds by
    betting are not computed.
    """
    is_own_log = reference is not None and reference.is_same_policy
    make = partial(Verdict, constraints=bounds.constraints, is_own_log=is_own_log)
    failed = _decisive(checks)
    if not bounds.needs_overlap:
        failed = tuple(check for check in failed if check.consequence not in CHARGED)
    if wrong := tuple(check for check in failed if check.consequence in WRONG_LOG):
        return make(WRONG, wrong)
    if failed or bounds.refusal is not None:
        consequences = {check.consequence for check in failed}
        is_imprecise = consequences == {Consequence.FEW_ROWS} or (not failed and bounds.needs_rows)
        lacks_rows = is_imprecise and bounds.has_every_action
        return make(NOT_SHOWN if lacks_rows else CANNOT_SAY, failed, bounds.refusal, lacks_rows=lacks_rows)
    direction = BETTER if bounds.upper < -bounds.rounding else WORSE if bounds.lower > bounds.rounding else NOT_SHOWN
    verdict = make(direction, direction=direction)
    return replace(verdict, name=NOT_SHOWN) if verdict.unmet or is_own_log else verdict


def _decisive(checks: Sequence[Check]) -> tuple[Check, ...]:
    """Return the failed checks that count, causes first: in the order of :class:`Consequence`.

    A leaked outcome predicts the actions, and dependent rows predict each other's actions. Failures that these explain
    are no evidence of wrong propensities.
    """
    failed, order = [check for check in checks if check.has_failed], [*Consequence]
    consequences, explained = {check.consequence for check in failed}, set()
    if Consequence.LEAK in consequences:
        explained = WRONG_LOG
    elif Consequence.DEPENDENT_ROWS in consequences:
        explained = {Consequence.WRONG_OR_DEPENDENT}
    kept = [check for check in failed if check.consequence not in explained]
    return tuple(sorted(kept, key=lambda check: order.index(check.consequence)))
