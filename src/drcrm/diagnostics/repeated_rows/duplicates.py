"""Detect copies of rows: rows that are equal in features, action, propensity and cost more often than by chance.

Copies may be anywhere in the file. Four one-sided tests have independent rows as their null hypothesis. Each test is
conditional on the number of rows with the same features.

agreement    Two independent rows with equal features are equal with probability at most the propensity of the second.
multiples    A row's number of occurrences is a multiple of r ≥ 2 with probability at most ½. The most frequent row of
             each set of features is an exception, and is left out. In a log of copies, all numbers are multiples.
frequencies  Let F_k be the number of distinct rows that occur k times. By the Cauchy–Schwarz inequality,
             E F₃ ≥ ⅔ (E F₂)²/E F₁. A log with copies has fewer rows that occur three times.
crossing     Take a point in the file. A row that occurs twice is on both sides of it only by chance. If copies were
             appended at this point, every row with a copy is on both sides.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import bdtrc, pdtr

from drcrm.diagnostics.diagnostic import LEVEL, Diagnostic, percent, worst_level
from drcrm.rows.agreement import measure_agreement, pair_equal_values
from drcrm.rows.row_hashes import RowHashes

DIVISORS = 2, 3, 5, 7
POINTS = 16  # parts of the file; the test of crossing tries each border between them


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
