"""Learn a policy from a log, and decide whether it is better than the logging policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from drcrm import __version__
from drcrm.arrays.formats import capitalize
from drcrm.cluster import on_cluster
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import limit_threads
from drcrm.errors import InputError, import_extra
from drcrm.evaluation import RATIO, ROBUST
from drcrm.evaluation.evaluation import Evaluation
from drcrm.files import is_stream
from drcrm.logs.block_policies import BLOCKS as BLOCKS_TESTED
from drcrm.logs.decisions.alternatives import (
    compare_with_single_action,
    draw_curves,
    price_readability,
    require_curves,
)
from drcrm.logs.decisions.candidates import (
    ESTIMATE,
    Selection,
    fit_candidates,
    further_algorithms,
    learn_blocks,
    read_algorithms,
    require_exportable,
)
from drcrm.logs.decisions.judgement import Judgement, judge
from drcrm.logs.decisions.opened_log import OpenedLog, Tell, log_folder, open_log
from drcrm.logs.decisions.question import Question
from drcrm.logs.diagnostics.comparison.verdict import NOT_SHOWN
from drcrm.logs.diagnostics.comparison.words import WAY_OF_LEARNING, WRITTEN
from drcrm.logs.policy_file import StoredPolicy, require_replaceable, write_policy
from drcrm.logs.read_log import name_of, written_log
from drcrm.logs.report.answer import Answer
from drcrm.logs.row_identity import LearnedRows
from drcrm.logs.training_limits import require_attainable
from drcrm.mapping.checks import BLOCKS
from drcrm.mapping.log_mapping import MIXTURE, REFIT, LogMapping
from drcrm.policies.exponential import LinearPolicy

MIXES = "The estimate mixes them: if the policy of a file runs today, pass it as the baseline. "
CONNECTION_TIMEOUT = 30  # seconds to wait for a Dask scheduler


@dataclass(frozen=True)
class LearningOptions:
    """Files of the policies that are learned, and how they are learned: see :func:`drcrm.learn`."""

    output: Path | None
    candidate: Path | None
    seed: int = 0
    exportable: bool = False
    readable: bool = False
    curve: bool = False
    cluster: str | None = None


def learn_policy(log: Any, mapping: LogMapping, question: Question, options: LearningOptions, tell: Tell) -> Answer:
    """Learn a policy, write it, and return the answer to the question about it: see :func:`drcrm.learn`."""
    if options.candidate is not None:
        require_replaceable(options.candidate, "--best")
    has_blocks = mapping.validation == BLOCKS
    if options.curve:
        require_curves(mapping)
    algorithms = read_algorithms(mapping, readable=options.readable)  # report its errors before the log is read
    if options.exportable:
        require_exportable(algorithms, mapping)
    with (
        limit_threads(1, "blas"),
        _dask_workers(options.cluster, options.output, tell),
        written_log(log) as source,
        log_folder(source if options.output is None or is_stream(options.output) else options.output) as folder,
    ):
        most = None if options.cluster is None else 0  # with a cluster, keep all rows in files, which the workers read
        reference = question.reference(mapping)
        split = None if has_blocks else options.seed
        opened: Any = open_log(source, mapping, tell, folder, seed=split, most=most, reference=reference)
        opened = opened.mark_missing()
        _require_several_actions(opened)
        require_attainable(opened.evaluated)
        taught = opened.evaluated if has_blocks else opened.train
        algorithms = read_algorithms(mapping, further_algorithms(taught, options.exportable), options.readable)
        if has_blocks:
            opened, selection = learn_blocks(opened, algorithms, tell, options.seed)
        else:
            selection = fit_candidates(opened, algorithms, tell, question.confidence)
        tell("evaluating the candidates")
        judgement = _evaluate(opened, selection, question)
        if mapping.deploy == MIXTURE:
            selection = selection.mix(judgement.comparisons[0].block_weights)
        answer = _answer(judgement, selection, options)
        if options.curve:
            tell("learning within other limits")
            answer = replace(answer, curves=draw_curves(judgement))
        is_better = judgement.verdict.is_better
        kept, best = reference.policy, None
        if is_better or not reference.is_baseline:
            kept = _stored_policy(judgement, selection, options.seed, is_better)
        if not is_better:
            best = _stored_policy(judgement, selection, options.seed, is_candidate=True)
        for path, policy in ((options.output, kept), (options.candidate, best)):
            if path is not None and policy is not None:
                write_policy(path, policy)
        return replace(answer, policy=kept, candidate=best)


@contextmanager
def _dask_workers(cluster: str | None, output: Path | None, tell: Tell) -> Iterator[None]:
    """Run the fits of the ``with`` block on a Dask cluster, if there is one. Its workers read files next to output."""
    if cluster is None:
        yield
        return
    if output is None:
        raise InputError("cluster needs output, a file in a folder that the workers can read")
    tell(f"connecting to {cluster}")
    distributed = import_extra("distributed", "dask")
    try:
        client = distributed.Client(cluster, timeout=CONNECTION_TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"--cluster {cluster} does not answer: {' '.join(str(error).split())}") from None
    with client, on_cluster(client, output.parent):
        yield


def _require_several_actions(heldout: OpenedLog) -> None:
    """Raise InputError if all rows have the same action."""
    if heldout.evaluated.actions.count_choices().max() < 2:
        names = heldout.evaluated.encoding.names
        fault = f"every row has the same action {names[0]!r}" if names else "every list has only one action"
        raise InputError(
            f"{name_of(heldout.path)}: {fault}, so the log cannot say what others cost; expected at least two actions"
        )


def _evaluate(opened: OpenedLog, selection: Selection, question: Question) -> Judgement:
    """Return the judgement of all candidates. For *not shown*, or with blocks, its sentence names what is written."""
    settings = replace(question.settings(opened.mapping, ESTIMATE, selection.numbers), blocks=selection.blocks)
    rows = len(opened.evaluated.Y)
    judgement = judge(opened, selection.policies, selection.best, settings)
    if judgement.verdict.is_better and selection.blocks is not None:
        sentence = judgement.statement.sentence + WRITTEN[opened.mapping.deploy or REFIT]
        return replace(judgement, statement=replace(judgement.statement, sentence=sentence))
    if judgement.verdict.name != NOT_SHOWN:
        return judgement
    estimated = "policies" if opened.has_policy_change else "policy"
    written = "the baseline" if opened.reference.is_baseline else f"an estimate of the logging {estimated}"
    mixes = opened.has_policy_change and not opened.reference.is_baseline
    within = " within all guardrails" if opened.mapping.guardrail_columns else ""
    subject, tested = "No candidate was", f"the {rows} held-out rows"
    if selection.blocks is not None:
        subject, tested = f"{capitalize(WAY_OF_LEARNING)} was not", f"the {rows} rows of {BLOCKS_TESTED} blocks"
    sentence = (
        f"{subject} shown to beat {judgement.evidence.reference}{within} on {tested}, so {written} is written. "
        f"{MIXES * mixes}{judgement.statement.sentence}"
    )
    return replace(judgement, statement=replace(judgement.statement, sentence=sentence))


def _answer(judgement: Judgement, selection: Selection, options: LearningOptions) -> Answer:
    """Return the answer. Its candidates include the policy that is kept."""
    opened, is_better = judgement.opened, judgement.verdict.is_better
    mapping = opened.mapping
    name = None if options.output is None else options.output.name
    further: dict[str, Any] = {"made": {"mapping": mapping.as_dict(), "seed": options.seed, "policy": name}}
    if options.candidate is not None and not is_better:
        advice = f"The best candidate is in {options.candidate.name}. Certify it on rows that are logged later."
        statement = replace(judgement.statement, changes=[*judgement.statement.changes, advice])
        judgement = replace(judgement, statement=statement)
    if opened.evaluated.actions.n_classes:
        further["single_action"] = compare_with_single_action(judgement, selection.policies)
        further["readability"] = price_readability(judgement)
    rows = opened.checks.propensity.size
    if is_better or not opened.reference.is_baseline:
        policy = _policy_to_write(judgement, selection, is_better)
        further["exploration"] = describe_exploration(
            policy,
            opened.evaluated,
            rows,
            cost_model=selection.candidate.cost_model,
            confidence=judgement.settings.confidence,
        )
    answer = judgement.answer("learn", **further)
    kept, candidates = judgement.best.name, answer.candidates
    if not is_better:
        reference = replace(answer.reference_candidate or answer.logging_candidate, is_chosen=True)
        kept = reference.name
        candidates = [reference, *(replace(candidate, is_chosen=False) for candidate in candidates)]
    sizes = {
        "training": int(opened.recognised.training.sum()),
        "heldout": len(opened.evaluated.Y),
        "split": mapping.split if selection.blocks is None else f"{BLOCKS_TESTED} blocks",
    }
    log = answer.log | {"rows": rows, "contexts": opened.n_contexts, **sizes}
    return replace(answer, log=log, candidates=candidates, further=answer.further | {"kept": kept})


def _stored_policy(judgement: Judgement, selection: Selection, seed: int, is_candidate: bool) -> StoredPolicy:
    """Return the content of the file of the best candidate, or else of the estimate of the logging policy."""
    opened, best = judgement.opened, selection.candidate
    header = {
        "version": __version__,
        "mapping": opened.mapping.as_dict(),
        "algorithm": {"name": best.name, "label": best.label, **best.settings},
        "digest": opened.digest,
        "seed": seed,
        "choices": judgement.settings.choices,
        "effective_choices": judgement.settings.effective_choices,
        "effective_numbers": selection.numbers.main.as_list(),
        "guardrail_numbers": {name: number.as_list() for name, number in selection.numbers.of_guardrails.items()},
        "confidence": judgement.settings.confidence,
        "verdict": judgement.statement.as_dict(),
        "kept": best.name if is_candidate else "logging",
    }
    policy = _policy_to_write(judgement, selection, is_candidate)
    learned_rows = LearnedRows.of(opened.checks.hashes, opened.recognised.heldout)  # later commands recognise them
    return StoredPolicy(policy, opened.evaluated.encoding, best.cost_model, header, learned_rows, opened.cells)


def _policy_to_write(judgement: Judgement, selection: Selection, is_candidate: bool) -> LinearPolicy:
    """Return the best candidate, or else the estimate of the logging policy, with exploration.

    The estimate is ``logging.policy`` of the candidate's cost model.
    """
    best: Any = selection.candidate
    if is_candidate:
        return best.policy
    return best.cost_model.logging.policy.with_exploration(judgement.opened.mapping.explore)


def describe_exploration(
    policy: LinearPolicy,
    log: BanditLog,
    rows: float,
    *,
    cost_model: Any = None,
    confidence: float = 0.95,
) -> dict[str, object]:
    """Return the cost of a policy's exploration per row, and the smallest effective sample size in its next log.

    The policy (1 − ε) π + ε U is compared with π. In n rows of the policy, a fixed action a has the effective sample
    size n/E[1/p(a|x)]. Here p(a|x) is its probability, and E the mean over the contexts of the log. For label vectors
    a label value replaces the action, and for lists the candidate with the smallest probability.

    Parameters
    ----------
    policy : ExponentialPolicy or SoftmaxPolicy
    log : BanditLog
        Rows that trained neither the policy nor the cost model.
    rows : float
        n, the number of rows of the next log.
    cost_model : optional
        With a cost model the estimate is "dr", else "snips".
    confidence : float
        Level of the interval.

    Returns
    -------
    dict
        - ``share``: ε.
        - ``cost``: the estimate with its interval.
        - ``rows``: n.
        - ``effective_size``: the smallest effective sample size, of a fixed action or a fixed value of a label.
        - ``of_label``: whether the actions are label vectors.
    """
    estimate = RATIO if cost_model is None else ROBUST
    known = {"baseline": policy.with_exploration(0.0), "cost_model": cost_model}
    cost = Evaluation.of(policy, log, **known).by(estimate).difference(confidence)
    probability = log.actions.fixed_choices(policy.marginals_on(log.X, log.actions))
    of_context = np.bincount(log.context, log.count, log.n_contexts) / log.size
    with np.errstate(divide="ignore", over="ignore"):
        inverse = float((of_context @ (1 / probability)).max())
    size = {"effective_size": rows / inverse, "of_label": not log.actions.are_choices}
    return {"share": policy.explore, "cost": cost.as_dict(), "rows": rows} | size
