"""Numbers on the pages about the paper's findings, trials, theory, certificates and kinds of actions."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
from page_numbers import (
    OTHERS,
    ROOT,
    SCENE_AND_YEAST,
    check_claims,
    losses,
    mean_and_error,
    metrics,
    numbers,
    p_below,
    rounded,
    share_closed,
    table,
)
from scipy import stats
from statsmodels.stats.multitest import multipletests

from drcrm.reports.figures.style import TAILS

TESTED = ["cips", "kl_dro", "snips", "kl_dro_snips", "dm", "dr", *OTHERS]  # in the ablation, next to kl_dro_dr
TRIALS_ORDER = [*TESTED[:6], "kl_dro_dr", *OTHERS]


def difference_to_poem(algorithm: str, data: str, count: int, selection: str = "clipped_snips") -> pd.Series:
    losses_of, poem = (losses("sample", data, name, selection, count=count) for name in (algorithm, "poem"))
    return losses_of - poem


def test_akl_crm_is_behind_poem_by_the_stated_margins():
    pattern = r"POEM on Scene at Δ = # \(# ± #\) and # \(# ± #\) and on Yeast at #, # and # \(# ± #, # ± #, # ± #\)"
    stated = numbers("docs/paper/findings.md", pattern)
    claims = [("scene", *stated[:3]), ("scene", *stated[3:6])]
    claims += [("yeast", stated[6 + k], *stated[9 + 2 * k : 11 + 2 * k]) for k in range(3)]
    for data, count, mean, error in claims:
        values = difference_to_poem("akl_crm", data, int(count))
        assert (values.mean(), values.sem()) == pytest.approx((mean, error), abs=5e-4)
        assert p_below(-values) < 0.05


def test_kl_crm_is_weakly_ahead_on_scene():
    p = [p_below(difference_to_poem("kl_crm", "scene", 4, by)) for by in ("clipped_snips", "snips", "ips")]
    stated = numbers("docs/paper/findings.md", r"p = # before any adjustment; by SNIPS p = #, by IPS # \|")
    assert p == pytest.approx(stated, abs=5e-3)
    assert p[0] == pytest.approx(stated[0], abs=5e-4)


def test_sentences_on_the_ball():
    closed = lambda name: [round(share_closed(data, name)) for data in SCENE_AND_YEAST]  # noqa: E731
    gains = [losses("beyond", data, "dr") - losses("beyond", data, "kl_dro_dr") for data in SCENE_AND_YEAST]
    before = losses("divergences", "yeast", "dr") - losses("divergences", "yeast", "kl_dro_dr")
    check_claims(
        "docs/paper/findings.md",
        {
            "without a ball, closes # and # % .{,70} the cost model alone # and # %": [*closed("dr"), *closed("dm")],
            "with it # and # % are closed. Before": closed("kl_dro_dr"),
            "adds nothing to the doubly robust mean there, # ± # and # ± #": [
                number for gain in gains for number in mean_and_error(gain)
            ],
            "Before context effects it gained # ± # on Yeast": mean_and_error(before),
        },
    )


@cache
def starts_of(algorithm: str, data: str) -> list[pd.Series]:
    """Return the losses of an algorithm from Θ = 0, from π0 and from the tilted π0; one of these is its usual start."""
    known = set(metrics("beyond")["algorithm"])
    names = [f"{algorithm}_from_{start}" for start in ("zero", "logging", "model")]
    return [losses("beyond", data, name if name in known else algorithm) for name in names]


@pytest.mark.parametrize("algorithm", TRIALS_ORDER)
def test_table_of_the_ablation(algorithm):
    page = (ROOT / "docs/paper/trials.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!as).*? \| (.* / .* / .*) \| (.* / .* / .*) \|$", page, re.M)
    assert len(rows) == len(TRIALS_ORDER)
    for cell, data in zip(rows[TRIALS_ORDER.index(algorithm)], SCENE_AND_YEAST, strict=True):
        expected = rounded((values[:10].mean() for values in starts_of(algorithm, data)), 3)
        assert [float(number) for number in cell.split(" / ")] == expected


def adjusted_p(data: str) -> dict[str, float]:
    """Return Holm's p that `kl_dro_dr` loses less than each competitor from a start other than its usual one."""
    ball, p = losses("beyond", data, "kl_dro_dr"), {}
    for name in metrics("beyond")["algorithm"].unique():
        if "_from_" in name and name.partition("_from_")[0] in TESTED:
            values = losses("beyond", data, name)
            p[name] = p_below(ball[values.index] - values)
    assert len(p) == 24
    adjusted = zip(p, multipletests(list(p.values()), method="holm")[1], strict=True)
    return {name: value for name, value in adjusted if name.partition("_from_")[0] in OTHERS}


def test_sentences_on_the_ablation():
    [most] = numbers("docs/paper/trials.md", "significantly behind `kl_dro_dr` on both: p is at most #")
    assert max(p for data in SCENE_AND_YEAST for p in adjusted_p(data).values()) == pytest.approx(most, abs=5e-5)

    def mean(name: str) -> np.ndarray:
        return np.array([losses("beyond", data, name)[:10].mean() for data in SCENE_AND_YEAST])

    zero, logging, model = (mean(f"kl_dro_dr{start}") for start in ("_from_zero", "_from_logging", ""))
    tilted = [number for name in ("cips_from_model", "snips", "dr") for number in mean(name)]
    check_claims(
        "docs/paper/trials.md",
        {
            "It gains # and # on Scene and Yeast .{,40} and another # and # from the tilted": rounded(
                [*(zero - logging), *(logging - model)], 3
            ),
            "Norm-POEM, comes within # on Scene and # on Yeast": rounded(mean("norm_poem_from_model") - model, 3),
            "From the tilted π0 CIPS has # and # on Scene and Yeast; SNIPS has # and #, DR # and #": rounded(tilted, 2),
        },
    )


def test_sentences_on_certificates():
    rows = metrics("certified").query("selection == 'dr_bound' and algorithm not in ('logging', 'skyline')")
    holds, is_yeast = rows["bound"] >= rows["expected_loss"], rows["dataset"] == "yeast"
    missed = rows[is_yeast & ~holds]
    check_claims(
        "docs/user-guide/certificates.md",
        {
            r"hold in # of # cases\*\*, #": [holds.sum(), len(holds), round(holds.mean(), 3)],
            "On Yeast they hold in # of #": [holds[is_yeast].sum(), is_yeast.sum()],
            "All # misses are in # of the 10 logs": [len(missed), missed["seed"].nunique()],
        },
    )


def test_chi2_ball_equals_the_variance_penalty_up_to_the_stated_radius():
    samples = [pd.read_csv(ROOT / f"docs/results/theory_lemma3_{data}.csv.gz") for data in ("digits", "scene")]
    for rows in samples:
        assert set(rows["tail"]) == set(TAILS)
        assert (rows["dual"] - rows["primal"]).abs().max() <= 1e-13
        before = rows["radius"] < rows["breaking"]
        assert (rows["penalised"] - rows["primal"])[before].abs().max() <= 5.1e-14
        assert (rows["penalised"] > rows["primal"])[~before].all()
    breaking = samples[0].groupby("tail")["breaking"].first()[list(TAILS)]
    stated = numbers("docs/paper/theory.md", r"comes to 0: #, # and # for these samples")
    assert list(breaking) == pytest.approx(stated, rel=0.025)
    rows_needed = np.ceil(stats.chi2.ppf(0.95, 1) / breaking)
    assert list(rows_needed) == numbers("docs/paper/theory.md", "within that end at n = #, # and #. With")


def test_printed_radius_of_lemma_1_covers_up_to_the_stated_curvature():
    """It covers 1 − δ in the limit while Φ(√(2 χ²/φ''(1))) does."""
    [most] = numbers("docs/paper/theory.md", "# at δ = 0.05, less the smaller δ is")
    limit = lambda curvature, delta: stats.norm.cdf(np.sqrt(2 * stats.chi2.ppf(1 - delta, 1) / curvature))  # noqa: E731
    assert limit(most, 0.05) == pytest.approx(0.95, abs=5e-4)
    assert all(limit(2, delta) >= 1 - delta for delta in (0.5, 0.05, 1e-3, 1e-9))
    assert limit(2.2, 1e-9) < 1 - 1e-9
    check_claims("docs/paper/theory.md", {r"its limit at δ = 0.05 is #. At": [round(limit(8, 0.05), 3)]})


def test_each_kind_of_action_comes_nearer_to_the_best_policy():
    means = table("kinds").pivot(index="n", columns=["algorithm", "kind"], values="mean")
    ratios = (means.iloc[0] / means.iloc[-1])["doubly_robust_dro"][["label_vectors", "single_choice", "action_lists"]]
    check_claims(
        "docs/user-guide/kinds.md", {"comes #, # and # times as near to the best policy": list(ratios.round())}
    )
    assert list(means.index[[0, -1]]) == [100, 31_623]
