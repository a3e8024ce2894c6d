"""``drcrm evaluate_policy``: estimate what a policy would have cost on rows of a log that did not train it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from drcrm.cli.answers import require_separate_outputs, write_answer
from drcrm.cli.evaluation import EvaluatedPolicy, Evaluation, evaluate, exit_status
from drcrm.cli.running_bounds import watch
from drcrm.cli.shift import mapping_with_shift, require_compatible
from drcrm.diagnostics.opened_log import OpenedLog, log_folder, open_log
from drcrm.diagnostics.repeated_rows.row_checks import RowChecks
from drcrm.diagnostics.verdict import ComparisonSettings, Verdict
from drcrm.errors import InputError
from drcrm.logs.mapping import LogMapping, as_mapping
from drcrm.logs.policy_file import StoredPolicy, read_policy
from drcrm.progress import Progress, show_progress
from drcrm.rows.recognition import RecognisedRows

COLUMN = "column:"
# Checks that the bounds of --anytime do not need: they charge missing actions, and hold for any weights.
OVERLAP_CHECKS = {"effective sample size", "unsupported actions", "skewness of the estimate"}
COLUMN_ROWS = "all rows, on the assumption that none of them was used to make the policy"
HELDOUT_ROWS = "the rows held out from learning, with their outcomes in this log"
ALL_ROWS = "all rows; no row was recognised as one that the policy was learned from"
UNDECIDED_ROWS = "all rows, which may include rows that the policy was learned from"
UNCOMPARED_ROWS = (
    "all rows; they could not be compared with the rows that the policy was learned from, because an older version of "
    "drcrm wrote the policy's file"
)


@dataclass(frozen=True)
class PolicyOnLog:
    """A policy that the user names, and the rows of the log that evaluate it.

    Attributes
    ----------
    policy : EvaluatedPolicy
    opened : OpenedLog
        The rows that did not train the policy.
    choices : int
        Number of candidates that competed on these rows.
    rows : str
        Description of the rows for the answer.
    counts : dict or None
        Numbers of training, held-out and new rows of the log; None if they are unknown.
    """

    policy: EvaluatedPolicy
    opened: OpenedLog
    choices: int
    rows: str
    counts: dict[str, int] | None = None


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    return answer_on_policy("evaluate_policy", options, attrgetter("verdict"))


def answer_on_policy(command: str, options: argparse.Namespace, conclude: Callable[[Evaluation], Verdict]) -> int:
    """Evaluate a policy on a log, write the answer with the verdict that ``conclude`` returns, and return a status."""
    require_separate_outputs(options)
    with show_progress(options.verbose, options.jobs) as report, open_policy_on_log(options, report) as case:
        report("evaluating the policy")
        evaluation = _evaluate(case, options)
        if getattr(options, "anytime", False):
            evaluation = _watch(case, evaluation)
        verdict = conclude(evaluation)
        stated = asdict(verdict) | {"cautions": [*verdict.cautions, f"Evaluated on {case.rows}."]}
        answer = evaluation.answer(command, verdict=stated, judged_by=case.rows, recognised=case.counts)
    write_answer(answer, options)
    return exit_status(evaluation.verdict, options.fail_unless)


def _evaluate(case: PolicyOnLog, options: argparse.Namespace) -> Evaluation:
    """Evaluate the policy. The default estimate is "dr" for a policy with a cost model, else "snips"."""
    has_model, estimate = case.policy.cost_model is not None, getattr(options, "estimate", None)
    if estimate == "dr" and not has_model:
        raise InputError(
            f"--estimate dr needs a cost model of this outcome, which {case.policy.label} lacks; use snips or ips"
        )
    estimate = estimate or ("dr" if has_model else "snips")
    mapping = case.opened.records.mapping
    require_compatible(mapping.shift, options)
    if estimate == "ips" and mapping.shift is not None:
        raise InputError(f"--estimate ips has no worst case for shift {mapping.shift:g}; use dr or snips")
    settings = ComparisonSettings(
        estimate, options.confidence, case.choices, mapping.cost_range, options.sensitivity, mapping.shift
    )
    return evaluate(case.opened, [case.policy], case.policy, settings)


def _watch(case: PolicyOnLog, evaluation: Evaluation) -> Evaluation:
    """Return the evaluation with bounds that hold at every look, and the verdict that they reach.

    These bounds need no overlap, so a failed check of the weights' overlap does not count. Other failed checks do.
    """
    verdict = evaluation.verdict
    if {*evaluation.diagnosis.failed} - OVERLAP_CHECKS:
        return evaluation
    running = watch(case.opened, case.policy.policy, evaluation.settings.confidence, case.choices)
    name = "better" if running["difference_bound"] < 0 else "not shown"
    return replace(evaluation, verdict=replace(verdict, verdict=name, changes=[]), running=running, sensitivity=None)


@contextmanager
def open_policy_on_log(options: argparse.Namespace, report: Progress) -> Iterator[PolicyOnLog]:
    """Yield the policy and the rows of the log that evaluate it.

    Rows that trained the policy are left out. On the rows that were held out from learning, the policy is the best of
    all candidates that competed there, so the bounds are adjusted for their number. On a new log, it is the only one.

    The policy ``column:NAME`` is a column of the log with the policy's probability of the logged action.
    """
    if options.policy.startswith(COLUMN):
        if options.config is None:
            raise InputError(f"{options.policy} needs --config, the mapping of the log")
        name = options.policy.removeprefix(COLUMN)
        mapping = as_mapping(mapping_with_shift(options.config, options).as_dict() | {"candidate": name})
        with log_folder(options.log) as folder:
            opened = open_log(options.log, mapping, report, folder)
            yield PolicyOnLog(EvaluatedPolicy(name, name, opened.records.candidate), opened, 1, COLUMN_ROWS)
        return
    report("reading the policy")
    stored = read_policy(Path(options.policy), with_rows=True)
    mapping = mapping_with_shift(stored.header.get("mapping") if options.config is None else options.config, options)
    select = partial(_recognise, stored, mapping)
    with log_folder(options.log) as folder:
        opened = open_log(options.log, mapping, report, folder, stored.encoding, select)
        recognised = opened.recognised
        counts = None if recognised is None or recognised.undecided else recognised.counts
        rows = _describe(recognised, mapping)
        rows = "; ".join([rows, *(f"{reason} in {number} rows" for reason, number in opened.unseen.items())])
        choices = stored.require("choices") if counts and counts["training"] + counts["heldout"] else 1
        counts = counts if stored.rows else None
        yield PolicyOnLog(_evaluated(stored, mapping), opened, choices, rows, counts)


def _evaluated(stored: StoredPolicy, mapping: LogMapping) -> EvaluatedPolicy:
    """Return the policy, with its cost model if the mapping has the same outcome as the policy's log."""
    name = str(stored.header.get("kept", "policy"))
    algorithm: Any = stored.header.get("algorithm", {})
    settings = dict(algorithm) if name != "logging" else {}
    label = "the estimated logging policy" if name == "logging" else settings.pop("label", name)
    trained = as_mapping(stored.header.get("mapping"))
    is_same = (mapping.reward, mapping.cost) == (trained.reward, trained.cost)
    model = stored.model if is_same else None
    return EvaluatedPolicy(name, label, stored.policy, model, settings={**settings, "name": name})


def _recognise(
    stored: StoredPolicy,
    mapping: LogMapping,
    checks: RowChecks,
    digest: str,
    hold_out: Callable[[int], np.ndarray],
) -> RecognisedRows | None:
    """Return the rows of a log that trained a policy, and those held out from its learning.

    Policy files of the first versions have no hashes of rows. With these files, only the complete log is recognised, by
    its digest; the result for another log is None. Raise InputError if all rows trained the policy.
    """
    n, learned = len(checks.propensity), stored.rows
    if digest == stored.header.get("digest") and (learned is None or n == len(learned.keys)):
        heldout = hold_out(stored.require("seed")) if learned is None else learned.heldout
        recognised = RecognisedRows(~heldout, heldout)
    elif learned is None:
        return None
    else:
        recognised = learned.recognise(checks.hashes, checks.propensity)
    trained = as_mapping(stored.header.get("mapping"))
    for key in ("split", "group", "time") if recognised.heldout.any() else ():
        value, expected = getattr(mapping, key), getattr(trained, key)
        if value != expected:
            raise InputError(f"{key} must be {expected!r}, as when the policy was learned from this log, got {value!r}")
    if recognised.training.all():
        raise InputError(f"the policy was learned from all {n} rows, expected held-out or new rows")
    return recognised


def _describe(recognised: RecognisedRows | None, mapping: LogMapping) -> str:
    """Return a description of the rows that evaluate a policy."""
    if recognised is None or recognised.undecided:
        return UNDECIDED_ROWS if recognised else UNCOMPARED_ROWS
    training, heldout, new = recognised.counts.values()
    if not (new and training + heldout):
        return HELDOUT_ROWS if heldout else ALL_ROWS
    used = " and ".join([f"{heldout} rows held out from learning"] * bool(heldout) + [f"{new} new rows"])
    used = f"{used}, without {training} rows that the policy was learned from"
    return used + (f", but new rows may share a {mapping.group!r} with these" if mapping.group and training else "")
