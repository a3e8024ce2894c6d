"""A policy of a file, or of a column, on a log: which of its rows may judge it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError, located
from ..logs.mapping import LogMapping, as_mapping
from ..logs.policy_file import StoredPolicy, digest, read_policy
from ..logs.verdict import verdict
from ..progress import Progress
from .answers import Judged, answer, diagnosed, logging_dict
from .opening import Opened, mapping_of
from .storing import rows_that_judge

COLUMN = "column:"
OTHER = "all rows, as of another log: none of them may be one that the policy was learned from"


@dataclass(frozen=True)
class Case:
    """What is judged, on which rows, and of how many choices it was one that were made on the same rows."""

    judged: Judged
    part: Opened
    choices: int
    said: str


@contextmanager
def case(options: argparse.Namespace, tell: Progress) -> Iterator[Case]:
    """Give what POLICY is on LOG.

    On the log that it was learned from, known by its digest, the rows that were held out judge it, and the choices made
    on them count; on another log all rows do, and it is one choice. A column has the policy's probability of the logged
    action, as the mapping's ``candidate`` has.
    """
    if options.policy.startswith(COLUMN):
        name, mapping = _column(options)
        with rows_that_judge(options.log, mapping, tell) as part:
            yield Case(Judged(name, name, part.records.candidate), part, 1, OTHER)
        return
    tell("reading the policy")
    stored = read_policy(Path(options.policy))
    mapping = mapping_of(stored.header.get("mapping") if options.config is None else options.config)
    seed, choices, said = None, 1, OTHER
    with located(options.log):
        is_own = digest(options.log) == stored.header.get("digest")
    if is_own:
        _require_same_split(mapping, stored)
        seed, choices, said = stored.header["seed"], stored.header["choices"], "the rows held out from learning"
    with rows_that_judge(options.log, mapping, tell, stored.encoding, seed) as part:
        said += "".join(f"; {what} in {rows} rows" for what, rows in part.unseen.items())
        yield Case(_as_judged(stored), part, choices, said)


def judged_answer(
    command: str, found: Case, confidence: float, estimate: str | None = None, conclude: Callable | None = None
) -> dict:
    """Return the answer on a policy, by dr where it has a cost model; ``conclude`` may put another verdict in place."""
    part = found.part
    estimate = estimate or ("snips" if found.judged.model is None else "dr")
    diagnosis = diagnosed(part, found.judged)
    comparison = found.judged.compared(part, estimate, found.choices, confidence, diagnosis.units)
    concluded = verdict(comparison, diagnosis, label=found.judged.label, reward=part.records.reward)
    if conclude:
        concluded = conclude(concluded, comparison, diagnosis, part.records.reward)
    return answer(
        command,
        part.about,
        confidence=confidence,
        choices=found.choices,
        logging=logging_dict(part, confidence, diagnosis.units),
        candidates=[found.judged.as_dict(part, comparison, confidence, diagnosis.units) | {"chosen": True}],
        **diagnosis.as_dict(),
        verdict=concluded.as_dict() | {"cautions": [*concluded.cautions, f"Judged by {found.said}."]},
        judged_by=found.said,
    )


def _require_same_split(mapping: LogMapping, stored: StoredPolicy) -> None:
    """Raise InputError where a mapping would hold out other rows than the policy was not learned from."""
    learned = as_mapping(stored.header.get("mapping"))
    for key in ("split", "group", "time"):
        found, expected = getattr(mapping, key), getattr(learned, key)
        if found != expected:
            raise InputError(f"{key} is {found!r}, the policy was learned from this log with {expected!r}")


def _as_judged(stored: StoredPolicy) -> Judged:
    name = str(stored.header.get("kept", "policy"))
    chosen = dict(stored.header.get("algorithm", {})) if name != "logging" else {}
    label = "The imitation of the logging policy" if name == "logging" else chosen.pop("label", name)
    return Judged(name, label, stored.policy, stored.model, chosen={**chosen, "name": name})


def _column(options: argparse.Namespace) -> tuple[str, LogMapping]:
    """The name of the column that is a policy, and the mapping of which it is the candidate."""
    if options.config is None:
        raise InputError(f"{options.policy} needs --config, the mapping of the log")
    name = options.policy.removeprefix(COLUMN)
    return name, as_mapping(mapping_of(options.config).as_dict() | {"candidate": name})
