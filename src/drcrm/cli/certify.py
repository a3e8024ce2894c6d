"""``drcrm certify``: bound the cost of a policy, and its difference to the logging policy's cost."""

from __future__ import annotations

import argparse

from drcrm.cli.evaluate_policy import answer_on_policy
from drcrm.cli.evaluation import Evaluation
from drcrm.diagnostics.diagnostic import with_confidence
from drcrm.diagnostics.verdict import WITHOUT_CERTIFICATE, Verdict, describe_breakeven, untested


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    return answer_on_policy("certify", options, _state_certificates)


def _state_certificates(evaluation: Evaluation) -> Verdict:
    """Return the verdict "certified" with the bounds on the policy's cost and on the cost difference.

    If no certificate can be issued, return the verdict of the evaluation, which has the reason.
    """
    verdict, [comparison] = evaluation.verdict, evaluation.comparisons
    cost, difference = comparison.cost_certificate, comparison.certificate
    if verdict.verdict in WITHOUT_CERTIFICATE or cost is None or difference is None:
        return verdict
    is_reward = evaluation.opened.records.is_reward
    unit, side, sign = ("reward", "at least", -1) if is_reward else ("cost", "at most", 1)
    sentence = (
        f"The policy's {unit} is {side} {sign * cost.bound:.4g} per row. Its difference from the logging policy's "
        f"{unit} is {side} {sign * difference.bound:+.4g}. Each bound holds {with_confidence(cost.confidence)}."
    )
    if verdict.verdict == "better":
        sentence += describe_breakeven(evaluation.sensitivity)
    return Verdict("certified", sentence + untested(evaluation.diagnosis), [], verdict.cautions)
