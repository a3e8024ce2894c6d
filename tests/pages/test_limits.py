"""Numbers on docs/paper/limits.md, one action of K, come from docs/results."""

import numpy as np
import pandas as pd
from page_numbers import check_claims, ends, is_level, means_and_errors, p_below, rounded
from pages.learner_tables import SCORES, TREES, mean_errors, score_errors
from pages.published import losses, study

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


def test_the_number_of_seeds():
    seeds = [len(errors(data, "", "cips")) for data in ("satimage", "letter")]
    check_claims(PAGE, {"over # seeds, on letter #": seeds})


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


def ratio_to_trees(errors: pd.DataFrame, clicks: bool) -> tuple[float, float]:
    """Return the mean error of learned scores over that of the best trees, and its standard error over the seeds."""
    means = mean_errors(errors)[clicks]
    best = means[[*TREES.values(), "dm_trees"]].idxmin()
    ratio = means[SCORES] / means[best]
    of_costs = errors[errors["clicks"] == clicks]
    by_seed = of_costs.groupby(["dataset", "seed", "algorithm"])["error"].mean().unstack("algorithm")
    gaps = (by_seed[SCORES] - ratio * by_seed[best]).groupby("dataset")
    return ratio, float(np.sqrt((gaps.sem() ** 2).sum()) / gaps.ngroups / means[best])


def test_sentences_on_learned_scores():
    errors = score_errors()
    seeds = errors.groupby("dataset")["seed"].nunique()
    sentence = r"is # ± # times that of the best trees with certain rewards, and # ± # times with clicks"
    stated = [end for clicks in (False, True) for end in ratio_to_trees(errors, clicks)]
    check_claims(
        PAGE, {sentence: rounded(stated, 3), r"means of # seeds \(letter: #\)": [seeds["satimage"], seeds["letter"]]}
    )
    assert set(seeds.drop("letter")) == {seeds["satimage"]}
    drawn = mean_errors(errors).drop(index=["skyline", *TREES.values(), *BASELINES])
    assert (drawn.idxmin() == SCORES).all()


def test_sentences_on_few_clicks():
    rows = study("click_logs")
    learned, certified = rows[rows["algorithm"] == "learn"], rows.dropna(subset="certified_loss")
    kept = learned[learned["expected_loss"] == learned["logging"]].groupby(["sharpness", "contexts"]).size()
    soft, sharp = ([int(kept.get((eta, n), 0)) for n in (300, 1000, 3000)] for eta in (1, 4))
    held = 100 * (certified["certified_loss"] >= certified["expected_loss"]).mean()
    cells = learned.groupby(["sharpness", "contexts"]).size()
    check_claims(
        PAGE,
        {
            "draws # logs for each η and size from satimage": [learned["seed"].nunique()],
            "keeps π0 in #, # and # of # logs with 300, 1000 and 3000 rows": [*soft, cells.min()],
            "At η = 4, it keeps π0 in #, # and #:": sharp,
            "In none of the # logs is its result worse": [len(learned)],
            "prefers, # logs gave a 95 % certificate; # % of these": [len(certified), round(held, 1)],
        },
    )
    assert not (learned["expected_loss"] > learned["logging"]).any()


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
