"""Means over seeds with confidence intervals, and paired tests against the best algorithm."""

import gc

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from statsmodels.stats.multitest import multipletests

from drcrm.reports.roles import ROLES, SKYLINE

LEVEL = 0.05
ROUNDING = 1e-12  # relative difference of two losses that are equal up to rounding


def interval(values: ArrayLike, confidence: float = 0.95) -> dict[str, float]:
    """Return mean, standard_error, low and high of the values of n seeds, by Student's t.

    If a value is missing, so is the mean. One seed has no standard error.
    """
    values = np.asarray(values, dtype=float)
    n, mean = len(values), values.mean() if len(values) else np.nan
    error = values.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
    half = stats.t.ppf((1 + confidence) / 2, n - 1) * error
    return {"mean": mean, "standard_error": error, "low": mean - half, "high": mean + half}


def larger_p_value(values: ArrayLike, best: ArrayLike) -> float:
    """Return the p-value of a one-tailed paired t-test of whether ``values`` have the larger mean.

    Seeds with both values are pairs. Values that are equal up to rounding count as equal. The p-value is ½ if all
    differences are zero, and NaN for fewer than two pairs.
    """
    values, best = np.asarray(values, dtype=float), np.asarray(best, dtype=float)
    difference = np.where(np.isclose(values, best, rtol=ROUNDING, atol=ROUNDING / 1000), 0, values - best)
    difference = difference[np.isfinite(difference)]
    if len(difference) < 2:
        return np.nan
    spread = difference.std(ddof=1)
    if spread == 0:
        return {0: 0.5, 1: 0.0, -1: 1.0}[int(np.sign(difference[0]))]
    return float(stats.t.sf(difference.mean() / (spread / np.sqrt(len(difference))), len(difference) - 1))


def holm(p_values: ArrayLike) -> np.ndarray:
    """Return p-values of one family, adjusted by Holm's method."""
    gc.freeze()  # statsmodels starts a garbage collection at each call, which takes 0.1 s with many objects
    try:
        return multipletests(p_values, method="holm")[1]
    finally:
        gc.unfreeze()


def compare(losses: pd.DataFrame) -> pd.DataFrame:
    """Summarise and compare algorithms for one data set, metric and selection criterion.

    Parameters
    ----------
    losses : DataFrame (seeds × algorithms)
        A missing value is a missing run. The mean of its algorithm is then missing too.

    Returns
    -------
    DataFrame (algorithms × mean, standard_error, ci_low, ci_high, best, p_value, p_holm, n_seeds)
        ``p_value`` tests whether the mean is larger than that of the best learned algorithm. The best algorithm and the
        skyline have none. ``best`` is 1 for the best algorithm and for each learned algorithm that is not significantly
        worse at level 0.05; one seed allows no test. ``p_holm`` is adjusted for all tests of the column.
    """
    columns, names = ["mean", "standard_error", "ci_low", "ci_high"], list(map(str, losses))
    table = pd.DataFrame([[*interval(losses[name]).values()] for name in names], losses.columns, columns, dtype=float)
    means = table["mean"].drop(list(ROLES), errors="ignore").dropna()
    best = str(means.idxmin()) if len(means) else None
    tested = [name for name in names if name not in (best, SKYLINE) and not np.isnan(table["mean"][name])]
    p_values = {name: larger_p_value(losses[name], losses[best]) for name in tested if best is not None}
    table["p_value"] = pd.Series(p_values, index=table.index, dtype=float)
    table["best"] = [int(name in means.index and (name == best or table["p_value"][name] >= LEVEL)) for name in names]
    table["p_holm"] = np.nan
    is_tested = table["p_value"].notna()
    if is_tested.any():
        table.loc[is_tested, "p_holm"] = holm(table["p_value"][is_tested])
    table["n_seeds"] = losses.notna().sum()
    return table[[*columns, "best", "p_value", "p_holm", "n_seeds"]]
