"""Detect dependent rows: similar rows that have the same action too often.

Similar rows have nearly equal features, or belong to the same user. Let a be the action of an earlier row. The later of
two independent rows has the same action with probability p = π0(a|x), where x is the context of the later row. If the
later row has action a, p is its logged propensity. So 1(actions are equal)/p has an expectation of at most 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from drcrm.diagnostics.diagnostic import LEVEL, Diagnostic, percent, worst_level
from drcrm.rows.agreement import measure_agreement, pair_equal_values

MAX_ROWS = 2**17  # only the first rows are tested
MAX_NEIGHBOURS = 10_000  # rows among which nearest neighbours are searched for
MIN_REPEATED, REPEATED_PER_ACTION = 20, 5  # least numbers of repeated values in a column of identifiers
# The message suggests a column as `group:` if its evidence exceeds this share of that from nearly equal features.
CLOSE = 0.9
NAME = "independence of rows"


class TestedRows(NamedTuple):
    """Rows that the test compares.

    Attributes
    ----------
    features : integer array (n,)
        Hashes of the features.
    action : integer array (n,)
        Hashes of the action.
    propensity : array (n,)
    projected : array (n, 8)
        A random projection of the features, to find nearest neighbours. With the shape (n, 0), only rows with equal
        features are paired.
    """

    features: np.ndarray
    action: np.ndarray
    propensity: np.ndarray
    projected: np.ndarray


def check_independence(
    rows: TestedRows,
    units: np.ndarray | None = None,
    columns: Mapping[str, np.ndarray] | None = None,
    imitated: bool = False,
) -> Diagnostic:
    """Check whether rows are independent.

    Parameters
    ----------
    rows : TestedRows
    units : array (n,), optional
        Ids of units of rows. Only the first row of each unit is tested.
    columns : mapping of integer array (n,), optional
        Codes of columns that may be identifiers. The code of a missing value is −1.
    imitated : bool
        Whether propensities are estimated. Estimates may be too small, so the level is at most "caution".
    """
    columns = columns or {}
    if units is not None:
        first = np.sort(np.unique(units[: len(rows.action)], return_index=True)[1])
        rows = TestedRows(*(values[first] for values in rows))
        columns = {name: codes[first[first < len(codes)]] for name, codes in columns.items()}
    by_column = {
        name: measure_agreement(rows.action, rows.propensity, *_pair_codes(codes))
        for name, codes in columns.items()
        if _may_identify(codes, rows.action[: len(codes)])
    }
    required = np.log((1 + len(by_column)) / LEVEL)
    agreement = measure_agreement(rows.action, rows.propensity, *near_pairs(rows))
    similar, advice = "rows with nearly equal features", "set `group:` to the column of user ids"
    column = max(by_column, key=lambda name: by_column[name].log_capital, default=None)
    if column is not None and by_column[column].log_capital > max(required, CLOSE * agreement.log_capital):
        agreement, similar, advice = by_column[column], f"rows with the same `{column}`", f"add `group: {column}`"
    is_dependent = agreement.log_capital > required
    sentence = "similar rows do not share their action more often than their propensities allow"
    if is_dependent:
        sentence = (
            f"{similar} have the same action in {percent(agreement.share)} of {agreement.pairs} pairs, but at most "
            f"{percent(agreement.expected)} are expected. If the rows depend on each other, {advice}; otherwise the "
            "propensities are too small"
        )
    level = worst_level(is_dependent and not imitated, is_dependent)
    excess = agreement.share - agreement.expected
    return Diagnostic(NAME, excess, "no more agreement than by chance", level, sentence, "Ville 1939")


def near_pairs(rows: TestedRows) -> tuple[np.ndarray, np.ndarray]:
    """Return disjoint pairs: all pairs of rows with equal features, then pairs of nearest neighbours, nearest first."""
    first, second = pair_equal_values(rows.features)
    singles = np.setdiff1d(np.arange(len(rows.features)), np.append(first, second))
    if len(singles) < 2 or not rows.projected.shape[1]:
        return first, second
    if len(singles) > MAX_NEIGHBOURS:  # keep rows that are close in one direction, so that neighbours stay together
        order = np.argsort(rows.projected[singles, 0], kind="stable")
        start = (len(singles) - MAX_NEIGHBOURS) // 2
        singles = np.sort(singles[order[start : start + MAX_NEIGHBOURS]])
    distances, neighbours = cKDTree(rows.projected[singles]).query(rows.projected[singles], 2)
    neighbour = np.where(neighbours[:, 0] == np.arange(len(singles)), neighbours[:, 1], neighbours[:, 0])
    is_free, pairs = np.ones(len(singles), dtype=bool), []
    for row in np.argsort(distances[:, 1], kind="stable"):
        if is_free[row] and is_free[neighbour[row]]:
            is_free[row] = is_free[neighbour[row]] = False
            pairs.append((row, neighbour[row]))
    near = singles[np.array(pairs, dtype=np.intp).reshape(-1, 2)]
    return np.append(first, near[:, 0]), np.append(second, near[:, 1])


def _pair_codes(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = np.flatnonzero(codes >= 0)
    first, second = pair_equal_values(codes[rows])
    return rows[first], rows[second]


def _may_identify(codes: np.ndarray, action: np.ndarray) -> bool:
    """Return whether many values of a column occur more than once. A categorical feature has few values."""
    repeated = (np.bincount(codes[codes >= 0]) > 1).sum()
    return bool(repeated >= max(MIN_REPEATED, REPEATED_PER_ACTION * len(np.unique(action))))


def identifier_codes(column: pd.Series) -> np.ndarray | None:
    """Return codes of the values of a column, −1 for a missing value; None if the column is not an identifier.

    Times, numbers that are not whole, lists and maps are not identifiers.
    """
    if column.dtype.kind == "M":
        return None
    try:
        codes, values = pd.factorize(column)
    except TypeError:  # lists and maps
        return None
    numbers = pd.to_numeric(pd.Series([str(value) for value in values[:1000]]), errors="coerce")
    return None if (numbers % 1 > 0).any() else codes
