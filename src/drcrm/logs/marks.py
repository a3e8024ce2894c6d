"""Numbers of 64 bits that are equal for equal rows of a table, and hardly for others: by them copies are found."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .records import Records
from .rows import repeated
from .tables import Table

FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd: multiplication by it loses nothing


def marks(records: Records) -> np.ndarray:
    """Return marks (2, n): of the features of each row; and of its features, action and cost."""
    of_features = _of_features(records.data)[records.context]
    if records.kind == "labels":
        action = [hashed_numbers(column) for column in records.action.T]
    else:
        action = [hashed_texts([str(name) for name in records.names])[records.action]]
    return np.array([of_features, _mixed([of_features, *action, hashed_numbers(records.cost)])])


def copies_of(found: np.ndarray, propensity: np.ndarray) -> np.ndarray | None:
    """Return which rows are one that is told more than once, (n,), by marks and propensities; None where none are."""
    same, whole = found
    return repeated(same, _mixed([whole, hashed_numbers(propensity)]), propensity)[1]


def _of_features(table: Table) -> np.ndarray:
    columns = [hashed_numbers(each) for each in table.numbers.values()]
    columns += [hashed_texts(table.values[name])[codes] for name, codes in table.codes.items()]
    return _mixed(columns) if columns else np.zeros(len(table), dtype=np.uint64)


def hashed_numbers(values: np.ndarray) -> np.ndarray:
    """Return a mark of each number, (n,)."""
    return pd.util.hash_array(np.asarray(values, dtype=float) + 0.0)  # −0 is 0


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
