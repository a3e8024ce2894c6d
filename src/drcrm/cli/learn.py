"""``drcrm learn``: learn a policy from a log, and decide whether it is better than the logging policy."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from threadpoolctl import threadpool_limits

from drcrm.cli.common.answers import exit_status, require_separate_outputs, write_answer
from drcrm.cli.common.candidates import (
    ESTIMATE,
    Selection,
    can_have_scores,
    fit_candidates,
    read_algorithms,
    require_exportable,
)
from drcrm.cli.common.evaluation import Evaluation, evaluate
from drcrm.cli.evaluate_policy import comparison_settings, read_baseline, read_mapping
from drcrm.cluster import on_cluster
from drcrm.diagnostics.comparison.policy_comparison import describe_exploration
from drcrm.diagnostics.comparison.verdict import NOT_SHOWN
from drcrm.diagnostics.opened_log import OpenedLog, log_folder, open_log
from drcrm.errors import InputError, import_extra
from drcrm.files import is_stream, is_terminal
from drcrm.logs.policy_file import StoredPolicy, require_replaceable, write_policy
from drcrm.logs.read_log import name_of
from drcrm.policies.exponential import LinearPolicy
from drcrm.progress import show_progress
from drcrm.version import __version__

CONNECTION_TIMEOUT = 30  # seconds to wait for a Dask scheduler


def run(options: argparse.Namespace) -> int:
    """Run the command: check the arguments, learn, evaluate the candidates, and write policy and answer."""
    if options.best is None and not is_stream(options.output):
        options.best = options.output.with_suffix(f".candidate{options.output.suffix}")
    require_separate_outputs(options)
    has_earlier = bool(options.best) and require_replaceable(options.best, "--best")
    if is_terminal(options.output):
        raise InputError(f"--output {options.output} is a terminal, expected a file or a pipe: a policy is binary")
    mapping = read_mapping(options.config, options)
    algorithms = read_algorithms(mapping)  # report its errors before the log is read
    if options.exportable:
        require_exportable(algorithms)
    with (
        show_progress(options.verbose, options.jobs) as report,
        threadpool_limits(1, "blas"),
        _dask_workers(options, report),
        log_folder(options.log if is_stream(options.output) else options.output) as folder,
    ):
        most = None if options.cluster is None else 0  # with a cluster, keep all rows in files, which the workers read
        baseline = read_baseline(options)
        opened: Any = open_log(options.log, mapping, report, folder, seed=options.seed, most=most, baseline=baseline)
        opened = opened.mark_missing()
        _require_several_actions(opened)
        has_scores = can_have_scores(opened.train) and not options.exportable
        algorithms = read_algorithms(mapping, has_scores)
        selection = fit_candidates(opened, algorithms, report, options.confidence)
        report("evaluating the candidates")
        evaluation = _evaluate(opened, selection, options)
        answer = _answer(evaluation, options)
        is_better = evaluation.verdict.is_better
        keeps_baseline = baseline is not None and not is_better
        kept = baseline if keeps_baseline else _stored_policy(evaluation, selection, options, is_better)
        write_policy(options.output, kept)
        if options.best and not is_better:
            write_policy(options.best, _stored_policy(evaluation, selection, options, is_candidate=True))
    write_answer(answer, options)
    if has_earlier and is_better:
        print(f"{options.best} is the candidate of an earlier log, and stays as it is.", file=sys.stderr)
    return exit_status(evaluation, options.fail_unless)


@contextmanager
def _dask_workers(options: argparse.Namespace, report: Callable[[str], None]) -> Iterator[None]:
    """Run the fits of the ``with`` block on a Dask cluster, if the options name one."""
    if options.cluster is None:
        yield
        return
    report(f"connecting to {options.cluster}")
    distributed = import_extra("distributed", "dask")
    try:
        client = distributed.Client(options.cluster, timeout=CONNECTION_TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"--cluster {options.cluster} does not answer: {' '.join(str(error).split())}") from None
    with client, on_cluster(client, options.output.parent):
        yield


def _require_several_actions(heldout: OpenedLog) -> None:
    """Raise InputError if all rows have the same action."""
    if heldout.evaluated.actions.count_choices().max() < 2:
        names = heldout.evaluated.encoding.names
        fault = f"every row has the same action {names[0]!r}" if names else "every list has only one action"
        raise InputError(
            f"{name_of(heldout.path)}: {fault}, so the log cannot say what others cost; expected at least two actions"
        )


def _evaluate(opened: OpenedLog, selection: Selection, options: argparse.Namespace) -> Evaluation:
    """Return the evaluation of all candidates; the verdict says if another policy is written than a candidate."""
    settings = comparison_settings(
        options, opened.mapping, ESTIMATE, selection.choices, selection.number, selection.of_guardrails
    )
    rows = len(opened.evaluated.Y)
    evaluation = evaluate(opened, selection.policies, selection.best, settings)
    if evaluation.verdict.name != NOT_SHOWN:
        return evaluation
    estimated = "policy" if opened.policy_change is None else "policies"
    written = f"an estimate of the logging {estimated}" if opened.baseline is None else "the baseline"
    within = " within all guardrails" if evaluation.evidence.guardrails else ""
    sentence = (
        f"No candidate was shown to beat {evaluation.evidence.reference}{within} on the {rows} held-out "
        f"rows, so {written} is written. {evaluation.statement.sentence}"
    )
    return replace(evaluation, statement=replace(evaluation.statement, sentence=sentence))


def _answer(evaluation: Evaluation, options: argparse.Namespace) -> dict:
    opened, is_better = evaluation.opened, evaluation.verdict.is_better
    mapping = opened.mapping
    origin = {"mapping": mapping.as_dict(), "seed": options.seed, "policy": options.output.name}
    kept = "logging" if opened.baseline is None else "baseline"
    answer = evaluation.answer("learn", kept=evaluation.best.name if is_better else kept, made=origin)
    if not is_better:
        label, estimates = "π0", {"ips": answer["logging"]}
        if opened.baseline is not None:
            label, estimates = answer["baseline"]["name"].removeprefix("the "), answer["baseline"]["estimates"]
        reference = {"name": kept, "label": label, "estimates": estimates, f"is_{kept}": True, "chosen": True}
        answer["candidates"] = [reference, *(candidate | {"chosen": False} for candidate in answer["candidates"])]
    if options.best and not is_better:
        advice = f"The best candidate is in {options.best.name}. Certify it on rows that are logged later."
        answer["verdict"]["changes"] = [*evaluation.statement.changes, advice]
    rows = opened.checks.propensity.size
    if is_better or opened.baseline is None:
        models = {"cost_model": evaluation.best.cost_model, "groups": evaluation.diagnosis.units}
        policy = _policy_to_write(evaluation, is_better)
        answer["exploration"] = describe_exploration(
            policy, opened.evaluated, rows, **models, confidence=options.confidence
        )
    sizes = {
        "training": int(opened.recognised.training.sum()),
        "heldout": len(opened.evaluated.Y),
        "split": mapping.split,
    }
    answer["log"] |= {"rows": rows, "contexts": opened.n_contexts, **sizes}
    return answer


def _stored_policy(
    evaluation: Evaluation, selection: Selection, options: argparse.Namespace, is_candidate: bool
) -> StoredPolicy:
    """Return the content of the file of the best candidate, or else of the estimate of the logging policy."""
    opened, best = evaluation.opened, evaluation.best
    header = {
        "version": __version__,
        "mapping": opened.mapping.as_dict(),
        "algorithm": {"name": best.name, "label": best.label, **best.settings},
        "digest": opened.digest,
        "seed": options.seed,
        "choices": evaluation.settings.choices,
        "effective_choices": evaluation.settings.effective_choices,
        "effective_numbers": selection.number.as_list(),
        "guardrail_numbers": {name: number.as_list() for name, number in selection.of_guardrails.items()},
        "confidence": options.confidence,
        "verdict": evaluation.statement.as_dict(),
        "kept": best.name if is_candidate else "logging",
    }
    policy = _policy_to_write(evaluation, is_candidate)
    return StoredPolicy(policy, opened.evaluated.encoding, best.cost_model, header, opened.learned_rows, opened.cells)


def _policy_to_write(evaluation: Evaluation, is_candidate: bool) -> LinearPolicy:
    """Return the best candidate, or else the estimate of the logging policy, with exploration.

    The estimate is the ``logging_policy`` of the candidate's cost model.
    """
    if is_candidate:
        return evaluation.best.policy
    return evaluation.best.cost_model.logging_policy.with_exploration(evaluation.opened.mapping.explore)
