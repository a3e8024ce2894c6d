"""Policy trees: CPU seconds of the search, and regret of ``PolicyTree`` on a simulated problem.

``python benchmarks/policy_tree.py time`` compares the search for trees of depth 2, with 10 columns and 3 actions, with
one sort of all columns.

``python benchmarks/policy_tree.py regret ROWS RUNS`` prints the mean regret against the best tree of depth 2 on the
problem of Zhou, Athey & Wager (2023), with known propensities. It has ten uniform columns, three actions, and noise of
variance 4. In region C the logging policy is (.4, .2, .4), elsewhere (.2, .6, .2).
"""

import sys
import time
from collections.abc import Callable

import numpy as np

from drcrm import PolicyTree, optimal_tree

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


def draw_problem(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return contexts, the mean reward of each action, and the logging policy, each with n rows."""
    X = rng.random((n, 10))
    x5, x7 = X[:, 4], X[:, 6]
    in_a = (x5 < 0.6) & (x7 > 0.35)
    in_c = ((x5 / 0.6) ** 2 + (x7 / 0.35) ** 2 < 1) | (((x5 - 1) / 0.4) ** 2 + ((x7 - 1) / 0.35) ** 2 < 1)
    mean = np.tile([1.5, 2.0, 1.5], (n, 1))
    mean[in_a], mean[in_c] = (3, 2, 1), (-1.5, 0, 1.5)
    return X, mean, np.where(in_c[:, None], [0.4, 0.2, 0.4], [0.2, 0.6, 0.2])


def measure_regret(n: int, runs: int) -> None:
    """Print the mean regret of runs with n rows, with its standard error."""
    X, mean, _ = draw_problem(100_000, np.random.default_rng(10**6))
    rows = np.arange(len(X))
    best = mean[rows, optimal_tree(X, mean, thresholds=200, least_share=0).predict(X)].mean()
    regrets = []
    for run in range(runs):
        rng = np.random.default_rng([run, n])
        contexts, means, policy = draw_problem(n, rng)
        Y = (rng.random(n)[:, None] > policy.cumsum(axis=1)).sum(axis=1).clip(max=2)
        reward = means[np.arange(n), Y] + 2 * rng.normal(size=n)
        tree = PolicyTree().fit(contexts, Y, policy[np.arange(n), Y], -reward, n_actions=3)
        regrets.append(best - mean[rows, tree.predict(X)].mean())
    error = np.std(regrets, ddof=1) / np.sqrt(runs) if runs > 1 else np.nan
    print(f"{n} rows, {runs} runs: mean regret {np.mean(regrets):.4f}, standard error {error:.4f}")


if __name__ == "__main__":
    if sys.argv[1] == "time":
        measure_time()
    else:
        measure_regret(*map(int, sys.argv[2:4]))
