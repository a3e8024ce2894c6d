"""Units of dependent rows, and the order of rows in time."""

from __future__ import annotations

import numpy as np
from scipy import sparse


def join_units(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the smallest units, (n,), that keep rows together which share a value of either array."""
    (_, rows), (_, columns) = (np.unique(values, return_inverse=True) for values in (first, second))
    graph = sparse.coo_array((np.ones(len(rows)), (rows, columns + rows.max() + 1)), (2 * len(rows), 2 * len(rows)))
    return sparse.csgraph.connected_components(graph, directed=False)[1][rows]


def ranks(time: np.ndarray) -> np.ndarray:
    """Return the place of each row in the order of time, (n,); ties are in file order."""
    return np.argsort(np.argsort(time, kind="stable"))
