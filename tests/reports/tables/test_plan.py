"""What tables and figures are told, from the shipped configuration."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import pytest

from drcrm.experiments.config import project_config
from drcrm.experiments.lookups import caption_words, planned
from drcrm.reports.tables.plan import Plan

ROOT = Path(__file__).resolve().parents[3]
NAME = "beyond"  # with a replay-count curve and an ablation


@pytest.fixture(scope="module")
def config() -> dict:
    return project_config(ROOT, {}, [])[1]


@pytest.mark.parametrize("part", ["tables", "overview", "grid", "replay_count", "ablation"])
def test_a_plan_is_read_as_it_is_written(config, part):
    plan = planned(config, NAME, part, ["yeast"])
    text = plan.json()
    assert Plan.parse(text).json() == text
    assert json.loads(text)["datasets"] == ["yeast"]


def test_each_part_shows_its_own_runs(config):
    experiment = config["experiments"][NAME]
    curve = planned(config, NAME, "replay_count", ["yeast"])
    assert (curve.seeds, curve.counts) == (10, experiment["replay_curve"]["counts"])
    assert list(curve.algorithms) == ["poem", "akl_crm", "kl_dro", "kl_dro_dr"]
    ablation = planned(config, NAME, "ablation", ["yeast"])
    assert (ablation.seeds, ablation.counts) == (10, [4])
    assert "kl_dro_from_logging" in ablation.algorithms
    overview = planned(config, NAME, "overview")
    assert (overview.seeds, overview.counts, overview.title) == (20, [4], NAME)
    assert (overview.datasets, overview.selections) == (experiment["datasets"], experiment["selection"][:1])
    tables = planned(config, NAME, "tables")
    assert tables.papers["yeast"][0] == "yeast"
    assert set(tables.protocol) == {"split_unit", "logging_c", "absent_label_score", "variance_penalty_scale"}


@pytest.mark.parametrize("part", ["grid", "replay_count", "ablation"])
@pytest.mark.parametrize(("key", "value"), [("label", "Another"), ("labels", 3), ("differs", "in a way")])
def test_a_figure_knows_nothing_of_another_data_set(config, part, key, value):
    """So it is not drawn again when that changes; the tables of all data sets are made again."""
    changed = deepcopy(config)
    changed["datasets"]["scene"][key] = value
    assert planned(changed, NAME, part, ["yeast"]) == planned(config, NAME, part, ["yeast"])
    assert caption_words(changed, NAME, part, ["yeast"]) == caption_words(config, NAME, part, ["yeast"])
    assert (planned(changed, NAME, "tables") != planned(config, NAME, "tables")) == (key != "labels")


def test_a_figure_knows_nothing_of_what_only_tables_use(config):
    changed = deepcopy(config)
    changed["experiments"][NAME] |= {"logging_c": 3.0, "absent_label_score": "half"}
    changed["algorithms"]["poem"]["grid"] = [1.0]
    assert planned(changed, NAME, "grid", ["yeast"]) == planned(config, NAME, "grid", ["yeast"])
    assert planned(changed, NAME, "tables") != planned(config, NAME, "tables")
