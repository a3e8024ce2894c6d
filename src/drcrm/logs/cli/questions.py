"""Commands that answer a question about a log: learn, evaluate_policy, certify, diagnose and plan.

They write the answer as JSON and as an HTML report, and print its summary.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drcrm import __version__
from drcrm.errors import InputError
from drcrm.evaluation import RATIO, default_estimate
from drcrm.evaluation.bounds.asymptotic_bounds import smallest_difference
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.files import is_stream, is_terminal, require_separate_outputs, standard_descriptor, write_json
from drcrm.logs.decisions import api
from drcrm.logs.decisions.question import Case, Question, open_case
from drcrm.logs.diagnostics.check import to_json
from drcrm.logs.diagnostics.comparison.reference import Reference
from drcrm.logs.diagnostics.comparison.words import ESTIMATED
from drcrm.logs.policy_file import require_replaceable
from drcrm.logs.report.answer import Answer
from drcrm.logs.report.texts import plan_text
from drcrm.progress import show_progress

MULTIPLES = 1, 2, 4, 8


@dataclass(frozen=True)
class Outputs:
    """Files that a command writes."""

    report: Path | None = None
    json: Path | None = None
    output: Path | None = None
    best: Path | None = None

    def write(self, answer: Answer) -> None:
        """Write an answer, and print its summary."""
        if self.json:
            write_json(self.json, answer.as_dict())
        if self.report:
            answer.report(self.report)
        self.print_summary(str(answer))

    def print_summary(self, text: str) -> None:
        """Print a summary, to standard error if a file is written to standard output."""
        is_taken = any(path is not None and standard_descriptor(path) == 1 for path in vars(self).values())
        print(text, end="", file=sys.stderr if is_taken else sys.stdout)


def exit_status(answer: Answer, requirement: str | None) -> int:
    """Return the exit status for --fail-unless: 0 if the requirement holds, 3 if not, 4 if the log does not decide it.

    *better* counts as *not shown* if it has an assumption that the mapping does not trust. *not shown* with a violated
    guardrail or limit counts as *worse*. Print the verdict to standard error if the requirement does not hold.
    """
    verdict: Any = answer.verdict
    name, violated = verdict.name, verdict.violated
    passing = {"better": ("better",) if answer.is_trusted else (), "not-worse": ("better", "not shown")}
    if requirement is None or (name in passing[requirement] and not violated):
        return 0
    reason = f", and the {violated[0]} is violated" if violated else ""
    if name == "better":
        reason = f", if {ESTIMATED}; to accept this, write propensity_model: {{model: auto, trusted: true}}"
    print(f"--fail-unless {requirement}: the verdict is {name!r}{reason}", file=sys.stderr)
    return 3 if violated or name in ("worse", "the log is wrong") else 4


def learn(
    log: Any,
    config: Any,
    output: Path,
    best: Path | None,
    report: Path | None,
    json: Path | None,
    fail_unless: str | None,
    jobs: int,
    verbose: bool,
    **options: Any,
) -> int:
    """Learn a policy from a log, and decide whether it is better than the logging policy."""
    if best is None and not is_stream(output):
        best = output.with_suffix(f".candidate{output.suffix}")
    outputs = Outputs(report, json, output, best)
    require_separate_outputs(log=log, config=config, **vars(outputs), **options)
    has_earlier = best is not None and require_replaceable(best, "--best")
    if is_terminal(output):
        raise InputError(f"--output {output} is a terminal, expected a file or a pipe: a policy is binary")
    with show_progress(verbose, jobs) as tell:
        answer = api.learn(log, config, output=output, candidate=best, tell=tell, **options)
    outputs.write(answer)
    if has_earlier and answer.is_better:
        print(f"{best} is the candidate of an earlier log, and is kept.", file=sys.stderr)
    return exit_status(answer, fail_unless)


def evaluate_policy(**options: Any) -> int:
    """Estimate what a policy would have cost on rows of a log that did not train it."""
    return _judge(api.evaluate, **options)


def certify(policy: str, candidates: list[str] | None, **options: Any) -> int:
    """Bound the cost of a policy, and its difference from the cost of the logging policy or of the baseline."""
    return _judge(api.certify, [policy, *candidates] if candidates else policy, **options)


def _judge(
    judge: Callable[..., Answer],
    policy: Any,
    log: Any,
    config: Any,
    report: Path | None,
    json: Path | None,
    fail_unless: str | None,
    jobs: int,
    verbose: bool,
    **question: Any,
) -> int:
    """Ask a question about a policy on a log, by a function of the API; write its answer and return the exit status."""
    outputs = Outputs(report, json)
    require_separate_outputs(policy=policy, log=log, config=config, **vars(outputs), **question)
    with show_progress(verbose, jobs) as tell:
        answer = judge(policy, log, config, tell=tell, **question)
    outputs.write(answer)
    return exit_status(answer, fail_unless)


def diagnose(log: Any, config: Any, confidence: float, jobs: int, verbose: bool, **files: Any) -> None:
    """Check a log's propensities, repeated rows, drift, and how much a cost model explains."""
    require_separate_outputs(log=log, config=config, **files)
    with show_progress(verbose, jobs) as tell:
        answer = api.diagnose(log, config, confidence=confidence, tell=tell)
    Outputs(**files).write(answer)


def plan(
    log: Any,
    config: Any,
    policy: str | None,
    choices: int,
    json: Path | None,
    confidence: float,
    jobs: int,
    verbose: bool,
) -> None:
    """Compute which differences the next log can show, by its number of rows."""
    require_separate_outputs(log=log, config=config, policy=policy, json=json)
    question = Question(confidence)
    with show_progress(verbose, jobs) as tell, open_case(policy, log, config, question, tell) as case:
        tell("planning")
        answer = to_json(_plan(case, confidence, choices))
    if json:
        write_json(json, answer)
    Outputs(json=json).print_summary(plan_text(answer))


def _plan(case: Case, confidence: float, choices: int) -> dict[str, Any]:
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
        values[int(action)] = Reference().evaluation(mean, log).by(RATIO).difference()
    hardest = max(values, key=lambda action: (values[action].standard_error, action))
    return {"action": str(log.encoding.names[hardest])}, values[hardest]
