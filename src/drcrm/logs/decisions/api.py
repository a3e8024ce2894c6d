"""Public functions: learn a policy from a log, judge a policy on a log, or check a log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from drcrm.errors import InputError
from drcrm.evaluation import UNBIASED
from drcrm.evaluation.bounds.independent_units import require_single_rows
from drcrm.logs.decisions.elimination import Elimination, eliminate
from drcrm.logs.decisions.every_look import Watch, watch_costs
from drcrm.logs.decisions.judgement import describe_log, diagnose_log, judge
from drcrm.logs.decisions.learning import LearningOptions, learn_policy
from drcrm.logs.decisions.opened_log import OpenedLog, Tell, log_folder, open_log
from drcrm.logs.decisions.question import COLUMN, Case, Question, open_case
from drcrm.logs.diagnostics.comparison.reference import NOTHING, Reference
from drcrm.logs.diagnostics.comparison.words import state_certificates
from drcrm.logs.read_log import Source, written_log
from drcrm.logs.report.answer import Answer
from drcrm.mapping.log_mapping import as_mapping
from drcrm.selection.candidates import EffectiveNumber, EffectiveNumbers


def stay_silent(text: str) -> None:
    """Ignore a description of the current step."""


def learn(
    log: Source | pd.DataFrame,
    mapping: Any,
    *,
    output: str | Path | None = None,
    candidate: str | Path | None = None,
    seed: int = 0,
    exportable: bool = False,
    readable: bool = False,
    curve: bool = False,
    cluster: str | None = None,
    confidence: float = 0.95,
    baseline: str | Path | None = None,
    sensitivity: float | None = None,
    shift: float | None = None,
    validation: str | None = None,
    deploy: str | None = None,
    tell: Tell = stay_silent,
) -> Answer:
    """Learn a policy from a log, and decide on held-out rows whether it is better than the logging policy.

    Candidates differ in algorithm and hyper-parameter, and compete on the held-out rows. The verdict is on the best
    one, with bounds adjusted for the effective number k of candidates: see :func:`drcrm.certify`.

    With blocks, a policy is learned from the rows before each of three blocks, and tested on the block. The verdict is
    on this way of learning, and the last choice, fitted again to all rows, is written. With ``deploy="mixture"``, the
    written policy draws one of the blocks' policies for each decision, and the verdict is on this policy.

    Parameters
    ----------
    log : Path, str, list of Path, or DataFrame
        Files or folders of logged rows; or a DataFrame with the rows. The answer is that for the frame written as a CSV
        file.
    mapping : dict, str, Path or LogMapping
        Describes the columns of the log, as a dict or as a YAML or JSON file.
    output : str or Path, optional
        File for the policy to run: the best candidate if it is better, otherwise the baseline, or an estimate of the
        logging policy. It is also the answer's ``policy``.
    candidate : str or Path, optional
        File for the best candidate if it is not better. An existing file is replaced only if it is empty or has a
        policy.
    seed : int
        Seed of the split into training and held-out rows.
    exportable : bool
        Whether to fit only linear policies and policy trees, which ``drcrm export`` can write.
    readable : bool
        Whether only policy trees and single actions compete, so that people can read the policy.
    curve : bool
        Whether to also learn trees within other values of each limit and guardrail, and to estimate what they gain:
        see :mod:`drcrm.logs.decisions.alternatives`.
    cluster : str, optional
        Address of a Dask scheduler, "tcp://HOST:PORT".
    confidence : float
        1 − δ, the level of bounds and intervals.
    baseline : str or Path, optional
        The file of the policy to compare with; by default the logging policy.
    sensitivity : float, optional
        A factor of at least 1: also bound the difference if the odds of propensities are off by this factor.
    shift : float, optional
        Radius κ: compare the worst cases over environments within this KL divergence.
    validation : "holdout" or "blocks", optional
        Whether held-out rows or blocks test; by default as in the mapping.
    deploy : "refit" or "mixture", optional
        With blocks, the policy to write; by default as in the mapping.
    tell : callable
        Receives a description of each step.

    Returns
    -------
    Answer
        Its verdict, numbers, report and policies.

    Raises
    ------
    InputError
        If a file or the mapping is invalid, or all rows have the same action.
    """
    paths = (None if path is None else Path(path) for path in (output, candidate))
    options = LearningOptions(*paths, seed, exportable, readable, curve, cluster)
    question = Question(confidence, baseline, sensitivity, shift)
    mapping = question.mapping(mapping).with_validation(validation, deploy)
    return learn_policy(log, mapping, question, options, tell)


def certify(
    policy: str | Path | Sequence[str | Path],
    logs: Source | pd.DataFrame,
    mapping: Any = None,
    *,
    confidence: float = 0.95,
    baseline: str | Path | None = None,
    estimate: str | None = None,
    anytime: bool = False,
    asymptotic: bool = False,
    sensitivity: float | None = None,
    shift: float | None = None,
    tell: Tell = stay_silent,
) -> Answer:
    """Bound a policy's cost, and its difference from the cost of the logging policy, on rows that did not train it.

    The difference Δ is the mean cost per row of the policy minus that of the logging policy, or of the baseline. The
    policy is *better* if the upper bound on Δ is below 0, all checks pass and all guardrails hold, and *worse* if the
    lower bound is above 0. If k candidates competed on the same rows, the upper bound has the level 1 − δ/k with
    δ = 1 − confidence, and the lower bound 1 − δ/(2k).

    Parameters
    ----------
    policy : str, Path, or list of them
        The file of a learned policy, or ``"column:NAME"``, a column of the log with the policy's probability of the
        logged action. Several policies need ``anytime``. The answer is about the one with the best bound. Its key
        "policies" says which ones can still be best, and after which row the others left.
    logs : Path, str, list of Path, or DataFrame
        Files or folders of logged rows; or a DataFrame with the rows. The answer is that for the frame written as a CSV
        file.
    mapping : dict, str, Path or LogMapping, optional
        Describes the columns of the log, as a dict or as a YAML or JSON file. By default that of the policy's log.
    confidence : float
        1 − δ, the level of the bounds.
    baseline : str or Path, optional
        The file of the policy to compare with; by default the logging policy.
    estimate : {"dr", "snips", "ips"}, optional
        The estimate of the cost. By default it is "dr" for a policy with a cost model, otherwise "snips".
    anytime : bool
        Whether the bounds hold at every look at a growing log, by "ips".
    asymptotic : bool
        Whether the bounds of ``anytime`` are the narrower ones, which hold only asymptotically.
    sensitivity : float, optional
        A factor of at least 1: also bound Δ if the odds of propensities are off by this factor.
    shift : float, optional
        Radius κ: compare the worst cases over environments within this KL divergence.
    tell : callable
        Receives a description of each step.

    Returns
    -------
    Answer
        Its verdict, numbers and report.

    Raises
    ------
    InputError
        If a file is invalid, options exclude each other, or all rows trained the policy.
    """
    question = Question(confidence, baseline, sensitivity, shift, estimate, anytime, asymptotic)
    policies = [policy] if isinstance(policy, str | Path) else [*policy]
    question.require_single(policies)
    return _answer("certify", policies, logs, mapping, question, tell)


def evaluate(
    policy: str | Path,
    logs: Source | pd.DataFrame,
    mapping: Any = None,
    *,
    confidence: float = 0.95,
    baseline: str | Path | None = None,
    sensitivity: float | None = None,
    shift: float | None = None,
    tell: Tell = stay_silent,
) -> Answer:
    """Estimate what a policy would have cost, and say whether the log is good enough for the estimate.

    The verdict is that of :func:`drcrm.certify`. Its sentence states the estimated difference and one bound on it.

    Parameters
    ----------
    policy : str or Path
        The file of a learned policy, or ``"column:NAME"``, a column of the log with the policy's probability of the
        logged action.
    logs : Path, str, list of Path, or DataFrame
        Files or folders of logged rows; or a DataFrame with the rows. The answer is that for the frame written as a CSV
        file.
    mapping : dict, str, Path or LogMapping, optional
        Describes the columns of the log. By default that of the policy's log.
    confidence : float
        1 − δ, the level of bounds and intervals.
    baseline : str or Path, optional
        The file of the policy to compare with; by default the logging policy.
    sensitivity : float, optional
        A factor of at least 1: also bound the difference if the odds of propensities are off by this factor.
    shift : float, optional
        Radius κ: compare the worst cases over environments within this KL divergence.
    tell : callable
        Receives a description of each step.

    Returns
    -------
    Answer
        Its verdict, numbers and report.

    Raises
    ------
    InputError
        If a file is invalid, options exclude each other, or all rows trained the policy.
    """
    question = Question(confidence, baseline, sensitivity, shift)
    return _answer("evaluate_policy", [policy], logs, mapping, question, tell)


def _answer(
    command: str, policies: Sequence[str | Path], logs: Any, mapping: Any, question: Question, tell: Tell
) -> Answer:
    """Return the answer of ``certify`` or ``evaluate_policy``, on the policy with the best bound."""
    with ExitStack() as stack:
        files = stack.enter_context(written_log(logs))
        cases = [stack.enter_context(open_case(policy, files, mapping, question, tell)) for policy in policies]
        tell("evaluating the policy")
        case, elimination = cases[0], None
        if len(cases) > 1:
            case, elimination = _compare(policies, cases, question)
        mapping, judged = case.opened.mapping, case.policy
        estimate = question.choose_estimate(judged.cost_model is not None, judged.label, case.opened.reference.radius)
        settings = question.settings(mapping, estimate, case.numbers)
        watching = question.watching(settings, mapping, case.opened.reference)
        judgement = judge(case.opened, [judged], judged, settings, watching if question.anytime else None)
        statement, evidence = judgement.statement, judgement.evidence
        parts: dict[str, Any] = {"judged_by": case.rows, "recognised": case.counts, "shown": judgement.verdict.name}
        if command == "certify":
            has_one_look = judgement.verdict.has_bounds and not question.anytime and evidence.radius is None
            running = _bound_every_look(case.opened, judged.policy, watching) if has_one_look else None
            parts["every_look"] = running
            statement = state_certificates(judgement.verdict, evidence, statement, running)
        if elimination is not None:
            has_bounds = judgement.verdict.has_bounds
            parts["policies"] = elimination.as_dict() if has_bounds else None
            statement = replace(statement, sentence=statement.sentence + elimination.sentence * has_bounds)
        statement = replace(statement, cautions=[*statement.cautions, f"Evaluated on {case.rows}."])
        return replace(judgement, statement=statement).answer(command, **parts)


def _bound_every_look(opened: OpenedLog, policy: Any, settings: Watch) -> dict[str, float] | None:
    """Return the bounds of ``watch`` on the policy's cost and on its difference, after all rows; None without any.

    There are none if several policies made the log, a row occurs several times, or a limit is unknown: the range of
    costs, or the largest size of a group or weight of a row.
    """
    if opened.has_policy_change:
        return None
    try:
        require_single_rows(opened.evaluated)
        main, compared = watch_costs(opened, policy, settings), {"cost": NOTHING, "difference": opened.reference}
        return {name: main.run(reference).bound() for name, reference in compared.items()}
    except InputError:
        return None


def _compare(policies: Sequence[str | Path], cases: Sequence[Case], question: Question) -> tuple[Case, Elimination]:
    """Return the policy with the best bound, whose level counts all policies, and which ones can still be best."""
    mapping = cases[0].opened.mapping
    counted = [question.settings(mapping, UNBIASED, case.numbers) for case in cases]
    of_constraints = {
        part.key: EffectiveNumber(sum(of_case.choices_of(part.key) for of_case in counted), {})
        for part in (*mapping.guardrails, *mapping.limits)
    }
    numbers = EffectiveNumbers(EffectiveNumber(sum(of_case.divisor for of_case in counted), {}), of_constraints)
    watching = question.watching(question.settings(mapping, UNBIASED, numbers), mapping, Reference())
    names = [
        str(policy).removeprefix(COLUMN) if str(policy).startswith(COLUMN) else Path(policy).name for policy in policies
    ]
    parts = [(name, case.opened, case.policy.policy) for name, case in zip(names, cases, strict=True)]
    elimination = eliminate(parts, watching)
    return replace(cases[elimination.leader], numbers=numbers), elimination


def diagnose(log: Source | pd.DataFrame, mapping: Any, *, confidence: float = 0.95, tell: Tell = stay_silent) -> Answer:
    """Check a log: its propensities, repeated rows, changes over time, and how well a model predicts the cost."""
    mapping = as_mapping(mapping)
    with written_log(log) as source, log_folder(source) as folder:
        opened = open_log(source, mapping, tell, folder)
        tell("diagnosing")
        return describe_log("diagnose", opened, diagnose_log(opened), confidence)
