"""A policy of a file, or of a column, on a log: which of its rows may judge it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import InputError, located
from ..logs.mapping import LogMapping, as_mapping
from ..logs.policy_file import StoredPolicy, digest, read_policy
from ..logs.recognition import Recognised
from ..logs.row_checks import RowChecks
from ..logs.verdict import verdict
from ..progress import Progress
from .answers import Judged, answer, diagnosed, logging_dict
from .opening import Opened, mapping_of
from .storing import rows_that_judge

COLUMN = "column:"
COLUMN_SAID = "all rows: the policy must not have been made from any of them"
HELDOUT = "the rows held out from learning"
OTHER = "all rows: none was recognised as one that the policy was learned from"
NOT_COMPARED = "all rows, which could not be compared with those learned from: the policy's file is of an older version"


@dataclass(frozen=True)
class Case:
    """What is judged, on which rows, and of how many choices it was one that were made on the same rows.

    ``rows`` counts training, held-out and new rows of the log; None if they could not be compared.
    """

    judged: Judged
    part: Opened
    choices: int
    said: str
    rows: dict[str, int] | None = None


@contextmanager
def case(options: argparse.Namespace, tell: Progress) -> Iterator[Case]:
    """Give what POLICY is on LOG.

    Rows that it was learned from do not judge it. If the log has such rows, or held-out ones, the choices made on these
    count; on another log it is one choice. A column has the policy's probability of the logged action, as the mapping's
    ``candidate`` has.
    """
    if options.policy.startswith(COLUMN):
        name, mapping = _column(options)
        with rows_that_judge(options.log, mapping, tell) as part:
            yield Case(Judged(name, name, part.records.candidate), part, 1, COLUMN_SAID)
        return
    tell("reading the policy")
    stored = read_policy(Path(options.policy), with_rows=True)
    mapping = mapping_of(stored.header.get("mapping") if options.config is None else options.config)
    with located(options.log):
        is_own = digest(options.log) == stored.header.get("digest")
    judges = _Judges(options.log, stored, mapping, is_own)
    with rows_that_judge(options.log, mapping, tell, stored.encoding, judges) as part:
        said = "; ".join([judges.said, *(f"{what} in {rows} rows" for what, rows in part.unseen.items())])
        yield Case(_as_judged(stored), part, judges.choices, said, judges.counts)


class _Judges:
    """Select the rows of a log that may judge a policy; afterwards ``choices``, ``counts`` and ``said`` describe them.

    Parameters
    ----------
    path : Path
    stored : StoredPolicy
    mapping : LogMapping
    is_own : bool
        Whether the file has the digest of the one that was learned from.
    """

    def __init__(self, path: Path, stored: StoredPolicy, mapping: LogMapping, is_own: bool):
        self._path, self._stored, self._mapping, self._is_own = path, stored, mapping, is_own
        self.choices, self.counts, self.said = 1, None, NOT_COMPARED if stored.rows is None else OTHER

    def __call__(self, checks: RowChecks, held_out: Callable[[int], np.ndarray]) -> np.ndarray:
        """Return the rows, a mask (n,); InputError if every row was learned from."""
        n, known, learned = len(checks.propensity), None, self._stored.rows
        if learned is not None:
            known = learned.recognise(checks.marks, checks.logged, checks.propensity)
            if known is None and self._is_own and n == len(learned.rows):
                known = Recognised(~learned.heldout, learned.heldout)
            self.counts = known.counts if known else {"training": 0, "heldout": 0, "new": n}
        elif self._is_own:
            held = held_out(self._stored.header["seed"])
            known = Recognised(~held, held)
        if known is None:
            return np.ones(n, dtype=bool)
        _require_same_split(self._mapping, self._stored)
        if known.training.all():
            raise InputError(
                f"{self._path}: all {n} rows are rows that the policy was learned from, expected held-out or new ones"
            )
        self.choices, self.said = self._stored.header["choices"], _recognised(known.counts, self._mapping)
        return ~known.training


def _recognised(counts: dict[str, int], mapping: LogMapping) -> str:
    """Which rows judge, in words."""
    training, heldout, new = counts["training"], counts["heldout"], counts["new"]
    if not new:
        return HELDOUT
    judges = " and ".join([f"{heldout} rows held out from learning"] * bool(heldout) + [f"{new} new rows"])
    said = f"{judges}, without {training} rows that the policy was learned from"
    return said + (f", but new rows may share a {mapping.group!r} with those" if mapping.group and training else "")


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
        recognised=found.rows,
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
