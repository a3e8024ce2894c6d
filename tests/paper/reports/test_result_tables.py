"""Comparisons with the paper, and intervals and tests against scipy, statsmodels and published examples."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from drcrm.paper.reports.plan import Plan
from drcrm.paper.reports.printed_tables import print_ranks, printed_tables, report_tables
from drcrm.paper.reports.result_tables import (
    CODE,
    PAPER,
    all_tables,
    average_ranks,
    compare,
    differences,
    holm,
    interval,
    larger_p_value,
    paired_differences,
)

ALGORITHMS = ["logging", "cips", "poem", "kl_dro"]


@pytest.mark.parametrize(
    ("option", "value", "sentence", "concerned"),
    [
        ("replay_count", 8, "replay count 8, the paper's text: 4", ALGORITHMS),
        ("logging", "uniform", "logging policy uniform, the paper's text: crf", ALGORITHMS),
        ("logging_c", 10, "π0 with C = 10, the paper's text: 0.1", ALGORITHMS),
        ("logging_fraction", 0.5, "π0 trained on 0.5 of the contexts, the paper's text: 0.05", ALGORITHMS),
        ("heldout_fraction", 0.5, "held out 0.5, the paper's text: 0.25", ALGORITHMS),
        ("logging_sharpness", 4, "π0's coefficients times 4, the paper's text: 1", ALGORITHMS),
        ("split_unit", "row", "held out by row, the paper's text: by context", ALGORITHMS),
        ("absent_label_score", "half", "labels absent from π0's contexts: half, the paper's text: logged", ["logging"]),
        ("variance_penalty_scale", "calibrated", "scale of λ: calibrated, the paper's text: unit", ["poem"]),
    ],
)
def test_a_difference_is_listed_for_the_algorithms_it_concerns(option, value, sentence, concerned):
    ours = PAPER | {option: value}
    listed = {algorithm: differences(ours, PAPER, "the paper's text", algorithm) for algorithm in ALGORITHMS}
    assert listed == {algorithm: [sentence] * (algorithm in concerned) for algorithm in ALGORITHMS}


@pytest.mark.parametrize("n", [2, 20])
def test_an_interval_is_that_of_scipy(n):
    losses = np.random.default_rng(n).normal(size=n)
    ends = stats.t.interval(0.95, n - 1, losses.mean(), stats.sem(losses))
    assert [*interval(losses).values()] == pytest.approx([losses.mean(), stats.sem(losses), *ends])


@pytest.mark.parametrize(
    ("values", "best", "expected"),
    [
        ([1.0], [0.0], np.nan),
        ([1.0, 2.0], [1.0, 2.0], 0.5),
        ([2.0, 3.0], [1.0, 2.0], 0.0),
        ([1.0, 2.0], [2.0, 3.0], 1.0),
        ([0.1 + 0.2] * 5, [0.3] * 5, 0.5),  # equal up to rounding
        ([0.3 + 1e-9] * 5, [0.3] * 5, 0.0),
    ],
)
def test_p_values_of_differences_without_spread(values, best, expected):
    assert larger_p_value(values, best) == pytest.approx(expected, abs=1e-6, nan_ok=True)


def test_a_single_or_missing_seed_has_no_error():
    assert [*interval([1.0]).values()] == pytest.approx([1.0, np.nan, np.nan, np.nan], nan_ok=True)
    assert np.isnan(interval([1.0, np.nan])["mean"])


def test_p_values_are_adjusted_by_holm():
    """The smallest of three is multiplied by 3, the next by 2; none becomes smaller than the one before it."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([np.nan, 0.01, 0.04, np.nan, 0.03]) == pytest.approx([np.nan, 0.03, 0.06, np.nan, 0.06], nan_ok=True)
    assert holm([]).size == 0


def losses(n: int = 20) -> pd.DataFrame:
    """POEM and KL-DRO are equally good, CIPS is worse by more than the noise of differences."""
    rng = np.random.default_rng(0)
    base = 5 + rng.normal(size=n)
    noise = {name: 0.02 * rng.normal(size=n) for name in ("poem", "kl_dro", "cips")}
    shifts = {"logging": 2, "cips": 0.1, "poem": -0.002, "kl_dro": 0, "skyline": -3}
    return pd.DataFrame({name: base + shift + noise.get(name, 0) for name, shift in shifts.items()})


def test_only_planted_differences_are_significant():
    table = compare(losses())
    best = table["mean"][["cips", "poem", "kl_dro"]].idxmin()
    assert best in ("poem", "kl_dro")
    assert table["best"].to_dict() == {"logging": 0, "cips": 0, "poem": 1, "kl_dro": 1, "skyline": 0}
    assert set(table.index[table["p_value"].isna()]) == {best, "skyline"}
    expected = stats.ttest_rel(losses()["cips"], losses()[best], alternative="greater").pvalue
    assert table["p_value"]["cips"] == pytest.approx(expected)
    tested = table["p_value"].dropna()
    assert table["p_holm"][tested.index].to_numpy() == pytest.approx(multipletests(tested, method="holm")[1])


def test_the_skyline_is_not_compared_with_the_paper():
    """The paper prints the CRF among the expected losses, but two of its values match greedy losses."""
    means = {"logging": 1.5, "cips": 1.2, "poem": 1.1, "skyline": 0.9}
    key = {"dataset": "scene", "replay_count": 4, "selection": "snips", "hyperparameter": np.nan, "converged": np.nan}
    rows = [
        key | {"seed": seed, "algorithm": name, "expected_loss": mean + seed, "greedy_loss": mean - 0.3}
        for name, mean in means.items()
        for seed in range(3)
    ]
    plan = Plan(["scene"], ["snips"], 3, [4], protocol=CODE, papers={"scene": ("scene", "")})
    tables = all_tables(pd.DataFrame(rows), plan)
    compared = tables["paper_comparison"].query("metric == 'expected_loss'")
    assert set(compared["algorithm"]) == {"logging", "cips", "poem"}
    expected, greedy = printed_tables(tables, plan)["paper_comparison"].values()
    assert expected.note.endswith("0.646 on Scene and 2.817 on Yeast match greedy losses.")
    assert "CRF" not in greedy.note


def simulated_metrics(seeds: int = 6) -> pd.DataFrame:
    """Losses of three learned algorithms and π0 on two data sets at two replay counts."""
    rng, names = np.random.default_rng(1), {"logging": 2.0, "cips": 1.4, "poem": 1.2, "kl_dro": 1.1}
    rows = [
        {"dataset": data, "replay_count": count, "seed": seed, "algorithm": name, "selection": "snips"}
        | {loss: mean + 0.2 * rng.normal() for loss in ("expected_loss", "greedy_loss")}
        | {"hyperparameter": np.nan, "converged": 1.0}
        for data in ("a", "b")
        for count in (4, 1)
        for seed in range(seeds)
        for name, mean in names.items()
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("reference", "alternative"), [("poem", "less"), ("kl_dro", "two-sided")])
def test_paired_tests_with_any_reference_are_those_of_scipy_and_statsmodels(reference, alternative):
    """A family is all data sets and algorithms of one loss at one replay count."""
    metrics = simulated_metrics()
    plan = Plan(["a", "b"], ["snips"], 6, [4], reference=reference, alternative=alternative)
    table = paired_differences(metrics, plan)
    assert set(table["algorithm"]) == {"cips", "poem", "kl_dro"} - {reference}
    by_run = metrics.set_index(["dataset", "replay_count", "algorithm", "seed"]).sort_index()
    for (metric, count), family in table.groupby(["metric", "replay_count"]):
        p_values = [
            stats.ttest_rel(
                by_run.loc[(row["dataset"], count, row["algorithm"]), metric],
                by_run.loc[(row["dataset"], count, reference), metric],
                alternative=alternative,
            ).pvalue
            for row in family.to_dict("records")
        ]
        assert len(family) == 4
        assert family["p_value"].to_numpy() == pytest.approx(p_values, rel=1e-10)
        assert family["p_holm"].to_numpy() == pytest.approx(multipletests(p_values, method="holm")[1], rel=1e-10)


DEMSAR = [  # areas under the curve of C4.5 with its parameters m and cf on 14 data sets
    [0.763, 0.768, 0.771, 0.798],
    [0.599, 0.591, 0.590, 0.569],
    [0.954, 0.971, 0.968, 0.967],
    [0.628, 0.661, 0.654, 0.657],
    [0.882, 0.888, 0.886, 0.898],
    [0.936, 0.931, 0.916, 0.931],
    [0.661, 0.668, 0.609, 0.685],
    [0.583, 0.583, 0.563, 0.625],
    [0.775, 0.838, 0.866, 0.875],
    [1.000, 1.000, 1.000, 1.000],
    [0.940, 0.962, 0.965, 0.962],
    [0.619, 0.666, 0.614, 0.669],
    [0.972, 0.981, 0.9751, 0.975],
    [0.957, 0.978, 0.946, 0.970],
]


def ranks_of(losses: list[list[float]], names: list[str], seeds: int = 5, **options) -> tuple[pd.DataFrame, Plan]:
    """Return the table of average ranks for mean losses (data sets × algorithms), and its plan."""
    rows = [
        {"dataset": f"d{place}", "algorithm": name, "selection": "snips", "mean": value, "n_seeds": seeds}
        for place, values in enumerate(losses)
        for name, value in [*zip(names, values, strict=True), ("logging", 9.0), ("skyline", -9.0)]
    ]
    plan = Plan([f"d{place}" for place in range(len(losses))], ["snips"], seeds, [4], **options)
    tables = {"expected_loss": pd.DataFrame(rows), "greedy_loss": pd.DataFrame(rows)}
    return average_ranks(tables, plan), plan


@pytest.mark.parametrize("alternative", ["less", "two-sided"])
def test_ranks_over_data_sets_are_those_of_the_published_example(alternative):
    """Demšar 2006, table 6: average ranks, and Friedman's statistic 9.28 before the correction for ties."""
    names = ["poem", "m", "cf", "both"]
    table, _ = ranks_of([[1 - value for value in row] for row in DEMSAR], names, alternative=alternative)
    table = table[table["metric"] == "expected_loss"].set_index("algorithm")
    assert table["average_rank"].round(3).to_dict() == {"poem": 3.143, "m": 2.0, "cf": 2.893, "both": 1.964}
    assert table["difference"]["both"] == pytest.approx(1.964 - 3.143, abs=1e-3)
    ties = [np.unique(row, return_counts=True)[1] for row in DEMSAR]
    correction = 1 - sum((t**3 - t).sum() for t in ties) / (14 * (4**3 - 4))
    assert table["friedman"].iloc[0] * correction == pytest.approx(9.28, abs=0.01)
    assert table["friedman_p"].iloc[0] == pytest.approx(stats.chi2.sf(table["friedman"].iloc[0], 3))
    assert (table["n_datasets"] == 14).all()
    losses = (1 - np.array(DEMSAR)).round(12)
    p_values = [stats.wilcoxon(losses[:, i], losses[:, 0], alternative=alternative).pvalue for i in (1, 2, 3)]
    expected = multipletests(p_values, method="holm")[1]
    assert table["p_adjusted"][["m", "cf", "both"]].to_numpy() == pytest.approx(expected)
    assert np.isnan(table["p_adjusted"]["poem"])


@pytest.mark.parametrize(("k", "critical"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_nemenyi_has_the_published_critical_values(k, critical):
    """Demšar 2006, table 5: p is 0.05 if ranks differ by q √(k (k + 1)/(6 N))."""
    rng, names = np.random.default_rng(k), ["poem", *map(str, range(1, k))]
    table, _ = ranks_of(rng.random((12, k)).tolist(), names, rank_test="nemenyi")
    table = table[table["metric"] == "expected_loss"]
    q = table["difference"].abs() / np.sqrt(k * (k + 1) / (6 * 12))
    assert (table["p_adjusted"].dropna() < 0.05).to_list() == (q[1:] > critical).to_list()
    pair = q.iloc[1], table["p_adjusted"].iloc[1]
    assert pair[1] == pytest.approx(stats.studentized_range.sf(pair[0] * np.sqrt(2), k, np.inf))
    assert stats.studentized_range.sf(critical * np.sqrt(2), k, np.inf) == pytest.approx(0.05, abs=3e-4)


def test_losses_that_are_equal_up_to_rounding_share_a_rank():
    table, _ = ranks_of([[0.1 + 0.2, 0.3, 0.5], [0.7, 0.7, 0.1]], ["poem", "kl_dro", "cips"])
    ranks = table[table["metric"] == "greedy_loss"].set_index("algorithm")
    assert ranks["average_rank"].to_dict() == {"poem": 2.0, "kl_dro": 2.0, "cips": 2.0}
    assert ranks["p_adjusted"]["kl_dro"] == 1


@pytest.mark.parametrize(
    ("losses", "options"),
    [
        ([[1.0, 2.0, 3.0]], {}),  # one data set
        ([[1.0, 2.0, 3.0]] * 3, {"seeds": 1}),
        ([[1.0, 2.0, 3.0]] * 3, {"reference": "absent"}),
        ([[1.0, 2.0, 3.0], [np.nan, 2.0, 3.0]], {}),  # the reference lacks a run
    ],
)
def test_no_ranks_without_two_data_sets_two_seeds_and_the_reference(losses, options):
    assert ranks_of(losses, ["poem", "kl_dro", "cips"], **options)[0].empty


def test_captions_of_tests_state_them():
    metrics = simulated_metrics()
    names = ["poem", "kl_dro", "cips"]
    table, plan = ranks_of([[1.0, 2.0, 3.0], [1.5, 2.0, 3.0]], names, alternative="two-sided")
    caption = print_ranks(table, "expected_loss", "snips", plan).caption
    for fact in (
        "2 data sets (d0 and d1)",
        "5 seeds",
        "SNIPS",
        "compares with poem",
        "Friedman's test of all ranks: χ² =",
    ):
        assert fact in caption
    assert caption.endswith("p of a two-tailed signed-rank test over data sets, adjusted by Holm.")
    plan = Plan(["a", "b"], ["snips"], 6, [4], grids={}, reference="kl_dro", names=plan.names)
    frames = all_tables(metrics, plan)
    printed = printed_tables(frames, plan)
    first = printed["differences_to_kl_dro"]["differences_to_kl_dro"].caption
    assert "on the test sets of a and b minus that of kl dro on the same seed" in first
    assert "one-tailed paired t-test for a smaller loss, adjusted by Holm" in first
    assert set(printed) >= {"average_ranks", "differences_to_kl_dro"}
    sections = report_tables(frames, plan)
    assert list(sections["Ranks over data sets"]) == [
        f"{loss} Hamming loss ranks over data sets" for loss in ("Expected", "Greedy")
    ]
    assert next(iter(sections["Differences to kl dro"])) == "Expected Hamming loss compared with kl dro"
