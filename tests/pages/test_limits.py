"""Numbers on docs/paper/limits.md, one action of K, come from docs/results."""

import pandas as pd
from page_numbers import check_claims, ends, is_level, means_and_errors, p_below, rounded
from pages.learner_tables import SCORES, TREES, score_errors
from pages.published import losses

PAGE = "docs/paper/limits.md"
SUFFIXES = ("_soft", "", "_sharp")  # η = ¼, 1, 4
SETS = ("satimage", "pendigits", "letter")
BASELINES = ("rewarded_rows", "importance_weighted")


def errors(data: str, suffix: str, algorithm: str, metric: str = "expected_loss") -> pd.Series:
    """Return errors in %, by seed."""
    return 100 * losses(f"single_choice{suffix}", data, algorithm, metric=metric)


def mean_error(data: str, suffix: str, algorithm: str, metric: str = "expected_loss") -> float:
    return round(errors(data, suffix, algorithm, metric).mean(), 1)


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
            "actions of full supervision have errors of #, # and #": [
                mean_error(data, "", "skyline", "greedy_loss") for data in SETS
            ],
            "over # seeds, on letter #": [len(errors(data, "", "cips")) for data in ("satimage", "letter")],
            "`kl_dro_dr_plain` ends at # on pendigits and # on satimage. .{,60} the errors are # and #": [
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
    check_claims(
        PAGE,
        {
            r"in # of # settings .{,120} letter \(# against #\) and digits \(# against #\)": [
                *(len(settings) - len(above), len(settings)),
                *(number for setting in soft for number in above["kl_dro_dr", *setting]),
            ],
            "drawn from π0 have errors of # and #": [mean_error(*setting, "logging") for setting in soft],
        },
    )


def test_sentences_on_boosted_trees():
    digits = rounded(trees_behind("digits_single", "_clicks"), 1)
    check_claims(
        PAGE,
        {
            "beats `kl_dro_dr_map` on satimage by # to # points and on letter by # to #. On pendigits it loses by "
            "# to #": [
                *(end for data in ("satimage", "letter") for end in ends(-gap for gap in trees_behind(data, ""))),
                *ends(trees_behind("pendigits", "")),
            ],
            "boosted trees at every η, by # to # points on satimage, # to # on pendigits and # to # on letter": [
                end for data in SETS for end in ends(trees_behind(data, "_clicks"))
            ],
            "On digits it wins at η = ¼ and 4, and loses by # at η = 1": [-digits[1]],
        },
    )
    assert min(digits[0], digits[2]) > 0


def test_sentences_on_learned_scores():
    errors = score_errors()
    means = errors.groupby(["algorithm", "clicks", "seed"])["error"].mean().unstack("seed")
    ratios = {}
    for clicks in (False, True):
        of = means.xs(clicks, level="clicks")
        best = of.loc[[*TREES.values(), "dm_trees"]].mean(axis=1).idxmin()
        ratios[clicks] = [of.loc[SCORES].mean() / of.loc[best].mean(), *(of.loc[SCORES] / of.loc[best])]
        drawn = of.drop(index=["skyline", *TREES.values(), *BASELINES])
        assert clicks or drawn.mean(axis=1).idxmin() == "kl_dro_dr_map"
    claims = {
        r"`kl_dro_dr_scores` is # times that of the best trees \(in seeds 0 to 2: #, # and #\)": ratios[True],
        r"Its mean error is # times that of the best trees \(#, # and #\)": ratios[False],
    }
    check_claims(PAGE, {sentence: [round(ratio, 2) for ratio in stated] for sentence, stated in claims.items()})
    assert set(errors["seed"]) == {0, 1, 2}
    letter = score_errors(letter=True).groupby(["algorithm", "clicks"])["error"].mean().unstack("clicks")
    best = letter.loc[[*TREES.values(), "dm_trees"]].min()
    sentence = r"of `kl_dro_dr_scores` is # % \(best trees: # %\), and # % with clicks \(# %\)"
    stated = [end for clicks in (False, True) for end in (letter.loc[SCORES, clicks], best[clicks])]
    check_claims(PAGE, {sentence: [round(value, 1) for value in stated]})


def test_sentence_on_clipped_importance_weighting():
    settings = [(data, f"_clicks{suffix}") for data in SETS for suffix in ("", "_sharp")]
    gaps = [errors(*setting, "kl_dro_dr") - errors(*setting, "cips") for setting in settings]
    level, *below = gaps
    sentence = (
        r"level at η = 1 \(# ± # better\) and # ± # better at η = 4\. "
        "It is # ± # and # ± # better on pendigits, and # ± # and # ± # on letter"
    )
    stated = means_and_errors(*(-gap for gap in gaps), digits=2)
    check_claims(PAGE, {sentence: stated})
    assert is_level(level)
    assert all(p_below(gap) < 0.05 for gap in below)
    for setting in settings:
        for name in BASELINES:
            assert p_below(errors(*setting, "kl_dro_dr") - errors(*setting, name)) < 0.05
