"""Test whether rows are independent: copies of rows, and similar rows that have the same action too often.

**Copies.** Rows are copies if they are equal in features, action, propensity and cost more often than by chance. Copies
may be anywhere in the file. Four one-sided tests have independent rows as their null hypothesis. Each test is
conditional on the number of rows with the same features.

agreement    Two independent rows with equal features are equal with probability at most the propensity of the second.
multiples    A row's number of occurrences is a multiple of r ≥ 2 with probability at most ½. The most frequent row of
             each set of features is an exception, and is left out. In a log of copies, all numbers are multiples.
frequencies  Let F_k be the number of distinct rows that occur k times. By the Cauchy–Schwarz inequality,
             E F₃ ≥ ⅔ (E F₂)²/E F₁. A log with copies has fewer rows that occur three times.
crossing     Take a point in the file. A row that occurs twice is on both sides of it only by chance. If copies were
             appended at this point, every row with a copy is on both sides.

**Dependent rows.** Similar rows have nearly equal features, or belong to the same user. Let a be the action of an
earlier row. The later of two independent rows has the same action with probability p = π0(a|x), where x is the context
of the later row. If the later row has action a, p is its logged propensity. So 1(actions are equal)/p has an
expectation of at most 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree
from scipy.special import bdtrc, pdtr

from drcrm.diagnostics.diagnostic import LEVEL, Diagnostic, percent, worst_level
from drcrm.rows.agreement import measure_agreement, pair_equal_values
from drcrm.rows.row_hashes import RowHashes

DIVISORS = 2, 3, 5, 7
POINTS = 16  # parts of the file; the test of crossing tries each border between them
MAX_ROWS = 2**17  # only the first rows are tested
MAX_NEIGHBOURS = 10_000  # rows among which nearest neighbours are searched for
MIN_REPEATED, REPEATED_PER_ACTION = 20, 5  # least numbers of repeated values in a column of identifiers
# The message suggests a column as `group:` if its evidence exceeds this share of that from nearly equal features.
CLOSE = 0.9
NAME = "independence of rows"


def check_copies(hashes: RowHashes, propensity: np.ndarray) -> tuple[Diagnostic, np.ndarray | None]:
    """Check a log for copies of rows. If rows have ids, rows with the same id are copies, and no other rows.

    Parameters
    ----------
    hashes : RowHashes
    propensity : array (n,)

    Returns
    -------
    check : Diagnostic
    copies : integer array (n,) or None
        For each row, a number that equal rows share; None if the log has no copies.
    """
    has_ids = hashes.ids is not None
    rows = hashes.ids if has_ids else hashes.rows
    n, ordered = len(rows), np.sort(rows)  # sorting needs less memory than numbering the distinct rows
    repeats = int((ordered[1:] == ordered[:-1]).sum())
    del ordered
    row = pd.factorize(rows)[0] if repeats else None
    has_copies = row is not None and (has_ids or _has_copies(hashes.features, row, propensity))
    repeated = "the id of another row" if has_ids else "another row in features, action, propensity and cost"
    reason = "These rows depend on each other" if has_ids else "This is more than by chance"
    sentence = f"{repeats} of {n} rows, {percent(repeats / n, 1)}, repeat {repeated}"
    sentence += f". {reason}, so intervals count each distinct row once" if has_copies else ""
    sentence += ". If ids are of users, set `group:` instead of `id:`" if has_copies and has_ids else ""
    level, threshold = worst_level(False, has_copies), "no more than by chance"
    check = Diagnostic("duplicated rows", repeats / n, threshold, level, sentence, "this project")
    return check, row if has_copies else None


def _has_copies(features: np.ndarray, row: np.ndarray, propensity: np.ndarray) -> bool:
    """Return whether one of the tests finds copies.

    ``row`` (n,) has a number for each row, which equal rows share. Rows with equal features are a group. The tests use
    the ``occurrences`` of each distinct row, its group, and the number of rows of each group, ``sizes``.
    """
    if measure_agreement(row, propensity, *pair_equal_values(features)).log_capital > np.log(4 / LEVEL):
        return True
    features, _ = pd.factorize(features)
    group = features[np.diff(np.maximum.accumulate(row), prepend=-1) > 0]  # groups of the first copies
    occurrences, sizes = np.bincount(row), np.bincount(features)
    p_values = (
        _test_multiples(occurrences, group),
        _test_frequencies(occurrences, sizes[group]),
        _test_crossing(row, features, occurrences, group, sizes),
    )
    return min(p_values) < LEVEL / 4


def _test_multiples(occurrences: np.ndarray, group: np.ndarray) -> float:
    """Return the p-value of the test of multiples, for the divisor r with the smallest p-value."""
    order = np.lexsort([occurrences, group])
    is_most_frequent = np.append(np.diff(group[order]) != 0, True)
    rest = occurrences[order[~is_most_frequent]]
    if not len(rest):
        return 1.0
    tails = [bdtrc((rest % divisor == 0).sum() - 1, len(rest), 0.5) for divisor in DIVISORS]
    return float(min(tails) * len(DIVISORS))


def _test_frequencies(occurrences: np.ndarray, size: np.ndarray) -> float:
    """Return the p-value of the number of distinct rows that occur three times.

    In a group of m rows, E F₁ E F₃ ≥ ⅔ (m − 2)/(m − 1) (E F₂)². To be conservative, F₁ is raised and F₂ is lowered by
    two standard errors.
    """
    weight = np.maximum(size - 2, 0) / np.maximum(size - 1, 1)
    once, twice = (weight[occurrences == times].sum() for times in (1, 2))
    lowered = max(twice - 2 * np.sqrt(twice), 0)
    expected = 2 / 3 * lowered**2 / (once + 2 * np.sqrt(once) + 3)
    return float(pdtr(((occurrences == 3) & (size > 2)).sum(), expected))


def _test_crossing(
    row: np.ndarray, features: np.ndarray, occurrences: np.ndarray, group: np.ndarray, sizes: np.ndarray
) -> float:
    """Return the p-value of the number of rows that occur once on each side of a point in the file.

    If rows that occur twice fill most places of a group, the places of these rows depend on each other. Such groups are
    left out, unless only one row of the group occurs twice.
    """
    is_twice = occurrences == 2
    rows_twice = np.bincount(group[is_twice], minlength=len(sizes))
    is_usable = (sizes > 2) & ((rows_twice == 1) | (4 * rows_twice <= sizes))
    is_paired = is_twice & is_usable[group]
    if not is_paired.any():
        return 1.0
    paired = np.flatnonzero(is_paired[row])
    first, second = paired[np.argsort(row[paired], kind="stable")].reshape(-1, 2).T
    size, smallest = sizes[features[first]], 1.0
    for point in len(row) * np.arange(1, POINTS) // POINTS:
        before = np.bincount(features[:point], minlength=len(sizes))[features[first]]
        chance = (2 * before * (size - before) / (size * (size - 1))).mean()
        crossing = ((first < point) & (second >= point)).sum()
        smallest = min(smallest, bdtrc(crossing - 1, len(first), chance) if crossing else 1.0)
    return float(smallest * (POINTS - 1))


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
            f"{similar} have the same action {agreement.ratio:.3g} times as often as their propensities allow, in "
            f"{agreement.pairs} pairs. If the rows depend on each other, {advice}; otherwise the propensities are too "
            "small"
        )
    level = worst_level(is_dependent and not imitated, is_dependent)
    return Diagnostic(NAME, agreement.ratio, "no more agreement than by chance", level, sentence, "Ville 1939")


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
