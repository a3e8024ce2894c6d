"""Logs as the commands use them: read, checked, split and encoded, in memory or in a temporary folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from drcrm.arrays.mapped_arrays import folder_prefix, scratch_folder, scratch_path
from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.comparison.baseline import (
    Folder,
    find_rows,
    leave_out_training,
    policy_on_rows,
    with_features_of,
)
from drcrm.diagnostics.repeated_rows.row_checks import RowChecks, check_recognition, check_records, hash_records
from drcrm.errors import InputError, prefix_errors
from drcrm.files import locked_folder, remove_abandoned_folders
from drcrm.logs.encoded_log import encode
from drcrm.logs.encoding.base import Encoding
from drcrm.logs.encoding.columns import reject_rows
from drcrm.logs.mapping import LogMapping
from drcrm.logs.policy_file import StoredPolicy, digest
from drcrm.logs.propensities.estimated import estimate_propensities
from drcrm.logs.readers.log_files import Source, name_of, read_records, short_name
from drcrm.logs.records import Records
from drcrm.logs.split import held_out
from drcrm.policies.tabular import TabularPolicy
from drcrm.rows.recognition import LearnedRows, RecognisedRows

LARGE = 2**27  # bytes; the arrays of a larger log are kept in files
ROUNDING = 1e-6  # relative, of propensities
MAX_CHECKED = 100_000  # the checks that need no policy use all rows of logs up to this size, else the held-out rows
Tell = Callable[[str], None]
# A function that returns the rows that train, or trained, a policy. Its arguments are the checks of all rows, the
# file's digest, and a function that returns the held-out rows of a seed.
Select = Callable[[RowChecks, str, Callable[[int], np.ndarray]], RecognisedRows | None]


@dataclass(frozen=True)
class OpenedLog:
    """Encoded rows of a file for the evaluation of policies, and perhaps the rows that train them.

    Attributes
    ----------
    path : Path or list of Path
    digest : str
        SHA-256 of the file.
    n_contexts : int
        Number of contexts of the file.
    records : Records
        The rows without their features; propensities may be estimated.
    log : BanditLog
    checks : RowChecks
        Checks of all rows of the file.
    unseen : mapping of int
        Number of rows with a value that the encoding does not know, by reason, for example a new category.
    recognised : RecognisedRows, optional
        Rows of the file that train a policy, and those held out.
    train : BanditLog, optional
        The rows that train a policy; None if the policy is known already.
    whole : OpenedLog, optional
        The log with all rows. None if this log has all rows, or is so large that checks do not need more.
    baseline : TabularPolicy, optional
        Policy to compare with, on the rows of ``log``; None compares with the logging policy.
    """

    path: Source
    digest: str
    n_contexts: int
    records: Records
    log: BanditLog
    checks: RowChecks
    unseen: Mapping[str, int] = field(default_factory=dict)
    recognised: RecognisedRows | None = None
    train: BanditLog | None = None
    whole: OpenedLog | None = None
    baseline: TabularPolicy | None = None

    @property
    def learned_rows(self) -> LearnedRows:
        """Return the hashes of all rows; later commands recognise the training rows by them."""
        recognised: Any = self.recognised
        return LearnedRows.of(self.checks.hashes, recognised.heldout)

    @property
    def units(self) -> np.ndarray | None:
        """Return the group of each row. Without groups, each row is a unit, whatever its count.

        None if the rows have neither groups nor counts.
        """
        if self.records.groups is None and self.records.count is not None:
            return np.arange(self.records.size)
        return self.records.groups

    def as_dict(self) -> dict:
        """Return the part of an answer that describes the log."""
        shares = self.records.logged_shares
        return {
            "name": short_name(self.path),
            "format": self.records.format,
            "digest": self.digest,
            "rows": self.records.size,
            "contexts": self.log.n_contexts,
            "features": self.log.encoding.n_features,
            "kind": str(self.log.actions),
            "actions": [str(name) for name in self.log.encoding.names],
            "skipped": dict(self.records.skipped),
            "imputed": dict(self.records.missing),
            "propensities": "imitated" if self.records.is_imitated else "logged",
            "reward": self.records.is_reward,
        } | ({"logged_by": shares} if shares else {})


@contextmanager
def log_folder(path: Source) -> Iterator[Folder]:
    """Yield a function that creates a folder for the arrays of a large log; the folder is removed at the end.

    The folder is next to ``path``, or the first of several, or among the system's temporary files if it cannot be
    created there. Until the end of the ``with`` block, arrays that are computed from arrays in the folder are written
    to it, too.
    """
    parent = Path(path if isinstance(path, str | Path) else path[0]).absolute().parent
    remove_abandoned_folders(parent, folder_prefix())
    with ExitStack() as closing:

        def create() -> Path:
            folder = closing.enter_context(_temporary_folder(parent))
            closing.enter_context(scratch_folder(folder))
            return folder

        yield create


def hold_out_by(seed: int) -> Select:
    """Return a function that holds out rows for the evaluation of policies that the other rows train."""

    def select(checks: RowChecks, file_digest: str, hold_out: Callable[[int], np.ndarray]) -> RecognisedRows:
        heldout = hold_out(seed)
        return RecognisedRows(~heldout, heldout)

    return select


def open_log(
    path: Source,
    mapping: LogMapping,
    tell: Tell,
    folder: Folder | None = None,
    encoding: Encoding | None = None,
    select: Select | None = None,
    most: int | None = None,
    baseline: StoredPolicy | None = None,
) -> OpenedLog:
    """Return the rows of a log for the evaluation of policies.

    Parameters
    ----------
    path : Path or sequence of Path
    mapping : LogMapping
    tell : callable
        It receives a description of the current step.
    folder : callable, optional
        From :func:`log_folder`; by default the log is in memory.
    encoding : Encoding, optional
        Encoding of a policy. By default it is fitted to the rows that train policies, which are returned too; without
        ``select``, to all rows.
    select : callable, optional
        It returns the rows that train, or trained, a policy, which are left out; by default no rows are.
    most : int, optional
        Largest size in bytes of the rows in memory; by default ``LARGE``.
    baseline : StoredPolicy, optional
        Policy to compare with. Its probabilities on the rows are in memory. Rows that trained it are left out. If its
        features are other columns, the file is read twice.

    Raises
    ------
    InputError
        If the file is invalid. The message is one line that begins with its path.
    """
    most = LARGE if most is None else most
    records, checks = _checked_records(path, mapping, tell, folder, most)
    known = None if baseline is None else with_features_of(records, baseline, path, folder, most)
    known_digest, scratch = digest(path), partial(scratch_path, records.cost)
    with prefix_errors(name_of(path)):
        recognised = None if select is None else select(checks, known_digest, partial(held_out, records))
        if baseline is not None and known is not None:
            hashes = checks.hashes if known is records else hash_records(known)
            found = find_rows(baseline, hashes, checks.propensity, known_digest)
            recognised = leave_out_training(recognised, found, checks.groups)
        rows = ~recognised.training if recognised and recognised.training.any() else None
        if recognised and recognised.undecided:
            check = check_recognition(recognised.undecided, checks.hashes.ids is not None)
            checks = replace(checks, diagnostics=(check, *checks.diagnostics))
        unseen: Counter[str] = Counter()
        for block in records.blocks_of(rows) if encoding else ():
            unseen.update(encoding.unseen(block.data))
        file = partial(OpenedLog, path, known_digest, len(records.data))
        if encoding or recognised is None or select is None:
            log = encode(records, encoding or records.fit(), rows, scratch())
            on_rows = baseline and policy_on_rows(baseline, known, rows, log)
            return file(records.without_features(rows), log, checks, unseen, recognised, baseline=on_rows)
        encoding = records.fit(recognised.training)
        train = encode(records, encoding, recognised.training, scratch())
        train.actions.check_not_one_hot(train.Y)
        log, whole = encode(records, encoding, rows), None
        on_rows = baseline and policy_on_rows(baseline, known, rows, log)
        if records.size <= MAX_CHECKED:
            whole = file(records.without_features(), encode(records, encoding), checks)
    return file(records.without_features(rows), log, checks, {}, recognised, train, whole, on_rows)


def _checked_records(
    path: Source, mapping: LogMapping, tell: Tell, folder: Folder | None, most: int
) -> tuple[Records, RowChecks]:
    """Return the rows of a file and their checks. Propensities that were not logged are estimated.

    Copies of a row form a group. With copies on both sides of a split, a policy would be evaluated on training rows.
    """
    tell(f"reading {short_name(path)}")
    records = read_records(path, mapping, folder, most)
    with prefix_errors(name_of(path)):
        records = records if records.count is None or records.count.all() else records.take(records.count != 0)
        _require_range(records)
        if records.propensity is None:
            tell("estimating propensities")
            records = replace(records, propensity=estimate_propensities(records))
        tell("encoding")
        checks = check_records(records, path)
    return replace(records, groups=checks.groups), checks


def _require_range(records: Records) -> None:
    """Raise InputError if costs, propensities or outcomes of a guardrail are outside of the mapping's ranges."""
    low, high = records.mapping.cost_range or (-np.inf, np.inf)
    least, most = records.cost.min(), records.cost.max()
    if not low <= least <= most <= high:
        negated = ", which are negated rewards," if records.is_reward else ""
        raise InputError(
            f"costs{negated} must be in cost_range, [{low:g}, {high:g}]; they are from {least:g} to {most:g}"
        )
    known = records.mapping.least_propensity
    if known is not None and records.propensity is not None:
        bad = records.propensity < known * (1 - ROUNDING)
        expected = f"at least least_propensity, {known:g}"
        reject_rows(bad, records.propensity, records.mapping.label_of("propensity"), records.rows, expected)
    for number, guardrail in enumerate(records.mapping.guardrails):
        outcome = guardrail.sign * np.asarray(records.guardrails[:, number]) + 0.0
        low, high = guardrail.as_dict().get("range", (-np.inf, np.inf))
        if not low <= outcome.min() <= outcome.max() <= high:
            raise InputError(
                f"{guardrail.label} must be in its range, [{low:g}, {high:g}]; its values are from "
                f"{outcome.min():g} to {outcome.max():g}"
            )


@contextmanager
def _temporary_folder(parent: Path) -> Iterator[Path]:
    """Yield a folder that is removed at the end, in ``parent`` or else among the system's temporary files."""
    with ExitStack() as closing:
        try:
            parent.mkdir(parents=True, exist_ok=True)
            folder = closing.enter_context(locked_folder(parent, folder_prefix()))
        except OSError:
            folder = closing.enter_context(locked_folder(None, folder_prefix()))
        yield folder
