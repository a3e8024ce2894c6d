"""``drcrm certify``: bound the cost of a policy, and its difference to the logging policy's cost."""

from __future__ import annotations

import argparse

from drcrm.cli.evaluate_policy import answer_on_policy
from drcrm.cli.evaluation import Evaluation
from drcrm.diagnostics.diagnostic import with_confidence
from drcrm.diagnostics.verdict import WITHOUT_CERTIFICATE, Verdict, describe_breakeven, untested
from drcrm.reports.log_report.answer import Units


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    return answer_on_policy("certify", options, _state_running_bounds if options.anytime else _state_certificates)


def _state_running_bounds(evaluation: Evaluation) -> Verdict:
    """Return the verdict "certified" with the bounds that hold at every look; without them, that of the evaluation."""
    verdict, running = evaluation.verdict, evaluation.running
    if running is None:
        return verdict
    first, unit_name = running["first_better"], "rows" if running["by"] == "row" else "groups"
    since = f"The policy was first shown to be better after row {first}." if first else ""
    sentence = (
        f"Each bound, together with those after fewer {unit_name}, holds "
        f"{with_confidence(evaluation.settings.confidence)}. {since}"
    )
    return _certified(evaluation, running["bound"], running["difference_bound"], sentence.rstrip())


def _state_certificates(evaluation: Evaluation) -> Verdict:
    """Return the verdict "certified" with the bounds on the policy's cost and on the cost difference.

    If no certificate can be issued, return the verdict of the evaluation, which has the reason.
    """
    verdict, [comparison] = evaluation.verdict, evaluation.comparisons
    cost, difference = comparison.cost_certificate, comparison.certificate
    if verdict.verdict in WITHOUT_CERTIFICATE or cost is None or difference is None:
        return verdict
    sentence = f"Each bound holds {with_confidence(cost.confidence)}."
    if verdict.verdict == "better" and comparison.shift is None:
        sentence += describe_breakeven(evaluation.sensitivity)
    return _certified(evaluation, cost.bound, difference.bound, sentence)


def _certified(evaluation: Evaluation, cost: float, difference: float, sentence: str) -> Verdict:
    """Return the verdict with the bounds on the cost and on its difference; the sentence says when they hold."""
    units = Units(evaluation.opened.records.is_reward)
    unit, side, sign = units.name, units.side, -1 if units.is_reward else 1
    shift = evaluation.settings.shift
    unit = unit if shift is None else f"worst-case {unit} under a shift of {shift:g}"
    bounds = (
        f"The policy's {unit} is {side} {sign * cost:.4g} per row. Its difference from the logging policy's {unit} is "
        f"{side} {sign * difference:+.4g}. "
    )
    return Verdict("certified", bounds + sentence + untested(evaluation.diagnosis), [], evaluation.verdict.cautions)
