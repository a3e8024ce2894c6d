"""``drcrm evaluate_policy``: estimate what a policy would have cost on rows of a log that did not train it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from drcrm.actions.base import largest_probability
from drcrm.cli.common.answers import exit_status, require_separate_outputs, write_answer
from drcrm.cli.common.evaluation import EvaluatedPolicy, Evaluation, evaluate
from drcrm.cli.common.running_bounds import Watch
from drcrm.diagnostics.comparison.baseline import find_rows
from drcrm.diagnostics.comparison.policy_comparison import ComparisonSettings
from drcrm.diagnostics.comparison.reference import BASELINE, LOGGING_POLICY, Reference
from drcrm.diagnostics.comparison.words import state_certificates
from drcrm.diagnostics.opened_log import OpenedLog, log_folder, open_log
from drcrm.diagnostics.repeated_rows.row_checks import RowChecks
from drcrm.errors import InputError
from drcrm.estimates import EVALUATIONS, NORMALISED, RATIO, UNBIASED, default_estimate
from drcrm.logs.mapping import LogMapping, as_mapping
from drcrm.logs.policy_file import StoredPolicy, read_policy
from drcrm.progress import Progress, show_progress
from drcrm.rows.recognition import RecognisedRows
from drcrm.selection.multiplicity import EffectiveNumber

COLUMN = "column:"
COLUMN_ROWS = "all rows, on the assumption that none of them was used to make the policy"
HELDOUT_ROWS = "the rows held out from learning, with their outcomes in this log"
ALL_ROWS = "all rows; no row was recognised as one that the policy was learned from"
UNDECIDED_ROWS = "all rows, which may include rows that the policy was learned from"


@dataclass(frozen=True)
class PolicyOnLog:
    """A policy that the user names, and the rows of the log that evaluate it.

    Attributes
    ----------
    policy : EvaluatedPolicy
        None if the options name no policy, which only ``plan`` permits.
    opened : OpenedLog
        The rows that did not train the policy.
    choices : int
        Number of candidates that competed on these rows.
    rows : str
        Description of the rows for the answer.
    counts : dict or None
        Numbers of training, held-out and new rows of the log; None if they are unknown.
    number : EffectiveNumber or None
        Effective number of candidates: see :mod:`drcrm.selection.multiplicity`.
    of_guardrails : mapping
        The same for the outcome of each guardrail, by its name.
    largest_weight : float or None
        Known limit on the weights of the baseline, for bounds that hold at every look.
    """

    policy: Any
    opened: OpenedLog
    choices: int
    rows: str
    counts: dict[str, int] | None = None
    number: EffectiveNumber | None = None
    of_guardrails: Mapping[str, EffectiveNumber] = field(default_factory=dict)
    largest_weight: float | None = None


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    return answer_on_policy("evaluate_policy", options)


def answer_on_policy(command: str, options: argparse.Namespace) -> int:
    """Evaluate a policy on a log, write the answer of ``certify`` or ``evaluate_policy``, and return a status."""
    require_separate_outputs(options)
    with show_progress(options.verbose, options.jobs) as report, open_policy_on_log(options, report) as case:
        report("evaluating the policy")
        evaluation = _evaluate(case, options)
        statement = evaluation.statement
        if command == "certify":
            statement = state_certificates(evaluation.verdict, evaluation.evidence, statement)
        statement = replace(statement, cautions=[*statement.cautions, f"Evaluated on {case.rows}."])
        parts = {"judged_by": case.rows, "recognised": case.counts, "shown": evaluation.verdict.name}
        answer = replace(evaluation, statement=statement).answer(command, **parts)
    write_answer(answer, options)
    return exit_status(evaluation, options.fail_unless)


def _evaluate(case: PolicyOnLog, options: argparse.Namespace) -> Evaluation:
    """Evaluate the policy.

    The default estimate is "dr" for a policy with a cost model, else "snips". With --anytime, it is that of the bounds.
    """
    has_model, is_watched = case.policy.cost_model is not None, getattr(options, "anytime", False)
    usual = default_estimate(has_model and options.asymptotic, UNBIASED) if is_watched else default_estimate(has_model)
    estimate = getattr(options, "estimate", None) or usual
    if EVALUATIONS[estimate].kind.uses_model and not has_model:
        raise InputError(
            f"--estimate {estimate} needs a cost model of this outcome, which {case.policy.label} lacks; use "
            f"{RATIO} or {UNBIASED}"
        )
    mapping = case.opened.mapping
    if mapping.shift is not None and estimate not in NORMALISED:
        raise InputError(
            f"--estimate {estimate} has no worst case for shift {mapping.shift:g}; use {' or '.join(NORMALISED)}"
        )
    settings = comparison_settings(options, mapping, estimate, case.choices, case.number, case.of_guardrails)
    watching = None
    if is_watched:
        watching = Watch(settings.confidence, settings.divisor, case.largest_weight, options.asymptotic)
    return evaluate(case.opened, [case.policy], case.policy, settings, watching)


@contextmanager
def open_policy_on_log(options: argparse.Namespace, report: Progress) -> Iterator[PolicyOnLog]:
    """Yield the policy and the rows of the log that evaluate it.

    Rows that trained the policy are left out. On the rows that were held out from learning, the policy is the best of
    all candidates that competed there, so the bounds are adjusted for their number. On a new log, it is the only one.

    The policy ``column:NAME`` is a column of the log with the policy's probability of the logged action. Rows that
    trained the policy of --baseline are left out, too.
    """
    baseline, stored, content = read_baseline(options), None, options.config
    name = options.policy and options.policy.removeprefix(COLUMN)
    if name and name == options.policy:
        report("reading the policy")
        stored = read_policy(Path(name), with_rows=True)
        content = stored.header.get("mapping") if content is None else content
    elif content is None:
        raise InputError(f"{options.policy or 'plan without --policy'} needs --config, the mapping of the log")
    mapping = read_mapping(content, options)
    if stored is not None:
        mapping = replace(mapping, interactions=stored.encoding.interactions)
    elif name is not None:
        mapping = as_mapping(mapping.as_dict() | {"candidate": name})
    limit, recognised_rows = _limit_weights(baseline, mapping, options), []

    def recognise(checks: RowChecks, digest: str) -> RecognisedRows:
        recognised_rows.append(_recognise(stored, mapping, checks, digest))
        return recognised_rows[0]

    with log_folder(options.log) as folder:
        read_rows = partial(open_log, options.log, mapping, report, folder, baseline=baseline)
        if stored is None:
            opened = read_rows()
            policy = (
                None
                if name is None
                else EvaluatedPolicy(name, name, opened.evaluated.column("candidate"), may_have_logged=True)
            )
            yield PolicyOnLog(policy, opened, 1, COLUMN_ROWS if policy else "all rows", largest_weight=limit)
            return
        opened, [recognised] = read_rows(stored.encoding, recognise).mark_missing(stored.cells), recognised_rows
        counts, rows = None if recognised.undecided else recognised.counts, _describe(recognised, mapping)
        if left_out := opened.recognised.training.sum() - recognised.training.sum():
            rows += f"; without {left_out} other rows that the baseline was learned from"
        rows = "; ".join([rows, *(f"{reason} in {number} rows" for reason, number in opened.unseen.items())])
        is_known = bool(counts and counts["training"] + counts["heldout"])
        choices = stored.require("choices") if is_known else 1
        numbers = stored.numbers(mapping) if is_known else (None, {})
        yield PolicyOnLog(_evaluated(stored, mapping), opened, choices, rows, counts, *numbers, limit)


def _evaluated(stored: StoredPolicy, mapping: LogMapping) -> EvaluatedPolicy:
    """Return the policy, with its cost model if the mapping has the same outcome as the policy's log."""
    name = str(stored.header.get("kept", "policy"))
    algorithm: Any = stored.header.get("algorithm", {})
    settings = dict(algorithm) if name != "logging" else {}
    label = "the estimated logging policy" if name == "logging" else settings.pop("label", name)
    model = stored.model if stored.has_outcome_of(mapping) else None
    return EvaluatedPolicy(name, label, stored.policy, model, settings={**settings, "name": name}, may_have_logged=True)


def _recognise(stored: StoredPolicy, mapping: LogMapping, checks: RowChecks, digest: str) -> RecognisedRows:
    """Return the rows of a log that trained a policy, and those held out from its learning.

    Raise InputError if all rows trained the policy, or if held-out rows are split in another way.
    """
    recognised = find_rows(stored, checks.hashes, checks.propensity, digest)
    trained = stored.mapping
    for key in ("split", "group", "time") if recognised.heldout.any() else ():
        value, expected = getattr(mapping, key), getattr(trained, key)
        if value != expected:
            raise InputError(f"{key} must be {expected!r}, as when the policy was learned from this log, got {value!r}")
    if recognised.training.all():
        n = len(checks.propensity)
        raise InputError(f"the policy was learned from all {n} rows, expected held-out or new rows")
    return recognised


def read_mapping(content: Any, options: argparse.Namespace) -> LogMapping:
    """Return the mapping, in which --shift replaces ``shift``; InputError if another option excludes a shift."""
    mapping, shift = as_mapping(content), getattr(options, "shift", None)
    mapping = mapping if shift is None else replace(mapping, shift=shift)
    for name, reason in (("anytime", "bounds the mean cost"), ("sensitivity", "compares mean costs")):
        if mapping.shift is not None and getattr(options, name, None):
            raise InputError(
                f"--{name} {reason}, but shift is {mapping.shift:g}; leave out one of them: the option --{name}, or "
                "--shift and the key shift of the mapping"
            )
    return mapping


def read_baseline(options: argparse.Namespace) -> StoredPolicy | None:
    """Return the policy of --baseline, or None without this option; InputError together with --sensitivity."""
    if getattr(options, "baseline", None) is None:
        return None
    if options.sensitivity is not None:
        raise InputError("--sensitivity compares with the logging policy, so it cannot be used with --baseline")
    return read_policy(options.baseline, with_rows=True)


def _limit_weights(baseline: StoredPolicy | None, mapping: LogMapping, options: argparse.Namespace) -> float | None:
    """Return a known limit on the weights of the baseline for --anytime, or None; InputError if none is known."""
    if baseline is None or not getattr(options, "anytime", False) or options.asymptotic:
        return None
    if mapping.least_propensity is None:
        raise InputError(
            "--anytime with --baseline needs least_propensity in the mapping, the smallest probability that the "
            "logging policies give to any action: it limits the weights of the baseline. The smallest propensity of "
            "the log does not limit them, because later rows may have smaller ones. Or add --asymptotic, whose bounds "
            "need no limit"
        )
    return largest_probability(baseline.policy.actions, baseline.policy.explore) / mapping.least_propensity


def comparison_settings(
    options: argparse.Namespace,
    mapping: LogMapping,
    estimate: str,
    choices: int,
    number: EffectiveNumber | None,
    of_guardrails: Mapping[str, EffectiveNumber],
) -> ComparisonSettings:
    """Return the settings of a comparison with the logging policy or the baseline."""
    name = LOGGING_POLICY if options.baseline is None else f"{BASELINE} {options.baseline.name}"
    return ComparisonSettings(
        estimate=estimate,
        confidence=options.confidence,
        choices=choices,
        effective_choices=number and number.at(options.confidence),
        guardrail_choices={name: part.at(options.confidence) for name, part in of_guardrails.items()},
        cost_range=mapping.cost_range,
        gamma=options.sensitivity,
        reference=Reference(name, radius=mapping.shift),
        full_support=mapping.has_full_support,
    )


def _describe(recognised: RecognisedRows, mapping: LogMapping) -> str:
    """Return a description of the rows that evaluate a policy."""
    if recognised.undecided:
        return UNDECIDED_ROWS
    training, heldout, new = recognised.counts.values()
    if not (new and training + heldout):
        return HELDOUT_ROWS if heldout else ALL_ROWS
    used = " and ".join([f"{heldout} rows held out from learning"] * bool(heldout) + [f"{new} new rows"])
    used = f"{used}, without {training} rows that the policy was learned from"
    return used + (f", but new rows may share a {mapping.group!r} with these" if mapping.group and training else "")
