"""Hashes of the rows of a log."""

from __future__ import annotations

from functools import singledispatch
from itertools import chain
from typing import Any

import numpy as np

from drcrm.actions.action_lists import ActionLists
from drcrm.logs.encoding.arrays import Arrays
from drcrm.logs.encoding.hashed_features import HashedFeatures
from drcrm.logs.encoding.listed_tables import ListedTable
from drcrm.logs.records import Records
from drcrm.rows.row_hashes import RowHashes, hash_codes, hash_lists, hash_matrix, hash_numbers, hash_texts, mix


def hash_records(records: Records) -> RowHashes:
    """Return the hashes of the rows of a log, computed block by block."""
    return RowHashes(**records.map(lambda _, block: _hash_block(block)))


def _hash_block(records: Records) -> dict[str, np.ndarray]:
    features = _hash_features(records.data)
    features = features if records.context is None else features[records.context]
    actions = hash_actions(records)
    rows = mix([features, actions, hash_numbers(records.cost)])
    hashes = {"features": features, "actions": actions, "decisions": mix([features, actions]), "rows": rows}
    if not records.is_imitated:
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


@singledispatch
def _hash_features(table: Any) -> np.ndarray:
    """Return the hash of each context's features, (m,). This version is for tables; other kinds of data follow."""
    if not table.numbers and not table.codes:
        return np.zeros(len(table), dtype=np.uint64)
    numbers = (hash_numbers(values) for values in table.numbers.values())
    return mix(chain(numbers, (hash_codes(codes, table.values[name]) for name, codes in table.codes.items())))


@_hash_features.register
def _(features: HashedFeatures) -> np.ndarray:
    hashes = hash_matrix(features.hashed)
    return hashes if features.starts is None else hash_lists(hashes, features.starts)


@_hash_features.register
def _(lists: ListedTable) -> np.ndarray:
    return hash_lists(_hash_features(lists.table), lists.starts)


@_hash_features.register
def _(arrays: Arrays) -> np.ndarray:
    if isinstance(arrays.X, ActionLists):
        return hash_lists(hash_matrix(arrays.X.features), arrays.X.starts)
    return hash_matrix(arrays.X)
