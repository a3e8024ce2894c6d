"""How good are policy trees on the problem of Zhou, Athey & Wager (2023), compared with their published regrets?

The problem is ``simulate.ZhouAtheyWager``, with known propensities. The regret of a tree of depth 2 is its expected
cost minus that of the best tree of depth 2, over the same 100 000 contexts. The scores are those of ``PolicyTree``,
which cross-fits forests. The published trees have the scores of forests with tuned or default parameters.

The table has a row per number of rows: ``value`` is the mean regret, with its ``standard_error`` over ``runs``. The
method has the name of the published trees with which it is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pandas as pd
from cells import compare, number, table_of

from drcrm import PolicyTree, optimal_tree, simulate

SIZES = 1000, 2500
METHODS = "tuned forests", "forests"
PROBLEM, POPULATION = simulate.ZhouAtheyWager(), 100_000


@cache
def population() -> tuple[np.ndarray, np.ndarray, float]:
    """Return contexts, their expected costs, and the cost of the best tree of depth 2."""
    X, costs = PROBLEM.draw_contexts(POPULATION, np.random.default_rng(10**6))
    return X, costs, expected_cost(optimal_tree(X, -costs, thresholds=200, least_share=0), X, costs)


def expected_cost(tree: object, X: np.ndarray, costs: np.ndarray) -> float:
    """Return the mean cost of a tree's actions."""
    return float(costs[np.arange(len(X)), tree.predict(X)].mean())


def measure(repetition: int, sizes: Sequence[int] = SIZES) -> Iterator[dict]:
    """Yield the regret of a tree at each number of rows."""
    X, costs, best = population()
    for n in sizes:
        log = PROBLEM.draw(n, seed=[repetition, n]).log
        tree = PolicyTree().fit(log.X, log.Y, log.propensity, log.cost, n_actions=3)
        yield {"n": n, "regret": expected_cost(tree, X, costs) - best}


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean regrets, once for each published method."""
    regrets = rows.groupby("n")["regret"].agg(value="mean", standard_error="sem", runs="size").reset_index()
    table = regrets.merge(pd.DataFrame({"method": METHODS}), "cross").sort_values(["method", "n"], ignore_index=True)
    table = table.assign(table="policy_trees", setting="n=" + table.pop("n").astype(str), dataset="simulated")
    return table[["table", "setting", "dataset", "method", "value", "standard_error", "runs"]]


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return our regrets, the published ones, and published − ours in joint standard errors."""
    compared, rows = compare(table).set_index(["setting", "method"]), []
    for setting in table["setting"].unique():
        cells = compared.loc[[(setting, method) for method in METHODS]]
        ours = cells.iloc[0]
        row = [setting.removeprefix("n="), f"{number(ours['value'])} ± {number(ours['standard_error'])}"]
        for cell in cells.itertuples():
            value = f"{number(cell.published)} ± {number(cell.standard_error_published)}"
            row.append(f"{value} ({number(cell.difference_in_errors, 1, '+')})")
        rows.append(row)
    return table_of(("rows", "ours", *(f"published, {method}" for method in METHODS)), rows)
