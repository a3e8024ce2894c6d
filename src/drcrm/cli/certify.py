"""``drcrm certify``: bound the cost of a policy, and its difference to the logging policy's cost."""

from __future__ import annotations

import argparse
from dataclasses import replace

from drcrm.cli.common.evaluation import Evaluation
from drcrm.cli.evaluate_policy import answer_on_policy
from drcrm.diagnostics.comparison.guardrails import summarize
from drcrm.diagnostics.comparison.verdict import (
    Verdict,
    describe_breakeven,
    describe_change,
    describe_missing,
    name_quantity,
    untested,
)
from drcrm.diagnostics.diagnostic import with_confidence
from drcrm.errors import InputError
from drcrm.estimates import ROBUST, UNBIASED
from drcrm.reports.log_report.answer import Units


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.asymptotic and not options.anytime:
        raise InputError("--asymptotic chooses the bounds of --anytime, so it needs --anytime")
    if options.anytime and options.estimate not in (None, UNBIASED, ROBUST if options.asymptotic else None):
        raise InputError(
            f"--anytime needs --estimate {UNBIASED}, or {ROBUST} with --asymptotic, got {options.estimate}; "
            "or leave it out"
        )
    return answer_on_policy("certify", options, _state_running_bounds if options.anytime else _state_certificates)


def _state_running_bounds(evaluation: Evaluation) -> Verdict:
    """Return the verdict "certified" with the bounds that hold at every look; without them, that of the evaluation."""
    verdict, running = evaluation.verdict, evaluation.running
    if running is None:
        return verdict
    first, unit_name = running["first_better"], "rows" if running["by"] == "row" else "groups"
    since = f"The policy was first shown to be better after row {first}." if first else ""
    about, reason = ("approximately ", ": the bounds are asymptotic") if running["asymptotic"] else ("", "")
    sentence = (
        f"Each bound, together with those after fewer {unit_name}, holds {about}"
        f"{with_confidence(evaluation.settings.confidence)}{reason}. {since}"
    )
    return _certified(evaluation, running["bound"], running["difference_bound"], sentence.rstrip())


def _state_certificates(evaluation: Evaluation) -> Verdict:
    """Return the verdict "certified" with the bounds on the policy's cost and on the cost difference.

    If no certificate can be issued, return the verdict of the evaluation, which has the reason.
    """
    verdict, [comparison] = evaluation.verdict, evaluation.comparisons
    cost, difference = comparison.cost_certificate, comparison.certificate
    if evaluation.diagnosis.failed or cost is None or difference is None:
        return verdict
    sentence = f"Each bound holds {with_confidence(cost.confidence)}."
    if verdict.verdict == "better" and comparison.settings.shift is None:
        sentence += describe_breakeven(evaluation.sensitivity)
        sentence += describe_missing(comparison, evaluation.diagnosis.rows)[0]
    return _certified(evaluation, cost.bound, difference.bound, sentence)


def _certified(evaluation: Evaluation, cost: float, difference: float, sentence: str) -> Verdict:
    """Return the verdict with the bounds on the cost and on its difference; the sentence says when they hold."""
    description, [comparison] = evaluation.opened.evaluated.description, evaluation.comparisons
    units = Units(description.is_reward, description.outcome)
    side, sign = units.side, -1 if units.is_reward else 1
    change = describe_change(comparison, "the policy", units.is_reward, units.name)
    unit = name_quantity(comparison, units.name)
    bounds = (
        f"{change}. The policy's {unit} is {side} {sign * cost:.4g} per row. Its difference from "
        f"{evaluation.settings.reference}'s {unit} is {side} {sign * difference:+.4g}. "
    )
    sentence += summarize(evaluation.guardrails, evaluation.settings.confidence) + untested(evaluation.diagnosis)
    return replace(evaluation.verdict, verdict="certified", sentence=bounds + sentence)
