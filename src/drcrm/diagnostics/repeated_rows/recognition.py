"""Rows that a policy was learned from, recognised in another log by 64-bit hashes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import pdtri

from drcrm.diagnostics.repeated_rows.agreement import count_earlier_equals, log_capital
from drcrm.diagnostics.repeated_rows.row_hashes import RowHashes

LEVEL = 1e-6  # probability that new rows are recognised
SURE = 1e-5  # of the expected number of rows that occur twice
LEAST_DISTINCT = 10  # fewer equal rows may be chance


@dataclass(frozen=True)
class RecognisedRows:
    """The rows of a log that a policy was learned from, and those that were held out; masks (m,)."""

    training: np.ndarray
    heldout: np.ndarray

    @property
    def counts(self) -> dict[str, int]:
        """How many rows are of each kind, as it goes into JSON."""
        training, heldout = int(self.training.sum()), int(self.heldout.sum())
        return {"training": training, "heldout": heldout, "new": len(self.training) - training - heldout}


@dataclass(frozen=True)
class LearnedRows:
    """The rows of the log that a policy was learned from, in their order.

    Attributes
    ----------
    features : array (n,) of uint32
        Hashes of the features.
    rows : array (n,) of uint64
        Hashes of features, action, propensity if it was logged, and cost.
    heldout : bool array (n,)
    has_copies : bool
        Whether the log has copies of rows, so that repeated rows do not show how often rows are equal by chance.
    """

    features: np.ndarray
    rows: np.ndarray
    heldout: np.ndarray
    has_copies: bool

    @classmethod
    def of(cls, marks: RowHashes, heldout: np.ndarray, has_copies: bool) -> LearnedRows:
        """Return the hashes of rows from their marks."""
        return cls(_of_features(marks), marks.rows, heldout, has_copies)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that ``of_arrays`` reads."""
        held = np.packbits(self.heldout)
        return {"features": self.features, "rows": self.rows, "heldout": held, "has_copies": np.array(self.has_copies)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> LearnedRows:
        rows = arrays["rows"]
        heldout = np.unpackbits(arrays["heldout"], count=len(rows)).astype(bool)
        return cls(arrays["features"], rows, heldout, bool(arrays["has_copies"]))

    def recognise(self, marks: RowHashes, propensity: np.ndarray) -> RecognisedRows | None:
        """Return which rows of another log are these; None if no more of them are equal than fresh rows would be.

        A log that begins with these rows, or with the held-out or the training rows among them, is known by position.
        Else rows are recognised by their hashes, each as often as it is among the training rows.

        Parameters
        ----------
        marks : RowMarks
        propensity : array (m,)
            Logged or estimated.
        """
        rows = marks.rows
        for part in (np.ones(len(self.rows), dtype=bool), self.heldout, ~self.heldout):
            expected = self.rows[part]
            is_long = len(expected) >= LEAST_DISTINCT or len(rows) == len(self.rows)
            if is_long and len(expected) <= len(rows) and np.array_equal(rows[: len(expected)], expected):
                training, heldout = np.zeros((2, len(rows)), dtype=bool)
                training[: len(expected)], heldout[: len(expected)] = ~self.heldout[part], self.heldout[part]
                return RecognisedRows(training, heldout)
        if not (self._has_same_rows(rows) or self._reappears(_of_features(marks), rows, propensity)):
            return None
        training = _is_among(rows, self.rows[~self.heldout])
        heldout = np.zeros(len(rows), dtype=bool)
        heldout[~training] = _is_among(rows[~training], self.rows[self.heldout])
        return RecognisedRows(training, heldout)

    def _has_same_rows(self, rows: np.ndarray) -> bool:
        """Return whether a log has these rows in another order."""
        if len(rows) != len(self.rows) or not np.array_equal(np.sort(rows), np.sort(self.rows)):
            return False
        return len(np.unique(rows)) >= LEAST_DISTINCT

    def _reappears(self, features: np.ndarray, rows: np.ndarray, propensity: np.ndarray) -> bool:
        """Return whether rows that occur once here are in another log more often than fresh rows would be.

        A fresh row equals the only row with the same features at most with its propensity. It equals one of m ≥ 2 such
        rows that occurs once with probability at most 2 E F₂/(m − 1) (Good 1953): F₂ of them occur twice.
        """
        distinct, at, times = np.unique(self.rows, return_index=True, return_counts=True)
        if self.has_copies:
            times = np.ones_like(times)
        known, place = np.unique(self.features[at], return_inverse=True)
        sizes = np.bincount(place, times).astype(np.intp)
        size, twice = sizes[place], (times == 2) & (sizes[place] > 1)
        many = max(sizes[sizes > 1].sum(), 1)
        at_least = 2 * (size[twice] / (size[twice] - 1)).sum() / max(twice.sum(), 1) if twice.any() else 4.0
        by_chance = min(at_least * pdtri(twice.sum(), SURE) / many, 1.0)
        hits = np.isin(rows, distinct[times == 1]) & (count_earlier_equals(rows) == 0)
        places = pd.Index(known).get_indexer(features)
        chance = np.where(sizes[places] == 1, propensity, by_chance)
        is_known = places >= 0
        return log_capital(hits[is_known], chance[is_known])[0] > -np.log(LEVEL)


def _of_features(marks: RowHashes) -> np.ndarray:
    return (marks.features >> np.uint64(32)).astype(np.uint32)


def _is_among(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return which values, (m,), are among others, each at most as often as it is there."""
    times = pd.Series(others).value_counts().reindex(values, fill_value=0).to_numpy()
    return count_earlier_equals(values) < times
