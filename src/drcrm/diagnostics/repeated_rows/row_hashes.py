"""64-bit hashes of the rows of a log. Equal rows have equal hashes, and different rows almost always differ."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from drcrm.actions.action_lists import ActionLists
from drcrm.logs.encoding.arrays import Arrays
from drcrm.logs.encoding.hashed_features import HashedFeatures
from drcrm.logs.records import Records

FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so multiplication by it is one-to-one


class RowHashes(NamedTuple):
    """Hashes of n rows.

    Attributes
    ----------
    features : array (n,) of uint64
        Hashes of the features.
    rows : array (n,) of uint64
        Hashes of features, action and cost, and of the propensity if it was logged.
    """

    features: np.ndarray
    rows: np.ndarray


def hash_records(records: Records) -> RowHashes:
    """Return the hashes of the rows of a log, computed block by block."""
    return RowHashes(**records.map(lambda _, block: _hash_block(block)._asdict()))


def _hash_block(records: Records) -> RowHashes:
    features = _hash_features(records.data)
    features = features if records.context is None else features[records.context]
    rows = _mix([features, hash_actions(records), hash_numbers(records.cost)])
    return RowHashes(features, rows if records.is_imitated else _mix([rows, hash_numbers(records.propensity)]))


def hash_actions(records: Records) -> np.ndarray:
    """Return the hash of each row's action, (n,): the hash of its name, of its labels, or of its place in a list."""
    if records.kind == "single":
        return hash_texts([str(name) for name in records.names])[records.action]
    return _mix(hash_numbers(column) for column in np.atleast_2d(records.action.T))


@singledispatch
def _hash_features(table: Any) -> np.ndarray:
    """Return the hash of each context's features, (m,). This version is for tables; other kinds of data follow."""
    if not table.numbers and not table.codes:
        return np.zeros(len(table), dtype=np.uint64)
    numbers = (hash_numbers(values) for values in table.numbers.values())
    return _mix(chain(numbers, (_hash_codes(codes, table.values[name]) for name, codes in table.codes.items())))


@_hash_features.register
def _(features: HashedFeatures) -> np.ndarray:
    hashes = _hash_matrix(features.hashed)
    return hashes if features.starts is None else _hash_lists(hashes, features.starts)


@_hash_features.register
def _(arrays: Arrays) -> np.ndarray:
    if isinstance(arrays.X, ActionLists):
        return _hash_lists(_hash_matrix(arrays.X.features), arrays.X.starts)
    return _hash_matrix(arrays.X)


def _hash_matrix(X: Any) -> np.ndarray:
    """Return the hash of each row, (n,). The order in which a sparse matrix stores its entries does not matter."""
    if not sparse.issparse(X):
        return _mix(hash_numbers(column) for column in X.T)
    X = X.tocsr()
    entries = _mix([hash_numbers(X.indices), hash_numbers(X.data)])
    return _segment_sums(np.where(X.data == 0, np.uint64(0), entries), X.indptr)


def _hash_lists(candidates: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the hash of each list, (m,), from the hashes of its candidates. The order of the candidates matters."""
    place = np.arange(len(candidates)) - np.repeat(starts[:-1], np.diff(starts))
    return _segment_sums(_mix([candidates, hash_numbers(place)]), starts)


def hash_numbers(values: np.ndarray) -> np.ndarray:
    """Return the hash of each number, (n,)."""
    values = np.asarray(values, dtype=float) + 0.0  # −0 becomes 0
    return pd.util.hash_array(np.where(np.isnan(values), np.nan, values))


def _hash_codes(codes: np.ndarray, values: list[str]) -> np.ndarray:
    """Return the hash of each coded value, (n,). If there are many values, only those that occur are hashed."""
    if len(values) <= len(codes):
        return hash_texts(values)[codes]
    occurring, places = np.unique(codes, return_inverse=True)
    return hash_texts([values[code] for code in occurring])[places]


def hash_texts(values: list[str]) -> np.ndarray:
    """Return the hash of each text, (n,)."""
    return pd.util.hash_array(np.array(values, dtype=object), categorize=False)


def _mix(columns: Iterable[np.ndarray]) -> np.ndarray:
    """Combine the hashes of several columns into one hash per row. The order of the columns matters."""
    mixed: Any = np.uint64(0)
    for column in columns:
        mixed = mixed * FACTOR + column
        mixed ^= mixed >> np.uint64(32)
    return mixed


def _segment_sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the sum of each segment of values, modulo 2⁶⁴. Segments are consecutive and begin at ``starts``."""
    before = np.append(np.uint64(0), np.cumsum(values, dtype=np.uint64))[starts]
    return before[1:] - before[:-1]
