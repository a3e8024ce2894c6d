"""``drcrm plan``: which differences the next log can show, by its number of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from drcrm import __version__
from drcrm.errors import InputError
from drcrm.estimates import RATIO, default_estimate
from drcrm.evaluation.bounds.asymptotic_bounds import smallest_difference
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.files import write_json
from drcrm.logs.cli.common.answers import Outputs, require_separate_outputs
from drcrm.logs.decisions.case import Case, open_case
from drcrm.logs.decisions.question import Question
from drcrm.logs.diagnostics.check import to_json
from drcrm.logs.diagnostics.comparison.reference import Reference
from drcrm.logs.report.terminal import plan_text
from drcrm.progress import show_progress

MULTIPLES = 1, 2, 4, 8


def run(
    log: Any,
    config: Any,
    policy: str | None,
    choices: int,
    json: Path | None,
    confidence: float,
    jobs: int,
    verbose: bool,
) -> None:
    """Run the command."""
    require_separate_outputs(log=log, config=config, policy=policy, json=json)
    question = Question(confidence)
    with show_progress(verbose, jobs) as tell, open_case(policy, log, config, question, tell) as case:
        tell("planning")
        answer = to_json(_answer(case, confidence, choices))
    if json:
        write_json(json, answer)
    Outputs(json=json).print_summary(plan_text(answer))


def _answer(case: Case, confidence: float, choices: int) -> dict[str, Any]:
    """Return the standard deviation s of the policy's terms, and the smallest differences that more rows show."""
    opened, log, policy = case.opened, case.opened.evaluated, case.policy
    if policy is None:
        tested, value = _hardest_action(case)
    else:
        tested, model = {"policy": policy.label}, policy.cost_model
        evaluation = Reference().evaluation(policy.policy, log, cost_model=model)
        value = evaluation.by(default_estimate(model is not None)).difference()
    rows, deviation = opened.checks.propensity.size, value.standard_error * np.sqrt(log.size)
    test = {"deviation": deviation, "confidence": confidence, "choices": choices}
    return {
        "command": "plan",
        "version": __version__,
        "log": opened.as_dict() | {"rows": rows},
        **test,
        "tested": tested | {"difference": value.as_dict(), "effective_size": value.effective_size},
        "rows": case.rows,
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
        evaluation = Reference().evaluation(mean, log).by(RATIO)
        values[int(action)] = evaluation.difference()
    hardest = max(values, key=lambda action: (values[action].standard_error, action))
    return {"action": str(log.encoding.names[hardest])}, values[hardest]
