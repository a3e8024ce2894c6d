"""Logs as commands use them: read, checked, split and encoded, in memory or in a folder that is removed in the end."""

from __future__ import annotations

import glob
import os
import re
import shutil
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from drcrm.arrays.mapped_arrays import PREFIX, folder_prefix, scratch_folder, scratch_path
from drcrm.diagnostics.repeated_rows.recognition import LearnedRows, RecognisedRows
from drcrm.diagnostics.repeated_rows.row_checks import RowChecks, check_records
from drcrm.errors import InputError, prefix_errors
from drcrm.logs.encoded_log import BanditLog, encoded
from drcrm.logs.encoding.registry import Encoding
from drcrm.logs.mapping import LogMapping
from drcrm.logs.policy_file import digest
from drcrm.logs.propensities import imitated
from drcrm.logs.readers.log_files import read_records
from drcrm.logs.records import Records
from drcrm.logs.split import held_out

LARGE = 2**27  # bytes of a log's numbers above which they are in files; by measurement these are no slower
Tell = Callable[[str], None]
Folder = Callable[[], Path]
# The checks of all rows, the file's digest, a function from a seed to held-out rows ↦ the rows a policy learned from.
Select = Callable[[RowChecks, str, Callable[[int], np.ndarray]], RecognisedRows | None]


@dataclass(frozen=True)
class OpenedLog:
    """Rows of a file that judge a policy, encoded.

    Attributes
    ----------
    path : Path
    digest : str
        Of the file.
    records : Records
        The rows without their features; propensities may be estimated.
    log : BanditLog
    checks : RowChecks
        Of all rows of the file.
    unseen : mapping of int
        How many rows have what the encoding of a policy has not seen, by what they have.
    recognised : Recognised, optional
        The rows of the file that a policy was learned from.
    """

    path: Path
    digest: str
    records: Records
    log: BanditLog
    checks: RowChecks
    unseen: Mapping[str, int] = field(default_factory=dict)
    recognised: RecognisedRows | None = None

    @property
    def units(self) -> np.ndarray | None:
        """Which rows belong together: groups; or each row is one, however often it counts."""
        if self.records.groups is None and self.records.count is not None:
            return np.arange(self.records.size)
        return self.records.groups

    def as_dict(self) -> dict:
        """Return what an answer says about the log."""
        return {
            "name": self.path.name,
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
            "reward": self.records.reward,
        }


@dataclass(frozen=True)
class SplitLog:
    """A log of which a part is held out.

    Attributes
    ----------
    size, n_contexts : int
        Of the whole log.
    train : BanditLog
    heldout : OpenedLog
        In memory.
    is_heldout : bool array (n,)
    """

    size: int
    n_contexts: int
    train: BanditLog
    heldout: OpenedLog
    is_heldout: np.ndarray

    @property
    def learned_rows(self) -> LearnedRows:
        """The hashes of all rows."""
        return self.heldout.checks.learned(self.is_heldout)


@contextmanager
def log_folder(path: Path) -> Iterator[Folder]:
    """Yield a function that creates a folder for the arrays of a large log; it is removed in the end.

    The folder is next to a file, or among the system's temporary files if it cannot be there. From its creation to the
    end of the ``with`` block, arrays that are derived from those in the folder are written there too.
    """
    parent = path.absolute().parent
    _remove_left_folders(parent)
    with ExitStack() as closing:

        def create() -> Path:
            folder = Path(closing.enter_context(_temporary_folder(parent)))
            closing.enter_context(scratch_folder(folder))
            return folder

        yield create


def split_log(
    path: Path, mapping: LogMapping, seed: int, tell: Tell, folder: Folder | None = None, most: int | None = None
) -> SplitLog:
    """Return a log of which a part is held out, as the seed has it; the encoding is fitted to the other rows.

    Parameters
    ----------
    path : Path
    mapping : LogMapping
    seed : int
    tell : callable
        It receives what is being done.
    folder : callable, optional
        From :func:`log_folder`; by default the log is in memory.
    most : int, optional
        Bytes of the rows in memory; by default ``LARGE``.

    Raises
    ------
    InputError
        What is wrong with the file, in one line that begins with its path.
    """
    records, checks = _checked_records(path, mapping, tell, folder, LARGE if most is None else most)
    with prefix_errors(path):
        is_heldout = held_out(records, seed)
        encoding = records.fit(~is_heldout)
        train = encoded(records, encoding, ~is_heldout, scratch_path(records.cost))
        log = encoded(records, encoding, is_heldout)
    heldout = OpenedLog(path, digest(path), records.without_features(is_heldout), log, checks)
    return SplitLog(records.size, len(records.data), train, heldout, is_heldout)


def open_log(
    path: Path,
    mapping: LogMapping,
    tell: Tell,
    folder: Folder | None = None,
    encoding: Encoding | None = None,
    select: Select | None = None,
) -> OpenedLog:
    """Return the rows of a log that judge a policy.

    Parameters
    ----------
    path, mapping, tell, folder
        As for :func:`split_log`.
    encoding : Encoding, optional
        Of a policy; by default it is fitted to all rows.
    select : callable, optional
        It returns the rows that a policy was learned from, which do not judge; by default all rows do.
    """
    records, checks = _checked_records(path, mapping, tell, folder, LARGE)
    known_digest = digest(path)
    recognised = None if select is None else select(checks, known_digest, partial(held_out, records))
    rows = ~recognised.training if recognised and recognised.training.any() else None
    with prefix_errors(path):
        unseen = Counter()
        for block in () if encoding is None else records.blocks_of(rows):
            unseen.update(encoding.unseen(block.data))
        log = encoded(records, encoding or records.fit(), rows, scratch_path(records.cost))
    return OpenedLog(path, known_digest, records.without_features(rows), log, checks, unseen, recognised)


def _checked_records(
    path: Path, mapping: LogMapping, tell: Tell, folder: Folder | None, most: int
) -> tuple[Records, RowChecks]:
    """Return the rows of a file, with estimated propensities if none are logged, and their checks.

    Copies of a row are one group. With copies on both sides of a split, a policy would be judged on rows that it saw.
    """
    tell(f"reading {path.name}")
    records = read_records(path, mapping, folder, most)
    _require_range(path, records)
    with prefix_errors(path):
        if records.propensity is None:
            tell("imitating the logging policy")
            records = replace(records, propensity=imitated(records))
        tell("encoding")
        checks = check_records(path, records)
    return replace(records, groups=checks.groups), checks


def _require_range(path: Path, records: Records) -> None:
    """Raise InputError where costs are outside of the range that the mapping states."""
    if records.mapping.cost_range is None:
        return
    (low, high), least, most = records.mapping.cost_range, records.cost.min(), records.cost.max()
    if not low <= least <= most <= high:
        negated = ", which are negated rewards," if records.reward else ""
        raise InputError(f"{path}: costs{negated} are from {least:g} to {most:g}, cost_range is [{low:g}, {high:g}]")


def _temporary_folder(parent: Path) -> TemporaryDirectory:
    """Return a folder that is removed in the end: in this one, or among the system's temporary files."""
    options = {"prefix": folder_prefix(), "ignore_cleanup_errors": True}
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return TemporaryDirectory(dir=parent, **options)
    except OSError:
        return TemporaryDirectory(**options)


def _remove_left_folders(parent: Path) -> None:
    """Remove the temporary folders that killed processes of this machine left."""
    host = f"{PREFIX}{socket.gethostname()}-"
    for left in parent.glob(f"{glob.escape(host)}*"):
        owner = re.fullmatch(r"(\d+)-\w+", left.name.removeprefix(host))  # not of a machine called HOST-7
        if owner and not _is_running(int(owner[1])):
            shutil.rmtree(left, ignore_errors=True)


def _is_running(process: int) -> bool:
    if os.name != "posix":  # elsewhere the signal 0 would not only ask
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        pass
    return True
