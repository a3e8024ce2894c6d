"""What is said of losses: Hamming loss of label vectors, error rate of one action of K, both where data sets differ."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from jinja2 import Template

from drcrm.experiments.config import project_config
from drcrm.experiments.lookups import caption_words, log_in_words, planned
from drcrm.reports.figures.experiment_figures import FIGURES, overview
from drcrm.reports.figures.figure_data import DatasetResults, certified, surprises
from drcrm.reports.figures.style import Names
from drcrm.reports.tables.markup import HTML, LATEX, MARKDOWN
from drcrm.reports.tables.plan import Plan
from drcrm.reports.tables.printed_tables import details, losses
from drcrm.reports.tables.result_tables import all_tables, loss_table, require_runs, sections
from drcrm.reports.tables.summary import findings, restructured_text, what_was_compared

ROOT = Path(__file__).resolve().parents[2]
KINDS = {"labels": ["scene"], "single": ["yeast"], "mixed": ["scene", "yeast"]}  # Yeast is one action of K here
ALGORITHMS = {"logging": 0.6, "cips": 0.5, "poem": 0.4, "trees": 0.3, "skyline": 0.1}
SEEDS = {"scene": 6, "yeast": 3}


@pytest.fixture(scope="module")
def config() -> dict:
    """The shipped configuration, with Yeast as one action of K, other seeds there, and an unusual log."""
    changed = deepcopy(project_config(ROOT, {}, [])[1])
    changed["datasets"]["yeast"]["actions"] = "single"
    options = {"datasets": ["scene", "yeast"], "seeds": SEEDS, "logging_sharpness": 4, "click_rates": [0.7, 0.2]}
    changed["experiments"]["beyond"] |= options
    return changed


def rendered(config: dict, file: str, part: str, datasets: list[str]) -> str:
    template = Template((ROOT / f"workflow/report/{file}.rst").read_text(encoding="utf-8"))
    words = {"words": caption_words(config, "beyond", part, datasets)}
    job = {"wildcards": {"experiment": "beyond", "figure": part}, "params": words}
    return " ".join(template.render(snakemake=job).split())


CAPTIONS = [("tables", "tables"), ("overview", "overview"), *(("figures", figure) for figure in FIGURES)]


@pytest.mark.parametrize(("file", "part"), CAPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_captions_name_the_loss_of_their_data_sets(config, file, part, kind):
    text = rendered(config, file, part, KINDS[kind])
    if part != "surprise":
        assert ("Hamming loss" in text) == (kind != "single")
        assert ("error rate" in text) == (kind != "labels")
    assert kind != "single" or not set(["Hamming", "CRF", "labels"]) & set(text.replace(",", " ").split())
    assert ("clicks with probability 0.7 for the right action, 0.2 for another" in text) == (kind != "labels")
    assert "The log: π0's scores × 4" in text
    assert "  " not in text
    assert "{" not in text


def test_what_captions_say_of_both_kinds(config):
    text = rendered(config, "overview", "overview", KINDS["mixed"])
    assert "means of the greedy Hamming loss (Scene) or error rate (Yeast), that of the most probable actions" in text
    assert "over 6 seeds (Yeast 3) with 95 %" in text
    assert "a CRF that sees all labels (Scene) or a logistic regression that sees the right actions (Yeast), by" in text
    text = rendered(config, "tables", "tables", KINDS["mixed"])
    assert "of Scene, Yeast: 6 seeds (Yeast 3) at replay count 4, " in text
    assert "Losses count wrong labels on Scene (Hamming loss), wrong actions on Yeast (error rate, a share of" in text
    assert "Losses are error rates, " in rendered(config, "tables", "tables", KINDS["single"])
    assert "6 seeds (Yeast 3) with 95 %" in rendered(config, "figures", "ablation", KINDS["mixed"])
    assert "Each of 3 seeds is a stroke" in rendered(config, "figures", "paired", KINDS["single"])


def test_an_ordinary_log_is_not_spoken_of(config):
    usual = deepcopy(config)
    usual["experiments"]["beyond"] |= {"logging_sharpness": 1, "click_rates": [1, 0]}
    assert log_in_words(usual, "beyond", ["yeast"]) == ""
    assert "The log" not in rendered(usual, "tables", "tables", ["yeast"])
    usual["experiments"]["beyond"]["logging_sharpness"] = 0.25
    assert log_in_words(usual, "beyond", ["yeast"]) == "π0's scores × 0.25"


def test_a_plan_translates_losses_to_logged_costs(config):
    """Hamming loss less the labels; −1 for a click, which is surer of the right action."""
    plan = planned(config, "beyond", "overview")
    assert plan.translations["scene"] == (1, 6)
    assert plan.translations["yeast"] == pytest.approx((0.5, 0.7))
    assert plan.log == "π0's scores × 4, clicks with probability 0.7 for the right action, 0.2 for another"
    assert (plan.seeds_of("scene"), plan.seeds_of("yeast"), plan.seeds_in_words) == (6, 3, "6 seeds (Yeast 3)")
    assert Plan.parse(plan.json()).json() == plan.json()
    assert json.loads(plan.json())["seeds"] == SEEDS
    with pytest.raises(ValueError, match=r"^no number of seeds of yeast$"):
        Plan(["scene", "yeast"], ["ips"], {"scene": 3}, [4])
    with pytest.raises(ValueError, match="seeds and counts from 1"):
        Plan(["scene"], ["ips"], {"scene": 0}, [4])


def make_metrics() -> pd.DataFrame:
    """Losses with noise; a click is −1, so that a cost is loss/2 − 0.7; of the trees no score, no certificate."""
    rng, rows = np.random.default_rng(0), []
    for dataset, seeds in {**SEEDS, "digits": 1}.items():
        for seed in range(seeds):
            for name, mean in ALGORITHMS.items():
                loss = mean + 0.01 * rng.normal()
                key = {"dataset": dataset, "replay_count": 4, "seed": seed, "algorithm": name, "selection": "snips"}
                learned = name in ("cips", "poem")
                said = {"score": loss / 2 - 0.7 - 0.1, "bound": loss + 0.1} if learned else {}
                run = {
                    "expected_loss": loss,
                    "greedy_loss": loss - 0.05,
                    "converged": None,
                    "score": None,
                    "bound": None,
                }
                run["hyperparameter"] = 0.1 if name == "poem" else None
                rows.append({**key, **run, **said})
    return pd.DataFrame(rows).astype({"score": float, "bound": float, "converged": float})


@pytest.fixture(scope="module")
def metrics() -> pd.DataFrame:
    return make_metrics()


@pytest.fixture(scope="module")
def plan() -> Plan:
    labels = {"cips": {"label": "CIPS"}, "poem": {"label": "POEM"}}
    names = Names(labels, {"scene": "A|B", "yeast": "Yeast"}, actions={"scene": "labels", "yeast": "single"})
    protocol = {"split_unit": "row", "logging_c": 1, "absent_label_score": "logged", "variance_penalty_scale": "unit"}
    translations = {"scene": (1, 6), "yeast": (0.5, 0.7)}
    grids = {"cips": [], "poem": [0.01, 0.1], "trees": []}
    of = {"names": names, "protocol": protocol, "translations": translations, "grids": grids}
    return Plan(["scene", "yeast"], ["snips"], SEEDS, [4], **of)


def test_tables_have_the_seeds_of_each_data_set(metrics, plan):
    require_runs(metrics, plan)
    table = loss_table(plan.of_runs(metrics), "expected_loss", plan)
    assert table.groupby("dataset")["n_seeds"].max().to_dict() == SEEDS
    assert table["mean"].notna().all()
    for to in (MARKDOWN, LATEX, HTML):
        to = replace(to, names=plan.names)
        text = losses(table, "expected_loss", "snips", to)
        assert f"Expected Hamming loss ({to.text('A|B')}) or error rate (Yeast) on the test set" in text
        assert "over 6 seeds (Yeast 3). Bold: not significantly worse" in text
        assert "at 0.05); on Yeast the smallest mean of what is learned; 3 seeds have too little power" in text
        assert "full supervision" in text
        assert "on Yeast the smallest mean" in details(table, "expected_loss", "snips", to)
    best = losses(table, "expected_loss", "snips", replace(MARKDOWN, names=plan.names))
    [trees] = [line for line in best.splitlines() if line.startswith("| trees")]
    assert trees.count("**") == 4


def test_titles_of_tables_are_words_and_say_what_all_their_data_sets_share(metrics, plan):
    to = replace(MARKDOWN, names=plan.names)
    for datasets, loss in ((["scene"], "Hamming loss"), (["yeast"], "error rate"), (["scene", "yeast"], "loss")):
        of = replace(plan, datasets=datasets)
        parts = sections(all_tables(metrics, of), of, to)
        titles = [title for texts in parts.values() for title in texts]
        assert titles[:2] == [f"Expected {loss} by SNIPS", f"Expected {loss} in detail"]
        assert all(title.replace("-", "").replace(" ", "").isalpha() for title in titles)
    assert "| trees |" in parts["Expected loss"]["Expected loss by SNIPS"]


def results_on(metrics: pd.DataFrame, plan: Plan, dataset: str) -> DatasetResults:
    grids = metrics.assign(hyperparameter=0.1)[metrics["algorithm"] == "poem"]
    return DatasetResults.of(metrics, grids, dataset, plan)


def test_axes_and_titles_speak_of_their_data_set(metrics, plan):
    one = results_on(metrics, plan, "yeast")
    said = {name: draw(one) for name, draw in FIGURES.items()}
    texts = {
        name: str([each.get_text() for each in figure.findobj(lambda each: hasattr(each, "get_text"))])
        for name, figure in said.items()
    }
    assert all("Yeast: 3 seeds" in text and "Hamming" not in text and "labels" not in text for text in texts.values())
    for name in ("replay_count", "grid", "certificates", "paired", "ablation"):
        assert "Expected error rate" in texts[name]
    assert said["surprise"].axes[0].get_xlabel() == "Held-out score − true risk"
    other = FIGURES["surprise"](results_on(metrics, plan, "scene")).axes[0]
    assert other.get_xlabel() == "Held-out score − true risk, in labels"
    panels = overview([results_on(metrics, plan, each) for each in plan.datasets]).axes
    assert [axes.get_title() for axes in panels] == ["A|B", "Yeast"]


def test_what_has_no_score_is_left_out_of_promises_alone(metrics, plan, tmp_path):
    """The score promises a tenth more than the policy keeps, in logged costs."""
    one = results_on(metrics, plan, "yeast")
    frame = surprises(one).set_index("algorithm")
    assert frame["mean"].to_dict() == pytest.approx({"cips": -0.1, "poem": -0.1})
    assert list(certified(one)["algorithm"]) == ["cips", "poem"]
    assert one.learned == ["cips", "poem", "trees"]
    for name in ("surprise", "certificates"):
        labels = [text.get_text() for text in FIGURES[name](one).axes[0].get_yticklabels()]
        assert "trees" not in labels
    alone = results_on(metrics[~metrics["algorithm"].isin(["cips", "poem"])], plan, "yeast")
    for number, draw in enumerate(FIGURES.values()):
        draw(alone).savefig(tmp_path / f"{number}.png")


def test_the_first_page_speaks_of_the_loss_of_each_data_set(metrics, plan):
    unusual = replace(plan, log="π0's scores × 4")
    scene, yeast = (results_on(metrics, unusual, each) for each in plan.datasets)
    assert "labels are wrong per context of the test set. The expected loss of π0" in findings(scene)[0]
    assert "that of full supervision, a CRF that sees all labels, 0." in findings(scene)[0]
    assert "of the actions on the test set are wrong. The expected loss of π0" in findings(yeast)[0]
    assert "full supervision, a logistic regression that sees the right actions, 0." in findings(yeast)[0]
    text = what_was_compared([scene, yeast])
    assert text.endswith("and what that cost. The log: π0's scores × 4. All is repeated with 6 seeds (Yeast 3).")
    page = restructured_text("mixed", [scene, yeast], "", "<svg/>")
    assert "means over 6 seeds (Yeast 3) with 95 % intervals" in page
