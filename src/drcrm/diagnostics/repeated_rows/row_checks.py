"""Check all rows of a log for copies and for dependence, before rows are held out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.diagnostic import Diagnostic, percent
from drcrm.diagnostics.repeated_rows.dependence import (
    MAX_ROWS,
    TestedRows,
    check_independence,
    identifier_codes,
)
from drcrm.diagnostics.repeated_rows.duplicates import check_copies
from drcrm.errors import InputError
from drcrm.logs.encoding.arrays import ArrayEncoding, array_features
from drcrm.logs.encoding.base import ContextFeatures
from drcrm.logs.mapping import LogMapping
from drcrm.logs.readers.log_files import TABLES, Source, first_frame
from drcrm.logs.readers.table_files import Columns
from drcrm.logs.record_collector import as_mapped
from drcrm.logs.records import Records
from drcrm.rows.folds import join_units
from drcrm.rows.row_hashes import RowHashes, hash_codes, hash_lists, hash_matrix, hash_numbers, hash_texts, mix

LEARNED = "rows learned from"
IDENTIFY = (
    "Set `id:` to a column with a different value in each row of all logs, or `time:` to the time of the row. "
    "Then learn the policy again."
)
DIMENSIONS = 8  # dimensions of the projection in which nearest neighbours are found
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


def rows_to_test(records: Records, features: np.ndarray) -> TestedRows:
    """Return the rows of a log to test; ``features`` are hashes of their features."""
    data: Any = records.data
    projected = np.empty((len(data), 0))
    if data.starts is None and data.matrix is None:
        projected = _project(data.numbers.values(), (data.arrays[name] for name in data.values))
    elif data.starts is None and data.encoder == ArrayEncoding.fit:
        X, rng = data.matrix, np.random.default_rng(0)
        projected = X @ rng.normal(size=(X.shape[1], DIMENSIONS)) if sparse.issparse(X) else _project(X.T, ())
    projected = projected if records.context is None else projected[records.context]
    return TestedRows(features, hash_actions(records), records.propensity, projected)


@np.errstate(over="ignore", invalid="ignore")
def _project(numbers: Iterable[np.ndarray], codes: Iterable[np.ndarray]) -> np.ndarray:
    """Return random projections, (n, 8), of standardised numbers and one-hot encoded categories."""
    rng, projected = np.random.default_rng(0), np.zeros((1, DIMENSIONS))
    for values in numbers:
        deviation = np.nanstd(values) if len(values) else 0.0
        standardised = (values - np.nanmean(values)) / deviation if 0 < deviation < np.inf else np.zeros(len(values))
        projected = projected + np.nan_to_num(standardised)[:, None] * rng.normal(size=DIMENSIONS)
    for code in codes:
        projected = projected + rng.normal(size=(code.max(initial=0) + 1, DIMENSIONS))[code]
    return projected


def hash_records(records: Records) -> RowHashes:
    """Return the hashes of the rows of a log, computed block by block."""
    return RowHashes(**records.map(lambda _, block: _hash_block(block)))


def _hash_block(records: Records) -> dict[str, np.ndarray]:
    features = _hash_features(records.data)
    features = features if records.context is None else features[records.context]
    actions = hash_actions(records)
    rows = mix([features, actions, hash_numbers(records.cost)])
    hashes = {"features": features, "actions": actions, "decisions": mix([features, actions]), "rows": rows}
    if not records.mapping.lacks_propensities:  # known ones depend on the actions of other rows
        hashes["propensities"] = hash_numbers(records.propensity)
        hashes["rows"] = mix([rows, hashes["propensities"]])
    if records.time is not None:
        hashes["times"] = hash_numbers(records.time)
    return hashes if records.ids is None else hashes | {"ids": records.ids}


def hash_actions(records: Records) -> np.ndarray:
    """Return the hash of each row's action, (n,): the hash of its name, of its labels, or of its place in a list."""
    if records.kind == "single":
        return hash_texts([str(name) for name in records.names])[records.action]
    return mix(hash_numbers(column) for column in np.atleast_2d(records.action.T))


def _hash_features(data: ContextFeatures) -> np.ndarray:
    """Return the hash of each context's features, (m,)."""
    if data.matrix is not None:
        hashes = hash_matrix(data.matrix)
    elif data.arrays:
        hashes = mix(
            hash_codes(column, data.values[name]) if name in data.values else hash_numbers(column)
            for name, column in data.arrays.items()
        )
    else:
        hashes = np.zeros(data.size, dtype=np.uint64)
    return hashes if data.starts is None else hash_lists(hashes, data.starts)
