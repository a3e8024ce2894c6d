"""Numbers on docs/paper/other-tools.md, verdicts of other tools on logs with a known truth, come from docs/results."""

import pandas as pd
import pytest
from pages.published import study

SEEDS = 20


@pytest.fixture(scope="module")
def verdicts() -> pd.DataFrame:
    return study("verdicts_beside").set_index(["judge", "log", "policy"]).sort_index()


@pytest.mark.parametrize(
    ("logs", "policies", "outcome", "counts"),
    [
        ("good, drift", "near, far, bad", "right", {"drcrm": 116, "skdr-eval SNDR": 19, "skdr-eval plain": 76}),
        ("sharp", "near, far", "right", {"skdr-eval plain": 25, "drcrm": 5}),
        ("wrong by 2", "near, far, bad", "named", {"drcrm": 60}),
        ("wrong by 2", "near, far, bad", "open", {"drcrm": 60}),
        ("wrong by 2", "near, far, bad", "right", {"drcrm, imitated": 60, "skdr-eval plain": 39}),
        ("no overlap; a trap", "near, far", "open", {"drcrm": 40, "drcrm, imitated": 40}),
        ("no overlap", "near, far", "open", {"drcrm": 40, "drcrm, imitated": 40}),
        ("good, drift", "near, far", "right", {"drcrm, imitated": 80}),
        (
            "no overlap; a trap",
            "near, far",
            "wrong",
            {"skdr-eval SNDR": 2, "skdr-eval plain": 36},
        ),
        (
            "drift that turns",
            "near, far",
            "wrong",
            {"drcrm": 1, "drcrm, imitated": 1, "skdr-eval SNDR": 0, "skdr-eval plain": 6},
        ),
        ("drift that turns", "near, far", "open", {"drcrm": 39}),
        ("drift that turns", "bad", "right", {"drcrm": 9}),
    ],
)
def test_counts_in_sentences(verdicts, logs, policies, outcome, counts):
    names = [name.replace(";", ",") for name in logs.split(", ")]
    rates = {judge: verdicts.loc[judge][outcome].unstack().loc[names, policies.split(", ")] for judge in counts}
    assert {judge: round(SEEDS * rate.to_numpy().sum()) for judge, rate in rates.items()} == counts


def test_plain_estimates_are_closest_on_good_logs(verdicts):
    good = verdicts.xs("good", level="log")
    errors = (good["estimated gain"] - good["true gain"]).abs().unstack()
    others = ["skdr-eval SNDR", "skdr-eval DR"]
    assert (errors.loc["skdr-eval plain"] < errors.loc[others]).all(axis=None)


def test_gains_in_sentences(verdicts):
    far, bad = verdicts.loc["skdr-eval SNDR", "good", "far"], verdicts.loc["skdr-eval plain", "sharp", "bad"]
    assert (round(far["estimated gain"], 2), round(far["true gain"], 2)) == (0.04, 0.1)
    assert (round(bad["estimated gain"], 3), round(bad["true gain"], 3)) == (-0.002, -0.042)
    assert verdicts.loc["drcrm", "drift that turns"]["raised"].str.contains("drift of the gain").all()
    assert (verdicts.loc["skdr-eval DR", "verdicts"] == f"{SEEDS} do_not_deploy").all()
