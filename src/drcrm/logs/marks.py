"""Numbers of 64 bits that are equal for equal rows of a log, and hardly for others: by them copies are found."""

from __future__ import annotations

from functools import singledispatch

import numpy as np
import pandas as pd
from scipy import sparse

from ..core.actions import ActionLists
from .arrays import Arrays
from .named import Lists, Named
from .records import Records
from .rows import repeated
from .tables import Table

FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd: multiplication by it loses nothing


def marks(records: Records) -> np.ndarray:
    """Return marks (2, n): of the features of each row; and of its features, action and cost."""
    of_features = _of_features(records.data)[records.context]
    if records.kind == "labels":
        action = [hashed_numbers(column) for column in records.action.T]
    elif records.kind == "lists":
        action = [hashed_numbers(records.action)]
    else:
        action = [hashed_texts([str(name) for name in records.names])[records.action]]
    return np.array([of_features, _mixed([of_features, *action, hashed_numbers(records.cost)])])


def copies_of(found: np.ndarray, propensity: np.ndarray) -> np.ndarray | None:
    """Return which rows are one that is told more than once, (n,), by marks and propensities; None where none are."""
    same, whole = found
    return repeated(same, _mixed([whole, hashed_numbers(propensity)]), propensity)[1]


@singledispatch
def _of_features(table: Table) -> np.ndarray:
    columns = [hashed_numbers(each) for each in table.numbers.values()]
    columns += [hashed_texts(table.values[name])[codes] for name, codes in table.codes.items()]
    return _mixed(columns) if columns else np.zeros(len(table), dtype=np.uint64)


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
        return _mixed([hashed_numbers(column) for column in X.T])
    X = X.tocsr()
    entries = _mixed([hashed_numbers(X.indices), hashed_numbers(X.data)])
    return _sums(np.where(X.data == 0, np.uint64(0), entries), X.indptr)


def _of_lists(candidates: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Of the candidates of each list, (m,), in their order."""
    place = np.arange(len(candidates)) - np.repeat(starts[:-1], np.diff(starts))
    return _sums(_mixed([candidates, hashed_numbers(place)]), starts)


def hashed_numbers(values: np.ndarray) -> np.ndarray:
    """Return a mark of each number, (n,)."""
    values = np.asarray(values, dtype=float) + 0.0  # −0 is 0
    return pd.util.hash_array(np.where(np.isnan(values), np.nan, values))  # every NaN has the same bits


def hashed_texts(values: list[str]) -> np.ndarray:
    """Return a mark of each text, (n,)."""
    return pd.util.hash_array(np.array(values, dtype=object), categorize=False)


def _mixed(columns: list[np.ndarray]) -> np.ndarray:
    """One mark of several: in what order they stand counts."""
    found = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        found *= FACTOR
        found += column
        found ^= found >> np.uint64(32)
    return found


def _sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Sums of values that stand one after the other, by where each begins, of 64 bits."""
    before = np.append(np.uint64(0), np.cumsum(values, dtype=np.uint64))[starts]
    return before[1:] - before[:-1]
