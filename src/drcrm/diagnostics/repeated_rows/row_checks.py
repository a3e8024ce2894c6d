"""The checks of a whole log for copies and for dependent rows, before it is split."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from drcrm.diagnostics.diagnostic import Diagnostic
from drcrm.diagnostics.repeated_rows.dependence import (
    MOST_ROWS,
    check_independence,
    identifier_codes,
    tested_rows_of_records,
)
from drcrm.diagnostics.repeated_rows.duplicates import check_copies
from drcrm.diagnostics.repeated_rows.recognition import LearnedRows
from drcrm.diagnostics.repeated_rows.row_hashes import RowHashes, hash_records
from drcrm.errors import InputError
from drcrm.logs.encoding.tables import Table
from drcrm.logs.readers.log_files import TABLES, files_of
from drcrm.logs.readers.table_files import Columns, table_frames
from drcrm.logs.record_collector import as_mapped
from drcrm.logs.records import Records

FIRST = 50_000  # rows read of columns outside of the mapping


@dataclass(frozen=True)
class RowChecks:
    """What the rows of a whole log show about each other.

    Attributes
    ----------
    hashes : RowHashes
    propensity : array (n,)
        Logged or estimated.
    copies : array (n,) or None
        Which rows are copies of one.
    groups : array (n,) or None
        Which rows belong together: by the mapping, or as copies.
    diagnostics : tuple of Diagnostic
    """

    hashes: RowHashes
    propensity: np.ndarray
    copies: np.ndarray | None
    groups: np.ndarray | None
    diagnostics: tuple[Diagnostic, ...]

    def learned(self, heldout: np.ndarray) -> LearnedRows:
        """Return the hashes of the rows, and which rows a policy does not see."""
        return LearnedRows.of(self.hashes, heldout, self.copies is not None)


def check_records(path: Path, records: Records) -> RowChecks:
    """Return the checks of a log whose propensities were logged or estimated."""
    of_rows, propensity = hash_records(records), records.propensity
    repeats, copies = check_copies(*of_rows, propensity)
    copies = as_mapped(copies, records.cost)
    groups = copies if records.groups is None else records.groups
    first = records.take(slice(0, MOST_ROWS)) if records.context is None else records
    draws = tested_rows_of_records(first, of_rows.features)
    independence = check_independence(draws, groups, _columns(path, first), imitated=records.is_imitated)
    return RowChecks(of_rows, propensity, copies, groups, (repeats, independence))


def _columns(path: Path, records: Records) -> dict[str, np.ndarray]:
    """Return the codes of columns that may be identifiers: features, and columns that the mapping does not name."""
    columns = {}
    if isinstance(records.data, Table):
        whole = {name: values for name, values in records.data.numbers.items() if (values[:FIRST] % 1 == 0).all()}
        columns = records.data.codes | {name: pd.factorize(values)[0] for name, values in whole.items()}
    if records.format not in TABLES:
        return columns
    mapped = records.mapping.columns

    def unmapped(header: list[str]) -> Columns:
        return Columns([name for name in header if header.count(name) == 1 and name not in mapped], [])

    try:
        file = files_of(path)[0]
        frame = next(table_frames(file, records.format, unmapped, FIRST, csv_format=records.mapping.csv_format))
    except (InputError, OSError, StopIteration):  # a column that nobody asked for may have anything
        return columns
    rest = {name: identifier_codes(frame[name].iloc[:FIRST]) for name in unmapped([*frame.columns]).names}
    return columns | {name: codes for name, codes in rest.items() if codes is not None}
