"""Errors of one action of K on two sets equal those of benchmarks/peers.py, an implementation without the project."""

import ast
import sys
from functools import cache

import numpy as np
import pandas as pd
import pytest
from page_numbers import ROOT
from pages.published import metrics

EXPERIMENTS = {  # sharpness of π0, rates of clicks
    "single_choice": (1, 1, 0),
    "single_choice_sharp": (4, 1, 0),
    "single_choice_clicks": (1, 0.7, 0.2),
}
METRICS = {"expected_error": "expected_loss", "greedy_error": "greedy_loss"}
CLOSEST = ["cips", "importance_weighted", "importance_weighted_trees"]
ALGORITHMS = ["logging", "rewarded_rows", "rewarded_rows_trees", *CLOSEST]


@cache
def standardized_gaps(experiment: str) -> pd.Series:
    """Return |project − peer| / √(se² + se²), by metric, data set and algorithm."""
    rows = metrics(experiment)
    groups = rows[rows["selection"] == rows["selection"].iloc[0]].groupby(["dataset", "algorithm"])
    peers = pd.read_csv(ROOT / "tests/data/peers.csv").set_index(["sharpness", "right", "wrong"])
    peers = peers.loc[[EXPERIMENTS[experiment]]].set_index(["dataset", "algorithm"])
    peers = peers[peers.index.isin(ALGORITHMS, level="algorithm")]
    assert len(peers) == 2 * len(ALGORITHMS)
    gaps = {}
    for error, metric in METRICS.items():
        mean, deviation = groups[metric].mean()[peers.index], groups[metric].sem()[peers.index]
        gaps[error] = (mean - peers[error]).abs() / np.hypot(deviation, peers[f"{error}_se"])
    result = pd.concat(gaps)
    assert result.notna().all()
    return result


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_no_difference_is_beyond_chance(experiment):
    """Each of the 24 differences has 4 to 13 degrees of freedom, so 3.5 is exceeded by chance in one of 40 to 250."""
    gaps = standardized_gaps(experiment)
    assert gaps.max() <= 3.5, gaps[gaps > 3.5].to_string()


def test_few_differences_exceed_two_standard_errors():
    """One in 9 to 15 does so by chance, and differences on one log are correlated. One in 10 is accepted."""
    gaps = pd.concat({experiment: standardized_gaps(experiment) for experiment in EXPERIMENTS})
    assert (gaps > 2).mean() <= 0.1, gaps[gaps > 2].to_string()
    plain = standardized_gaps("single_choice")
    assert plain[plain.index.isin(CLOSEST, level="algorithm")].max() <= 2


def test_the_benchmark_imports_nothing_of_the_project():
    tree = ast.parse((ROOT / "benchmarks/peers.py").read_text(encoding="utf-8"))
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {name.split(".")[0] for name in names} - sys.stdlib_module_names == {"numpy", "scipy", "sklearn", "pandas"}
