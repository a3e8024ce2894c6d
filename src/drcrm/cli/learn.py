"""Learn a policy from a log, and decide whether it is better than the logging policy."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from drcrm.cli.answers import JudgedPolicy, build_answer, diagnose_log, logging_estimate, write_answer
from drcrm.cli.candidates import AlgorithmResult, algorithm_entries, best_candidate, fit_candidates
from drcrm.cli.outputs import require_apart
from drcrm.cli.workers import workers_of
from drcrm.diagnostics.diagnosis import Diagnosis
from drcrm.diagnostics.verdict import Comparison, Verdict, reach_verdict
from drcrm.errors import InputError
from drcrm.files import is_stream, is_terminal
from drcrm.logs.mapping import as_mapping
from drcrm.logs.opened_log import OpenedLog, SplitLog, log_folder, split_log
from drcrm.logs.policy_file import StoredPolicy, write_policy
from drcrm.policies.exponential import make_policy
from drcrm.progress import show_progress
from drcrm.selection.halving import is_expensive
from drcrm.version import __version__

BETTER = "better"


def run(options: argparse.Namespace) -> None:
    require_apart(options)
    if is_terminal(options.output):
        raise InputError(f"--output {options.output} is a terminal, expected a file or a pipe: a policy is binary")
    mapping = as_mapping(options.config)
    algorithm_entries(mapping.algorithm, 0)  # what is wrong with it is said before the log is read
    with (
        show_progress(options.verbose, options.jobs) as tell,
        threadpool_limits(1, "blas"),
        workers_of(options, tell),
        log_folder(options.log if is_stream(options.output) else options.output) as folder,
    ):
        most = None if options.cluster is None else 0  # workers read files
        log = split_log(options.log, mapping, options.seed, tell, folder, most)
        _require_a_choice(log.heldout)
        entries = algorithm_entries(mapping.algorithm, log.train.n_contexts, has_maps=not is_expensive(log.train))
        groups = log.heldout.checks.groups
        units = None if groups is None else groups[~log.is_heldout]
        found = fit_candidates(log.train, log.heldout.log, entries, tell, units)
        tell("judging")
        judged = _judged(log, found, options.confidence)
        said = _answer(judged, options)
        write_policy(options.output, _stored(judged, options))
    write_answer(said, options)


def _require_a_choice(heldout: OpenedLog) -> None:
    """Raise InputError where all rows have the same action: of others they say nothing."""
    names = heldout.log.encoding.names
    if heldout.log.encoding.kind == "single" and len(names) == 1:
        raise InputError(f"{heldout.path}: every row has the action {names[0]!r}: the log cannot say what others cost")


@dataclass(frozen=True)
class Found:
    """What was learned: a log and its parts, what each algorithm chose, the best of them, and the verdict on it."""

    log: SplitLog
    candidates: list[AlgorithmResult]
    best: AlgorithmResult
    compared: list[Comparison]
    diagnosis: Diagnosis
    verdict: Verdict

    @property
    def choices(self) -> int:
        return sum(each.tried for each in self.candidates)

    @property
    def is_better(self) -> bool:
        return self.verdict.verdict == BETTER

    @property
    def kept(self) -> str:
        return self.best.entry.name if self.is_better else "logging"


def _judged(log: SplitLog, found: list[AlgorithmResult], confidence: float) -> Found:
    heldout = log.heldout
    best, choices = best_candidate(found), sum(each.tried for each in found)
    diagnosis = diagnose_log(heldout, _as_judged(best))
    compared = [_as_judged(each).compared(heldout, "dr", choices, confidence, diagnosis.units) for each in found]
    said = reach_verdict(compared[found.index(best)], diagnosis, label=best.entry.label, reward=heldout.records.reward)
    return Found(log, found, best, compared, diagnosis, said)


def _answer(found: Found, options: argparse.Namespace) -> dict:
    """The answer; where the old policy stays, it is the one that was chosen."""
    part = found.log.heldout
    mapping, units, confidence = part.records.mapping, found.diagnosis.units, options.confidence
    logging = logging_estimate(part, confidence, units)
    shown = [
        _as_judged(each).as_dict(part, compared, confidence, units) | {"chosen": found.is_better and each is found.best}
        for each, compared in zip(found.candidates, found.compared, strict=True)
    ]
    stays = {"name": "logging", "label": "The old policy", "estimates": {"ips": logging}, "is_logging": True}
    said = build_answer(
        "learn",
        part,
        confidence=confidence,
        choices=found.choices,
        logging=logging,
        candidates=shown if found.is_better else [{**stays, "chosen": True}, *shown],
        **found.diagnosis.as_dict(),
        verdict=found.verdict.as_dict(),
        kept=found.kept,
        made={"mapping": mapping.as_dict(), "seed": options.seed, "policy": options.output.name},
    )
    sizes = {"training": len(found.log.train.Y), "heldout": part.records.size, "split": mapping.split}
    said["log"] |= {"rows": found.log.size, "contexts": found.log.n_contexts, **sizes}
    return said


def _stored(found: Found, options: argparse.Namespace) -> StoredPolicy:
    """The best candidate where it is better, else the imitation of π0 that it began from."""
    heldout, best, policy = found.log.heldout, found.best, found.best.policy
    if not found.is_better:
        policy = make_policy(found.log.train.actions, best.model.logging_policy.coef, features=policy.features)
    header = {
        "version": __version__,
        "mapping": heldout.records.mapping.as_dict(),
        "algorithm": {"name": best.entry.name, "label": best.entry.label, **_as_judged(best).chosen},
        "digest": heldout.digest,
        "seed": options.seed,
        "choices": found.choices,
        "confidence": options.confidence,
        "verdict": found.verdict.as_dict(),
        "kept": found.kept,
    }
    return StoredPolicy(policy, heldout.log.encoding, best.model, header, found.log.learned_rows)


def _as_judged(each: AlgorithmResult) -> JudgedPolicy:
    """A candidate as it is judged; a fit without hyper-parameter has none to tell."""
    value = {} if np.isnan(each.value) else {"parameter": each.entry.algorithm.parameter, "value": each.value}
    known = {**value, "ridge": each.ridge, "step": each.step}
    return JudgedPolicy(each.entry.name, each.entry.label, each.policy, each.model, each.clip, known)
