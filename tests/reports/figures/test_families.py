"""The page of experiments that differ in how sharp π0 is and in what is clicked."""

from __future__ import annotations

from dataclasses import replace

import matplotlib
import numpy as np
import pandas as pd
import pytest

from drcrm.reports.figures.families import Family, loss_against_sharpness, loss_by_sharpness, page, table
from drcrm.reports.figures.style import RC, Names
from drcrm.reports.tables.documents import Experiment
from drcrm.reports.tables.plan import Plan
from drcrm.reports.tables.result_tables import all_tables

SHARPNESS, CLICKS = (0.25, 1, 4), ((1, 0), (0.7, 0.2))
ERRORS = {  # in %, at η of 0.25, 1 and 4: on satimage; the other sets have 0.4, 2 times as much
    "logging": (55, 25, 16),
    "cips": (12.6, 12.9, 13.8),
    "kl_dro": (12.5, 12.7, 13.4),
    "snips": (11.9, 12.0, 14.9),
    "dm": (11.8, 12.4, 33.0),
    "dr": (11.7, 12.1, 29.0),
    "kl_dro_dr": (11.6, 11.9, 27.0),
    "importance_weighted": (12.6, 12.3, 13.2),
    "importance_weighted_trees": (7.6, 8.7, 10.4),
    "skyline": (12, 12, 12),
}
SETS = {"digits": 0.8, "pendigits": 0.4, "satimage": 1.0, "letter": 2.0}
CLASSIFIERS = ("importance_weighted", "importance_weighted_trees")
SEEDS = {"digits": 20, "pendigits": 20, "satimage": 20, "letter": 5}


def metrics(sharpness: float, clicks: tuple[float, float]) -> pd.DataFrame:
    """Runs about these errors, with noise that most algorithms share; clicks cost half as much again."""
    rng = np.random.default_rng([int(4 * sharpness), int(10 * clicks[0])])
    rows = []
    for dataset, times in SETS.items():
        for seed in range(SEEDS[dataset]):
            shared = rng.normal(scale=0.02)
            for name, errors in ERRORS.items():
                noisy = 1.5 if clicks != (1, 0) and name not in ("logging", "skyline") else 1
                loss = (
                    times * noisy * errors[SHARPNESS.index(sharpness)] / 100 * np.exp(shared + rng.normal(scale=0.01))
                )
                key = {"dataset": dataset, "replay_count": 4, "seed": seed, "algorithm": name, "selection": "dr_bound"}
                learned = name not in ("logging", "skyline", *CLASSIFIERS)
                tuned = 0.01 if name in ("kl_dro", "kl_dro_dr") else None
                said = {"score": loss - 1, "estimate": loss, "bound": 1.1 * loss, "converged": 1} if learned else {}
                rows.append({**key, "expected_loss": loss, "greedy_loss": 0.9 * loss, "hyperparameter": tuned, **said})
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def looks() -> Names:
    styles = {
        "cips": ("CIPS", "#000000", "o"),
        "kl_dro": ("KL-DRO", "#009E73", "P"),
        "snips": ("SNIPS", "#661100", "1"),
        "dm": ("DM", "#6699CC", "2"),
        "dr": ("DR", "#332288", "3"),
        "kl_dro_dr": ("KL-DRO, DR", "#CC3311", "H"),
        "importance_weighted": ("importance-weighted", "#999933", "v"),
        "importance_weighted_trees": ("importance-weighted, trees", "#AA4499", "^"),
    }
    drawn = {name: dict(zip(("label", "colour", "marker"), style, strict=True)) for name, style in styles.items()}
    labels = {"digits": "Digits", "pendigits": "Pendigits", "satimage": "Satimage", "letter": "Letter"}
    return Names(drawn, labels, actions=dict.fromkeys(SETS, "single"))


@pytest.fixture(scope="module")
def family(looks) -> Family:
    """Six experiments of three data sets."""
    protocol = {
        "split_unit": "context",
        "logging_c": 1,
        "absent_label_score": "logged",
        "variance_penalty_scale": "unit",
    }
    plan = Plan(list(SETS), ["dr_bound"], SEEDS, [4], names=looks, protocol=protocol)
    members = []
    for clicks in CLICKS:
        for sharpness in (1, 0.25, 4):
            softer = {0.25: "_soft", 1: "", 4: "_sharp"}[sharpness]
            name = "single_choice" + "_clicks" * (clicks != (1, 0)) + softer
            options = {"datasets": list(SETS), "logging_sharpness": sharpness, "click_rates": list(clicks)}
            tables, rows = all_tables(metrics(sharpness, clicks), plan), {"every run": f"../results/{name}.csv.gz"}
            members.append(Experiment(name, "", options, {"machine": "x86_64"}, plan, tables, rows))
    drawn = [name for name in ERRORS if name not in ("logging", "skyline")]
    return Family("single_choice", "One action of K.", members, drawn, "../figures/single_choice.png")


def test_a_table_has_an_experiment_a_column_in_percent_and_its_best_in_bold(family):
    text = table(family, "letter", "expected_loss")
    said, header, _, *rows = text.replace("\n\n", "\n").splitlines()
    assert said.startswith(
        "Expected error rate on Letter in %, hyper-parameters chosen by DR bound: mean ± standard error"
    )
    assert "over 5 seeds. Bold: not significantly worse than the best" in said
    plain, noisy = ([f"η = {each}{clicks}" for each in ("0.25", "1", "4")] for clicks in ("", ", clicks"))
    assert header == f"|  | {' | '.join([*plain, *noisy])} |"
    cells = {row.split(" | ")[0].removeprefix("| "): row.removesuffix(" |").split(" | ")[1:] for row in rows}
    assert [*cells][0::9] == ["π0", "full supervision"]
    assert all("**" in cell for cell in cells["importance-weighted, trees"])
    assert sum("**" in cell for row in cells.values() for cell in row) == 6
    for column, (clicks, sharpness) in enumerate((clicks, sharpness) for clicks in CLICKS for sharpness in SHARPNESS):
        of = metrics(sharpness, clicks).query("dataset == 'letter' and algorithm == 'dm'")["expected_loss"]
        assert cells["DM"][column] == f"{100 * of.mean():.2f} ± {100 * of.sem():.2f}"


def test_what_is_drawn_is_what_the_tables_have(family):
    frame = loss_by_sharpness(family).set_index(["dataset", "clicks", "sharpness", "algorithm", "loss"])
    assert len(frame) == len(SETS) * 6 * (len(family.drawn) + 3)
    of = metrics(4, (0.7, 0.2)).query("dataset == 'satimage'").set_index("algorithm")
    at = ("satimage", (0.7, 0.2), 4)
    assert frame["mean"][*at, "dr", "expected_loss"] == pytest.approx(100 * of.loc["dr", "expected_loss"].mean())
    for loss in ("expected_loss", "greedy_loss"):
        assert frame["mean"][*at, "skyline", loss] == pytest.approx(100 * of.loc["skyline", loss].mean())


def test_the_figure_has_a_panel_for_each_data_set_and_kind_of_reward(family, tmp_path):
    with matplotlib.rc_context(RC):
        figure = loss_against_sharpness(family)
        figure.savefig(tmp_path / "figure.png")
    assert [axes.get_title() for axes in figure.axes] == ["Digits", "Pendigits", "Satimage", "Letter", *[""] * 4]
    assert {len(axes.containers) for axes in figure.axes} == {len(family.drawn)}
    listed = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(listed) == 11
    assert listed[-3:] == ["π0", "full supervision", "full supervision, greedy"]
    one = replace(family, members=family.members[:1], drawn=["cips", "gone"])
    [*panels] = loss_against_sharpness(one).axes
    assert len(panels) == len(SETS)


def test_the_page_says_what_the_experiments_differ_in_and_how_many_seeds_there_are(family):
    text = page(family)
    assert text.startswith("# single_choice\n\nOne action of K.\n\n## What was run\n\n```yaml\nsingle_choice:\n")
    assert "| `single_choice_clicks_sharp` | logging_sharpness: 4, click_rates: [0.7, 0.2] | [every run](" in text
    assert text.count("- machine: x86_64") == 1
    assert "Points are means over 20 seeds (Letter 5) with 95 % intervals" in text
    assert "with probability 0.7 for the right action, 0.2 for another." in text
    assert "a logistic regression that sees the right actions (black)" in text
    assert "Hamming" not in text
    assert "CRF" not in text
    assert text.count("| full supervision |") == 2 * len(SETS)


def test_losses_of_label_vectors_are_not_in_percent(family, looks):
    """A family of both kinds says which are."""
    mixed = replace(looks, actions={**dict.fromkeys(SETS, "single"), "letter": "labels"})
    members = [replace(each, plan=replace(each.plan, names=mixed)) for each in family.members]
    both = replace(family, members=members)
    assert both.units == ", error rates in %,"
    text = table(both, "letter", "expected_loss")
    assert text.startswith("Expected Hamming loss on Letter, hyper-parameters")
    of = metrics(1, (1, 0)).query("dataset == 'letter' and algorithm == 'dm'")["expected_loss"]
    assert f"| {of.mean():.3f} ± {of.sem():.3f} |" in text
    frame = loss_by_sharpness(both).set_index(["dataset", "clicks", "sharpness", "algorithm", "loss"])
    assert frame["mean"]["letter", (1, 0), 1, "dm", "expected_loss"] == pytest.approx(of.mean())
    assert ", error rates in %, against η" in page(both)
