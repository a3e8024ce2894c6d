"""Evaluate policies on rows of a log that did not train them: estimates, comparisons, checks and a verdict."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from drcrm.cli.common.running_bounds import WatchedOutcome
from drcrm.diagnostics.comparison.breakeven_shift import find_breakeven_shift
from drcrm.diagnostics.comparison.guardrails import GuardedOutcomes, JudgedGuardrail, require_guardrails
from drcrm.diagnostics.comparison.policy_comparison import (
    Comparison,
    ComparisonSettings,
    compare_with_logging,
    estimate_values,
    sensitivity_to_propensities,
)
from drcrm.diagnostics.comparison.verdict import (
    ESTIMATED,
    Verdict,
    describe_breakeven,
    describe_missing,
    describe_shift,
    next_step,
    reach_verdict,
)
from drcrm.diagnostics.diagnosis import Diagnosis, check_log, diagnose, restrict_scores
from drcrm.diagnostics.estimated_propensities import check_overlap
from drcrm.diagnostics.opened_log import OpenedLog
from drcrm.evaluation.inputs import LOGGING
from drcrm.evaluation.off_policy_value import off_policy_value
from drcrm.evaluation.sensitivity import Sensitivity
from drcrm.policies.tabular import policy_for_log
from drcrm.version import __version__


@dataclass(frozen=True, eq=False)
class EvaluatedPolicy:
    """A policy with its cost model, and its name and settings for the answer.

    Attributes
    ----------
    name, label : str
        The policy's name in the answer's JSON, and its name in sentences.
    policy : any policy that :func:`drcrm.off_policy_value` accepts
    cost_model : optional
    clip : float, "auto" or None
        The clipping constant of the estimate "clipped_ips".
    settings : mapping
        The hyper-parameter of the algorithm, the ridge penalty and the step, for the answer.
    is_shown : bool
        Whether the algorithm's own candidates choose this one as better than the logging policy.
    """

    name: str
    label: str
    policy: object
    cost_model: object = None
    clip: float | str | None = "auto"
    settings: Mapping[str, object] = field(default_factory=dict)
    is_shown: bool = False


@dataclass(frozen=True)
class Evaluation:
    """Comparisons of policies with the logging policy on the same rows, and the verdict on one of the policies.

    Attributes
    ----------
    opened : OpenedLog
        The rows.
    policies : sequence of EvaluatedPolicy
    best : EvaluatedPolicy
        The policy that the verdict is about.
    comparisons : list of Comparison
        One for each policy.
    diagnosis : Diagnosis
        Checks of the log, and of the best policy.
    verdict : Verdict
    settings : ComparisonSettings
    sensitivity : Sensitivity or None
        Worst case of the policy's cost if propensities are wrong. None if the policy is not better and no factor was
        given.
    breakeven_shift : float or None
        κ*, the largest radius up to which the policy's worst case is shown to be better. None if the policy is not.
    running : mapping or None
        Bounds that hold at every look: see :func:`drcrm.cli.common.running_bounds.watch`.
    watched : WatchedOutcome or None
        The estimates of the best policy by the terms of these bounds.
    guardrails : list of JudgedGuardrail
        Results of the guardrails for the best policy.
    """

    opened: OpenedLog
    policies: Sequence[EvaluatedPolicy]
    best: EvaluatedPolicy
    comparisons: list[Comparison]
    diagnosis: Diagnosis
    verdict: Verdict
    settings: ComparisonSettings
    sensitivity: Sensitivity | None = None
    breakeven_shift: float | None = None
    running: Mapping[str, Any] | None = None
    watched: WatchedOutcome | None = None
    guardrails: Sequence[JudgedGuardrail] = ()

    @property
    def is_better(self) -> bool:
        """Whether the best policy is better than the logging policy."""
        return self.verdict.verdict == "better"

    def answer(self, command: str, **parts: object) -> dict:
        """Return the answer of a command, with its own ``parts``."""
        settings, opened = self.settings, self.opened
        common: dict[str, object] = {
            "choices": settings.choices,
            "effective_choices": settings.divisor,
            "candidates": self.candidates(),
            "verdict": asdict(self.verdict),
            "sensitivity": self.sensitivity and self.sensitivity.as_dict(),
            "running": self.running,
            "breakeven_shift": self.breakeven_shift,
            "next_step": next_step(self.verdict),
            "guardrails": [guardrail.as_dict() for guardrail in self.guardrails],
            "reference": settings.reference,
        }
        if settings.shift is not None:
            common["shift"] = settings.shift
        if opened.baseline is not None:  # its cost model is that of the policy
            estimates = self._estimates(opened.baseline, self.best.cost_model)
            if self.running is not None and self.watched is not None and self.watched.baseline is not None:
                estimates[self.running["estimate"]] = self.watched.baseline.as_dict()
            common["baseline"] = {"name": settings.reference, "estimates": estimates}
        return build_answer(command, opened, self.diagnosis, settings.confidence, **common | parts)

    def _estimates(self, policy: Any, cost_model: Any, **clip: Any) -> dict[str, object]:
        """Return the estimates of a policy as JSON values."""
        options: dict[str, Any] = {"groups": self.diagnosis.units, "confidence": self.settings.confidence}
        return estimate_values(policy, self.opened.evaluated, cost_model=cost_model, **options, **clip)

    def candidates(self) -> list[dict]:
        """Return the estimates and the comparison of each policy as JSON values."""
        defaults = {"parameter": None, "value": None, "ridge": 0.0, "step": 1.0, "sharpness": 1.0}
        entries = []
        for policy, comparison in zip(self.policies, self.comparisons, strict=True):
            values = self._estimates(policy.policy, policy.cost_model, clip=policy.clip)
            entry = {"name": policy.name, "label": policy.label, "estimates": values, **comparison.as_dict()}
            if self.running is not None and self.watched is not None:
                values[self.running["estimate"]] = self.watched.cost.as_dict()
                entry |= self._running_bounds(entry["difference"])
            entries.append(
                entry | defaults | dict(policy.settings) | {"chosen": policy is self.best, "best": policy is self.best}
            )
        return entries

    def _running_bounds(self, difference: Any) -> dict[str, Any]:
        """Return the certificate and the difference with the bounds that hold at every look."""
        running: Any = self.running
        certificate = {"confidence": self.settings.confidence, "choices": self.settings.choices}
        certificate |= {key: running[key] for key in ("estimate", "value", "bound", "n", "by")}
        return {"certificate": certificate, "difference": difference | {"bound": running["difference_bound"]}}


def exit_status(
    verdict: Verdict,
    requirement: str | None,
    guardrails: Sequence[JudgedGuardrail] = (),
    trusts_propensities: bool = False,
) -> int:
    """Return the exit status for --fail-unless: 0 if the requirement holds, 3 if not, 4 if the log does not decide it.

    *better* counts as *not shown* if it has an assumption that the mapping does not trust. *not shown* with a violated
    guardrail counts as *worse*. Print the verdict to standard error if the requirement does not hold.
    """
    name, is_assumed = verdict.verdict, bool(verdict.assumption) and not trusts_propensities
    violated = [rail.guardrail.name for rail in guardrails if name == "not shown" and rail.status == "violated"]
    passing = {"better": () if is_assumed else ("better",), "not-worse": ("better", "not shown")}
    if requirement is None or (name in passing[requirement] and not violated):
        return 0
    reason = f", and the guardrail {violated[0]} is violated" if violated else ""
    if name == "better":
        reason = f", if {verdict.assumption}; to accept this, write propensity_model: {{model: auto, trusted: true}}"
    print(f"--fail-unless {requirement}: the verdict is {name!r}{reason}", file=sys.stderr)
    return 3 if violated or name in ("worse", "the log is wrong") else 4


def evaluate(
    opened: OpenedLog, policies: Sequence[EvaluatedPolicy], best: EvaluatedPolicy, settings: ComparisonSettings
) -> Evaluation:
    """Compare policies with the logging policy, and reach a verdict on one of them.

    Parameters
    ----------
    opened : OpenedLog
        Rows that trained none of the policies.
    policies : sequence of EvaluatedPolicy
    best : EvaluatedPolicy
        One of ``policies``, which the checks and the verdict are about.
    settings : ComparisonSettings
        ``settings.choices`` counts all candidates that competed on these rows.
    """
    if opened.baseline is None:
        settings = replace(settings, reference=opened.reference)
    diagnosis = diagnose_log(opened, best, settings.confidence)
    log, units = opened.evaluated, diagnosis.units
    baseline = LOGGING if opened.baseline is None else opened.baseline
    comparisons = [
        compare_with_logging(
            policy.policy, log, settings, cost_model=policy.cost_model, groups=units, baseline=baseline
        )
        for policy in policies
    ]
    comparison = comparisons[policies.index(best)]
    description = opened.evaluated.description
    names = {"label": best.label, "reward": description.is_reward, "outcome": description.outcome}
    verdict = reach_verdict(comparison, diagnosis, **names)
    outcomes = guarded_outcomes(opened, comparison.difference.estimate, units)
    guardrails = outcomes.with_support(best.cost_model).judge(best.policy, settings)
    verdict = require_guardrails(verdict, guardrails, settings.confidence)
    is_better, worst, breakeven = verdict.verdict == "better", None, None
    is_wanted = is_better or (settings.gamma is not None and comparison.certificate is not None)
    if is_wanted and opened.baseline is None and settings.shift is None:  # it compares mean costs with the logged costs
        worst = sensitivity_to_propensities(best.policy, log, settings, cost_model=best.cost_model, groups=units)
    if is_better:
        breakeven = find_breakeven_shift(
            best.policy, log, settings, cost_model=best.cost_model, groups=units, baseline=baseline
        )
    of_missing, missing = describe_missing(comparison, log.size) if is_better else ("", [])
    sentence = verdict.sentence + (describe_breakeven(worst) if is_better else "") + of_missing
    cautions = [*verdict.cautions, *missing, *describe_shift(settings.shift)]
    assumption = ESTIMATED if log.imitated_propensities else ""
    verdict = replace(verdict, sentence=sentence, cautions=cautions, assumption=assumption)
    results = {"sensitivity": worst, "breakeven_shift": breakeven, "guardrails": guardrails}
    return Evaluation(opened, policies, best, comparisons, diagnosis, verdict, settings, **results)


def guarded_outcomes(opened: OpenedLog, estimate: str, units: Any) -> GuardedOutcomes:
    """Return the outcomes of the guardrails on the rows that evaluate policies."""
    costs = opened.evaluated.column("guardrails")
    baseline = LOGGING if opened.baseline is None else opened.baseline
    return GuardedOutcomes.of(opened.mapping.guardrails, opened.evaluated, costs, estimate, units, baseline)


def diagnose_log(opened: OpenedLog, policy: EvaluatedPolicy | None = None, confidence: float = 0.95) -> Diagnosis:
    """Check a log, and optionally a policy on it. The checks that need no policy use the whole log."""
    row_checks, whole, rows = opened.checks.diagnostics, opened.whole, opened.evaluated_rows
    if opened.policy_change is not None:
        row_checks = (opened.policy_change.check(), *row_checks)
    checks, overlap = check_log(opened.evaluated if whole is None else whole, row_checks=row_checks), None
    if whole is not None and rows is not None:
        if policy is not None and whole.imitated_propensities:
            mean = policy_for_log(policy.policy, whole).marginals_on(whole.X, whole.actions)
            check, corrected = check_overlap(whole, mean, checks.modelled, checks.units)
            overlap = check, None if corrected is None else restrict_scores(corrected, rows, whole)
        checks = checks.restrict_to(rows, whole)
    if policy is None:
        return diagnose(opened.evaluated, checks=checks)
    options = {"cost_model": policy.cost_model, "confidence": confidence, "overlap": overlap}
    return diagnose(opened.evaluated, policy.policy, checks, **options)


def build_answer(
    command: str, opened: OpenedLog, diagnosis: Diagnosis, confidence: float, **parts: object
) -> dict[str, Any]:
    """Return the answer of a command on a log as JSON values.

    ``logging`` is the mean cost of the log with its interval. ``parts`` are the keys that not all commands share.
    """
    logging = off_policy_value(
        opened.evaluated.propensity, opened.evaluated, "ips", groups=diagnosis.units, confidence=confidence
    )
    header = {
        "command": command,
        "version": __version__,
        "unit": "cost",
        "log": opened.as_dict(),
        "reward": opened.evaluated.description.is_reward,
        "outcome": opened.evaluated.description.outcome,
        "confidence": confidence,
        "logging": logging.as_dict(),
    }
    return header | diagnosis.as_dict() | parts
