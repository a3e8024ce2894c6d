"""Dependent rows: nearly equal contexts, or rows of one user, that have the same action more often than they should.

The later of two independent rows has the action of the earlier one with probability p = π0(a|x'). If it does, p is its
logged propensity. So the expectation of 1(a = a')/p is at most 1 for any two contexts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.spatial import cKDTree

from drcrm.actions.action_lists import ActionLists
from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.diagnostic import Diagnostic, worst_level
from drcrm.diagnostics.repeated_rows.agreement import log_capital, pair_equal_values
from drcrm.diagnostics.repeated_rows.row_hashes import hash_actions, hash_choices
from drcrm.logs.encoding.arrays import Arrays
from drcrm.logs.encoding.tables import Table
from drcrm.logs.records import Records

LEVEL = 1e-4  # of all tests together
MOST_ROWS = 2**17  # first rows that are tested
MOST_NEAR = 10_000  # rows among which nearest neighbours are sought
DIMENSIONS = 8
LEAST_VALUES, VALUES_PER_ACTION = 20, 5  # repeated values that an identifier has at least
CLOSE = 0.9  # share of the evidence by near rows that names a column
NAME = "independence of rows"


class TestedRows(NamedTuple):
    """Rows as the test sees them.

    Attributes
    ----------
    features : integer array (n,)
        Equal for rows with equal features.
    action : integer array (n,)
    propensity : array (n,)
    projected : array (n, 8)
        A random projection of the features; (n, 0) if only equal features count as near.
    """

    features: np.ndarray
    action: np.ndarray
    propensity: np.ndarray
    projected: np.ndarray


class _Agreement(NamedTuple):
    """Pairs that agree in the action: how many of how many, how many are expected at most, and the evidence."""

    log_capital: float
    pairs: int
    share: float
    expected: float


def check_independence(
    draws: TestedRows, units=None, columns: Mapping[str, np.ndarray] | None = None, imitated: bool = False
):
    """Return the diagnostic of whether rows are independent.

    Parameters
    ----------
    draws : Draws
    units : array (n,), optional
        Rows that belong together: the first row of each unit is tested.
    columns : mapping of array (n,), optional
        Codes of columns that may be identifiers; negative codes are missing values.
    imitated : bool
        Whether propensities are estimated. They may then be too small, and the check does not fail.
    """
    columns = columns or {}
    if units is not None:
        rows = np.sort(np.unique(units[: len(draws.action)], return_index=True)[1])
        draws = TestedRows(*(values[rows] for values in draws))
        columns = {name: codes[rows[rows < len(codes)]] for name, codes in columns.items()}
    candidates = {
        name: _agreement(draws, *_pairs_of(codes))
        for name, codes in columns.items()
        if _may_identify(codes, draws.action[: len(codes)])
    }
    evidence = np.log((1 + len(candidates)) / LEVEL)
    shown, what = _agreement(draws, *near_pairs(draws)), "rows with nearly equal features"
    advice = "name the column of their user with `group:`"
    column = max(candidates, key=lambda name: candidates[name].log_capital, default=None)
    if column is not None and candidates[column].log_capital > max(evidence, CLOSE * shown.log_capital):
        shown, what, advice = candidates[column], f"rows with the same `{column}`", f"add `group: {column}`"
    is_dependent = shown.log_capital > evidence
    sentence = "similar rows do not have the same action more often than their propensities allow"
    if is_dependent:
        sentence = (
            f"{what} have the same action in {shown.share:.0%} of {shown.pairs} pairs, {shown.expected:.0%} expected "
            f"at most: {advice} if they depend on each other; otherwise the propensities are too small"
        )
    level = worst_level(is_dependent and not imitated, is_dependent)
    excess = shown.share - shown.expected
    return Diagnostic(NAME, excess, None, None, "agreement by chance", level, sentence, "Ville 1939")


def _agreement(draws: TestedRows, first: np.ndarray, second: np.ndarray) -> _Agreement:
    agrees = draws.action[first] == draws.action[second]
    chance = draws.propensity[np.maximum(first, second)]
    capital, pairs = log_capital(agrees, chance)
    if not pairs:
        return _Agreement(0.0, 0, 0.0, 0.0)
    return _Agreement(capital, pairs, float(agrees[:pairs].mean()), float(chance[:pairs].mean()))


def near_pairs(draws: TestedRows) -> tuple[np.ndarray, np.ndarray]:
    """Return disjoint pairs of rows: those with equal features first, then nearest neighbours by their distance."""
    first, second = pair_equal_values(draws.features)
    singles = np.setdiff1d(np.arange(len(draws.features)), np.append(first, second))
    if len(singles) < 2 or not draws.projected.shape[1]:
        return first, second
    if len(singles) > MOST_NEAR:  # neighbours stay together along one direction
        along = np.argsort(draws.projected[singles, 0], kind="stable")
        start = (len(singles) - MOST_NEAR) // 2
        singles = np.sort(singles[along[start : start + MOST_NEAR]])
    distances, neighbours = cKDTree(draws.projected[singles]).query(draws.projected[singles], 2)
    neighbour = np.where(neighbours[:, 0] == np.arange(len(singles)), neighbours[:, 1], neighbours[:, 0])
    is_free, pairs = np.ones(len(singles), dtype=bool), []
    for row in np.argsort(distances[:, 1], kind="stable"):
        if is_free[row] and is_free[neighbour[row]]:
            is_free[row] = is_free[neighbour[row]] = False
            pairs.append((row, neighbour[row]))
    near = singles[np.array(pairs, dtype=np.intp).reshape(-1, 2)]
    return np.append(first, near[:, 0]), np.append(second, near[:, 1])


def _pairs_of(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = np.flatnonzero(codes >= 0)
    first, second = pair_equal_values(codes[rows])
    return rows[first], rows[second]


def _may_identify(codes: np.ndarray, action: np.ndarray) -> bool:
    """Return whether a column has many values that occur repeatedly, as identifiers have and categories do not."""
    repeated = (np.bincount(codes[codes >= 0]) > 1).sum()
    return bool(repeated >= max(LEAST_VALUES, VALUES_PER_ACTION * len(np.unique(action))))


def identifier_codes(column: pd.Series) -> np.ndarray | None:
    """Return the codes of a column that may be an identifier, −1 if missing; None for other numbers than whole ones."""
    if column.dtype.kind == "M":
        return None
    try:
        codes, values = pd.factorize(column)
    except TypeError:  # lists and maps
        return None
    numbers = pd.to_numeric(pd.Series([str(value) for value in values[:1000]]), errors="coerce")
    return None if (numbers % 1 > 0).any() else codes


def tested_rows_of_records(records: Records, features: np.ndarray) -> TestedRows:
    """Return the first rows of records as draws, by the marks of their features."""
    n = min(MOST_ROWS, records.size)
    records = records.take(slice(0, n)) if n < records.size else records
    data, projected = records.data, np.empty((len(records.data), 0))
    if isinstance(data, Table):
        projected = _project(data.numbers.values(), data.codes.values())
    elif isinstance(data, Arrays) and not isinstance(data.X, ActionLists):
        projected = _project_matrix(data.X)
    projected = projected if records.context is None else projected[records.context]
    return TestedRows(features[:n], hash_actions(records), records.propensity, projected)


def tested_rows_of_log(log: BanditLog, features: np.ndarray) -> TestedRows:
    """Return the first rows of a log as draws, by the marks of their features."""
    n = min(MOST_ROWS, len(log.Y))
    contexts, context = np.unique(log.context[:n], return_inverse=True)
    projected = _project_matrix(log.X[contexts])[context] if log.actions.shape else np.empty((n, 0))
    return TestedRows(features[:n], hash_choices(log.Y[:n]), log.propensity[:n], projected)


def _project_matrix(X) -> np.ndarray:
    if sparse.issparse(X):
        return X @ np.random.default_rng(0).normal(size=(X.shape[1], DIMENSIONS))
    return _project(X.T, ())


@np.errstate(over="ignore", invalid="ignore")
def _project(numbers: Iterable[np.ndarray], codes: Iterable[np.ndarray]) -> np.ndarray:
    """Return random projections, (n, 8), of standardised numbers and one-hot categories."""
    rng, projected = np.random.default_rng(0), np.zeros((1, DIMENSIONS))
    for values in numbers:
        deviation = np.nanstd(values) if len(values) else 0.0
        standardised = (values - np.nanmean(values)) / deviation if 0 < deviation < np.inf else np.zeros(len(values))
        projected = projected + np.nan_to_num(standardised)[:, None] * rng.normal(size=DIMENSIONS)
    for code in codes:
        projected = projected + rng.normal(size=(code.max(initial=0) + 1, DIMENSIONS))[code]
    return projected
