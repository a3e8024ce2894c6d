"""Hashes of the rows of a log."""

from __future__ import annotations

import numpy as np

from drcrm.logs.encoding.base import ContextFeatures
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
