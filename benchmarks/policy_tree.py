"""Policy trees: CPU seconds of the search, and regret of ``PolicyTree`` on a simulated problem.

``python benchmarks/policy_tree.py time`` compares the search for trees of depth 2, with 10 columns and 3 actions, with
one sort of all columns.

``python benchmarks/policy_tree.py regret ROWS RUNS`` prints the mean regret against the best tree of depth 2 on the
problem of Zhou, Athey & Wager (2023), ``simulate.ZhouAtheyWager``, with known propensities.
"""

import sys
import time
from collections.abc import Callable

import numpy as np

from drcrm import PolicyTree, optimal_tree, simulate

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


def measure_regret(n: int, runs: int) -> None:
    """Print the mean regret of runs with n rows, with its standard error."""
    problem = simulate.ZhouAtheyWager()
    X, cost = problem.draw_contexts(100_000, np.random.default_rng(10**6))
    rows = np.arange(len(X))
    best = cost[rows, optimal_tree(X, -cost, thresholds=200, least_share=0).predict(X)].mean()
    regrets = []
    for run in range(runs):
        log = problem.draw(n, seed=[run, n]).log
        tree = PolicyTree().fit(log.X, log.Y, log.propensity, log.cost, n_actions=3)
        regrets.append(cost[rows, tree.predict(X)].mean() - best)
    error = np.std(regrets, ddof=1) / np.sqrt(runs) if runs > 1 else np.nan
    print(f"{n} rows, {runs} runs: mean regret {np.mean(regrets):.4f}, standard error {error:.4f}")


if __name__ == "__main__":
    if sys.argv[1] == "time":
        measure_time()
    else:
        measure_regret(*map(int, sys.argv[2:4]))
