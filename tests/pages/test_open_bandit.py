"""Numbers on docs/user-guide/open-bandit.md come from docs/results/obd.csv."""

import numpy as np
import pandas as pd
import pytest
from fixtures.page_numbers import check_claims, ends, numbers, rounded
from pages.published import study

from drcrm.evaluation.policy_on_log import MANY_ROWS

PAGE = "docs/user-guide/open-bandit.md"


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return study("obd").set_index(["set", "learned", "policy"], drop=False)


@pytest.fixture(scope="module")
def learned(rows) -> pd.DataFrame:
    return rows[rows["shown"].notna()].reset_index(drop=True)


def in_percent(rows: pd.DataFrame, name: str) -> list[float]:
    """Return the values of a column with both ends of their intervals, in %, row by row."""
    return (100 * rows[[name, f"{name}_low", f"{name}_high"]]).round(2).to_numpy().ravel().tolist()


def test_sentences_on_the_logging_policies(rows):
    logged = [(data, "bts", policy) for data in ("men", "women") for policy in ("bts", "random")]
    clicks, men = rows["clicks"][logged], rows.loc[logged[:2]]
    more = 100 * (men["ips"].iloc[0] - men["ips"].iloc[1])
    half = 50 * np.hypot(*(men["ips_high"] - men["ips_low"]))
    both = r"has a click rate of # % \(# to #\), `random` # % \(# to #\)\. The difference is # points \(# to #\)"
    check_claims(
        PAGE,
        {
            "rows with # to # clicks": [clicks.min(), clicks.max()],
            "On women both have # clicks": [*set(clicks["women"])],
            both: [*in_percent(men, "ips"), *rounded((more, more - half, more + half), 2)],
        },
    )


def test_sentences_on_verdicts(learned):
    verdicts = learned["verdict"].value_counts()
    check_claims(
        PAGE,
        {
            "# algorithms learned a policy": [learned["policy"].nunique()],
            "rows, # of these # policies are shown": [learned["shown"].astype(bool).sum(), len(learned)],
            r"# \[verdicts\]\(.{,30}\) are \*not shown\* and # are": [*verdicts[["not shown", "the log cannot say"]]],
        },
    )
    assert len(verdicts) == 2


def test_sentences_on_policies_judged_on_random(learned):
    judged = learned.query("learned == 'bts'")
    halves = 50 * (judged["dr_high"] - judged["dr_low"])
    assert (judged["more_low"] < 0).all()
    below = judged[judged["more_high"] < 0]
    assert list(zip(below["set"], below["policy"], strict=True)) == [("men", "snips")]
    check_claims(
        PAGE,
        {
            "click rates are ± # to # points, from # to # effective clicks": [
                *ends(halves, 2),
                *ends(judged["clicks"]),
            ],
            r"One of # is below 0: SNIPS on men, # \(# to #\), from # effective clicks": [
                len(judged),
                *in_percent(below, "more"),
                *rounded(below["clicks"], 1),
            ],
            "of a learned policy on `random`, ± # points": [round(halves.min(), 2)],
        },
    )
    needed = 10_000 * (np.array([halves.min(), halves.max()]) / 0.05) ** 2
    [thousands], [millions] = (
        numbers(PAGE, "would take about # 000 rows"),
        numbers(PAGE, "and the widest interval # million"),
    )
    assert (thousands * 1e3, millions * 1e6) == pytest.approx(tuple(needed), rel=0.05)


def test_sentences_on_policies_judged_on_bts(learned):
    judged = learned.query("learned == 'random'")
    men, women = (judged[judged["set"] == name] for name in ("men", "women"))
    lower = men[(men["verdict"] == "not shown") & (men["more_high"] < 0)]
    assert set(women["verdict"]) == {"the log cannot say"}
    check_claims(
        PAGE,
        {
            "On men # of # policies have intervals below `bts`, and estimates # to # points": [
                *(len(lower), len(men)),
                *ends(-100 * lower["more"], 2),
            ],
            "mean weights of # to #, the log may lack # to # %": [
                *ends(lower["mean_weight"], 2),
                *ends(100 * (1 - lower["mean_weight"]), 0),
            ],
            "effective sample sizes are too small, # to # of 10 000": ends(women["effective_size"]),
        },
    )


def test_sentences_on_single_items_and_cloned_policies(rows):
    best = rows[rows["policy"] == "best item"]
    assert set(best["verdict"]) == {"the log cannot say"}
    unclicked = best[best["clicks"] == 0]
    assert len(unclicked)
    assert (unclicked["ips_high"] == unclicked["ips_low"]).all()
    files = [("men", "bts"), ("women", "bts"), ("men", "random")]
    cloned = rows.loc[[(*file, "imitation") for file in files]]
    first = r"the copy of `bts` has # % \(# to #\) on men and # % \(# to #\) on women\."
    check_claims(
        PAGE,
        {
            r"clicked item\*\* has # to # effective clicks": ends(best["clicks"]),
            first + r" .{,50} has # % \(# to #\) on": in_percent(cloned, "dr"),
            "copy of `random` is also # points worse": rounded([-100 * rows["more"]["men", "random", "imitation"]], 2),
        },
    )
    for (data, policy), low, high in zip(files, cloned["dr_low"], cloned["dr_high"], strict=True):
        assert round(100 * low, 2) <= 100 * rows["ips"][data, "bts", policy] <= round(100 * high, 2)


def test_rows_that_a_policy_of_one_item_needs():
    items = np.array(numbers(PAGE, "one row in # or # of a random log"))
    needed = 1000 * np.array(numbers(PAGE, "fewer than # # or # # rows")).reshape(2, 2) @ [1, 1e-3]
    assert needed.tolist() == (MANY_ROWS * items).tolist()
