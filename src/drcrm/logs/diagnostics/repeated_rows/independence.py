"""Test whether rows are independent: copies of rows, and rows with equal features that have the same action too often.

**Copies.** Rows are copies if they are equal in features, action, propensity and cost more often than by chance. Copies
may be anywhere in the file. Two one-sided tests have independent rows as their null hypothesis. Each test is
conditional on the number of rows with the same features.

agreement    Two independent rows with equal features are equal with probability at most the propensity of the second.
frequencies  Let F_k be the number of distinct rows that occur k times. By the Cauchy–Schwarz inequality,
             E F₃ ≥ ⅔ (E F₂)²/E F₁. A log with copies has fewer rows that occur three times.

**Dependent rows.** Of two independent rows with equal features, the later one has the action of the earlier one with a
probability of at most π0(a|x), its logged propensity if it has this action.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import pdtr

from drcrm.arrays.number_formats import format_number, percent
from drcrm.logs.diagnostics.check import LEVEL, Check, Consequence, worst_level
from drcrm.logs.rows.agreement import agreement_p_value, pair_equal_values
from drcrm.logs.rows.row_hashes import RowHashes

NAME = "independence of rows"


def check_copies(hashes: RowHashes, propensity: np.ndarray) -> tuple[Check, np.ndarray | None]:
    """Check a log for copies of rows. If rows have ids, rows with the same id are copies, and no other rows.

    Parameters
    ----------
    hashes : RowHashes
    propensity : array (n,)

    Returns
    -------
    check : Check
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
    check = Check(
        "duplicated_rows",
        worst_level(False, has_copies),
        Consequence.NONE,
        "duplicated rows",
        repeats / n,
        "no more than by chance",
        sentence,
        "this project",
    )
    return check, row if has_copies else None


def _has_copies(features: np.ndarray, row: np.ndarray, propensity: np.ndarray) -> bool:
    """Return whether one of the tests finds copies.

    ``row`` (n,) has a number for each row, which equal rows share. Rows with equal features are a group. The tests use
    the ``occurrences`` of each distinct row, its group, and the number of rows of each group, ``sizes``.
    """
    first, second = pair_equal_values(features)
    features, _ = pd.factorize(features)
    group = features[np.diff(np.maximum.accumulate(row), prepend=-1) > 0]  # groups of the first copies
    occurrences, sizes = np.bincount(row), np.bincount(features)
    agreement = agreement_p_value(row[first] == row[second], propensity[second])
    return min(agreement, _test_frequencies(occurrences, sizes[group])) < LEVEL / 2


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


def check_independence(
    features: np.ndarray,
    action: np.ndarray,
    propensity: np.ndarray,
    units: np.ndarray | None = None,
    imitated: bool = False,
) -> Check:
    """Check whether rows with equal features have the same action more often than their propensities allow.

    Parameters
    ----------
    features, action : integer array (n,)
        Hashes of the features and of the action.
    propensity : array (n,)
    units : array (n,), optional
        Ids of units of rows. Only the first row of each unit is tested.
    imitated : bool
        Whether propensities are estimated. Estimates may be too small, so the level is at most "caution".
    """
    tested = np.arange(len(action)) if units is None else np.sort(np.unique(units, return_index=True)[1])
    first, second = (tested[rows] for rows in pair_equal_values(features[tested]))
    agrees, chance = action[first] == action[second], propensity[second]
    ratio = float((agrees / chance).mean()) if len(first) else 0.0
    is_dependent = agreement_p_value(agrees, chance) < LEVEL
    sentence = "rows with equal features do not share their action more often than their propensities allow"
    if is_dependent:
        sentence = (
            f"rows with equal features have the same action {format_number(ratio)} times as often as their "
            f"propensities allow, in {len(first)} pairs. If the rows depend on each other, set `group:` to the column "
            "of user ids; otherwise the propensities are too small"
        )
    return Check(
        "independence",
        worst_level(is_dependent and not imitated, is_dependent),
        Consequence.DEPENDENT_ROWS,
        NAME,
        ratio,
        "no more agreement than by chance",
        sentence,
        "Ville 1939",
    )
