"""Plans of tables and figures, from the shipped configuration."""

from copy import deepcopy
from pathlib import Path

import pytest

from drcrm.paper.config import project_config
from drcrm.paper.runs import caption_words, report_plan

ROOT = Path(__file__).resolve().parents[3]
NAME = "beyond"  # with a replay-count curve


@pytest.fixture(scope="module")
def config() -> dict:
    return project_config(ROOT)


def test_each_part_has_its_seeds_counts_and_algorithms(config):
    curve = report_plan(config, NAME, "replay_count", ["yeast"])
    assert (curve.seeds, curve.counts) == (10, config["experiments"][NAME]["replay_curve"]["counts"])
    assert list(curve.algorithms) == ["poem", "akl_crm", "kl_dro", "kl_dro_dr"]
    overview = report_plan(config, NAME, "overview")
    assert (overview.seeds, overview.counts, overview.selections) == (20, [4], ["dr_bound"])
    assert report_plan(config, NAME, "tables").papers["yeast"][0] == "yeast"


@pytest.mark.parametrize(("key", "value"), [("label", "Another"), ("labels", 3), ("differs", "in a way")])
def test_the_plan_of_a_figure_does_not_depend_on_other_data_sets(config, key, value):
    """A change of another data set does not draw the figure again."""
    changed = deepcopy(config)
    changed["datasets"]["scene"][key] = value
    assert report_plan(changed, NAME, "grid", ["yeast"]) == report_plan(config, NAME, "grid", ["yeast"])
    assert caption_words(changed, NAME, "grid", ["yeast"]) == caption_words(config, NAME, "grid", ["yeast"])
    assert (report_plan(changed, NAME, "tables") != report_plan(config, NAME, "tables")) == (key != "labels")
