"""Numbers on the pages about the paper's findings and theory, on certificates and on kinds of actions."""

import re

import numpy as np
import pandas as pd
import pytest
from fixtures.page_numbers import (
    PAPER,
    ROOT,
    SCENE_AND_YEAST,
    SETS,
    check_claims,
    mean_and_error,
    means_and_errors,
    numbers,
    p_below,
    page_text,
    rounded,
)
from lemma_figures import TAILS
from pages.published import gain, losses, metrics, share_closed, study
from scipy import stats

from drcrm.certificates import upper_bound

FINDINGS, DIFFERENCES, THEORY = (f"docs/paper/{name}.md" for name in ("findings", "differences", "theory"))
PRINTED_LOSSES = ROOT / "src/drcrm/paper/reports/data/paper_tables.csv"


def difference(
    algorithm: str, data: str, count: int = 4, selection="clipped_snips", reference="poem", metric="expected_loss"
) -> pd.Series:
    first, second = (losses("sample", data, name, selection, metric, count) for name in (algorithm, reference))
    return first - second


def test_table_of_claims():
    """Columns: the paper's numbers, ours."""
    reproduced = [losses("reference_code", data, "akl_crm", "snips") for data in SCENE_AND_YEAST]
    rows = {
        r"aKL-CRM on Scene, Yeast \| [^|]+ \| # ± #, # ± # ": reproduced,
        r"Scene, RCV1, TMC \| [^|]+ \| # ± #, # ± #, # ± # ": [difference("akl_crm", SETS[i]) for i in (0, 2, 3)],
        r"Scene, Yeast, RCV1, TMC \| [^|]+ \| # ± #, # ± #, # ± #, # ± # ": [
            difference("akl_crm", data, reference="kl_crm") for data in SETS
        ],
        r"figure only \| # ± #, # ± # ": [difference("akl_crm", data, 1) for data in SCENE_AND_YEAST],
    }
    for pattern, values in rows.items():
        assert numbers(FINDINGS, pattern) == pytest.approx(means_and_errors(*values), abs=6e-4), pattern
    closed = [share_closed(data, name) for name in ("kl_dro_dr", "dr") for data in SCENE_AND_YEAST]
    check_claims(FINDINGS, {"#, # %; without ball #, # %": closed})


def test_summary_counts_the_verdicts_below():
    verdicts = re.findall(r"\d+\. \*\*([^*]+)\.\*\*", page_text(FINDINGS))
    counts = [verdicts.count(verdict) for verdict in ("Holds", "Partly", "Does not hold", "Open")]
    check_claims(FINDINGS, {r"Of \[# claims\][^,]+, # hold, # hold partly, # do not hold and # is open": [18, *counts]})
    assert len(verdicts) == sum(counts)


def test_losses_that_agree_with_the_printed_tables():
    """The protocol of the public code selects by SNIPS, that of the paper's text by IPS."""
    printed = pd.read_csv(PRINTED_LOSSES).query("dataset in @SCENE_AND_YEAST")

    def disagreeing(experiment: str, selection: str) -> list[tuple]:
        cells = {
            (row.dataset, row.algorithm, row.metric): (
                losses(experiment, row.dataset, row.algorithm, selection, row.metric),
                row.value,
            )
            for row in printed.itertuples()
        }
        return [key for key, (cell, value) in cells.items() if abs(cell.mean() - value) > 2 * cell.sem()]

    def agreeing(experiment: str, selection: str) -> int:
        return len(printed) - len(disagreeing(experiment, selection))

    others = [("yeast", "poem", "greedy_loss"), *((data, "skyline", "expected_loss") for data in SCENE_AND_YEAST)]
    assert sorted(disagreeing("reference_code", "snips")) == sorted(others)
    in_text = agreeing("paper_text", "ips")
    claims = {
        "# of the # losses printed for Scene": [agreeing("reference_code", "snips"), len(printed)],
        "text, only # are": [in_text],
        "# of # cells agree": [in_text, len(printed)],
        "Of # cells, # are more than two": [len(printed), len(others)],
        "Claim 1 is about # losses": [len(printed)],
        "# of them are within two standard errors if IPS selects, and # if SNIPS": [
            agreeing("sample", by) for by in ("ips", "snips")
        ],
    }
    check_claims(FINDINGS, claims)


def test_logging_policy_beats_all_algorithms_in_greedy_loss_on_three_sets():
    leads = {
        data: [difference(name, data, reference="logging", metric="greedy_loss") for name in PAPER] for data in SETS
    }
    smallest = {data: min(values, key=lambda lead: lead.mean()) for data, values in leads.items()}
    pattern = r"by at least # ± # on Scene, # ± # on Yeast and # ± # on TMC2007-500"
    check_claims(FINDINGS, {pattern: means_and_errors(*(smallest[SETS[i]] for i in (0, 1, 3)))})
    assert all(p_below(-smallest[SETS[i]]) < 0.001 for i in (0, 1, 3))
    assert all(p_below(lead) < 0.001 for lead in leads["rcv1_subset"])


def test_akl_crm_is_behind_poem_by_the_stated_margins():
    pattern = r"POEM's on Scene at Δ = # \(# ± #\) and # \(# ± #\) and on Yeast at #, # and # \(# ± #, # ± #, # ± #\)"
    stated = numbers(DIFFERENCES, pattern)
    claims = [("scene", *stated[:3]), ("scene", *stated[3:6])]
    claims += [("yeast", stated[6 + k], *stated[9 + 2 * k : 11 + 2 * k]) for k in range(3)]
    for data, count, mean, error in claims:
        values = difference("akl_crm", data, int(count))
        assert (values.mean(), values.sem()) == pytest.approx((mean, error), abs=5e-4)
        assert p_below(-values) < 0.05


def test_kl_crm_is_weakly_ahead_on_scene():
    p = [p_below(difference("kl_crm", "scene", selection=by)) for by in ("clipped_snips", "snips", "ips")]
    assert rounded(p, 3)[:2] + rounded(p[2:], 2) == numbers(FINDINGS, "p = # by clipped SNIPS, # by SNIPS and # by IPS")


def test_poem_with_a_finer_grid():
    pairs = [
        (losses("poem_grid", data, "poem_fine", "clipped_snips"), losses("sample", data, "akl_crm", "clipped_snips"))
        for data in SETS[2:]
    ]
    values = [(akl_crm - poem).dropna() for poem, akl_crm in pairs]
    pattern = r"aKL-CRM minus POEM is then # ± # on the RCV1 subset and # ± # on TMC2007-500"
    check_claims(FINDINGS, {pattern: means_and_errors(*values)})


def test_sentences_on_the_ball():
    gains = [gain(data, "kl_dro_dr", "dr") for data in SCENE_AND_YEAST]
    before = gain("yeast", "kl_dro_dr", "dr", "divergences")
    check_claims(
        FINDINGS,
        {
            r"raises the loss by # ± # on Scene and lowers it by # ± # on Yeast": means_and_errors(-gains[0], gains[1]),
            "the ball lowered the loss on Yeast by # ± #": mean_and_error(before),
        },
    )


def test_sentences_on_certificates():
    rows = metrics("certified").query("selection == 'dr_bound' and algorithm not in ('logging', 'skyline')")
    holds, is_yeast = rows["bound"] >= rows["expected_loss"], rows["dataset"] == "yeast"
    missed = rows[is_yeast & ~holds]
    check_claims(
        "docs/user-guide/certificate-coverage.md",
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
    assert list(breaking) == pytest.approx(numbers(THEORY, "reaches 0: #, # and # for the light"), rel=0.025)
    rows_needed = np.ceil(stats.chi2.ppf(0.95, 1) / breaking)
    assert list(rows_needed) == numbers(THEORY, "below this limit from n = #, # and # rows on")


def test_printed_radius_of_lemma_1_covers_up_to_the_stated_curvature():
    """It covers 1 − δ in the limit while Φ(√(2 χ²/φ''(1))) does."""
    [most] = numbers(THEORY, "# at δ = 0.05, and less for smaller δ")
    limit = lambda curvature, delta: stats.norm.cdf(np.sqrt(2 * stats.chi2.ppf(1 - delta, 1) / curvature))  # noqa: E731
    assert limit(most, 0.05) == pytest.approx(0.95, abs=5e-4)
    assert all(limit(2, delta) >= 1 - delta for delta in (0.5, 0.05, 1e-3, 1e-9))
    assert limit(2.2, 1e-9) < 1 - 1e-9
    check_claims(THEORY, {"limit at δ = 0.05 is # in place of": [round(limit(8, 0.05), 3)]})


def test_each_kind_of_action_comes_nearer_to_the_best_policy():
    means = study("kinds").pivot(index="n", columns=["algorithm", "kind"], values="mean")
    ratios = (means.iloc[0] / means.iloc[-1])["doubly_robust_dro"][["label_vectors", "single_choice", "action_lists"]]
    page = "docs/user-guide/choosing-an-algorithm.md"
    check_claims(
        page, {"by a factor of # for label vectors, # for one action of K, and # for lists": list(ratios.round())}
    )
    assert list(means.index[[0, -1]]) == [100, 31_623]


def test_what_akl_crm_adds_at_the_radius_of_lemma_1():
    pattern = "aKL-CRM adds # % less .{,50}light tail, # % less with a tail downwards, and # % more with a tail upwards"
    rows = pd.read_csv(ROOT / "docs/results/theory_lemma5_digits.csv.gz")
    expected = []
    for tail, sign in [("light", -1), ("left", -1), ("right", 1)]:
        part = rows[rows["tail"] == tail].sort_values("radius")
        added = np.interp(np.log(part["calibrated"].iloc[0]), np.log(part["radius"]), part["premium"])
        expected.append(round(100 * sign * (added - 1)))
    assert numbers("docs/paper/theory.md", pattern) == expected


def test_how_often_bounds_are_ever_false():
    page = "docs/user-guide/every-look.md"
    rows = pd.read_csv(ROOT / "docs/results/theory_anytime_digits.csv.gz")
    last = rows[rows["n"] == rows["n"].max()].set_index(["method", "tail"])["false"]
    student = 100 * last["student"]
    stated = numbers(page, "with # looks at samples growing to # rows, Student's bound .{,30} in # to # % of # samples")
    assert stated == [rows["n"].nunique(), rows["n"].max(), round(student.min()), round(student.max()), 500]
    assert numbers(page, "is false at any look in at most # %") == [round(100 * last["anytime"].max(), 1)]
    assert (rows[rows["method"] == "anytime"].groupby("tail")["low"].max() < 0.05).all()
    table = pd.read_csv(ROOT / "docs/results/anytime.csv").set_index(["kind", "estimate"])
    ratios = {n: table[f"width {n}"] / table[f"ball {n}"] for n in (400, 1000, 3200)}
    assert {(n, *cell) for n, ratio in ratios.items() for cell in ratio.index[ratio > 1]} == {
        (400, "revenue", "ips"),
        (400, "heavy weights", "ips"),
        (400, "groups", "ips, paired"),
        (1000, "heavy weights", "dr, paired"),
    }
    largest = max(ratio.max() for ratio in ratios.values())
    assert numbers(page, "wider than the ball in four cells, by at most # %") == [round(100 * largest - 100)]
    wider = [
        upper_bound([-1.0, 1.0] * (n // 2), method="confidence_sequence")
        / upper_bound([-1.0, 1.0] * (n // 2), method="student")
        for n in (400, 1000, 3200)
    ]
    assert numbers(page, "From 400 to 3200 rows, it is # to # times") == [round(min(wider), 1), round(max(wider), 1)]
