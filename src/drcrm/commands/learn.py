"""Learn a policy from a log, and say whether it is better than the one that logged.

Reads   LOG: CSV, Parquet, npz, Vowpal Wabbit's text or dsjson; --config: the mapping, YAML or JSON.
Writes  --output: the policy, npz; --report: the page, HTML; --json: the answer.

A part of the log is held out. Algorithms, radii and feature maps compete on it, and the certificate counts them. Where
none is shown to be better, the policy that is written is an imitation of the one that logged.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from ..core.policies import policy_of
from ..errors import InputError
from ..logs.policy_file import StoredPolicy, write_policy
from ..logs.split import held_out
from ..logs.verdict import verdict
from ..version import __version__
from .answers import Judged, answer, diagnosed, give, logging_dict
from .arguments import add_answers, add_log, add_seed
from .learning import Candidate, best_of, candidates, entries_of
from .opening import Opened, mapping_of, opened
from .progress import Progress

BETTER = "better"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_log(parser)
    parser.add_argument("--output", required=True, type=Path, metavar="POLICY", help="npz to write the policy to")
    add_answers(parser)
    add_seed(parser, "of what is held out")


def run(options: argparse.Namespace) -> None:
    tell = Progress(options.verbose)
    mapping = mapping_of(options.config)
    entries_of(mapping.algorithm, 0)  # what is wrong with it is said before the log is read
    held = []

    def encode(records):
        held.append(held_out(records, options.seed))
        return records.fit(~held[0])

    with threadpool_limits(1, "blas"):
        whole = opened(options.log, mapping, tell, encode)
        _require_a_choice(whole)
        train, heldout = whole.part(~held[0]), whole.part(held[0])
        entries = entries_of(mapping.algorithm, train.log.n_contexts)
        found = candidates(train.log, heldout.log, entries, tell)
        tell("judging")
        stored, said = _judged(whole, train, heldout, found, options)
    write_policy(options.output, stored)
    tell.done()
    give(said, options.json, options.report)


def _require_a_choice(whole: Opened) -> None:
    """Raise InputError where all rows have the same action: of others they say nothing."""
    names = whole.log.encoding.names
    if whole.log.encoding.kind == "single" and len(names) == 1:
        raise InputError(f"{whole.path}: every row has the action {names[0]!r}: the log cannot say what others cost")


def _judged(
    whole: Opened, train: Opened, heldout: Opened, found: list[Candidate], options
) -> tuple[StoredPolicy, dict]:
    """The policy to keep, and the answer."""
    choices, best, confidence = sum(each.tried for each in found), best_of(found), options.confidence
    judged = {each.entry.name: _as_judged(each, chosen=each is best) for each in found}
    diagnosis = diagnosed(heldout, judged[best.entry.name])
    units, reward = diagnosis.units, whole.records.reward
    compared = {name: each.compared(heldout, "dr", choices, confidence, units) for name, each in judged.items()}
    concluded = verdict(
        compared[best.entry.name],
        diagnosis,
        label=best.entry.label,
        reward=reward,
    )
    is_kept = concluded.verdict == BETTER
    said = answer(
        "learn",
        whole,
        confidence=confidence,
        choices=choices,
        logging=logging_dict(heldout, confidence, units),
        candidates=[each.as_dict(heldout, compared[name], confidence, units) for name, each in judged.items()],
        **diagnosis.as_dict(),
        verdict=concluded.as_dict(),
        kept=best.entry.name if is_kept else "logging",
        made={"mapping": whole.records.mapping.as_dict(), "seed": options.seed, "policy": options.output.name},
    )
    said["log"] |= {
        "training": train.records.size,
        "heldout": heldout.records.size,
        "split": whole.records.mapping.split,
    }
    header = {
        "version": __version__,
        "mapping": whole.records.mapping.as_dict(),
        "algorithm": {"name": best.entry.name, "label": best.entry.label, **judged[best.entry.name].chosen},
        "digest": whole.digest,
        "seed": options.seed,
        "choices": choices,
        "confidence": confidence,
        "verdict": concluded.as_dict(),
        "kept": said["kept"],
    }
    return StoredPolicy(_kept(best, train, is_kept), whole.log.encoding, best.model, header), said


def _as_judged(each: Candidate, chosen: bool) -> Judged:
    """A candidate as it is judged; a fit without hyper-parameter has none to tell."""
    value = {} if np.isnan(each.value) else {"parameter": each.entry.algorithm.parameter, "value": each.value}
    known = {**value, "ridge": each.ridge, "step": each.step, "chosen": chosen}
    return Judged(each.entry.name, each.entry.label, each.policy, each.model, each.clip, known)


def _kept(best: Candidate, train: Opened, is_better: bool):
    """The best candidate where it is better, else the imitation of π0 that it began from."""
    if is_better:
        return best.policy
    return policy_of(train.log.actions, best.model.logging_policy.coef, features=best.policy.features)
