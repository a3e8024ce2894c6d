"""The answer that :func:`drcrm.learn`, :func:`drcrm.certify`, :func:`drcrm.evaluate` and ``drcrm diagnose`` return.

The page and the terminal read it.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from drcrm import __version__
from drcrm.arrays.formats import ConfidenceInterval, Units, decimals_for, format_level, format_number, is_number
from drcrm.errors import InputError
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.evaluation.results import Sensitivity
from drcrm.files import write_text
from drcrm.logs.diagnostics.check import Check, to_json
from drcrm.logs.diagnostics.comparison.judged_constraints import JudgedConstraint, JudgedGuardrail, JudgedLimit
from drcrm.logs.diagnostics.comparison.reference import Reference
from drcrm.logs.diagnostics.comparison.verdict import Verdict
from drcrm.logs.diagnostics.comparison.words import Statement
from drcrm.logs.policy_file import StoredPolicy, write_policy
from drcrm.logs.report.candidate import Candidate

CONSTRAINTS = JudgedGuardrail, JudgedLimit
LEVELS = {"fail": "fails", "caution": "caution", "good": "good"}  # worst first


@dataclass(frozen=True, eq=False)
class Answer:
    """A verdict on a policy with its evidence. ``print`` shows a short text, and notebooks show the report.

    Attributes
    ----------
    command : str
        "learn", "certify", "evaluate_policy" or "diagnose", which has no verdict.
    log : mapping
        Describes the log, as JSON values.
    units : Units
        Of the outcome. All other numbers are costs.
    confidence : float
        Level of the intervals.
    logging : Interval
        Mean cost of the log.
    checks : sequence of Check
    tables : mapping
        See :class:`drcrm.logs.diagnostics.diagnosis.Diagnosis`.
    verdict : Verdict or None
        The verdict by name and reason, with the guardrails; None if only the log was checked.
    statement : Statement or None
        The verdict in words.
    candidates : sequence of Candidate
        The evaluated policies.
    choices, effective_choices : int or None
        Number of candidates that competed on these rows, and their effective number.
    reference : Reference
        Reference of the comparison: its name, and the radius κ if worst cases are compared.
    reference_candidate : Candidate or None
        The estimates of the reference, if it is not the logging policy.
    blocks : sequence of mapping or None
        The differences of blocks: see :func:`drcrm.logs.block_policies.describe_blocks`.
    gain, running : mapping or None
        See :class:`drcrm.logs.diagnostics.comparison.verdict.Evidence`.
    sensitivity : Sensitivity or None
    breakeven_shift : float or None
        κ* of a better policy: see :func:`drcrm.logs.diagnostics.comparison.policy_comparison.find_breakeven_shift`.
    curves : sequence of LimitCurve
        See :mod:`drcrm.logs.decisions.alternatives`.
    further : mapping
        Keys of the JSON that a single command has.
    is_trusted : bool
        Whether the propensities were logged, or the mapping trusts their estimates.
    policy, candidate : StoredPolicy or None
        Results of :func:`drcrm.learn`: the policy to run, and the best candidate if that is another one.
    """

    command: str
    log: Mapping[str, Any]
    units: Units
    confidence: float
    logging: Interval
    checks: Sequence[Check] = ()
    tables: Mapping[str, Any] = field(default_factory=dict)
    verdict: Verdict | None = None
    statement: Statement | None = None
    candidates: Sequence[Candidate] = ()
    choices: int | None = None
    effective_choices: int | None = None
    reference: Reference = field(default_factory=Reference)
    reference_candidate: Candidate | None = None
    blocks: Sequence[Mapping[str, Any]] | None = None
    gain: Mapping[str, Any] | None = None
    running: Mapping[str, Any] | None = None
    sensitivity: Sensitivity | None = None
    breakeven_shift: float | None = None
    curves: Sequence[Any] = ()
    further: Mapping[str, Any] = field(default_factory=dict)
    is_trusted: bool = True
    policy: StoredPolicy | None = None
    candidate: StoredPolicy | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as JSON values.

        Returns
        -------
        dict
            Costs and differences of costs per row, the checks, and the verdict in words. ``gain`` also has the
            difference per week and in units of the outcome.
        """
        values = {
            "command": self.command,
            "version": __version__,
            "unit": "cost",
            "log": self.log,
            "reward": self.units.is_reward,
            "outcome": self.units.outcome,
            "confidence": self.confidence,
            "logging": self.logging.as_dict(),
            "diagnostics": [check.as_dict() for check in self.checks],
            **self.tables,
            **self.further,
        }
        return to_json(values if self.statement is None else values | self._verdict_as_dict(self.statement))

    def _verdict_as_dict(self, statement: Statement) -> dict[str, Any]:
        """Return the keys of an answer that has a verdict."""
        reference, candidate = self.reference, self.reference_candidate
        optional = {
            "blocks": self.blocks,
            "shift": reference.radius,
            "baseline": candidate and {"name": reference.name, "estimates": candidate.as_dict()["estimates"]},
        }
        return {
            "choices": self.choices,
            "effective_choices": self.effective_choices,
            "candidates": [candidate.as_dict() for candidate in self.candidates],
            "verdict": statement.as_dict(),
            "sensitivity": self.sensitivity and self.sensitivity.as_dict(),
            "running": self.running,
            "breakeven_shift": self.breakeven_shift,
            "next_step": statement.next_step,
            "gain": self.gain,
            **{kind.KEY: [part.as_dict() for part in self.constraints(kind)] for kind in CONSTRAINTS},
            "reference": reference.name,
            **({"curve": [curve.as_dict() for curve in self.curves]} if self.curves else {}),
            **{key: value for key, value in optional.items() if value is not None},
        }

    def constraints(self, kind: type[JudgedConstraint]) -> list[Any]:
        """Return what the log shows of the constraints of a kind."""
        return [part for part in self.verdict.constraints if isinstance(part, kind)] if self.verdict else []

    def report(self, path: str | Path) -> None:
        """Write the report, an HTML file that loads nothing.

        Parameters
        ----------
        path : str or Path
            The file to write. An existing file is replaced.
        """
        from drcrm.logs.report.page import page

        write_text(Path(path), page(self))

    def save(self, path: str | Path) -> None:
        """Write the learned policy to a file, for :func:`drcrm.load_policy` and :func:`drcrm.certify`.

        Parameters
        ----------
        path : str or Path
            The file to write, npz.

        Raises
        ------
        InputError
            If the answer is not one of :func:`drcrm.learn`.
        """
        if self.policy is None:
            raise InputError("the answer has no policy to save: only answers of drcrm.learn have one")
        write_policy(Path(path), self.policy)

    def __str__(self) -> str:
        from drcrm.logs.report.texts import text

        return text(self)

    def _repr_html_(self) -> str:
        """Return the report in a frame, which keeps its styles apart from those of the notebook."""
        from drcrm.logs.report.page import page

        source = html.escape(page(self), quote=True)
        return f'<iframe srcdoc="{source}" width="100%" height="600" style="border: 0"></iframe>'

    @property
    def is_better(self) -> bool:
        """Whether the policy was shown to be better."""
        return self.verdict is not None and self.verdict.is_better

    @property
    def level(self) -> str:
        """The confidence level of the intervals, in percent."""
        return format_level(self.confidence)

    @property
    def logging_candidate(self) -> Candidate:
        """The logging policy as a candidate."""
        return Candidate("logging", "π0", {"ips": self.logging}, units=self.units, is_logging=True)

    @cached_property
    def ranked(self) -> list[Candidate]:
        """The evaluated policies: the chosen one, the logging policy, then the others by :attr:`Candidate.rank`."""
        return sorted(
            self.candidates, key=lambda candidate: (not candidate.is_chosen, not candidate.is_logging, candidate.rank)
        )

    @cached_property
    def compared(self) -> list[Candidate]:
        """The candidates. The logging policy follows the first one if it is not a candidate, then the baseline."""
        added = []
        if is_number(self.logging) and not any(candidate.is_logging for candidate in self.candidates):
            added.append(self.logging_candidate)
        if self.reference_candidate is not None and not any(candidate.is_baseline for candidate in self.candidates):
            added.append(self.reference_candidate)
        return [*self.ranked[:1], *added, *self.ranked[1:]]

    @property
    def chosen(self) -> Candidate | None:
        """The policy that the verdict is about, if one was chosen or there is only one."""
        is_clear = len(self.ranked) == 1 or any(candidate.is_chosen for candidate in self.ranked)
        return self.ranked[0] if is_clear else None

    @property
    def keeps_reference(self) -> bool:
        """Whether the logging policy, or the baseline, was chosen."""
        return self.chosen is not None and self.chosen.is_reference

    @property
    def evaluated(self) -> Candidate | None:
        """The policy of the headline: the chosen one, or the judged candidate if the logging policy was kept."""
        if not self.keeps_reference:
            return self.chosen
        rivals = [candidate for candidate in self.ranked if not candidate.is_reference]
        return min(rivals, key=lambda candidate: (not candidate.is_best, candidate.rank), default=None)

    @property
    def subject(self) -> str:
        """The noun for the evaluated policy in sentences."""
        if self.blocks:
            return "The way of learning"
        if self.keeps_reference:
            return "The best candidate"
        return "The learned policy" if self.command == "learn" else "The evaluated policy"

    @property
    def tested_rows(self) -> str:
        """The name of the rows that evaluate policies."""
        if self.blocks:
            return "rows of the blocks"
        return "held-out rows" if self.log.get("heldout") else "rows"

    @cached_property
    def ranked_checks(self) -> list[Check]:
        """The checks, worst first."""
        order = list(LEVELS)
        return sorted(self.checks, key=lambda check: order.index(check.level))

    def count_level(self, level: str) -> int:
        """Return how many checks have a level."""
        return sum(check.level == level for check in self.checks)

    @cached_property
    def decimals(self) -> int:
        """The decimals of costs and rewards."""
        evaluated = self.evaluated
        difference = {} if evaluated is None else evaluated.difference_from_reference
        if difference.get("value") is not None:  # the sentences of a verdict have the same decimals
            return decimals_for([difference.get("standard_error")], [difference["value"]])
        estimate = evaluated and evaluated.estimates.get(evaluated.main_estimate)
        known = [self.logging] if estimate is None else [self.logging, estimate]
        return decimals_for([value.standard_error for value in known], known)

    def format(self, value: object, sign: bool = False) -> str:
        """Return a cost or reward with the decimals of this answer."""
        return format_number(value, self.decimals, sign)

    def format_interval(self, interval: ConfidenceInterval, empty: str, sign: bool = False) -> str:
        """Return the ends of an interval."""
        if not interval.is_bounded:
            return empty
        return f"{self.format(interval.low, sign)} to {self.format(interval.high, sign)}"
