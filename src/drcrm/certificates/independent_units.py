"""Independent units of a log: its rows, its contexts, or groups of rows that the caller names.

Rows of one user or one context depend on each other. Standard errors and bounds are therefore computed from one value
for each independent unit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.arrays.validation import reject_rows
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError


def number_groups(groups: Any, rows: int) -> np.ndarray:
    """Return the group of each row as a number, (rows,), in the order of the ids.

    Parameters
    ----------
    groups : array (rows,)
        Ids of any type, for example numbers, strings, dates or tuples.
    rows : int

    Raises
    ------
    InputError
        The array has another shape, or an id is missing.
    """
    groups = np.asarray(groups)
    if groups.shape != (rows,):
        raise InputError(f"groups has shape {groups.shape}, expected {(rows,)}: one id for each row")
    if groups.dtype.kind in "fcOmM":
        from pandas import isna  # slow to import, and few logs have groups

        reject_rows(isna(groups), groups, "groups", "an id for each row")
    if groups.dtype.kind == "O":  # ids of several types have no order
        numbers: dict[object, int] = {}
        groups = np.array([numbers.setdefault(value, len(numbers)) for value in groups])
    return np.unique(groups, return_inverse=True)[1]


def check_groups(groups: Any, log: BanditLog) -> np.ndarray | None:
    """Return the group numbers of the rows with a positive count; None without groups."""
    return None if groups is None else number_groups(groups, len(log.Y))[log.count > 0]


def group_means(groups: Any, weights: np.ndarray, *values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the weighted mean of each vector in each group, and a weight of 1 for each group.

    Groups whose rows all have weight 0 are left out.
    """
    occurs = weights > 0
    _, index = np.unique(number_groups(groups, len(weights))[occurs], return_inverse=True)
    weights = weights[occurs]
    total = np.bincount(index, weights)
    return *(np.bincount(index, weights * value[occurs]) / total for value in values), np.ones(len(total))


def unit_values(z: np.ndarray, count: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return one value for each of the G units, (G,), whose plain mean is the mean z̄ of the n rows.

    The value of unit g is z̄ + (Σ_{i∈g} z_i − n_g z̄) G/n. The standard error of the values is the clustered standard
    error of z̄. Source: Liang & Zeger 1986.
    """
    _, index = np.unique(units, return_inverse=True)
    n = count.sum()
    mean = count @ z / n
    total = np.bincount(index, count * (z - mean))
    return mean + total * (len(total) / n)


def mean_and_deviation(z: np.ndarray, weights: np.ndarray, n: float) -> tuple[float, float]:
    """Return the mean and the standard deviation (divisor n − 1) of values that occur ``weights`` times, Σ = n.

    Values are scaled before they are squared, so any unit works.
    """
    mean = weights @ z / n
    centred = z - mean
    unit = abs(centred).max()
    return mean, unit * np.sqrt(weights @ (centred / unit) ** 2 / (n - 1)) if unit > 0 else 0.0
