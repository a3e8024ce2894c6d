"""Numbers printed on the pages of docs, and their sources, the published results."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pandas as pd
from scipy import stats

ROOT = Path(__file__).parents[1]
SETS = ["scene", "yeast", "rcv1_subset", "tmc2007_500"]
SCENE_AND_YEAST = SETS[:2]
PAPER = ["cips", "poem", "kl_crm", "akl_crm", "akl_crm_sum", "kl_dro", "chi2_dro"]
OTHERS = [
    "norm_poem",
    "log_smoothing",
    "implicit_exploration",
    "exponential_smoothing",
    "log_sum_exp",
    "weighted_likelihood",
]
ANCHORED = ["log_smoothing_anchored", "implicit_exploration_anchored", "exponential_smoothing_anchored"]
NUMBER = r"([−+]?\d+(?:\.\d+)?)"


@cache
def page_text(path: str) -> str:
    return " ".join((ROOT / path).read_text(encoding="utf-8").split())


def numbers(path: str, pattern: str) -> list[float]:
    """Return the numbers in the only match of a pattern on a page; # stands for a number."""
    [match] = re.findall(pattern.replace("#", NUMBER), page_text(path))
    return [float(number.replace("−", "-")) for number in ([match] if isinstance(match, str) else match)]


def row_numbers(path: str, label: str, section: str = "") -> list[float]:
    """Return the numbers after the first cell of the table row that begins with a label, in a section or anywhere."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if section:
        text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    [line] = [line for line in text.splitlines() if line.startswith(f"| {label}")]
    return [float(number.replace("−", "-")) for number in re.findall(NUMBER, line.partition(" | ")[2])]


def check_rows(path: str, rows: dict[str, Iterable[float]], section: str = "") -> None:
    """Assert that the table rows of a page, found by the beginning of their first cell, have these numbers."""
    for label, expected in rows.items():
        assert row_numbers(path, label, section) == list(expected), label


@cache
def metrics(experiment: str, count: int = 4) -> pd.DataFrame:
    """Return the rows of an experiment at a replay count."""
    rows = pd.read_csv(ROOT / f"docs/results/{experiment}_metrics.csv.gz")
    return rows[rows["replay_count"] == count]


@cache
def table(name: str) -> pd.DataFrame:
    return pd.read_csv(ROOT / f"docs/results/{name}.csv")


def losses(experiment, data, algorithm, selection="dr_bound", metric="expected_loss", count=4) -> pd.Series:
    """Return the losses of an algorithm by seed."""
    rows = metrics(experiment, count)
    keep = (rows["dataset"] == data) & (rows["algorithm"] == algorithm) & (rows["selection"] == selection)
    return rows[keep].set_index("seed")[metric].sort_index()


def gain(data, algorithm, reference, experiment="beyond") -> pd.Series:
    """Return by how much less an algorithm loses than a reference, by seed."""
    return losses(experiment, data, reference) - losses(experiment, data, algorithm)


def share_closed(data, algorithm, experiment="beyond", selection="dr_bound", seeds=20) -> int:
    """Return the share of the gap from CIPS to full supervision that greedy losses of the first seeds close, in %."""

    def mean(name: str) -> float:
        by_seed = losses(experiment, data, name, selection, "greedy_loss")
        assert len(by_seed) >= seeds
        return by_seed.iloc[:seeds].mean()

    return round(100 * (mean("cips") - mean(algorithm)) / (mean("cips") - mean("skyline")))


def rounded(values: Iterable[float], digits: int = 0) -> list[float]:
    return [round(value, digits) for value in values]


def ends(values: Iterable[float], digits: int = 1) -> list[float]:
    """Return the smallest and the largest value, rounded."""
    values = list(values)
    return rounded([min(values), max(values)], digits)


def mean_and_error(values: pd.Series, digits: int = 3) -> list[float]:
    """Return the mean and its standard error, rounded as on the pages."""
    return rounded([values.mean(), values.sem()], digits)


def means_and_errors(*series: pd.Series, digits: int = 3) -> list[float]:
    """Return the mean and the standard error of each series, one after the other."""
    return [number for values in series for number in mean_and_error(values, digits)]


def p_below(values: pd.Series) -> float:
    """Return the p-value of the hypothesis that the mean of paired differences is not below 0."""
    return stats.ttest_1samp(values, 0, alternative="less").pvalue


def is_level(values: pd.Series) -> bool:
    return stats.ttest_1samp(values, 0).pvalue > 0.05


def check_claims(page: str, claims: dict[str, list[float]]) -> None:
    """Assert that the sentences of a page, found by their patterns, have these numbers."""
    for pattern, expected in claims.items():
        assert numbers(page, pattern) == expected, pattern
