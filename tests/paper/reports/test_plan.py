"""Names, colours and captions of tables and figures."""

from copy import deepcopy
from dataclasses import asdict
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from docutils.core import publish_doctree
from docutils.utils import SystemMessage

from drcrm.paper.config import project_config
from drcrm.paper.reports.dataset_results import DatasetResults, certified
from drcrm.paper.reports.figures import FIGURES
from drcrm.paper.reports.markup import fill_caption
from drcrm.paper.reports.plan import Names, Plan
from drcrm.paper.runs import caption_words, report_plan

ROOT = Path(__file__).resolve().parents[3]
NAME = "beyond"  # with a replay-count curve
KINDS = {"labels": ["scene"], "single": ["yeast"], "mixed": ["scene", "yeast"]}  # Yeast is one action of K here
ALGORITHMS = {"logging": 0.6, "cips": 0.5, "poem": 0.4, "trees": 0.3, "skyline": 0.1}
SEEDS = {"scene": 6, "yeast": 3}
CAPTIONS = [("tables", "tables"), ("overview", "overview"), *(("figures", figure) for figure in FIGURES)]


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


@pytest.fixture(scope="module")
def mixed(config) -> dict:
    """The shipped configuration, with Yeast as one action of K, fewer seeds there, and an unusual log."""
    changed = deepcopy(config)
    changed["datasets"]["yeast"]["actions"] = "single"
    options = {"datasets": ["scene", "yeast"], "seeds": SEEDS, "logging_sharpness": 4, "click_rates": [0.7, 0.2]}
    changed["experiments"]["beyond"] |= options
    return changed


def rendered(config: dict, file: str, part: str, datasets: list[str]) -> str:
    template = (ROOT / f"workflow/report/{file}.rst").read_text(encoding="utf-8")
    return fill_caption(template, caption_words(config, "beyond", part, datasets), experiment="beyond", figure=part)


@pytest.mark.parametrize(("file", "part"), CAPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_captions_name_the_loss_of_their_data_sets(mixed, file, part, kind):
    text = rendered(mixed, file, part, KINDS[kind])
    assert ("Hamming loss" in text) == (kind != "single")
    assert ("error rate" in text) == (kind != "labels")
    assert kind != "single" or not {"Hamming", "CRF", "labels"} & set(text.replace(",", " ").split())
    assert ("clicks with probability 0.7 for the right action, 0.2 for another" in text) == (kind != "labels")
    assert "The log: π0's scores × 4" in text
    assert "{" not in text


@pytest.mark.parametrize(("file", "part"), [("overview", "overview"), ("figures", "grid"), ("figures", "replay_count")])
def test_one_seed_has_neither_mean_nor_interval(mixed, file, part):
    words = caption_words(mixed, "beyond", part, ["scene"]) | {"seeds": "1 seed", "few_seeds": True}
    template = (ROOT / f"workflow/report/{file}.rst").read_text(encoding="utf-8")
    text = fill_caption(template, words, experiment="beyond", figure=part)
    assert "Points are results of 1 seed" in text
    assert not {word for word in ("intervals", "shaded", "single seeds") if word in text}


def test_a_plan_describes_the_log_and_its_seeds(mixed):
    plan = report_plan(mixed, "beyond", "overview")
    assert plan.log == "π0's scores × 4, clicks with probability 0.7 for the right action, 0.2 for another"
    assert (plan.seeds_of("scene"), plan.seeds_of("yeast"), plan.seeds_in_words) == (6, 3, "6 seeds (Yeast 3)")
    assert asdict(plan)["seeds"] == SEEDS


@pytest.fixture(scope="module")
def metrics() -> pd.DataFrame:
    """Noisy losses. A click is −1, so a cost is loss/2 − 0.7. Trees have no score and no certificate."""
    rng, rows = np.random.default_rng(0), []
    for dataset, seeds in {**SEEDS, "digits": 1}.items():
        for seed in range(seeds):
            for name, mean in ALGORITHMS.items():
                loss = mean + 0.01 * rng.normal()
                key = {"dataset": dataset, "replay_count": 4, "seed": seed, "algorithm": name, "selection": "snips"}
                scores = {"score": loss / 2 - 0.7 - 0.1, "bound": loss + 0.1} if name in ("cips", "poem") else {}
                chosen = {"hyperparameter": 0.1 if name == "poem" else None, "converged": None}
                rows.append({**key, "expected_loss": loss, "greedy_loss": loss - 0.05, **chosen, **scores})
    return pd.DataFrame(rows).astype({"score": float, "bound": float, "converged": float})


@pytest.fixture(scope="module")
def plan() -> Plan:
    labels = {"cips": {"label": "CIPS"}, "poem": {"label": "POEM"}}
    return Plan(
        ["scene", "yeast"],
        ["snips"],
        SEEDS,
        [4],
        names=Names(labels, {"scene": "A|B", "yeast": "Yeast"}, actions={"scene": "labels", "yeast": "single"}),
        protocol={
            "split_unit": "row",
            "logging_c": 1,
            "absent_label_score": "logged",
            "variance_penalty_scale": "unit",
        },
        grids={"cips": [], "poem": [0.01, 0.1], "trees": []},
    )


def results_on(metrics: pd.DataFrame, plan: Plan, dataset: str) -> DatasetResults:
    grids = metrics.assign(hyperparameter=0.1)[metrics["algorithm"] == "poem"]
    return DatasetResults.of(metrics, grids, dataset, plan)


def test_algorithms_without_score_have_no_certificate(metrics, plan):
    yeast = results_on(metrics, plan, "yeast")
    assert set(certified(yeast)["algorithm"]) == {"cips", "poem"}
    assert yeast.learned == ["cips", "poem", "trees"]
    only_trees = results_on(metrics[~metrics["algorithm"].isin(["cips", "poem"])], plan, "yeast")
    for draw in FIGURES.values():
        draw(only_trees).draw_without_rendering()


def parse_text(text: str) -> None:
    """Parse reStructuredText. Raise an error for each warning."""
    publish_doctree(text, settings_overrides={"report_level": 1, "halt_level": 1, "warning_stream": False})


@pytest.mark.parametrize("text", ["√n |α_n| divided by n", "*open", "loop_ and"])
def test_wrong_text_does_not_parse(text):
    with pytest.raises(SystemMessage):
        parse_text(text)


def test_captions_are_valid_text(mixed):
    for (file, part), datasets in product(CAPTIONS, KINDS.values()):
        parse_text(rendered(mixed, file, part, datasets))


def test_captions_of_the_theory_are_valid_text():
    template = (ROOT / "workflow/report/theory.rst").read_text(encoding="utf-8")
    figures = yaml.safe_load((ROOT / "studies/theory.yaml").read_text(encoding="utf-8"))
    texts = [fill_caption(template, {"data": "Scene", "repetitions": 2}, lemma_figure=figure) for figure in figures]
    for text in texts:
        parse_text(text)
    assert len(set(texts)) == len(figures)


def test_captions_of_evaluations_are_valid_text():
    template = (ROOT / "workflow/report/evaluations.rst").read_text(encoding="utf-8")
    texts = [fill_caption(template, {}, measure=name, evaluation="mine") for name in ("rmse", "relative", "coverage")]
    for text in texts:
        parse_text(text)
    assert len(set(texts)) == 3
    assert {path.stem for path in (ROOT / "workflow/report").glob("*.rst")} == {
        "evaluations",
        "theory",
        *dict(CAPTIONS),
    }
