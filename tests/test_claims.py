"""What the documents say in numbers is what the rows in docs/results say."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from drcrm.report.style import TAILS

ROOT = Path(__file__).parents[1]
SETS = ["scene", "yeast", "rcv1_subset", "tmc2007_500"]
MADE = ["made_small", "made_many", "made_sparse"]
PAPERS = ["cips", "poem", "kl_crm", "akl_crm", "akl_crm_sum", "kl_dro", "chi2_dro"]
OTHERS = [
    "norm_poem",
    "log_smoothing",
    "implicit_exploration",
    "exponential_smoothing",
    "log_sum_exp",
    "weighted_likelihood",
]
TESTED = ["cips", "kl_dro", "snips", "kl_dro_snips", "dm", "dr", *OTHERS]  # in the ablation, beside kl_dro_dr
NUMBER = r"([−+]?\d+(?:\.\d+)?)"


@cache
def text(path: str) -> str:
    return " ".join((ROOT / path).read_text(encoding="utf-8").split())


def said(path: str, pattern: str) -> list[float]:
    """The numbers in the one sentence of a document that a pattern finds; # in it stands for a number."""
    [found] = re.findall(pattern.replace("#", NUMBER), text(path))
    return [float(each.replace("−", "-")) for each in ([found] if isinstance(found, str) else found)]


@cache
def rows(experiment: str, count: int = 4) -> pd.DataFrame:
    found = pd.read_csv(ROOT / f"docs/results/{experiment}_metrics.csv.gz")
    return found[found["replay_count"] == count]


def losses(experiment, data, algorithm, selection, metric="expected_loss", count=4) -> pd.Series:
    """The losses of an algorithm by seed."""
    found = rows(experiment, count)
    of = (found["dataset"] == data) & (found["algorithm"] == algorithm) & (found["selection"] == selection)
    return found[of].set_index("seed")[metric].sort_index()


def closed(data, algorithm, metric="expected_loss", experiment="beyond", selection="dr_bound", seeds=20) -> float:
    """How much of the way from CIPS to full supervision is closed over the first seeds, in %."""

    def mean(name: str, of: str = "expected_loss") -> float:
        found = losses(experiment, data, name, selection, of)
        assert len(found) >= seeds
        return found.iloc[:seeds].mean()

    return 100 * (mean("cips") - mean(algorithm, metric)) / (mean("cips") - mean("skyline", "greedy_loss"))


def table(path: str, label: str) -> list[float]:
    """The numbers in the row of a table that begins so."""
    [line] = [each for each in (ROOT / path).read_text().splitlines() if each.startswith(f"| {label}")]
    return [float(cell.strip().replace("−", "-")) for cell in line.strip("|").split("|")[1:]]


@pytest.mark.parametrize(
    ("algorithm", "metric", "seeds", "label"),
    [
        ("kl_dro_dr", "expected_loss", 20, "the KL ball on DR, tilted"),
        ("dr", "expected_loss", 20, "without the ball: DR"),
        ("dm", "expected_loss", 20, "the cost model alone: DM"),
        ("kl_dro_dr_from_zero", "expected_loss", 3, "the ball without"),
        ("dr_from_zero", "expected_loss", 3, "neither ball nor start"),
        ("norm_poem_from_model", "expected_loss", 3, "a competitor from the tilted start"),
        ("kl_dro_dr_from_logging", "expected_loss", 3, "the ball from π0 as it is"),
        ("logging", "greedy_loss", 20, "nothing learned"),
    ],
)
def test_what_start_cost_model_and_ball_close(algorithm, metric, seeds, label):
    found = [round(closed(data, algorithm, metric, seeds=seeds)) for data in SETS]
    assert table("docs/beyond.md", label) == found


def test_the_headlines():
    ball = [closed(data, "kl_dro_dr") for data in SETS]
    without = [closed(data, name) for data in SETS for name in ("dr", "dm")]
    unstarted = [closed(data, "kl_dro_dr_from_zero", seeds=3) for data in SETS]
    stated = [round(each) for found in (ball, without, unstarted) for each in (min(found), max(found))]
    parts = "With both and no ball # to # % are closed already. The ball from Θ = 0 closes # to # %"
    assert said("README.md", "closes # to # % of the way from clipped") + said("docs/beyond.md", parts) == stated
    assert said("docs/beyond.md", "closes # to # % of the way from CIPS to full supervision on the four") == stated[:2]
    unlearned = [round(closed(data, "logging", "greedy_loss")) for data in ("yeast", "tmc2007_500")]
    assert said("README.md", "On Yeast and TMC2007-500 they close # and # %") == unlearned
    best = lambda names: [max(closed(data, name) for name in names) for data in SETS]  # noqa: E731
    papers, others = best(["poem", "akl_crm", "kl_dro"]), best(OTHERS)
    weighted = "on importance weights closes # to # % of the four, the best of other people's algorithms # to # %"
    assert said("docs/beyond.md", weighted) == [
        round(each) for found in (papers, others) for each in (min(found), max(found))
    ]
    gained = [closed(data, "kl_dro_dr") - closed(data, "dr") for data in SETS]
    for page, words in [("README.md", "The ball itself adds"), ("docs/beyond.md", r"\*\*The ball adds")]:
        assert said(page, f"{words} # points on Yeast and # on TMC") == [round(gained[1]), round(gained[3])]
    assert max(gained[0], gained[2]) < 0.5
    of_dr = [closed(data, "dr") for data in SETS]
    assert said("docs/findings.md", "without a ball, closes # to # %") == [round(min(of_dr)), round(max(of_dr))]
    by_snips = [closed(data, "kl_dro_dr", selection="clipped_snips") for data in SETS]
    assert said("docs/beyond.md", "by clipped SNIPS it closes #, #, # and # %") == [round(each) for each in by_snips]


def test_one_action_of_many():
    def errors(name: str, *suffixes: str) -> list[float]:
        """Of pendigits and satimage, in %, of the experiments one after the other."""
        return [
            round(100 * losses(f"single_choice{suffix}", data, name, "dr_bound").mean(), 1)
            for suffix in suffixes
            for data in ("pendigits", "satimage")
        ]

    page = "docs/limits.md"
    ball, without, cips = (errors(name, "_sharp") for name in ("kl_dro_dr", "logging", "cips"))
    sharp = (
        "KL-DRO with DR ends at # on pendigits, where π0 has #, and at # on satimage, where π0 has #. "
        "CIPS ends at # and #"
    )
    assert said(page, sharp) == [ball[0], without[0], ball[1], without[1], *cips]
    soft = "at η = ¼ KL-DRO with DR has # on pendigits and # on satimage, CIPS # and #"
    assert said(page, soft) == [*errors("kl_dro_dr", "_soft"), *errors("cips", "_soft")]
    trees = np.reshape(errors("importance_weighted_trees", "_soft", "", "_sharp"), (3, 2))
    every = "are best on pendigits, # to #, and on satimage, # to #"
    assert said(page, every) == [end for of in trees.T for end in (of.min(), of.max())]
    names = ("importance_weighted_trees", "importance_weighted", "logging", "kl_dro_dr")
    clicks = (
        "the same trees end at # on pendigits and # on satimage, their linear kin at # and #, as π0 at # and #. "
        "KL-DRO with DR has # and #"
    )
    assert said(page, clicks) == [each for name in names for each in errors(name, "_clicks_soft")]


def test_the_made_sets():
    close = lambda name, by="dr_bound", metric="expected_loss": [  # noqa: E731
        closed(data, name, metric, "made", by, 10) for data in MADE
    ]
    best = np.max([close(name) for name in OTHERS], axis=0)
    stated = said(
        "docs/beyond.md",
        "`kl_dro_dr` closes #, # and # % .{,60} the best competitor closes #, # and # %, and π0's most probable "
        "actions #, # and # %. By clipped SNIPS it closes #, # and # %",
    )
    found = [*close("kl_dro_dr"), *best, *close("logging", metric="greedy_loss"), *close("kl_dro_dr", "clipped_snips")]
    assert stated == [round(each) for each in found]
    ends = [round(each) for each in (min(close("kl_dro_dr")), max(close("kl_dro_dr")))]
    assert said("README.md", "and # to # % on three made ones") == ends
    assert said("docs/beyond.md", "On three made sets it closes # to # %") == ends


def test_the_most_probable_actions_of_the_logging_policy():
    """They lose less than the paper's seven on three sets, and more than the doubly robust ball on all four."""
    greedy = lambda name, data, of, by: losses(of, data, name, by, "greedy_loss").mean()  # noqa: E731
    below = {
        data: all(
            greedy("logging", data, "sample", "clipped_snips") < greedy(name, data, "sample", "clipped_snips")
            for name in PAPERS
        )
        for data in SETS
    }
    assert below == {"scene": True, "yeast": True, "rcv1_subset": False, "tmc2007_500": True}
    for data in SETS:
        assert greedy("kl_dro_dr", data, "beyond", "dr_bound") < greedy("logging", data, "beyond", "dr_bound")


def holm(data: str) -> dict[str, float]:
    """p that `kl_dro_dr` loses less than each competitor from a start not its own, adjusted over all tests of a set."""
    ball = losses("beyond", data, "kl_dro_dr", "dr_bound")
    names = [each for each in rows("beyond")["algorithm"].unique() if each.partition("_from_")[0] in TESTED]
    p = {}
    for name in (each for each in names if "_from_" in each):
        other = losses("beyond", data, name, "dr_bound")
        p[name] = stats.ttest_rel(ball[other.index], other, alternative="less").pvalue
    assert len(p) == 24
    adjusted = dict(zip(p, multipletests(list(p.values()), method="holm")[1], strict=True))
    return {name: each for name, each in adjusted.items() if name.partition("_from_")[0] in OTHERS}


def test_the_adjusted_tests_of_the_ablation():
    found = {data: holm(data) for data in SETS}
    above = {data: {name: p for name, p in each.items() if p >= 0.05} for data, each in found.items()}
    [most] = said("docs/trials.md", r"on the RCV1 subset \(at most #\)")
    assert max(found["rcv1_subset"].values()) == pytest.approx(most, abs=5e-4)
    yeast = said("docs/trials.md", r"On Yeast Norm-POEM is not \(# from π0, # from the tilted π0\)")
    assert list(above["yeast"].values()) == pytest.approx(yeast, abs=5e-4)
    assert list(above["yeast"]) == ["norm_poem_from_logging", "norm_poem_from_model"]
    [each] = said("docs/trials.md", r"log-sum-exp from the tilted π0 \(# each\)")
    assert above["tmc2007_500"] == pytest.approx(
        dict.fromkeys(["norm_poem_from_model", "log_sum_exp_from_model"], each), abs=5e-4
    )
    assert {name.partition("_from_")[0] for name in set(found["scene"]) - set(above["scene"])} == {
        "weighted_likelihood"
    }
    least, most = said("docs/trials.md", r"weighted likelihood alone is \(the others: # to #\)")
    assert (min(above["scene"].values()), max(above["scene"].values())) == pytest.approx((least, most), abs=5e-3)


def test_the_edges_of_the_grids():
    chosen = rows("beyond").query("selection == 'dr_bound'").set_index(["algorithm", "dataset"])["hyperparameter"]
    at = lambda name, edge: [int((chosen[name, data] == edge).sum()) for data in SETS]  # noqa: E731
    assert at("weighted_likelihood", 3.16) == [20, 11, 20, 20]
    assert said(
        "docs/beyond.md", r"chosen in # of 20 seeds on Scene, the RCV1 subset and TMC2007-500 and in # on Yeast"
    ) == [20, 11]
    assert at("log_sum_exp", 1000)[1:] == said("docs/beyond.md", r"chosen in #, # and # of 20 on Yeast")


def difference(algorithm, data, count, selection="clipped_snips") -> pd.Series:
    return losses("sample", data, algorithm, selection, count=count) - losses(
        "sample", data, "poem", selection, count=count
    )


def test_where_akl_crm_is_behind_poem():
    pattern = r"POEM on Scene at Δ = # \(# ± #\) and # \(# ± #\) and on Yeast at #, # and # \(# ± #, # ± #, # ± #\)"
    stated = said("docs/findings.md", pattern)
    scene, yeast = stated[:6], stated[6:]
    claims = [("scene", *scene[:3]), ("scene", *scene[3:])]
    claims += [("yeast", yeast[k], *yeast[3 + 2 * k : 5 + 2 * k]) for k in range(3)]
    for data, count, mean, error in claims:
        found = difference("akl_crm", data, int(count))
        assert (found.mean(), found.sem()) == pytest.approx((mean, error), abs=5e-4)
        assert stats.ttest_1samp(found, 0, alternative="greater").pvalue < 0.05


def test_how_weakly_kl_crm_is_ahead_on_scene():
    p = [
        stats.ttest_1samp(difference("kl_crm", "scene", 4, by), 0, alternative="less").pvalue
        for by in ("clipped_snips", "snips", "ips")
    ]
    stated = said("docs/findings.md", r"p = # before any adjustment; by SNIPS p = #, by IPS # \|")
    assert p == pytest.approx(stated, abs=5e-3)
    assert p[0] == pytest.approx(stated[0], abs=5e-4)


def test_how_often_certificates_hold():
    found = rows("certified").query("selection == 'dr_bound' and algorithm not in ('logging', 'skyline')")
    held = found["bound"] >= found["expected_loss"]
    assert said("docs/certificates.md", r"hold in # of # cases\*\*, #") == [
        held.sum(),
        len(held),
        round(held.mean(), 3),
    ]
    of_yeast = found["dataset"] == "yeast"
    assert said("docs/certificates.md", "On Yeast they hold in # of #") == [held[of_yeast].sum(), of_yeast.sum()]
    missed = found[of_yeast & ~held]
    assert said("docs/certificates.md", "All # misses are in # of the 10 logs") == [
        len(missed),
        missed["seed"].nunique(),
    ]


def test_the_chi2_ball_is_the_variance_penalty_as_far_as_is_said():
    both = [pd.read_csv(ROOT / f"docs/results/theory_lemma3_{data}.csv.gz") for data in ("digits", "scene")]
    for found in both:
        assert set(found["tail"]) == set(TAILS)
        assert (found["dual"] - found["primal"]).abs().max() <= 1e-13
        before = found["radius"] < found["breaking"]
        assert (found["penalised"] - found["primal"])[before].abs().max() <= 5.1e-14
        assert (found["penalised"] > found["primal"])[~before].all()
    breaking = both[0].groupby("tail")["breaking"].first()[list(TAILS)]
    ends = said("docs/theory.md", r"comes to 0: #, # and # for these samples")
    assert list(breaking) == pytest.approx(ends, rel=0.025)
    rows_needed = said("docs/theory.md", "within that end at n = #, # and #. With")
    assert list(np.ceil(stats.chi2.ppf(0.95, 1) / breaking)) == rows_needed


def test_how_near_each_kind_comes_to_the_best_policy():
    found = pd.read_csv(ROOT / "docs/results/kinds.csv")
    means = found.pivot(index="n", columns=["algorithm", "kind"], values="mean")
    nearer = (means.iloc[0] / means.iloc[-1])["doubly_robust_dro"][["label_vectors", "single_choice", "action_lists"]]
    assert list(nearer.round()) == said("docs/kinds.md", "comes #, # and # times as near to the best policy")
    assert list(means.index[[0, -1]]) == [100, 31_623]


def test_the_curvature_that_lemma_1_bears():
    """The printed radius covers 1 − δ in the limit while Φ(√(2 χ²/φ''(1))) does."""
    [most] = said("docs/theory.md", "# at δ = 0.05, less the smaller δ is")
    limit = lambda curvature, delta: stats.norm.cdf(np.sqrt(2 * stats.chi2.ppf(1 - delta, 1) / curvature))  # noqa: E731
    assert limit(most, 0.05) == pytest.approx(0.95, abs=5e-4)
    assert all(limit(2, delta) >= 1 - delta for delta in (0.5, 0.05, 1e-3, 1e-9))
    assert limit(2.2, 1e-9) < 1 - 1e-9
    assert round(limit(8, 0.05), 3) == said("docs/theory.md", "its limit at δ = 0.05 is #. At")[0]
