"""Numbers on docs/user-guide/open-bandit.md come from docs/results/obd.csv."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from page_numbers import check_claims, ends, numbers, table

PAGE = "docs/user-guide/open-bandit.md"


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return table("obd").set_index(["set", "learned", "policy"], drop=False)


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
    both = r"On men `bts` was clicked # % \(# to #\), `random` # % \(# to #\): # points more \(# to #\)"
    check_claims(
        PAGE,
        {
            "with # to # clicks each": [clicks.min(), clicks.max()],
            "On women both were clicked # times": [*set(clicks["women"])],
            both: [*in_percent(men, "ips"), *(round(value, 2) for value in (more, more - half, more + half))],
        },
    )


def test_sentences_on_verdicts(learned):
    verdicts = learned["verdict"].value_counts()
    counts = [len(learned), learned["policy"].nunique(), learned["shown"].astype(bool).sum()]
    check_claims(
        PAGE,
        {
            r"Of # policies, learned by # algorithms from each file, the rows held out show # to be": counts,
            "judge them: # not shown, and of # the log cannot say": [*verdicts[["not shown", "the log cannot say"]]],
        },
    )
    assert len(verdicts) == 2


def test_sentences_on_policies_judged_on_random(learned):
    judged = learned.query("learned == 'bts'")
    halves = 50 * (judged["dr_high"] - judged["dr_low"])
    assert (judged["more_low"] < 0).all()
    below = judged[judged["more_high"] < 0]
    assert list(zip(below["set"], below["policy"], strict=True)) == [("men", "snips")]
    clicks = round(below["clicks"].item(), 1)
    check_claims(
        PAGE,
        {
            "Intervals are ± # to # points wide, and rest on # to # clicks of equal weight": [
                *ends(halves, 2),
                *ends(judged["clicks"]),
            ],
            r"SNIPS on men, # \(# to #\). It is one of #, and rests on # clicks": [
                *in_percent(below, "more"),
                len(judged),
                clicks,
            ],
            "of a learned policy, ± # points": [round(halves.min(), 2)],
        },
    )
    needed = 10_000 * (np.array([halves.min(), halves.max()]) / 0.05) ** 2
    stated = (
        numbers(PAGE, "it would take some # 000 rows")[0] * 1e3,
        numbers(PAGE, "judged on `random` # million")[0] * 1e6,
    )
    assert stated == pytest.approx(tuple(needed), rel=0.05)


def test_sentences_on_policies_judged_on_bts(learned):
    judged = learned.query("learned == 'random'")
    men, women = (judged[judged["set"] == name] for name in ("men", "women"))
    lower = men[(men["verdict"] == "not shown") & (men["more_high"] < 0)]
    assert set(women["verdict"]) == {"the log cannot say"}
    check_claims(
        PAGE,
        {
            "On men the intervals of # of # lie below `bts`, by # to # points": [
                *(len(lower), len(men)),
                *ends(-100 * lower["more"], 2),
            ],
            "as their mean weights are # to #:": ends(lower["mean_weight"], 2),
            "effective sizes are # to # of 10 000": ends(women["effective_size"]),
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
    first = r"# % \(# to #\) on men and # % \(# to #\) on women by rows of `random`, that of `random` to # % \(# to #\)"
    check_claims(
        PAGE,
        {
            r"single item\*\* rests on # to # clicks": ends(best["clicks"]),
            f"imitation of `bts` comes to {first}": in_percent(cloned, "dr"),
            "as bad, by # points": [round(-100 * rows["more"]["men", "random", "imitation"], 2)],
        },
    )
    for (data, policy), low, high in zip(files, cloned["dr_low"], cloned["dr_high"], strict=True):
        assert round(100 * low, 2) <= 100 * rows["ips"][data, "bts", policy] <= round(100 * high, 2)
