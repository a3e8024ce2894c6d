"""``drcrm certify``: bound the cost of a policy, and its difference to the logging policy's cost."""

from __future__ import annotations

import argparse

from drcrm.cli.answers import require_separate_outputs, write_answer
from drcrm.cli.evaluate_policy import open_policy_on_log
from drcrm.cli.evaluation import Evaluation
from drcrm.diagnostics.verdict import WITHOUT_CERTIFICATE, Verdict, percent, untested
from drcrm.errors import InputError
from drcrm.progress import show_progress


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    require_separate_outputs(options)
    with show_progress(options.verbose, options.jobs) as report, open_policy_on_log(options, report) as case:
        if options.estimate == "dr" and case.policy.cost_model is None:
            raise InputError(
                f"--estimate dr needs a cost model, which {options.policy} does not have; use snips or ips"
            )
        report("certifying")
        evaluation = case.evaluate(options.confidence, options.estimate)
        answer = case.answer("certify", evaluation, _state_certificates(evaluation))
    write_answer(answer, options)


def _state_certificates(evaluation: Evaluation) -> Verdict:
    """Return the certificates in place of the verdict, unless the verdict refuses them."""
    verdict, [comparison] = evaluation.verdict, evaluation.comparisons
    cost, difference = comparison.cost_certificate, comparison.certificate
    if verdict.verdict in WITHOUT_CERTIFICATE or cost is None or difference is None:
        return verdict
    is_reward = evaluation.opened.records.reward
    unit, side, sign = ("reward", "at least", -1) if is_reward else ("cost", "at most", 1)
    sentence = (
        f"With {percent(cost.confidence)} confidence each, its {unit} is {side} {sign * cost.bound:.4g} per row, and "
        f"the difference to the logging policy's {unit} is {side} {sign * difference.bound:+.4g}."
    )
    return Verdict("certified", sentence + untested(evaluation.diagnosis), [], verdict.cautions)
