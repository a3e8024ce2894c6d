"""Random folds of dependent rows, and the order of rows in time."""

from __future__ import annotations

import numpy as np
from scipy import sparse


def draw_folds(units: np.ndarray, folds: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """Return a random fold for each row, (n,); all rows of a unit are in the same fold.

    Parameters
    ----------
    units : array (n,)
        Unit of each row.
    folds : int
        Number of folds; at most the number of units.
    rng : Generator, optional
        By default with seed 0.
    """
    _, unit = np.unique(units, return_inverse=True)
    n_units = int(unit.max()) + 1
    order = (rng or np.random.default_rng(0)).permutation(n_units)
    return order[unit] % min(folds, n_units)


def join_units(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the smallest units, (n,), that keep rows together which share a value of either array."""
    (_, rows), (_, columns) = (np.unique(values, return_inverse=True) for values in (first, second))
    graph = sparse.coo_array((np.ones(len(rows)), (rows, columns + rows.max() + 1)), (2 * len(rows), 2 * len(rows)))
    return sparse.csgraph.connected_components(graph, directed=False)[1][rows]


def ranks(time: np.ndarray) -> np.ndarray:
    """Return the place of each row in the order of time, (n,); ties are in file order."""
    return np.argsort(np.argsort(time, kind="stable"))
