"""Numbers of 64 bits that are equal for equal rows of a log, and hardly for others: by them copies are found."""

from __future__ import annotations

from functools import singledispatch

import numpy as np
import pandas as pd
from scipy import sparse

from ..core.actions import ActionLists, ListedActions
from ..core.log import BanditLog
from .arrays import Arrays
from .named import Lists, Named
from .records import Records
from .tables import Table

FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd: multiplication by it loses nothing


def marks(records: Records) -> np.ndarray:
    """Return marks (2, n): of the features of each row; and of its features, action and cost."""
    features = _of_features(records.data)[records.context]
    return np.array([features, _mixed([features, marks_of_actions(records), hashed_numbers(records.cost)])])


def marks_of_log(log: BanditLog) -> np.ndarray:
    """Return the same of a log, whose features are encoded and whose actions are numbers."""
    contexts = _of_rows(log.X)
    if isinstance(log.actions, ListedActions):
        contexts = _of_lists(contexts, log.actions.starts)
    features = contexts[log.context]
    return np.array([features, _mixed([features, marks_of_choices(log.Y), hashed_numbers(log.cost)])])


def marks_of_actions(records: Records) -> np.ndarray:
    """Return a mark of each row's action, (n,): of its name, or its place in a list."""
    if records.kind == "single":
        return hashed_texts([str(name) for name in records.names])[records.action]
    return marks_of_choices(records.action)


def marks_of_choices(choices: np.ndarray) -> np.ndarray:
    """Return a mark of each row of an array (n,) or (n, q)."""
    return _mixed([hashed_numbers(column) for column in np.atleast_2d(choices.T)])


def marks_of_rows(of_rows: np.ndarray, propensity: np.ndarray | None) -> np.ndarray:
    """Return marks (n,) of whole rows, of what ``marks`` returns; propensities count if they were logged."""
    return of_rows[1] if propensity is None else _mixed([of_rows[1], hashed_numbers(propensity)])


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
    return pd.util.hash_array(np.where(np.isnan(values), np.nan, values))


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
