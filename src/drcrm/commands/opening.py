"""Opening a log: its records, its propensities, and parts of it as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..errors import InputError, located
from ..logs.encoding import Encoding
from ..logs.log import BanditLog, log_of
from ..logs.mapping import LogMapping, as_mapping
from ..logs.marks import marks
from ..logs.policy_file import digest
from ..logs.propensities import imitated
from ..logs.readers import read_records
from ..logs.recognition import LearnedRows, Recognised
from ..logs.records import Records
from ..logs.row_checks import RowChecks, checked
from ..logs.split import held_out


@dataclass(frozen=True)
class About:
    """What is said of a log: where it is from, how large it is, what was not read, and what made X of it."""

    path: Path
    digest: str
    format: str
    mapping: LogMapping
    reward: bool
    rows: int
    contexts: int
    kind: str
    encoding: Encoding
    skipped: Mapping[str, int]
    imitated: bool
    imputed: Mapping[str, int]

    def as_dict(self) -> dict:
        """Return what an answer says of it."""
        return {
            "name": self.path.name,
            "format": self.format,
            "digest": self.digest,
            "rows": self.rows,
            "contexts": self.contexts,
            "features": self.encoding.n_features,
            "kind": self.kind,
            "actions": [str(each) for each in self.encoding.names],
            "skipped": dict(self.skipped),
            "imputed": dict(self.imputed),
            "propensities": "imitated" if self.imitated else "logged",
            "reward": self.reward,
        }


@dataclass(frozen=True)
class Opened:
    """Rows of a file, and the log that they are; ``propensity`` is of an imitation of π0 where none was logged.

    ``checks`` are of all rows of the file, and so are the rows ``recognised`` as those that a policy was learned from.
    ``unseen`` says how many rows have what the encoding of a policy has not seen, by what they have.
    """

    path: Path
    digest: str
    records: Records
    propensity: np.ndarray | None
    log: BanditLog
    checks: RowChecks
    unseen: Mapping[str, int] = field(default_factory=dict)
    recognised: Recognised | None = None

    @property
    def about(self) -> About:
        records, log = self.records, self.log
        return About(
            self.path,
            self.digest,
            records.format,
            records.mapping,
            records.reward,
            records.size,
            log.n_contexts,
            str(log.actions),
            log.encoding,
            records.skipped,
            log.imitated_propensities,
            records.missing,
        )

    @property
    def units(self) -> np.ndarray | None:
        """Which rows belong together: groups; or each row is one, however often it counts."""
        if self.records.groups is None and self.records.count is not None:
            return np.arange(self.records.size)
        return self.records.groups

    def part(self, rows: np.ndarray) -> Opened:
        """Return some rows, by a mask (n,)."""
        records = self.records.take(rows)
        propensity = None if self.propensity is None else self.propensity[rows]
        return replace(self, records=records, propensity=propensity, log=log_of(records, self.log.encoding, propensity))


def mapping_of(given: Path | Mapping | None) -> LogMapping:
    """Return the mapping that a command was given; InputError names its file."""
    return as_mapping(given, str(given) if isinstance(given, Path) else "mapping")


def require_range(path: Path, mapping: LogMapping, reward: bool, least: float, most: float) -> None:
    """Raise InputError where costs are outside of the range that the mapping states."""
    if mapping.cost_range is None:
        return
    low, high = mapping.cost_range
    if not low <= least <= most <= high:
        negated = ", which are negated rewards," if reward else ""
        raise InputError(f"{path}: costs{negated} are from {least:g} to {most:g}, cost_range is [{low:g}, {high:g}]")


def opened(
    path: Path,
    mapping,
    tell: Callable[[str], None],
    encode: Callable[[Records], Encoding],
) -> Opened:
    """Return the log of a file, encoded; its propensities are imitated where its mapping asks for that.

    Copies of a row are one group. With copies on both sides of a split, a policy would be judged on rows that it saw.

    InputError says what is wrong with the file, in one line that begins with its path.
    """
    tell(f"reading {path.name}")
    records = read_records(path, mapping)
    if not records.size:
        raise InputError(f"{path}: no rows that can be read, expected at least one")
    require_range(path, records.mapping, records.reward, float(records.cost.min()), float(records.cost.max()))
    propensity = None
    if records.propensity is None:
        tell("imitating the logging policy")
        propensity = imitated(records)
    tell("encoding")
    with located(path):
        known = records.propensity if propensity is None else propensity
        checks = checked(path, records, marks(records), records.propensity, known, records.groups)
        records = replace(records, groups=checks.groups)
        log = log_of(records, encode(records), propensity)
    return Opened(path, digest(path), records, propensity, log, checks)


@dataclass(frozen=True)
class Split:
    """A log: what is said of all of it, what is learned from, what is held out, and the hashes of all rows."""

    whole: About
    train: BanditLog
    heldout: Opened
    rows: LearnedRows


def split(path: Path, mapping: LogMapping, seed: int, tell: Callable[[str], None]) -> Split:
    """Return a log of which a part is held out, as a seed has it; InputError as ``opened``."""
    held = []

    def encode(records: Records) -> Encoding:
        held.append(held_out(records, seed))
        return records.fit(~held[0])

    whole = opened(path, mapping, tell, encode)
    return Split(whole.about, whole.part(~held[0]).log, whole.part(held[0]), whole.checks.learned(held[0]))
