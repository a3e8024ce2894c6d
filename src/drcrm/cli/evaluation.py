"""Evaluate policies on rows of a log that did not train them: estimates, comparisons, checks and a verdict."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from drcrm.certificates.off_policy_value import off_policy_value
from drcrm.certificates.sensitivity import Sensitivity
from drcrm.diagnostics.diagnosis import Diagnosis, LogDetails, check_log, diagnose
from drcrm.diagnostics.opened_log import OpenedLog
from drcrm.diagnostics.verdict import (
    Comparison,
    ComparisonSettings,
    Verdict,
    compare_with_logging,
    describe_breakeven,
    estimate_values,
    reach_verdict,
    sensitivity_to_propensities,
)


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
    """

    name: str
    label: str
    policy: object
    cost_model: object = None
    clip: float | str | None = "auto"
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """Comparisons of policies with the logging policy on the same rows, and the verdict on one of the policies.

    Attributes
    ----------
    opened : OpenedLog
        The rows.
    policies : sequence of EvaluatedPolicy
    comparisons : list of Comparison
        One for each policy.
    diagnosis : Diagnosis
        Checks of the log, and of the policy that the verdict is about.
    verdict : Verdict
    confidence : float
    sensitivity : Sensitivity or None
        Worst case of the policy's cost if propensities are wrong. None if the policy is not better and no factor was
        given.
    """

    opened: OpenedLog
    policies: Sequence[EvaluatedPolicy]
    comparisons: list[Comparison]
    diagnosis: Diagnosis
    verdict: Verdict
    confidence: float
    sensitivity: Sensitivity | None = None

    def candidates(self) -> list[dict]:
        """Return the estimates and the comparison of each policy as JSON values."""
        defaults = {"parameter": None, "value": None, "ridge": 0.0, "step": 1.0}
        options: dict[str, Any] = {"groups": self.diagnosis.units, "confidence": self.confidence}
        entries = []
        for policy, comparison in zip(self.policies, self.comparisons, strict=True):
            values = estimate_values(
                policy.policy, self.opened.log, cost_model=policy.cost_model, clip=policy.clip, **options
            )
            entry = {"name": policy.name, "label": policy.label, "estimates": values, **comparison.as_dict()}
            entries.append(entry | defaults | dict(policy.settings))
        return entries

    def as_dict(self) -> dict[str, Any]:
        """Return the checks and the sensitivity as JSON values."""
        worst = None if self.sensitivity is None else self.sensitivity.as_dict()
        return {**self.diagnosis.as_dict(), "sensitivity": worst}


def exit_status(verdict: Verdict, requirement: str | None) -> int:
    """Return the exit status for --fail-unless: 0 if the requirement holds, 3 if not, 4 if the log does not decide it.

    Print the verdict to standard error if the requirement does not hold.
    """
    passing = {"better": ("better",), "not-worse": ("better", "not shown")}
    if requirement is None or verdict.verdict in passing[requirement]:
        return 0
    print(f"--fail-unless {requirement}: the verdict is {verdict.verdict!r}", file=sys.stderr)
    return 3 if verdict.verdict in ("worse", "the log is wrong") else 4


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
    diagnosis = diagnose_log(opened, best)
    comparisons = [
        compare_with_logging(policy.policy, opened.log, settings, cost_model=policy.cost_model, groups=diagnosis.units)
        for policy in policies
    ]
    comparison = comparisons[policies.index(best)]
    verdict = reach_verdict(comparison, diagnosis, label=best.label, reward=opened.records.is_reward)
    worst = None
    if verdict.verdict == "better" or (settings.gamma is not None and comparison.certificate is not None):
        options = {"cost_model": best.cost_model, "groups": diagnosis.units}
        worst = sensitivity_to_propensities(best.policy, opened.log, settings, **options)
    if verdict.verdict == "better":
        verdict = replace(verdict, sentence=verdict.sentence + describe_breakeven(worst))
    return Evaluation(opened, policies, comparisons, diagnosis, verdict, settings.confidence, worst)


def diagnose_log(opened: OpenedLog, policy: EvaluatedPolicy | None = None) -> Diagnosis:
    """Check a log, and optionally a policy on it. The checks that need no policy use the whole log."""
    details = _details(opened)
    if opened.whole and opened.recognised:
        checks = check_log(opened.whole.log, _details(opened.whole))
        details = replace(details, log_checks=checks.restrict_to(opened.recognised.heldout, opened.whole.log))
    if policy is None:
        return diagnose(opened.log, details=details)
    return diagnose(opened.log, policy.policy, details, cost_model=policy.cost_model)


def _details(opened: OpenedLog) -> LogDetails:
    records = opened.records
    encoding: Any = opened.log.encoding
    return LogDetails(
        groups=opened.units,
        slices=records.row_slices,
        row_numbers=records.rows,
        time=records.time,
        action_names=encoding.names,
        columns=getattr(encoding, "columns", None),
        imitated=opened.log.imitated_propensities,
        row_checks=opened.checks.diagnostics,
    )


def estimate_logging(opened: OpenedLog, diagnosis: Diagnosis, confidence: float) -> dict:
    """Return the estimated cost of the logging policy as JSON values: the mean cost of the log, with its interval."""
    log, options = opened.log, {"groups": diagnosis.units, "confidence": confidence}
    return off_policy_value(log.propensity, log, "ips", **options).as_dict()
