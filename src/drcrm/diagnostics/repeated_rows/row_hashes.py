"""Numbers of 64 bits that are equal for equal rows of a log, and hardly for others: by them copies are found."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch
from itertools import chain
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from drcrm.actions.action_lists import ActionLists
from drcrm.actions.listed_actions import ListedActions
from drcrm.arrays.mapped_arrays import map_rows
from drcrm.data.bandit_log import BanditLog
from drcrm.logs.encoding.arrays import Arrays
from drcrm.logs.encoding.named_features import Lists, Named
from drcrm.logs.encoding.tables import Table
from drcrm.logs.records import Records

FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd: multiplication by it loses nothing


class RowHashes(NamedTuple):
    """Marks of n rows.

    Attributes
    ----------
    features : array (n,)
        Of the features of each row.
    rows : array (n,)
        Of its features, action and cost, and of its propensity if it was logged.
    """

    features: np.ndarray
    rows: np.ndarray


def hash_records(records: Records) -> RowHashes:
    """Return the marks of rows, computed block by block."""
    return RowHashes(**records.map(lambda _, block: _of_block(block)._asdict()))


def _of_block(records: Records) -> RowHashes:
    features = _of_features(records.data)
    features = features if records.context is None else features[records.context]
    propensity = None if records.is_imitated else records.propensity
    return _of_whole_rows(features, hash_actions(records), records.cost, propensity)


def hash_log(log: BanditLog, is_imitated: bool = False) -> RowHashes:
    """Return the same of a log, whose features are encoded and whose actions are numbers."""
    contexts = map_rows(log.X, _of_rows)
    if isinstance(log.actions, ListedActions):
        contexts = _of_lists(contexts, log.actions.starts)
    propensity = None if is_imitated else log.propensity
    return _of_whole_rows(contexts[log.context], hash_choices(log.Y), log.cost, propensity)


def _of_whole_rows(features: np.ndarray, actions: np.ndarray, cost: np.ndarray, propensity) -> RowHashes:
    """The marks of rows from those of their features and actions; propensities count if they were logged."""
    rows = _mixed([features, actions, hash_numbers(cost)])
    return RowHashes(features, rows if propensity is None else _mixed([rows, hash_numbers(propensity)]))


def hash_actions(records: Records) -> np.ndarray:
    """Return a mark of each row's action, (n,): of its name, or its place in a list."""
    if records.kind == "single":
        return hash_texts([str(name) for name in records.names])[records.action]
    return hash_choices(records.action)


def hash_choices(choices: np.ndarray) -> np.ndarray:
    """Return a mark of each row of an array (n,) or (n, q)."""
    return _mixed(hash_numbers(column) for column in np.atleast_2d(choices.T))


@singledispatch
def _of_features(table: Table) -> np.ndarray:
    if not table.numbers and not table.codes:
        return np.zeros(len(table), dtype=np.uint64)
    numbers = (hash_numbers(values) for values in table.numbers.values())
    return _mixed(chain(numbers, (_hashed_codes(codes, table.values[name]) for name, codes in table.codes.items())))


@_of_features.register
def _(named: Named) -> np.ndarray:
    return _of_rows(named.hashed)


@_of_features.register
def _(lists: Lists) -> np.ndarray:
    return _of_lists(_of_rows(lists.hashed), lists.starts)


@_of_features.register
def _(arrays: Arrays) -> np.ndarray:
    if isinstance(arrays.X, ActionLists):
        return _of_lists(_of_rows(arrays.X.features), arrays.X.starts)
    return _of_rows(arrays.X)


def _of_rows(X) -> np.ndarray:
    """Of what is not 0 in each row, (n,): in which order the columns are stored does not count."""
    if not sparse.issparse(X):
        return _mixed(hash_numbers(column) for column in X.T)
    X = X.tocsr()
    entries = _mixed([hash_numbers(X.indices), hash_numbers(X.data)])
    return _sums(np.where(X.data == 0, np.uint64(0), entries), X.indptr)


def _of_lists(candidates: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Of the candidates of each list, (m,), in their order."""
    place = np.arange(len(candidates)) - np.repeat(starts[:-1], np.diff(starts))
    return _sums(_mixed([candidates, hash_numbers(place)]), starts)


def hash_numbers(values: np.ndarray) -> np.ndarray:
    """Return a mark of each number, (n,)."""
    values = np.asarray(values, dtype=float) + 0.0  # −0 is 0
    return pd.util.hash_array(np.where(np.isnan(values), np.nan, values))


def _hashed_codes(codes: np.ndarray, values: list[str]) -> np.ndarray:
    """The mark of each coded value, (n,); values that do not occur in a large column are not hashed."""
    if len(values) <= len(codes):
        return hash_texts(values)[codes]
    occurring, places = np.unique(codes, return_inverse=True)
    return hash_texts([values[code] for code in occurring])[places]


def hash_texts(values: list[str]) -> np.ndarray:
    """Return a mark of each text, (n,)."""
    return pd.util.hash_array(np.array(values, dtype=object), categorize=False)


def _mixed(columns: Iterable[np.ndarray]) -> np.ndarray:
    """Return one mark of the marks of several columns; their order counts."""
    mixed = np.uint64(0)
    for column in columns:
        mixed = mixed * FACTOR + column
        mixed ^= mixed >> np.uint64(32)
    return mixed


def _sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Sums of values that stand one after the other, by where each begins, of 64 bits."""
    before = np.append(np.uint64(0), np.cumsum(values, dtype=np.uint64))[starts]
    return before[1:] - before[:-1]
