"""Multiplicities and further columns of the rows of a log."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np

from drcrm.arrays.tables import Table
from drcrm.arrays.validation import LARGEST_INTEGER, check_integers, reject_rows
from drcrm.errors import InputError

# Cached attributes, and the attributes that they are computed from.
CACHE_SOURCES = {"row_map": {"Y", "context", "actions"}, "feature_range": {"X"}, "log_propensity": {"propensity"}}


class CountedRows:
    """Rows with counts, contexts and further columns: see :class:`drcrm.BanditLog`, which explains the attributes."""

    Y: np.ndarray
    count: np.ndarray
    context: np.ndarray
    rows: Table | None = None
    is_weighted = False

    @property
    def size(self) -> int:
        """Sum of the counts of all rows."""
        return int(self.count.sum())

    @property
    def copies(self) -> np.ndarray:
        """Number of independent observations of each row, (n,): its count, or 1 if counts are weights."""
        return np.minimum(self.count, 1) if self.is_weighted else self.count

    @property
    def relative_weight(self) -> Any:
        """Weight of each observation, (n,), with mean 1; the number 1 if counts are copies."""
        return self.count * (self.copies.sum() / self.size) if self.is_weighted else 1.0

    def weighted_units(self, groups: np.ndarray | None) -> np.ndarray | None:
        """Return the groups, or without groups the rows of a log with weights, (n,); None for independent copies.

        Parameters
        ----------
        groups : array (n,) or None
            Independent group of each row.

        Returns
        -------
        array or None
            Independent unit of each row.
        """
        return np.arange(len(self.Y)) if groups is None and self.is_weighted else groups

    @property
    def units(self) -> np.ndarray:
        """The group of each row, (n,), or its context if the file has no groups."""
        groups = self.column("groups")
        return self.context if groups is None else groups

    def column(self, name: str) -> Any:
        """Return a column of ``rows``, (n, …); None if the log does not have it.

        Parameters
        ----------
        name : str
            Name of the column, such as ``groups``.

        Returns
        -------
        array or None
            A value for each row.
        """
        return None if self.rows is None else self.rows.get(name)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values of some attributes, without checking them.

        Parameters
        ----------
        **changes
            New values, by the name of the attribute.

        Returns
        -------
        BanditLog
            Copy that shares all other arrays.
        """
        log = copy(self)
        for name, sources in CACHE_SOURCES.items():
            if changes.keys() & sources:
                log.__dict__.pop(name, None)
        log.__dict__.update(changes)
        return log


def check_count(count: Any, rows: int) -> np.ndarray:
    """Return counts (n,); InputError if all are 0 or if their sum is not exact in floats."""
    count = check_integers(count, rows, "count")
    reject_rows(count < 0, count, "count", "0 or more")
    if not count.any():
        raise InputError(f"the log is empty: the counts of all {rows} rows are 0")
    if count.sum(dtype=float) >= LARGEST_INTEGER:
        raise InputError(f"count adds up to {count.sum(dtype=float):.6g}, expected less than {LARGEST_INTEGER:g}")
    return count
