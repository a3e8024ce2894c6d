"""``drcrm plan``: which differences the next log can show, by its number of rows."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from drcrm.errors import InputError
from drcrm.estimates import RATIO, default_estimate
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.evaluation.bounds.sample_size import required_size, shrink_difference, smallest_difference
from drcrm.evaluation.evaluation import LOGGING, Evaluation
from drcrm.files import write_json
from drcrm.logs.cli.common.answers import print_summary, require_separate_outputs
from drcrm.logs.decisions.case import Case, open_case
from drcrm.logs.decisions.question import Question
from drcrm.logs.diagnostics.check import to_json
from drcrm.logs.report.terminal import plan_text
from drcrm.progress import show_progress
from drcrm.version import __version__

MULTIPLES = 1, 2, 4, 8


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    require_separate_outputs(options)
    question = Question(options.confidence)
    with (
        show_progress(options.verbose, options.jobs) as tell,
        open_case(options.policy, options.log, options.config, question, tell) as case,
    ):
        tell("planning")
        answer = to_json(_answer(case, options))
    if options.json:
        write_json(options.json, answer)
    print_summary(plan_text(answer), options)
    return 0


def _answer(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """Return the standard deviation s of the policy's terms, the smallest differences, and the rows that it needs.

    The estimated difference is shrunk if the policy was chosen among several on these rows.
    """
    opened, log, policy, expected = case.opened, case.opened.evaluated, case.policy, None
    if policy is None:
        tested, value = _hardest_action(case)
    else:
        tested, model = {"policy": policy.label, "choices": case.numbers.candidates}, policy.cost_model
        estimate = default_estimate(model is not None)
        known = {"baseline": LOGGING, "cost_model": model}
        value = Evaluation.of(policy.policy, log, **known).by(estimate).difference()
        expected = (
            shrink_difference(float(value), value.standard_error) if case.numbers.candidates > 1 else float(value)
        )
    rows, deviation = opened.checks.propensity.size, value.standard_error * np.sqrt(log.size)
    test = {"deviation": deviation, "confidence": options.confidence, "choices": options.choices}
    return {
        "command": "plan",
        "version": __version__,
        "log": opened.as_dict() | {"rows": rows},
        "reward": log.description.is_reward,
        **test,
        "tested": tested | {"difference": value.as_dict(), "effective_size": value.effective_size},
        "rows": case.rows,
        "expected": expected,
        "needed": required_size(-expected, **test) if expected is not None and expected < 0 else None,
        "sizes": [{"rows": n, "difference": smallest_difference(n, **test)} for n in rows * np.array(MULTIPLES)],
    }


def _hardest_action(case: Case) -> tuple[dict[str, Any], Interval]:
    """Return the name and the difference of the policy that always takes one action, with the largest error."""
    log = case.opened.evaluated
    if not log.actions.n_classes:
        raise InputError("plan needs --policy for label vectors and lists of actions, got only a log")
    values = {}
    for action in np.unique(log.Y):
        mean = np.zeros((log.X.shape[0], log.actions.n_classes))
        mean[:, action] = 1
        evaluation = Evaluation.of(mean, log, baseline=LOGGING).by(RATIO)
        values[int(action)] = evaluation.difference()
    hardest = max(values, key=lambda action: (values[action].standard_error, action))
    return {"action": str(log.encoding.names[hardest])}, values[hardest]
