"""``drcrm learn``: learn a policy from a log, and decide whether it is better than the logging policy."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from threadpoolctl import threadpool_limits

from drcrm.cli.answers import build_answer, require_separate_outputs, write_answer
from drcrm.cli.candidates import AlgorithmResult, algorithm_entries, best_candidate, fit_candidates
from drcrm.cli.evaluation import Evaluation, estimate_logging, evaluate, exit_status
from drcrm.data.dask_executor import use_cluster
from drcrm.diagnostics.verdict import ComparisonSettings, Verdict
from drcrm.errors import InputError
from drcrm.files import is_stream, is_terminal
from drcrm.logs.mapping import as_mapping, import_extra
from drcrm.logs.opened_log import OpenedLog, SplitLog, log_folder, split_log
from drcrm.logs.policy_file import StoredPolicy, write_policy
from drcrm.policies.exponential import make_policy
from drcrm.progress import show_progress
from drcrm.selection.successive_halving import is_expensive
from drcrm.version import __version__

CONNECTION_TIMEOUT = 30  # seconds to wait for a Dask scheduler


@dataclass(frozen=True)
class LearningResult:
    """The best candidate of all algorithms, and the evaluation of all candidates on the held-out rows.

    ``choices`` is the number of candidates that competed.
    """

    log: SplitLog
    best: AlgorithmResult
    choices: int
    evaluation: Evaluation

    @property
    def is_better(self) -> bool:
        """Whether the best candidate is better. If not, ``learn`` writes an estimate of the logging policy."""
        return self.evaluation.verdict.verdict == "better"

    @property
    def kept(self) -> str:
        """The name of the policy that ``learn`` writes."""
        return self.best.name if self.is_better else "logging"

    @property
    def verdict(self) -> Verdict:
        """The verdict on the best candidate. Its sentence mentions if the logging policy is returned instead."""
        verdict = self.evaluation.verdict
        if verdict.verdict != "not shown":
            return verdict
        sentence = (
            f"No candidate beat the logging policy on the {self.log.heldout.records.size} held-out rows, so the "
            f"logging policy is returned. {verdict.sentence}"
        )
        return replace(verdict, sentence=sentence)


def run(options: argparse.Namespace) -> int:
    """Run the command: check the arguments, learn, evaluate the candidates, and write policy and answer."""
    require_separate_outputs(options)
    if is_terminal(options.output):
        raise InputError(f"--output {options.output} is a terminal, expected a file or a pipe: a policy is binary")
    mapping = as_mapping(options.config)
    algorithm_entries(mapping.algorithm, 0)  # report its errors before the log is read
    with (
        show_progress(options.verbose, options.jobs) as report,
        threadpool_limits(1, "blas"),
        _dask_workers(options, report),
        log_folder(options.log if is_stream(options.output) else options.output) as folder,
    ):
        most = None if options.cluster is None else 0  # workers read the rows from files
        log = split_log(options.log, mapping, options.seed, report, folder, most)
        _require_several_actions(log.heldout)
        entries = algorithm_entries(mapping.algorithm, log.train.n_contexts, has_maps=not is_expensive(log.train))
        groups = log.heldout.checks.groups
        units = None if groups is None else groups[~log.is_heldout]
        results = fit_candidates(log.train, log.heldout.log, entries, report, units)
        report("evaluating the candidates")
        learned = _evaluate(log, results, options.confidence)
        answer = _answer(learned, options)
        write_policy(options.output, _stored_policy(learned, options))
    write_answer(answer, options)
    return exit_status(learned.verdict, options.fail_unless)


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
    with client, use_cluster(client, options.output.parent):
        yield


def _require_several_actions(heldout: OpenedLog) -> None:
    """Raise InputError if all rows have the same action."""
    encoding: Any = heldout.log.encoding
    names = encoding.names
    if encoding.kind == "single" and len(names) == 1:
        raise InputError(
            f"{heldout.path}: every row has the action {names[0]!r}, so the log cannot say what others cost; expected "
            "at least two actions"
        )


def _evaluate(log: SplitLog, results: list[AlgorithmResult], confidence: float) -> LearningResult:
    best, choices = best_candidate(results), sum(result.tried for result in results)
    settings = ComparisonSettings("dr", confidence, choices, log.heldout.records.mapping.cost_range)
    return LearningResult(log, best, choices, evaluate(log.heldout, results, best, settings))


def _answer(learned: LearningResult, options: argparse.Namespace) -> dict:
    log, evaluation = learned.log, learned.evaluation
    opened = log.heldout
    logging = estimate_logging(opened, evaluation.diagnosis, options.confidence)
    mapping = opened.records.mapping
    is_chosen = [policy is learned.best and learned.is_better for policy in evaluation.policies]
    candidates = [entry | {"chosen": chosen} for entry, chosen in zip(evaluation.candidates(), is_chosen, strict=True)]
    if not learned.is_better:
        entry = {"name": "logging", "label": "π0", "estimates": {"ips": logging}, "is_logging": True}
        candidates = [entry | {"chosen": True}, *candidates]
    answer = build_answer(
        "learn",
        opened,
        confidence=options.confidence,
        choices=learned.choices,
        logging=logging,
        candidates=candidates,
        **evaluation.diagnosis.as_dict(),
        verdict=asdict(learned.verdict),
        kept=learned.kept,
        made={"mapping": mapping.as_dict(), "seed": options.seed, "policy": options.output.name},
    )
    sizes = {"training": len(log.train.Y), "heldout": opened.records.size, "split": mapping.split}
    answer["log"] |= {"rows": log.size, "contexts": log.n_contexts, **sizes}
    return answer


def _stored_policy(learned: LearningResult, options: argparse.Namespace) -> StoredPolicy:
    """Return the policy to write: the best candidate, or the estimate of the logging policy if it is not better.

    The fit of the candidate started from this estimate.
    """
    heldout, best = learned.log.heldout, learned.best
    policy, model = best.policy, best.cost_model
    if not learned.is_better:
        policy = make_policy(learned.log.train.actions, model.logging_policy.coef, features=policy.features)
    header = {
        "version": __version__,
        "mapping": heldout.records.mapping.as_dict(),
        "algorithm": {"name": best.name, "label": best.label, **best.settings},
        "digest": heldout.digest,
        "seed": options.seed,
        "choices": learned.choices,
        "confidence": options.confidence,
        "verdict": asdict(learned.verdict),
        "kept": learned.kept,
    }
    return StoredPolicy(policy, heldout.log.encoding, model, header, learned.log.learned_rows)
