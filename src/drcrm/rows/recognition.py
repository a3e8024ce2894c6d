"""Recognise the rows that a policy was learned from in another log, by 64-bit hashes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import pdtri

from drcrm.rows.agreement import count_earlier_equals, log_capital
from drcrm.rows.row_hashes import RowHashes

LEVEL = 1e-6  # probability that rows of an entirely new log are recognised by mistake
TWICE_LEVEL = 1e-5  # probability that the bound on the expected number of rows that occur twice fails
MIN_DISTINCT = 10  # fewer rows may be equal by chance


@dataclass(frozen=True)
class RecognisedRows:
    """Masks, (m,), of the rows of a log that trained a policy, and of the rows that were held out from its learning."""

    training: np.ndarray
    heldout: np.ndarray

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of training, held-out and new rows, as JSON values."""
        training, heldout = int(self.training.sum()), int(self.heldout.sum())
        return {"training": training, "heldout": heldout, "new": len(self.training) - training - heldout}


@dataclass(frozen=True)
class LearnedRows:
    """Hashes of the rows of the log that a policy was learned from, in their order.

    Attributes
    ----------
    features : array (n,) of uint32
        Hashes of the features.
    rows : array (n,) of uint64
        Hashes of features, action, propensity if it was logged, and cost.
    heldout : bool array (n,)
        The rows that were held out from learning.
    has_copies : bool
        Whether the log has copies of rows. If it has, repeated rows do not show how often rows are equal by chance.
    """

    features: np.ndarray
    rows: np.ndarray
    heldout: np.ndarray
    has_copies: bool

    @classmethod
    def of(cls, hashes: RowHashes, heldout: np.ndarray, has_copies: bool) -> LearnedRows:
        """Return the rows of a log from their hashes."""
        return cls(_short_hashes(hashes), hashes.rows, heldout, has_copies)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays to store in a policy's file."""
        return {
            "features": self.features,
            "rows": self.rows,
            "heldout": np.packbits(self.heldout),
            "has_copies": np.array(self.has_copies),
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> LearnedRows:
        """Return the rows from the arrays of a policy's file."""
        rows = arrays["rows"]
        heldout = np.unpackbits(arrays["heldout"], count=len(rows)).astype(bool)
        return cls(arrays["features"], rows, heldout, bool(arrays["has_copies"]))

    def recognise(self, hashes: RowHashes, propensity: np.ndarray) -> RecognisedRows | None:
        """Return which rows of another log are among these rows.

        Rows are recognised by position if the log begins with all these rows, with the held-out rows, or with the
        training rows. Otherwise rows are recognised by their hashes, each hash at most as often as it occurs here.

        Parameters
        ----------
        hashes : RowHashes
            Hashes of the m rows of the other log.
        propensity : array (m,)
            Logged or estimated propensities of the other log.

        Returns
        -------
        RecognisedRows or None
            None if a log of new rows could have as many equal rows by chance.
        """
        rows = hashes.rows
        training, heldout = np.zeros((2, len(rows)), dtype=bool)
        for part in (np.ones(len(self.rows), dtype=bool), self.heldout, ~self.heldout):
            start = self.rows[part]
            is_long = len(start) >= MIN_DISTINCT or len(rows) == len(self.rows)
            if is_long and len(start) <= len(rows) and np.array_equal(rows[: len(start)], start):
                training[: len(start)], heldout[: len(start)] = ~self.heldout[part], self.heldout[part]
                return RecognisedRows(training, heldout)
        if not (self._has_same_rows(rows) or self._reappears(_short_hashes(hashes), rows, propensity)):
            return None
        training = _is_among(rows, self.rows[~self.heldout])
        heldout[~training] = _is_among(rows[~training], self.rows[self.heldout])
        return RecognisedRows(training, heldout)

    def _has_same_rows(self, rows: np.ndarray) -> bool:
        """Return whether a log consists of these rows, in any order."""
        if len(rows) != len(self.rows) or not np.array_equal(np.sort(rows), np.sort(self.rows)):
            return False
        return len(np.unique(rows)) >= MIN_DISTINCT

    def _reappears(self, features: np.ndarray, rows: np.ndarray, propensity: np.ndarray) -> bool:
        """Return whether another log has more equal rows than by chance. Only rows that occur once in this log count.

        Let m rows of this log have the features of a new row. If m = 1, the new row equals this row with probability at
        most the propensity of the new row. If m ≥ 2, let F₂ of the m rows occur twice. Then the new row equals a row
        that occurs once with probability at most 2 E F₂/(m − 1) (Good 1953).
        """
        distinct, first, times = np.unique(self.rows, return_index=True, return_counts=True)
        if self.has_copies:
            times = np.ones_like(times)
        known, place = np.unique(self.features[first], return_inverse=True)
        sizes = np.bincount(place, times).astype(np.intp)
        size, is_twice = sizes[place], (times == 2) & (sizes[place] > 1)
        twice, many = is_twice.sum(), max(sizes[sizes > 1].sum(), 1)
        factor = 2 * (size[is_twice] / (size[is_twice] - 1)).sum() / max(twice, 1) if is_twice.any() else 4.0
        by_chance = min(factor * pdtri(twice, TWICE_LEVEL) / many, 1.0)
        hits = np.isin(rows, distinct[times == 1]) & (count_earlier_equals(rows) == 0)
        places = pd.Index(known).get_indexer(features)
        chance = np.where(sizes[places] == 1, propensity, by_chance)
        is_known = places >= 0
        return log_capital(hits[is_known], chance[is_known])[0] > -np.log(LEVEL)


def _short_hashes(hashes: RowHashes) -> np.ndarray:
    return (hashes.features >> np.uint64(32)).astype(np.uint32)


def _is_among(values: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """Return which values, (m,), are in a pool. A value counts at most as often as it occurs in the pool."""
    times = pd.Series(pool).value_counts().reindex(values, fill_value=0).to_numpy()
    return count_earlier_equals(values) < times
