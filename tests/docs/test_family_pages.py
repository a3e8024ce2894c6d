"""Page and figure of experiments that differ in the sharpness of π0 and in the click rates."""

import numpy as np
import pandas as pd
import pytest
from pages.experiment_pages import Experiment
from pages.family_pages import Family, format_table

from drcrm.paper.reports.plan import Names, Plan
from drcrm.paper.reports.result_tables import all_tables

SHARPNESS, CLICKS = (0.25, 1, 4), ((1, 0), (0.7, 0.2))
ERRORS = {  # in %, for η = 0.25, 1 and 4, on Satimage; errors on Letter are twice as large
    "logging": (55, 25, 16),
    "cips": (12.6, 12.9, 13.8),
    "dm": (11.8, 12.4, 33.0),
    "importance_weighted_trees": (7.6, 8.7, 10.4),
    "skyline": (12, 12, 12),
}
SETS = {"satimage": 1.0, "letter": 2.0}
SEEDS = {"satimage": 6, "letter": 5}
DRAWN = ["cips", "dm", "importance_weighted_trees"]


def metrics(sharpness: float, clicks: tuple[float, float]) -> pd.DataFrame:
    """Runs with these errors and noise that most algorithms share; with clicks, errors are half as large again."""
    rng = np.random.default_rng([int(4 * sharpness), int(10 * clicks[0])])
    rows = []
    for dataset, factor in SETS.items():
        for seed in range(SEEDS[dataset]):
            shared = rng.normal(scale=0.02)
            for name, errors in ERRORS.items():
                noise = np.exp(shared + rng.normal(scale=0.01)) * (1.5 if clicks != (1, 0) and name in DRAWN else 1)
                loss = factor * noise * errors[SHARPNESS.index(sharpness)] / 100
                key = {"dataset": dataset, "replay_count": 4, "seed": seed, "algorithm": name, "selection": "dr_bound"}
                rows.append({**key, "expected_loss": loss, "greedy_loss": 0.9 * loss, "hyperparameter": None})
    return pd.DataFrame(rows).assign(converged=1.0, score=0.0, bound=1.0)


@pytest.fixture(scope="module")
def family() -> Family:
    """Six experiments on two data sets."""
    labels = {"cips": "CIPS", "dm": "DM", "importance_weighted_trees": "importance-weighted, trees"}
    looks = {name: {"label": label, "colour": "#000000", "marker": "o"} for name, label in labels.items()}
    names = Names(looks, {"satimage": "Satimage", "letter": "Letter"}, actions=dict.fromkeys(SETS, "single"))
    options = {"split_unit": "context", "logging_c": 1, "absent_label_score": "logged"}
    protocol = {**options, "variance_penalty_scale": "unit"}
    plan = Plan(list(SETS), ["dr_bound"], SEEDS, [4], names=names, protocol=protocol)
    members = []
    for clicks in CLICKS:
        for sharpness in (1, 0.25, 4):
            suffix = {0.25: "_soft", 1: "", 4: "_sharp"}[sharpness]
            name = "single_choice" + "_clicks" * (clicks != (1, 0)) + suffix
            options = {"datasets": list(SETS), "logging_sharpness": sharpness, "click_rates": list(clicks)}
            tables, rows = all_tables(metrics(sharpness, clicks), plan), {"every run": f"../results/{name}.csv.gz"}
            members.append(Experiment(name, "", options, {"machine": "x86_64"}, plan, tables, rows))
    return Family("single_choice", "One action of K.", members, DRAWN, "../figures/single_choice.png")


def losses_of(dataset: str, algorithm: str, sharpness: float, clicks: tuple[float, float]) -> pd.Series:
    rows = metrics(sharpness, clicks).query("dataset == @dataset and algorithm == @algorithm")
    return rows["expected_loss"]


def test_a_table_has_one_column_per_experiment_in_percent(family):
    text = format_table(family, "letter", "expected_loss")
    title, header, _, *rows = text.replace("\n\n", "\n").splitlines()
    assert title.startswith("Expected error rate on Letter in %, hyper-parameters chosen by DR bound: mean ± standard")
    assert "over 5 seeds. Bold: not significantly worse than the best" in title
    columns = [f"η = {eta}{clicks}" for clicks in ("", ", clicks") for eta in ("0.25", "1", "4")]
    assert header == f"|  | {' | '.join(columns)} |"
    cells = {row.split(" | ")[0].removeprefix("| "): row.removesuffix(" |").split(" | ")[1:] for row in rows}
    assert list(cells) == ["π0", "CIPS", "DM", "importance-weighted, trees", "full supervision"]
    assert all("**" in cell for cell in cells["importance-weighted, trees"])
    for column, (clicks, sharpness) in enumerate((clicks, sharpness) for clicks in CLICKS for sharpness in SHARPNESS):
        losses = losses_of("letter", "dm", sharpness, clicks)
        assert cells["DM"][column] == f"{100 * losses.mean():.2f} ± {100 * losses.sem():.2f}"
