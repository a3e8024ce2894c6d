"""Copies of rows, in any order: rows that are equal in features, action, propensity and cost more often than by chance.

Four one-sided tests, each valid given how many rows have the same features. Rows are independent under the hypothesis:

agreement    two rows with equal features are equal with at most the propensity of the second one
multiples    of a row's number of occurrences, a multiple of r ≥ 2 has at most probability ½, except for the most
             frequent row of each set of features: copying a log makes all of them multiples
frequencies  F_k distinct rows occur k times: E F₃ ≥ ⅔ (E F₂)²/E F₁ by Cauchy–Schwarz; copies lack the F₃
crossing     the two occurrences of a row are on either side of a point in the file at random: appended copies all are
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import bdtrc, pdtr

from drcrm.diagnostics.diagnostic import Diagnostic, worst_level
from drcrm.diagnostics.repeated_rows.agreement import log_capital, pair_equal_values

LEVEL = 1e-4  # of all tests together
DIVISORS = 2, 3, 5, 7
POINTS = 16  # parts of the file, between which copies may have been appended


def check_copies(
    features: np.ndarray, rows: np.ndarray, propensity: np.ndarray
) -> tuple[Diagnostic, np.ndarray | None]:
    """Return whether a log has copies of rows, and which rows are copies of one, (n,); None if it has none.

    Parameters
    ----------
    features : array (n,)
        Equal for rows with equal features.
    rows : array (n,)
        Equal for rows that are equal in features, action, propensity and cost.
    propensity : array (n,)
    """
    n, ordered = len(rows), np.sort(rows)  # which takes less memory than numbers of distinct rows
    repeats, row = int((ordered[1:] == ordered[:-1]).sum()), None
    del ordered
    if repeats:
        row, _ = pd.factorize(rows)
    has_copies = repeats > 0 and _has_copies(features, row, propensity)
    share = repeats / n
    sentence = f"{repeats} of {n} rows, {share:.1%}, repeat another row in features, action, propensity and cost"
    sentence += ", more often than by chance: intervals count each distinct row once" if has_copies else ""
    level = worst_level(False, has_copies)
    check = Diagnostic("duplicated rows", share, None, None, "no more than by chance", level, sentence, "this project")
    return check, row if has_copies else None


def _has_copies(features: np.ndarray, row: np.ndarray, propensity: np.ndarray) -> bool:
    """Return whether one of the tests finds copies, of numbered distinct rows.

    The tests share these arrays: how often each distinct row occurs, the number of its features (``group``), and
    how many rows have these (``sizes``).
    """
    first, second = pair_equal_values(features)
    if log_capital(row[first] == row[second], propensity[second])[0] > np.log(4 / LEVEL):
        return True
    del first, second
    features, _ = pd.factorize(features)
    group = features[np.diff(np.maximum.accumulate(row), prepend=-1) > 0]  # of the first row of each number
    occurrences, sizes = np.bincount(row), np.bincount(features)
    p_values = (
        _multiples(occurrences, group),
        _frequencies(occurrences, sizes[group]),
        _crossing(row, features, occurrences, group, sizes),
    )
    return min(p_values) < LEVEL / 4


def _multiples(occurrences: np.ndarray, group: np.ndarray) -> float:
    """Return the p-value of the number of distinct rows whose occurrences are a multiple of r."""
    order = np.lexsort([occurrences, group])
    is_most_frequent = np.append(np.diff(group[order]) != 0, True)
    rest = occurrences[order[~is_most_frequent]]
    if not len(rest):
        return 1.0
    tails = [bdtrc((rest % divisor == 0).sum() - 1, len(rest), 0.5) for divisor in DIVISORS]
    return float(min(tails) * len(DIVISORS))


def _frequencies(occurrences: np.ndarray, size: np.ndarray) -> float:
    """Return the p-value of the number of rows that occur three times, given how many occur once and twice.

    With m rows of equal features F₁F₃ ≥ ⅔ (m − 2)/(m − 1) F₂² in expectation. F₁ and F₂ count with two standard errors.
    """
    weight = np.maximum(size - 2, 0) / np.maximum(size - 1, 1)
    once, twice = (weight[occurrences == times].sum() for times in (1, 2))
    least = max(twice - 2 * np.sqrt(twice), 0)
    expected = 2 / 3 * least**2 / (once + 2 * np.sqrt(once) + 3)
    return float(pdtr(((occurrences == 3) & (size > 2)).sum(), expected))


def _crossing(
    row: np.ndarray, features: np.ndarray, occurrences: np.ndarray, group: np.ndarray, sizes: np.ndarray
) -> float:
    """Return the p-value of the number of rows that occur once on either side of a point of the file.

    The places of two rows with the same features depend on each other if these rows fill most of the places. Such
    features do not count, unless only one of their rows occurs twice.
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
