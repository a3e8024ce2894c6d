"""Evaluate policies on the rows of a log that did not train them: estimates, comparisons, checks and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drcrm.certificates.off_policy_value import off_policy_value
from drcrm.diagnostics.diagnosis import Diagnosis, LogDetails, diagnose
from drcrm.diagnostics.verdict import (
    Comparison,
    ComparisonSettings,
    Verdict,
    compare_with_logging,
    estimate_values,
    reach_verdict,
)
from drcrm.logs.opened_log import OpenedLog


@dataclass(frozen=True, eq=False)
class EvaluatedPolicy:
    """A policy with its cost model, and its name and settings for the answer.

    Attributes
    ----------
    name, label : str
        Its key in the answer, and its name in texts.
    policy : any policy that :func:`drcrm.off_policy_value` accepts
    cost_model : optional
    clip : float, "auto" or None
        The clipping constant of the estimate "clipped_ips".
    settings : mapping
        Its hyper-parameter, ridge and step, for the answer.
    """

    name: str
    label: str
    policy: object
    cost_model: object = None
    clip: float | str | None = "auto"
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """Policies compared with the logging policy on the same rows, and the checks and the verdict on one of them.

    Attributes
    ----------
    opened : OpenedLog
        The rows.
    policies : sequence of EvaluatedPolicy
    comparisons : list of Comparison
        One for each policy.
    diagnosis : Diagnosis
    verdict : Verdict
    confidence : float
    """

    opened: OpenedLog
    policies: Sequence[EvaluatedPolicy]
    comparisons: list[Comparison]
    diagnosis: Diagnosis
    verdict: Verdict
    confidence: float

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
        The policy that the checks and the verdict are about.
    settings : ComparisonSettings
        The number of choices includes all fits that competed on these rows.
    """
    diagnosis = diagnose_log(opened, best)
    comparisons = [
        compare_with_logging(policy.policy, opened.log, settings, cost_model=policy.cost_model, groups=diagnosis.units)
        for policy in policies
    ]
    comparison = comparisons[policies.index(best)]
    verdict = reach_verdict(comparison, diagnosis, label=best.label, reward=opened.records.reward)
    return Evaluation(opened, policies, comparisons, diagnosis, verdict, settings.confidence)


def diagnose_log(opened: OpenedLog, policy: EvaluatedPolicy | None = None) -> Diagnosis:
    """Run the checks of a log, and of a policy on it."""
    records = opened.records
    encoding: Any = opened.log.encoding
    details = LogDetails(
        groups=opened.units,
        slices=records.row_slices,
        row_numbers=records.rows,
        time=records.time,
        action_names=encoding.names,
        columns=getattr(encoding, "columns", None),
        imitated=opened.log.imitated_propensities,
        row_checks=opened.checks.diagnostics,
    )
    if policy is None:
        return diagnose(opened.log, details=details)
    return diagnose(opened.log, policy.policy, details, cost_model=policy.cost_model)


def estimate_logging(opened: OpenedLog, diagnosis: Diagnosis, confidence: float) -> dict:
    """Return the cost of the logging policy, the mean of the log, as JSON values."""
    propensity = opened.log.propensity
    return off_policy_value(propensity, opened.log, clip=None, groups=diagnosis.units, confidence=confidence).as_dict()
