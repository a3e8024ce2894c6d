"""Find the rows of a log in another log that has them in the same order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from drcrm.rows.row_hashes import mix

WINDOW = 16  # rows of the windows that are compared


class Sequence(NamedTuple):
    """Rows in order: hashes of their features and action, and hashes of their features alone."""

    keys: np.ndarray
    features: np.ndarray


def align(known: Sequence, rows: Sequence, surprise: np.ndarray, level: float) -> np.ndarray:
    """Return the place of each row of a log, (m,), among the n known rows; −1 for a row without a place.

    Windows of 16 rows with equal keys have the same place. If the contexts are equal but the rows are new, a run of
    rows has the actions of the known rows with a probability of at most the product of its propensities. So with
    probability 1 − ``level``, new rows have no run whose ``surprise`` exceeds log(n m/level). Without such a run, no
    row has a place. A row between windows with the same offset has a place if its features are equal.

    Parameters
    ----------
    known, rows : Sequence
        The n known rows, and the m rows of the log.
    surprise : array (m,)
        −log p, with the propensities p of the log.
    level : float
    """
    n, m = len(known.keys), len(rows.keys)
    if min(n, m) < WINDOW:
        return np.full(m, -1)
    distinct, first, times = np.unique(_windows(known.keys), return_index=True, return_counts=True)
    is_single = times == 1
    match = pd.Index(distinct[is_single]).get_indexer(_windows(rows.keys))
    starts = np.flatnonzero(match >= 0)
    low, high, shift = np.full(m, np.nan), np.full(m, np.nan), first[is_single][match[starts]] - starts
    for step in range(WINDOW):
        low[starts + step], high[starts + step] = (
            np.fmin(low[starts + step], shift),
            np.fmax(high[starts + step], shift),
        )
    offset = np.where(low == high, low, np.nan)  # a row between two places has none
    run = np.cumsum(np.diff(offset, prepend=np.nan) != 0) - 1
    if np.bincount(run, np.where(np.isnan(offset), 0, surprise)).max() <= np.log(n * m / level):
        return np.full(m, -1)
    before, after = pd.Series(offset).ffill(), pd.Series(offset).bfill()
    place = np.arange(m) + before.where(before == after).to_numpy()
    place = np.where((place >= 0) & (place < n), place, -1).astype(np.intp)
    return np.where((place >= 0) & (known.features[place] == rows.features), place, -1)


def lengths_of_runs(mask: np.ndarray) -> np.ndarray:
    """Return the length of the run of equal values to which each entry belongs, (n,)."""
    run = np.cumsum(np.diff(mask, prepend=mask[:1]))
    return np.bincount(run)[run]


def _windows(keys: np.ndarray) -> np.ndarray:
    """Return the hash of each window of consecutive keys, (n − 15,)."""
    size = len(keys) - WINDOW + 1
    return mix(keys[start : start + size] for start in range(WINDOW))
