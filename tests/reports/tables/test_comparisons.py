"""Paired tests and intervals against scipy, and on planted differences."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from drcrm.reports.tables.comparisons import compare, interval, larger_p_value


@pytest.mark.parametrize("n", [2, 5, 20])
def test_p_value_is_scipys_paired_test(n):
    rng = np.random.default_rng(n)
    first, second = rng.normal(size=n), rng.normal(size=n) + 0.5
    expected = stats.ttest_rel(second, first, alternative="greater").pvalue
    assert larger_p_value(second, first) == pytest.approx(expected, rel=1e-10)


def test_interval_is_scipys():
    values = np.random.default_rng(0).normal(size=12)
    got = interval(values)
    assert (got.low, got.high) == pytest.approx(stats.t.interval(0.95, 11, values.mean(), stats.sem(values)))
    assert got.standard_error == pytest.approx(stats.sem(values))


def test_degenerate_samples():
    assert interval([1.0]).mean == 1.0
    assert np.isnan(interval([1.0]).standard_error)
    assert np.isnan(interval([1.0, np.nan]).mean)
    assert np.isnan(larger_p_value([1.0], [0.0]))
    assert larger_p_value([1.0, 2.0], [1.0, 2.0]) == 0.5
    assert larger_p_value([2.0, 3.0], [1.0, 2.0]) == 0.0
    assert larger_p_value([1.0, 2.0], [2.0, 3.0]) == 1.0


def test_equal_up_to_rounding_is_not_significant():
    assert larger_p_value([0.1 + 0.2] * 5, [0.3] * 5) == 0.5
    assert larger_p_value(np.array([0.1, 1.3, 2.7, 3.1]) * 3 / 3, [0.1, 1.3, 2.7, 3.1]) == 0.5
    assert larger_p_value([0.3 + 1e-9] * 5, [0.3] * 5) < 1e-6


def losses(n: int = 20, seed: int = 0) -> pd.DataFrame:
    """Planted: poem best, kl_dro as good, cips worse by more than the noise of the differences, skyline far below."""
    rng = np.random.default_rng(seed)
    base = 5 + rng.normal(size=n)
    noise = {name: 0.02 * rng.normal(size=n) for name in ("poem", "kl_dro", "cips")}
    return pd.DataFrame(
        {
            "logging": base + 2,
            "cips": base + 0.1 + noise["cips"],
            "poem": base - 0.002 + noise["poem"],
            "kl_dro": base + noise["kl_dro"],
            "skyline": base - 3,
        }
    )


def test_planted_differences_are_found_and_only_those():
    table = compare(losses())
    best = table["mean"][["cips", "poem", "kl_dro"]].idxmin()
    other = {"poem": "kl_dro", "kl_dro": "poem"}[best]
    assert table["best"].to_dict() == {"logging": 0, "cips": 0, best: 1, other: 1, "skyline": 0}
    assert table["p_value"].isna().to_dict() == {
        "logging": False,
        "cips": False,
        best: True,
        other: False,
        "skyline": True,
    }
    assert table["p_value"]["cips"] == pytest.approx(
        stats.ttest_rel(losses()["cips"], losses()[best], alternative="greater").pvalue
    )
    tested = table["p_value"].dropna()
    assert table["p_holm"][tested.index].to_numpy() == pytest.approx(multipletests(tested, method="holm")[1])


def test_false_alarms_keep_their_level():
    """Of two equally good algorithms the worse is called worse in at most 10 % of draws: the one-tailed test at 5 % is
    applied to whichever mean happens to be larger."""
    rng = np.random.default_rng(1)
    draws = [pd.DataFrame(rng.normal(size=(20, 2)), columns=["cips", "poem"]) for _ in range(400)]
    alarms = np.mean([compare(draw)["best"].sum() == 1 for draw in draws])
    assert alarms == pytest.approx(0.10, abs=0.04)


def test_a_missing_seed_is_missing_not_averaged_away():
    frame = losses()
    frame.loc[3, "poem"] = np.nan
    table = compare(frame)
    assert np.isnan(table["mean"]["poem"])
    assert table["best"]["poem"] == 0
    assert table["n_seeds"]["poem"] == 19
    assert np.isnan(table["p_value"]["poem"])
    assert table["best"]["kl_dro"] == 1


def test_one_seed_gives_means_without_tests():
    table = compare(losses(1))
    assert table["p_value"].isna().all()
    assert table["mean"].notna().all()
    assert table["best"].sum() == 1
