"""A policy of a file, or of a column, on a log: which of its rows may judge it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from drcrm.cli.answers import JudgedPolicy, build_answer, diagnose_log, logging_estimate
from drcrm.diagnostics.repeated_rows.recognition import RecognisedRows
from drcrm.diagnostics.repeated_rows.row_checks import RowChecks
from drcrm.diagnostics.verdict import reach_verdict
from drcrm.errors import InputError
from drcrm.logs.mapping import LogMapping, as_mapping
from drcrm.logs.opened_log import OpenedLog, log_folder, open_log
from drcrm.logs.policy_file import StoredPolicy, read_policy
from drcrm.progress import Progress

COLUMN = "column:"
COLUMN_ROWS = "all rows: the policy must not have been made from any of them"
HELDOUT_ROWS = "the rows held out from learning"
ALL_ROWS = "all rows: none was recognised as one that the policy was learned from"
UNCOMPARED_ROWS = (
    "all rows, which could not be compared with those learned from: the policy's file is of an older version"
)


@dataclass(frozen=True)
class Evaluation:
    """What is judged, on which rows, and of how many choices it was one that were made on the same rows.

    ``rows`` counts training, held-out and new rows of the log; None if they could not be compared.
    """

    judged: JudgedPolicy
    part: OpenedLog
    choices: int
    said: str
    rows: dict[str, int] | None = None


@contextmanager
def open_evaluation(options: argparse.Namespace, tell: Progress) -> Iterator[Evaluation]:
    """Give what POLICY is on LOG.

    Rows that it was learned from do not judge it. If the log has such rows, or held-out ones, the choices made on these
    count; on another log it is one choice. A column has the policy's probability of the logged action, as the mapping's
    ``candidate`` has.
    """
    if options.policy.startswith(COLUMN):
        name, mapping = _column(options)
        with log_folder(options.log) as folder:
            part = open_log(options.log, mapping, tell, folder)
            yield Evaluation(JudgedPolicy(name, name, part.records.candidate), part, 1, COLUMN_ROWS)
        return
    tell("reading the policy")
    stored = read_policy(Path(options.policy), with_rows=True)
    mapping = as_mapping(stored.header.get("mapping") if options.config is None else options.config)
    select = partial(_learned, options.log, stored, mapping)
    with log_folder(options.log) as folder:
        part = open_log(options.log, mapping, tell, folder, stored.encoding, select)
        known, n = part.recognised, len(part.checks.propensity)
        counts = known.counts if known else {"training": 0, "heldout": 0, "new": n}
        said = _words(counts, mapping) if known else ALL_ROWS if stored.rows else UNCOMPARED_ROWS
        said = "; ".join([said, *(f"{what} in {rows} rows" for what, rows in part.unseen.items())])
        choices = stored.header["choices"] if known else 1
        yield Evaluation(_as_judged(stored), part, choices, said, counts if stored.rows else None)


def _learned(
    path: Path,
    stored: StoredPolicy,
    mapping: LogMapping,
    checks: RowChecks,
    digest: str,
    held_out: Callable[[int], np.ndarray],
) -> RecognisedRows | None:
    """Return the rows of a log that a policy was learned from, if any are recognised; InputError if all of them were.

    Files of older versions have no hashes of rows: they recognise only the whole log, by its digest.
    """
    n, learned, known = len(checks.propensity), stored.rows, None
    if learned is not None:
        known = learned.recognise(checks.hashes, checks.propensity)
    if known is None and digest == stored.header.get("digest") and (learned is None or n == len(learned.rows)):
        heldout = held_out(stored.header["seed"]) if learned is None else learned.heldout
        known = RecognisedRows(~heldout, heldout)
    if known is None:
        return None
    _require_same_split(mapping, stored)
    if known.training.all():
        raise InputError(f"{path}: the policy was learned from all {n} rows, expected held-out or new ones")
    return known


def _words(counts: dict[str, int], mapping: LogMapping) -> str:
    """Which rows judge, in words."""
    training, heldout, new = counts["training"], counts["heldout"], counts["new"]
    if not new:
        return HELDOUT_ROWS
    judges = " and ".join([f"{heldout} rows held out from learning"] * bool(heldout) + [f"{new} new rows"])
    said = f"{judges}, without {training} rows that the policy was learned from"
    return said + (f", but new rows may share a {mapping.group!r} with those" if mapping.group and training else "")


def evaluation_answer(
    command: str, found: Evaluation, confidence: float, estimate: str | None = None, conclude: Callable | None = None
) -> dict:
    """Return the answer on a policy, by dr where it has a cost model; ``conclude`` may put another verdict in place."""
    part = found.part
    estimate = estimate or ("snips" if found.judged.model is None else "dr")
    diagnosis = diagnose_log(part, found.judged)
    comparison = found.judged.compared(part, estimate, found.choices, confidence, diagnosis.units)
    concluded = reach_verdict(comparison, diagnosis, label=found.judged.label, reward=part.records.reward)
    if conclude:
        concluded = conclude(concluded, comparison, diagnosis, part.records.reward)
    return build_answer(
        command,
        part,
        confidence=confidence,
        choices=found.choices,
        logging=logging_estimate(part, confidence, diagnosis.units),
        candidates=[found.judged.as_dict(part, comparison, confidence, diagnosis.units) | {"chosen": True}],
        **diagnosis.as_dict(),
        verdict=concluded.as_dict() | {"cautions": [*concluded.cautions, f"Judged by {found.said}."]},
        judged_by=found.said,
        recognised=found.rows,
    )


def _require_same_split(mapping: LogMapping, stored: StoredPolicy) -> None:
    """Raise InputError where a mapping would hold out other rows than the policy was not learned from."""
    learned = as_mapping(stored.header.get("mapping"))
    for key in ("split", "group", "time"):
        value, expected = getattr(mapping, key), getattr(learned, key)
        if value != expected:
            raise InputError(f"{key} is {value!r}, the policy was learned from this log with {expected!r}")


def _as_judged(stored: StoredPolicy) -> JudgedPolicy:
    name = str(stored.header.get("kept", "policy"))
    chosen = dict(stored.header.get("algorithm", {})) if name != "logging" else {}
    label = "The imitation of the logging policy" if name == "logging" else chosen.pop("label", name)
    return JudgedPolicy(name, label, stored.policy, stored.model, chosen={**chosen, "name": name})


def _column(options: argparse.Namespace) -> tuple[str, LogMapping]:
    """The name of the column that is a policy, and the mapping of which it is the candidate."""
    if options.config is None:
        raise InputError(f"{options.policy} needs --config, the mapping of the log")
    name = options.policy.removeprefix(COLUMN)
    return name, as_mapping(as_mapping(options.config).as_dict() | {"candidate": name})
