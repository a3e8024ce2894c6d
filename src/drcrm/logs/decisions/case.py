"""A policy that the user names, and the rows of a log that evaluate it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from drcrm.errors import InputError
from drcrm.logs.decisions.judgement import EvaluatedPolicy
from drcrm.logs.decisions.opened_log import OpenedLog, Tell, log_folder, open_log
from drcrm.logs.decisions.question import Question
from drcrm.logs.diagnostics.comparison.baseline import find_rows
from drcrm.logs.diagnostics.repeated_rows.row_checks import RowChecks
from drcrm.logs.policy_file import StoredPolicy, read_policy
from drcrm.logs.read_log import Source
from drcrm.logs.rows.recognition import RecognisedRows
from drcrm.mapping.log_mapping import LogMapping, as_mapping
from drcrm.selection.multiplicity import EffectiveNumbers

COLUMN = "column:"
COLUMN_ROWS = "all rows, on the assumption that none of them was used to make the policy"
HELDOUT_ROWS = "the rows held out from learning, with their outcomes in this log"
ALL_ROWS = "all rows; no row was recognised as one that the policy was learned from"
UNDECIDED_ROWS = "all rows, which may include rows that the policy was learned from"


@dataclass(frozen=True)
class Case:
    """A policy that the user names, and the rows of the log that evaluate it.

    Attributes
    ----------
    policy : EvaluatedPolicy
        None if the options name no policy, which only ``plan`` permits.
    opened : OpenedLog
        The rows that did not train the policy.
    rows : str
        Description of the rows for the answer.
    counts : dict or None
        Numbers of training, held-out and new rows of the log; None if they are unknown.
    numbers : EffectiveNumbers
        Effective numbers of the candidates that competed on these rows.
    """

    policy: Any
    opened: OpenedLog
    rows: str
    counts: dict[str, int] | None = None
    numbers: EffectiveNumbers = field(default_factory=EffectiveNumbers)


@contextmanager
def open_case(policy: str | Path | None, logs: Source, mapping: Any, question: Question, tell: Tell) -> Iterator[Case]:
    """Yield the policy and the rows of the log that evaluate it.

    Rows that trained the policy are left out. On the rows that were held out from learning, the policy is the best of
    all candidates that competed there, so the bounds are adjusted for their number. On a new log, it is the only one.

    The policy ``column:NAME`` is a column of the log with the policy's probability of the logged action. Rows that
    trained the policy of --baseline are left out, too.
    """
    stored, name = None, policy and str(policy).removeprefix(COLUMN)
    if name and name == str(policy):
        tell("reading the policy")
        stored = read_policy(Path(name), with_rows=True)
        mapping = stored.header.get("mapping") if mapping is None else mapping
    elif mapping is None:
        raise InputError(f"{policy or 'plan without --policy'} needs --config, the mapping of the log")
    mapping = question.mapping(mapping)
    if stored is not None:
        mapping = replace(mapping, interactions=stored.encoding.interactions)
    elif name is not None:
        mapping = as_mapping(mapping.as_dict() | {"candidate": name})
    reference, recognised_rows = question.reference(mapping), []

    def recognise(checks: RowChecks, digest: str) -> RecognisedRows:
        recognised_rows.append(_recognise(stored, mapping, checks, digest))
        return recognised_rows[0]

    with log_folder(logs) as folder:
        read_rows = partial(open_log, logs, mapping, tell, folder, reference=reference)
        if stored is None:
            opened = read_rows()
            column = None
            if name is not None:
                column = EvaluatedPolicy(name, name, opened.evaluated.column("candidate"), may_have_logged=True)
            yield Case(column, opened, COLUMN_ROWS if column else "all rows")
            return
        opened, [recognised] = read_rows(stored.encoding, recognise).mark_missing(stored.cells), recognised_rows
        counts, rows = None if recognised.undecided else recognised.counts, _describe(recognised, mapping)
        if left_out := opened.recognised.training.sum() - recognised.training.sum():
            rows += f"; without {left_out} other rows that the baseline was learned from"
        rows = "; ".join([rows, *(f"{reason} in {number} rows" for reason, number in opened.unseen.items())])
        is_known = bool(counts and counts["training"] + counts["heldout"])
        numbers = stored.numbers(mapping) if is_known else EffectiveNumbers()
        yield Case(_evaluated(stored, mapping), opened, rows, counts, numbers)


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
