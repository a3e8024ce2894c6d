"""Check all rows of a log for copies and for dependence, before rows are held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.diagnostic import Diagnostic, percent
from drcrm.diagnostics.repeated_rows.dependence import (
    MAX_ROWS,
    check_independence,
    identifier_codes,
    rows_to_test,
)
from drcrm.diagnostics.repeated_rows.duplicates import check_copies
from drcrm.diagnostics.repeated_rows.record_hashes import hash_records
from drcrm.errors import InputError
from drcrm.logs.encoding.arrays import array_features
from drcrm.logs.mapping import LogMapping
from drcrm.logs.readers.log_files import TABLES, Source, first_frame
from drcrm.logs.readers.table_files import Columns
from drcrm.logs.record_collector import as_mapped
from drcrm.logs.records import Records
from drcrm.rows.folds import join_units
from drcrm.rows.row_hashes import RowHashes

LEARNED = "rows learned from"
IDENTIFY = (
    "Set `id:` to a column with a different value in each row of all logs, or `time:` to the time of the row. "
    "Then learn the policy again."
)
FIRST_ROWS = 50_000  # number of rows in which columns that the mapping does not name are checked


@dataclass(frozen=True)
class RowChecks:
    """Checks of all rows of a log.

    Attributes
    ----------
    hashes : RowHashes
    propensity : array (n,)
        Logged or estimated propensities.
    groups : array (n,) or None
        Ids of independent groups: those of the mapping, joined if they share an id. Without groups, copies
        of a row are a group if the log has any.
    diagnostics : tuple of Diagnostic
    """

    hashes: RowHashes
    propensity: np.ndarray
    groups: np.ndarray | None
    diagnostics: tuple[Diagnostic, ...]


def records_of_log(log: BanditLog, imitated: bool = False) -> Records:
    """Return the rows of an encoded log; ``imitated`` states whether its propensities were estimated."""
    mapping = LogMapping(propensity_model="softmax" if imitated else None)
    return Records(
        format="frame",
        mapping=mapping,
        kind="labels",  # or any other kind whose actions have no names
        data=array_features(log.actions.unbind(log.X)),
        action=log.Y,
        cost=log.cost,
        rows=np.arange(len(log.Y)),
        propensity=log.propensity,
        context=log.context,
    )


def check_records(records: Records, path: Source | None = None) -> RowChecks:
    """Check the rows of a log, whose propensities were logged or estimated.

    Columns of the file ``path`` that the mapping does not name may be identifiers of users, and are checked too.
    """
    hashes, propensity = hash_records(records), records.propensity
    copies_check, copies = check_copies(hashes, propensity)
    copies = as_mapped(copies, records.cost)
    groups = copies if records.groups is None else records.groups
    if records.groups is not None and copies is not None and records.ids is not None:
        groups = as_mapped(join_units(groups, copies), records.cost)
    first = records.take(slice(0, MAX_ROWS))
    rows, columns = rows_to_test(first, hashes.features[:MAX_ROWS]), _identifier_columns(first, path)
    independence = check_independence(rows, groups, columns, imitated=records.is_imitated)
    return RowChecks(hashes, propensity, groups, (copies_check, independence))


def check_recognition(undecided: float, has_ids: bool) -> Diagnostic:
    """Return the failed check of a log with rows that may have trained the policy, ``undecided`` of all rows."""
    equal = "share their id" if has_ids else "are equal in features, action and propensity"
    sentence = (
        f"{percent(undecided, 1)} of the rows {equal} with rows that the policy was learned from, and without an `id:` "
        "that differs in all rows, the log does not show whether they are the same rows"
    )
    return Diagnostic(LEARNED, undecided, "at most 1 %", "fail", sentence, "this project")


def _identifier_columns(records: Records, path: Source | None) -> dict[str, np.ndarray]:
    """Return codes of the columns that may be identifiers: features, and columns that the mapping does not name."""
    columns = {}
    data: Any = records.data
    if data.starts is None and data.matrix is None:
        columns = {name: data.arrays[name] for name in data.values} | {
            name: pd.factorize(values)[0]
            for name, values in data.numbers.items()
            if (values[:FIRST_ROWS] % 1 == 0).all()
        }
    if path is None or records.format not in TABLES:
        return columns
    mapped = records.mapping.columns

    def unmapped(header: list[str]) -> Columns:
        return Columns([name for name in header if header.count(name) == 1 and name not in mapped], [])

    try:
        frame = first_frame(path, unmapped, FIRST_ROWS, records.mapping.csv_format)
    except (InputError, OSError):  # these columns may contain anything, so errors do not matter
        return columns
    rows = records.rows[: np.searchsorted(records.rows, min(FIRST_ROWS, len(frame)))]
    codes = {name: identifier_codes(frame[name].iloc[rows]) for name in unmapped([*frame.columns]).names}
    return columns | {name: values for name, values in codes.items() if values is not None}
