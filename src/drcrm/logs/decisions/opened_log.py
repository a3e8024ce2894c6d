"""Logs as the commands use them: read, checked, split and encoded, in memory or in a temporary folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from drcrm.arrays.mapped_arrays import read_only, scratch_folder, scratch_path
from drcrm.arrays.tables import Table
from drcrm.cost_models.missing_cells import MissingCells, find_missing_cells, mark_missing
from drcrm.data.bandit_log import BanditLog
from drcrm.data.folds import held_out
from drcrm.errors import InputError, prefix_errors
from drcrm.logs.batches import blocks_of, encode, fit_encoding
from drcrm.logs.diagnostics.comparison.constraints import GuardedOutcomes, require_ranges
from drcrm.logs.diagnostics.comparison.reference import (
    Folder,
    Reference,
    find_rows,
    leave_out_training,
    policy_on_rows,
    with_features_of,
)
from drcrm.logs.diagnostics.log_checks import check_missing
from drcrm.logs.diagnostics.propensity_trees import find_policy_change
from drcrm.logs.diagnostics.repeated_rows import (
    RowChecks,
    check_identity,
    check_recognition,
    check_repeated_rows,
    hash_log,
)
from drcrm.logs.encoding.base import Encoding
from drcrm.logs.encoding.columns import reject_values
from drcrm.logs.estimated_propensities import estimate_propensities
from drcrm.logs.policy_file import digest
from drcrm.logs.read_log import Source, first_path, name_of, read_occurring_rows, short_name
from drcrm.logs.row_identity import LearnedRows, RecognisedRows
from drcrm.mapping.log_mapping import LogMapping

LARGE = 2**27  # bytes; the arrays of a larger log are kept in files
ROUNDING = 1e-6  # relative, of propensities
DAY, WEEK = 86_400e6, 7 * 86_400e6  # microseconds
LAST_POLICY = "the policy that logged the last part of the log"
MAX_CHECKED = 100_000  # the checks that need no policy use all rows of logs up to this size, else the held-out rows
Tell = Callable[[str], None]


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
    evaluated : BanditLog
        The rows that evaluate policies: held-out rows, or all rows of a new file. Propensities may be estimated.
    checks : RowChecks
        Checks of all rows of the file.
    unseen : mapping of int
        Number of rows with a value that the encoding does not know, by reason, for example a new category.
    recognised : RecognisedRows, optional
        Rows of the file that train a policy, and those held out.
    train : BanditLog, optional
        The rows that train a policy; None if the policy is known already.
    whole : BanditLog, optional
        All rows of the file. None if ``evaluated`` has all rows, or is so large that checks do not need more.
    reference : Reference
        Reference of comparisons on the rows of ``evaluated``: by default the policy that logged them.
    has_policy_change : bool
        Whether several policies made the log. ``evaluated`` then has only rows of the last one.
    evaluated_rows : bool array, optional
        Mask of the rows of ``whole`` that ``evaluated`` has.
    rows_per_week : float, optional
        Rows that the file has per week; None without times.
    cells : MissingCells, optional
        Cells in which rows that train policies lack actions. ``evaluated`` is then marked.
    """

    path: Source
    digest: str
    n_contexts: int
    evaluated: BanditLog
    checks: RowChecks
    unseen: Mapping[str, int] = field(default_factory=dict)
    recognised: RecognisedRows | None = None
    train: BanditLog | None = None
    whole: BanditLog | None = None
    reference: Reference = field(default_factory=Reference)
    has_policy_change: bool = False
    evaluated_rows: np.ndarray | None = None
    rows_per_week: float | None = None
    cells: MissingCells | None = None

    def __post_init__(self) -> None:
        for part in (self.evaluated, self.train):
            if part is not None:
                part.X = read_only(part.X)

    def mark_missing(self, cells: MissingCells | None = None) -> OpenedLog:
        """Return the log with marks of the actions that ``evaluated`` lacks in the cells of a policy, and their check.

        By default they are the cells of ``train``. Nothing is marked if the mapping says that no action is missing.
        """
        if self.mapping.has_full_support:
            return self
        if cells is None and self.train is not None:
            cells = find_missing_cells(self.train)
        if cells is None:
            return self
        evaluated = mark_missing(self.evaluated, cells)
        checks, check = self.checks, check_missing(evaluated)
        if check is not None:
            checks = replace(checks, diagnostics=(*checks.diagnostics, check))
        return replace(self, evaluated=evaluated, checks=checks, cells=cells)

    @property
    def mapping(self) -> LogMapping:
        """Return the mapping of the log."""
        return self.evaluated.description.mapping

    def guarded_outcomes(self, estimate: str) -> GuardedOutcomes:
        """Return the outcomes of the guardrails on the rows that evaluate policies."""
        return GuardedOutcomes.of(self.evaluated, estimate, self.reference)

    def as_dict(self) -> dict:
        """Return the part of an answer that describes the log."""
        log, description, rows = self.evaluated, self.evaluated.description, self.evaluated.rows
        answer = {
            "name": short_name(self.path),
            "format": description.format,
            "digest": self.digest,
            "rows": len(log.Y),
            "contexts": log.n_contexts,
            "features": log.encoding.n_features,
            "kind": str(log.actions),
            "actions": [str(name) for name in log.encoding.names],
            "skipped": dict(log.skipped),
            "imputed": dict(description.missing),
            "propensities": "imitated" if log.imitated_propensities else "logged",
            "reward": description.is_reward,
        }
        if (logger := rows.get("logger")) is None:
            return answer
        names = rows.values["logger"]
        shares = zip(names, np.bincount(logger, log.count, len(names)) / log.size, strict=True)
        return answer | {"logged_by": {name: float(share) for name, share in shares if share}}


@contextmanager
def log_folder(path: Source) -> Iterator[Folder]:
    """Yield a function that creates a folder for the arrays of a large log; the folder is removed at the end.

    The folder is next to ``path``, or next to the first of several. If it cannot be created there, it is among the
    system's temporary files. Until the end of the ``with`` block, arrays that are computed from arrays in the folder
    are written to it, too.
    """
    parent = first_path(path).absolute().parent
    with ExitStack() as closing:

        def create() -> Path:
            try:
                parent.mkdir(parents=True, exist_ok=True)
                folder = closing.enter_context(TemporaryDirectory(dir=parent, prefix=".drcrm-"))
            except OSError:
                folder = closing.enter_context(TemporaryDirectory(prefix=".drcrm-"))
            closing.enter_context(scratch_folder(Path(folder)))
            return Path(folder)

        yield create


def open_log(
    path: Source,
    mapping: LogMapping,
    tell: Tell,
    folder: Folder | None = None,
    encoding: Encoding | None = None,
    recognise: Callable[[RowChecks, str], RecognisedRows] | None = None,
    seed: int | None = None,
    most: int | None = None,
    reference: Reference | None = None,
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
        Encoding of a policy. By default it is fitted to the rows that train policies, which are returned, too. Without
        ``seed``, it is fitted to all rows.
    recognise : callable, optional
        Function of the checks of all rows and the digest of the file. It returns the rows that trained a policy, which
        are left out.
    seed : int, optional
        Seed of a split into rows that train policies and held-out rows; by default the log is not split.
    most : int, optional
        Largest size in bytes of the rows in memory; by default ``LARGE``.
    reference : Reference, optional
        Reference of comparisons. The probabilities of a stored policy on the rows are in memory. Rows that
        trained it are left out. If its features are other columns, the file is read twice.

    Raises
    ------
    InputError
        If the file is invalid. The message is one line that begins with its path.
    """
    most, reference = LARGE if most is None else most, reference or Reference()
    stored: Any = reference.policy if reference.is_baseline else None
    log, checks = _read_checked_log(path, mapping, tell, folder, most)
    of_stored = None if stored is None else with_features_of(log, stored, path, folder, most)
    file_digest, train, whole = digest(path), None, None
    with prefix_errors(name_of(path)):
        recognised = None if recognise is None else recognise(checks, file_digest)
        if seed is not None:
            heldout = held_out(log, seed)
            recognised = RecognisedRows(~heldout, heldout)
        if of_stored is not None:
            hashes = checks.hashes if of_stored is log else hash_log(of_stored)
            trained = find_rows(stored, hashes, checks.propensity, file_digest)
            recognised = leave_out_training(recognised, trained.training, checks.groups)
        is_evaluated = ~recognised.training if recognised and recognised.training.any() else None
        if recognised and (recognised.undecided or recognised.equal):
            check = check_recognition(recognised, checks.hashes.ids is not None)
            checks = replace(checks, diagnostics=(check, *checks.diagnostics))
        if recognised and seed is not None:
            identity = check_identity(LearnedRows.of(checks.hashes, recognised.heldout), checks.propensity)
            checks = replace(checks, diagnostics=(*identity, *checks.diagnostics))
        unseen: Counter[str] = Counter()
        for _, block in blocks_of(log, is_evaluated) if encoding else ():
            unseen.update(encoding.unseen(block.X))
        if encoding is None and seed is not None and recognised is not None:
            train = _encode_training_rows(log, recognised.training)
            whole = encode(log, train.encoding) if len(log.Y) <= MAX_CHECKED else None
            evaluated = encode(log, train.encoding, is_evaluated)
        else:
            evaluated = encode(log, encoding or fit_encoding(log), is_evaluated, scratch_path(log.cost))
        if of_stored is not None:
            reference = replace(reference, policy=policy_on_rows(stored, of_stored, is_evaluated, evaluated))
    rows = None if whole is None else is_evaluated
    opened = OpenedLog(
        path, file_digest, log.n_contexts, evaluated, checks, unseen, recognised, train, whole, reference
    )
    return _restrict_to_last_policy(replace(opened, evaluated_rows=rows, rows_per_week=count_rows_per_week(log)))


def count_rows_per_week(log: BanditLog) -> float | None:
    """Return how many rows a log has per week, by its first and last time; None without times, or within one day."""
    if not log.description.is_dated:
        return None
    time: Any = log.column("time")
    span = float(time.max() - time.min())
    return float(log.size) * WEEK / span if span >= DAY else None


def _restrict_to_last_policy(opened: OpenedLog) -> OpenedLog:
    """Return the log with only the rows of the last logging policy in ``evaluated``, if several made the log.

    The costs of these rows are those of the policy that runs now. With a baseline, all rows are compared with it.
    """
    tested = opened.evaluated if opened.whole is None else opened.whole
    change = None if opened.reference.is_baseline else find_policy_change(tested)
    if change is None:
        return opened
    is_last, rows = change.is_last, None
    if opened.evaluated_rows is not None:
        is_last, rows = change.is_last[opened.evaluated_rows], opened.evaluated_rows & change.is_last
    if not is_last.any():
        return opened
    known = {"evaluated_rows": rows, "reference": replace(opened.reference, name=LAST_POLICY)}
    checks = replace(opened.checks, diagnostics=(change.check, *opened.checks.diagnostics))
    evaluated = opened.evaluated.take(is_last)
    return replace(opened, evaluated=evaluated, checks=checks, has_policy_change=True, **known)


def _encode_training_rows(log: BanditLog, training: np.ndarray) -> BanditLog:
    """Return the encoded rows that train policies. Further columns are only groups and outcomes of guardrails."""
    rows = Table(len(log.Y), {name: log.column(name) for name in ("guardrails", "groups", "prices")})
    train = encode(log.replace(rows=rows), fit_encoding(log, training), training, scratch_path(log.cost))
    train.actions.check_not_one_hot(train.Y)
    return train


def _read_checked_log(
    path: Source, mapping: LogMapping, tell: Tell, folder: Folder | None, most: int
) -> tuple[BanditLog, RowChecks]:
    """Return a reader's log and the checks of its rows. Propensities that were not logged are estimated.

    Copies of a row form a group. With copies on both sides of a split, a policy would be evaluated on training rows.
    """
    tell(f"reading {short_name(path)}")
    log = read_occurring_rows(path, mapping, folder, most)
    with prefix_errors(name_of(path)):
        _require_range(log)
        if log.propensity is None:
            tell("estimating propensities")
            log = estimate_propensities(log)
        tell("encoding")
        checks = check_repeated_rows(log, path)
    rows: Any = log.rows
    return log.replace(rows=rows.assign(groups=checks.groups)), checks


def _require_range(log: BanditLog) -> None:
    """Raise InputError if costs, propensities or outcomes of a guardrail are outside of the mapping's ranges."""
    mapping, is_reward = log.description.mapping, log.description.is_reward
    low, high = mapping.cost_range or (-np.inf, np.inf)
    least, most = log.cost.min(), log.cost.max()
    if not low <= least <= most <= high:
        negated = ", which are negated rewards," if is_reward else ""
        raise InputError(
            f"costs{negated} must be in cost_range, [{low:g}, {high:g}]; they are from {least:g} to {most:g}"
        )
    least = mapping.least_propensity
    if least is not None and log.propensity is not None:
        bad = log.propensity < least * (1 - ROUNDING)
        expected = f"at least least_propensity, {least:g}"
        reject_values(bad, log.propensity, mapping.label_of("propensity"), expected, log.column("number"))
    require_ranges(log)
