"""Opening a log: its records, its propensities, and parts of it as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..errors import InputError, located
from ..logs.encoding import Encoding
from ..logs.log import BanditLog, log_of
from ..logs.mapping import LogMapping, as_mapping
from ..logs.policy_file import digest
from ..logs.propensities import imitated
from ..logs.readers import read_records
from ..logs.records import Records
from ..logs.rows import repeated_rows


@dataclass(frozen=True)
class Opened:
    """Rows of a file, and the log that they are; ``propensity`` is of an imitation of π0 where none was logged."""

    path: Path
    digest: str
    records: Records
    propensity: np.ndarray | None
    log: BanditLog

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


def _require_range(path: Path, records: Records) -> None:
    """Raise InputError where costs are outside of the range that the mapping states."""
    if records.mapping.cost_range is None:
        return
    low, high = records.mapping.cost_range
    least, most = float(records.cost.min()), float(records.cost.max())
    if not low <= least <= most <= high:
        negated = ", which are negated rewards," if records.reward else ""
        raise InputError(f"{path}: costs{negated} are from {least:g} to {most:g}, cost_range is [{low:g}, {high:g}]")


def opened(
    path: Path,
    mapping,
    tell: Callable[[str], None],
    encode: Callable[[Records], Encoding],
) -> Opened:
    """Return the log of a file, encoded; its propensities are imitated where its mapping asks for that.

    Rows that are told more than once are groups: were they on both sides of a split, each would vouch for its copy.

    InputError says what is wrong with the file, in one line that begins with its path.
    """
    tell(f"reading {path.name}")
    records = read_records(path, mapping)
    if not records.size:
        raise InputError(f"{path}: no rows that can be read, expected at least one")
    _require_range(path, records)
    propensity = None
    if records.propensity is None:
        tell("imitating the logging policy")
        propensity = imitated(records)
    tell("encoding")
    with located(path):
        if records.groups is None:
            _, copies = repeated_rows(log_of(records, propensity=propensity))
            records = replace(records, groups=copies)
        log = log_of(records, encode(records), propensity)
    return Opened(path, digest(path), records, propensity, log)
