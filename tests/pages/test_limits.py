"""Numbers on docs/paper/limits.md, one action of K, come from docs/results."""

from __future__ import annotations

import pandas as pd
import pytest
from page_numbers import check_claims, ends, is_level, losses, mean_and_error, p_below, rounded, table_row

PAGE = "docs/paper/limits.md"
SUFFIXES = ("_soft", "", "_sharp")  # η = ¼, 1, 4
SETS = ("satimage", "pendigits", "letter")
BASELINES = ("rewarded_rows", "importance_weighted")
ROWS = {  # algorithm and metric of each row of the table
    "π0's most probable actions": ("logging", "greedy_loss"),
    "CIPS": ("cips", "expected_loss"),
    "rewarded rows, linear": ("rewarded_rows", "expected_loss"),
    "rewarded rows, boosted trees": ("rewarded_rows_trees", "expected_loss"),
    "importance-weighted rows, linear": ("importance_weighted", "expected_loss"),
    "importance-weighted rows, boosted trees": ("importance_weighted_trees", "expected_loss"),
    "believed everywhere": ("kl_dro_dr_plain", "expected_loss"),
    "with support": ("kl_dro_dr", "expected_loss"),
    "and a feature map": ("kl_dro_dr_map", "expected_loss"),
}


def errors(data: str, suffix: str, algorithm: str, metric: str = "expected_loss") -> pd.Series:
    """Return errors in %, by seed."""
    return 100 * losses(f"single_choice{suffix}", data, algorithm, metric=metric)


def mean_error(data: str, suffix: str, algorithm: str, metric: str = "expected_loss") -> float:
    return round(errors(data, suffix, algorithm, metric).mean(), 1)


@pytest.mark.parametrize("label", ROWS)
def test_table_of_errors(label):
    cells = table_row(PAGE, "One action of K, where the old policy is sharp", label)
    printed = [[float(number) for number in cell.split(" · ")] for cell in cells]
    assert printed == [
        [mean_error(data, f"{clicks}{suffix}", *ROWS[label]) for suffix in SUFFIXES]
        for clicks in ("", "_clicks")
        for data in SETS
    ]


def trees_behind(data: str, clicks: str) -> list[float]:
    """Return by how much the better boosted trees are behind the policy with a map, for each η."""
    gaps = []
    for suffix in SUFFIXES:
        trees = min(errors(data, f"{clicks}{suffix}", f"{name}_trees").mean() for name in BASELINES)
        gaps.append(trees - errors(data, f"{clicks}{suffix}", "kl_dro_dr_map").mean())
    return gaps


def test_sentences_on_supervision_and_support():
    check_claims(
        PAGE,
        {
            "sees all labels has # on satimage, # on pendigits and # on letter": [
                mean_error(data, "", "skyline", "greedy_loss") for data in SETS
            ],
            "over # seeds, on letter #, chosen by DR bound": [
                len(errors(data, "", "cips")) for data in ("satimage", "letter")
            ],
            "at η = 4 KL-DRO with DR ends at # on pendigits and # on satimage. .{,60} it ends at # and #": [
                mean_error(data, "_sharp", name)
                for name in ("kl_dro_dr_plain", "kl_dro_dr")
                for data in ("pendigits", "satimage")
            ],
        },
    )


def test_sentences_on_settings_above_the_logging_policy():
    settings = [(d, f"{c}{s}") for d in (*SETS, "digits_single") for c in ("", "_clicks") for s in SUFFIXES]
    above = {}
    for name in ("kl_dro_dr", "kl_dro_dr_map"):
        for data, suffix in settings:
            pair = errors(data, suffix, name).mean(), errors(data, suffix, "logging", "greedy_loss").mean()
            if pair[0] >= pair[1]:
                above[name, data, suffix] = rounded(pair, 1)
    soft = [(data, "_clicks_soft") for data in ("letter", "digits_single")]
    assert set(above) == {("kl_dro_dr", *setting) for setting in soft}
    pairs = [number for setting in soft for number in above["kl_dro_dr", *setting]]
    counts = [len(settings) - len(above), len(settings)]
    drawn = [mean_error(*setting, "logging") for setting in soft]
    check_claims(
        PAGE,
        {
            "in # of the # settings .{,140} η = ¼ on letter, # and #, and on digits, # and #": [*counts, *pairs],
            "draws its actions and has # and # there": drawn,
        },
    )


def test_sentences_on_boosted_trees():
    ahead = [end for data in ("satimage", "letter") for end in ends(-gap for gap in trees_behind(data, ""))]
    clicked = [end for data in SETS for end in ends(trees_behind(data, "_clicks"))]
    digits = rounded(trees_behind("digits_single", "_clicks"), 1)
    check_claims(
        PAGE,
        {
            "`kl_dro_dr_map` on satimage, by # to # points, and on letter, by # to #, and behind it on pendigits, by "
            "# to #": [*ahead, *ends(trees_behind("pendigits", ""))],
            "boosted trees at every η, by # to # points on satimage, # to # on pendigits and # to # on letter": clicked,
            "On digits it is # above them at η = 1": [-digits[1]],
        },
    )
    assert min(digits[0], digits[2]) > 0


def test_sentence_on_clipped_importance_weighting():
    settings = [(data, f"_clicks{suffix}") for data in SETS for suffix in ("", "_sharp")]
    gaps = {setting: errors(*setting, "kl_dro_dr") - errors(*setting, "cips") for setting in settings}
    level = gaps.pop(("satimage", "_clicks"))
    below = [number for gap in gaps.values() for number in mean_and_error(-gap, 2)]
    sentence = (
        r"level with it at η = 1 \(# ± #\), and # ± # below at η = 4.{,4}On pendigits it is # ± # and # ± # below"
    )
    check_claims(PAGE, {f"{sentence}, on letter # ± # and # ± #": [*mean_and_error(level, 2), *below]})
    assert is_level(level)
    assert all(p_below(gap) < 0.05 for gap in gaps.values())
    for setting in settings:
        for name in BASELINES:
            assert p_below(errors(*setting, "kl_dro_dr") - errors(*setting, name)) < 0.05
