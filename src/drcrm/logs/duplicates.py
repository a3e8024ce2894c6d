"""Copies of rows, in any order: rows that are equal in features, action, propensity and cost more often than by chance.

Four one-sided tests, each valid given how many rows have the same features. Rows are independent under the hypothesis:

agreement    two rows with equal features are equal with at most the propensity of the second one
multiples    of a row's number of occurrences, a multiple of r ≥ 2 has at most probability ½, except for the most
             frequent row of each set of features: copying a log makes all of them multiples
frequencies  F_k distinct rows occur k times: E F₃ ≥ ⅔ (E F₂)²/E F₁ by Cauchy–Schwarz; copies lack the F₃
crossing     the two occurrences of a row are on either side of a point in the file at random: appended copies all are
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import bdtrc, pdtr

from .agreement import log_capital, pairs_within
from .diagnostic import Diagnostic, level_of

LEVEL = 1e-4  # of all tests together
DIVISORS = 2, 3, 5, 7
POINTS = 16  # parts of the file, between which copies may have been appended


@dataclass(frozen=True)
class _Counts:
    """How often each distinct row occurs, and how many rows have the same features.

    Attributes
    ----------
    row : integer array (n,)
        The number of the distinct row that each row is.
    features : integer array (n,)
        The number of the features of each row.
    occurrences, group : integer array (distinct rows,)
        How often each distinct row occurs; the number of its features.
    sizes : integer array (distinct features,)
        How many rows have the features.
    """

    row: np.ndarray
    features: np.ndarray
    occurrences: np.ndarray
    group: np.ndarray
    sizes: np.ndarray


def duplicates(features: np.ndarray, rows: np.ndarray, propensity: np.ndarray) -> tuple[Diagnostic, np.ndarray | None]:
    """Return whether a log has copies of rows, and which rows are copies of one, (n,); None if it has none.

    Parameters
    ----------
    features : array (n,)
        Equal for rows with equal features.
    rows : array (n,)
        Equal for rows that are equal in features, action, propensity and cost.
    propensity : array (n,)
    """
    n, (row, distinct) = len(rows), pd.factorize(rows)
    repeats = n - len(distinct)
    has_copies = repeats > 0 and _has_copies(features, row, propensity)
    share = repeats / n
    sentence = f"{repeats} of {n} rows, {share:.1%}, repeat another row in features, action, propensity and cost"
    sentence += ", more often than by chance: intervals count each distinct row once" if has_copies else ""
    level = level_of(False, has_copies)
    check = Diagnostic("duplicated rows", share, None, None, "no more than by chance", level, sentence, "this project")
    return check, row if has_copies else None


def _has_copies(features: np.ndarray, row: np.ndarray, propensity: np.ndarray) -> bool:
    first, second = pairs_within(features)
    if log_capital(row[first] == row[second], propensity[second])[0] > np.log(4 / LEVEL):
        return True
    features, _ = pd.factorize(features)
    group = features[np.unique(row, return_index=True)[1]]
    counts = _Counts(row, features, np.bincount(row), group, np.bincount(features))
    return any(test(counts) < LEVEL / 4 for test in (_multiples, _frequencies, _crossing))


def _multiples(counts: _Counts) -> float:
    """Return the p-value of the number of distinct rows whose occurrences are a multiple of r."""
    order = np.lexsort([counts.occurrences, counts.group])
    is_most_frequent = np.append(np.diff(counts.group[order]) != 0, True)
    others = counts.occurrences[order[~is_most_frequent]]
    if not len(others):
        return 1.0
    tails = [bdtrc((others % divisor == 0).sum() - 1, len(others), 0.5) for divisor in DIVISORS]
    return float(min(tails) * len(DIVISORS))


def _frequencies(counts: _Counts) -> float:
    """Return the p-value of the number of rows that occur three times, given how many occur once and twice.

    With m rows of equal features F₁F₃ ≥ ⅔ (m − 2)/(m − 1) F₂² in expectation. F₁ and F₂ count with two standard errors.
    """
    size = counts.sizes[counts.group]
    weight = np.maximum(size - 2, 0) / np.maximum(size - 1, 1)
    once, twice = (weight[counts.occurrences == times].sum() for times in (1, 2))
    least = max(twice - 2 * np.sqrt(twice), 0)
    expected = 2 / 3 * least**2 / (once + 2 * np.sqrt(once) + 3)
    return float(pdtr(((counts.occurrences == 3) & (size > 2)).sum(), expected))


def _crossing(counts: _Counts) -> float:
    """Return the p-value of the number of rows that occur once on either side of a point of the file.

    The places of two rows with the same features depend on each other if these rows fill most of the places. Such
    features do not count, unless only one of their rows occurs twice.
    """
    is_twice = counts.occurrences == 2
    rows_twice = np.bincount(counts.group[is_twice], minlength=len(counts.sizes))
    usable = (counts.sizes > 2) & ((rows_twice == 1) | (4 * rows_twice <= counts.sizes))
    pairs = is_twice & usable[counts.group]
    if not pairs.any():
        return 1.0
    rows, n = np.flatnonzero(usable[counts.features]), len(counts.row)
    is_paired = pairs[counts.row[rows]]
    at = rows[is_paired][np.argsort(counts.row[rows[is_paired]], kind="stable")].reshape(-1, 2)
    group, size = counts.features[at[:, 0]], counts.sizes[counts.features[at[:, 0]]]
    smallest = 1.0
    for point in n * np.arange(1, POINTS) // POINTS:
        before = np.bincount(counts.features[rows[rows < point]], minlength=len(counts.sizes))[group]
        chance = (2 * before * (size - before) / (size * (size - 1))).mean()
        crossing = ((at[:, 0] < point) & (at[:, 1] >= point)).sum()
        smallest = min(smallest, bdtrc(crossing - 1, len(at), chance) if crossing else 1.0)
    return float(smallest * (POINTS - 1))
