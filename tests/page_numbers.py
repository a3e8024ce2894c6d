"""Numbers printed on the pages of docs, and their sources, the published results."""

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
NUMBER = r"([−+]?\d+(?:\.\d+)?)"


@cache
def page_text(path: str) -> str:
    return " ".join((ROOT / path).read_text(encoding="utf-8").split())


def numbers(path: str, pattern: str) -> list[float]:
    """Return the numbers in the only match of a pattern on a page; # stands for a number."""
    [match] = re.findall(pattern.replace("#", NUMBER), page_text(path))
    return [float(number.replace("−", "-")) for number in ([match] if isinstance(match, str) else match)]


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
