"""CPU seconds of the search for policy trees: ``python benchmarks/policy_tree.py``.

The script compares the search for trees of depth 2, with 10 columns and 3 actions, with one sort of all columns.
"""

import time
from collections.abc import Callable

import numpy as np

from drcrm import optimal_tree

SIZES = (100_000, 32), (1_000_000, 32), (1_000_000, 64)  # rows and thresholds


def cpu_seconds(function: Callable[[], object]) -> float:
    """Return the CPU time of a call in seconds."""
    start = time.process_time()
    function()
    return time.process_time() - start


def measure_time() -> None:
    """Print the seconds of the search and their ratio to a sort of all columns."""
    rng = np.random.default_rng(0)
    print(f"{'rows':>9} {'thresholds':>11} {'search':>8} {'sort':>7} {'ratio':>6}")
    for n, thresholds in SIZES:
        X = rng.random((n, 10))
        scores = rng.normal(size=(n, 3)) + (X[:, :1] > 0.5) * np.array([0, 1, -1])
        columns = [*np.ascontiguousarray(X.T)]
        sort = cpu_seconds(lambda columns=columns: [np.sort(column) for column in columns])
        search = cpu_seconds(lambda X=X, s=scores, t=thresholds: optimal_tree(X, s, thresholds=t))
        print(f"{n:9} {thresholds:11} {search:8.2f} {sort:7.3f} {search / sort:6.1f}")


if __name__ == "__main__":
    measure_time()
