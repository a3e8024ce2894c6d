"""The base of a log: how often each row occurs, its independent unit, and further columns, such as times."""

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

    @property
    def units(self) -> np.ndarray | None:
        """Independent unit of each row, (n,): its group, or the row if counts are weights.

        None if there are no groups: each copy of each row is then a unit. Contexts are no units, because they only
        store X.
        """
        groups = self.column("groups")
        return np.arange(len(self.Y)) if groups is None and self.is_weighted else groups

    @property
    def unit_numbers(self) -> np.ndarray:
        """Number of each row's unit, (n,), from 0 without gaps; without groups, all copies of a row are in one unit."""
        return np.arange(len(self.Y)) if self.units is None else number_groups(self.units, len(self.Y))

    def with_groups(self, groups: Any) -> Self:
        """Return the log with groups of rows as its independent units.

        Parameters
        ----------
        groups : array (n,) or None
            Ids of the groups, of any type; they are numbered. With None, the log itself is returned.

        Returns
        -------
        BanditLog
            Log that shares all arrays, with the column ``groups``.

        Raises
        ------
        InputError
            If an id is missing, or there is not one for each row.
        """
        if groups is None:
            return self
        rows = Table(len(self.Y)) if self.rows is None else self.rows
        return self.replace(rows=rows.assign(groups=number_groups(groups, len(self.Y))))

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


def number_groups(groups: Any, rows: int) -> np.ndarray:
    """Return the group of each row as a number from 0, (rows,).

    Parameters
    ----------
    groups : array (rows,)
        Ids of groups, of any type.
    rows : int
        Number of rows.

    Raises
    ------
    InputError
        If an id is missing, or there is not one for each row.
    """
    groups = np.asarray(groups)
    if groups.shape != (rows,):
        raise InputError(f"groups has shape {groups.shape}, expected {(rows,)}: one id for each row")
    if groups.dtype.kind in "fcOmM":
        from pandas import factorize, isna  # slow to import, and few logs have groups

        reject_rows(isna(groups), groups, "groups", "an id for each row")
    if groups.dtype.kind == "i" and rows and groups.min() == 0 and np.bincount(groups, minlength=1).all():
        return groups  # they are numbers already, and sorting many rows is slow
    if groups.dtype.kind == "O":  # np.unique cannot sort ids of several types
        groups = factorize(groups)[0]
    return np.unique(groups, return_inverse=True)[1]


def check_count(count: Any, rows: int) -> np.ndarray:
    """Return counts (n,); InputError if all are 0 or if their sum is not exact in floats."""
    count = check_integers(count, rows, "count")
    reject_rows(count < 0, count, "count", "0 or more")
    if not count.any():
        raise InputError(f"the log is empty: the counts of all {rows} rows are 0")
    if count.sum(dtype=float) >= LARGEST_INTEGER:
        raise InputError(f"count adds up to {count.sum(dtype=float):.6g}, expected less than {LARGEST_INTEGER:g}")
    return count


def draw_counts(weights: np.ndarray) -> np.ndarray | None:
    """Return the multiplicity of each row; None if all rows have the same weight, which cancels.

    Each weight is divided by the smallest one, then rounded up or down at random (seed 0). The expected count is thus
    the relative weight. If lines were dropped with probability ``pdrop``, each remaining line has the weight
    1/(1 − pdrop). Means over the rows then estimate means over the log before lines were dropped. A line is still one
    observation.
    """
    if np.ptp(weights) <= 1e-9 * weights.max():
        return None
    exact = weights / weights.min()
    exact = np.where(abs(exact - np.round(exact)) < 1e-6 * exact, np.round(exact), exact)
    whole = np.floor(exact)
    return (whole + (np.random.default_rng(0).random(len(exact)) < exact - whole)).astype(np.intp)
