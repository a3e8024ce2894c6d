"""The first page of a report: plain sentences that the rows bear out."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from drcrm.reports.figures.figure_data import DatasetResults, closed_gap
from drcrm.reports.tables.plan import Plan
from drcrm.reports.tables.summary import findings, restructured_text, what_was_compared

MEANS = {"logging": 3.0, "cips": 2.0, "poem": 1.5, "kl_dro": 1.0, "skyline": 0.9}
GREEDY = {"logging": 1.2, "skyline": 0.5, "kl_dro": 0.95}


@pytest.fixture
def results(names):
    """Losses of eight seeds about these means; POEM's noise is its own, the others share theirs."""

    def make(dataset: str, better: float = 0.0, seeds: int = 8) -> DatasetResults:
        rng = np.random.default_rng(0)
        shared, own = 0.02 * rng.normal(size=(2, seeds))
        rows = [
            {
                "dataset": dataset,
                "replay_count": 4,
                "seed": seed,
                "algorithm": name,
                "selection": "snips",
                "expected_loss": mean - better * (name == "poem") + (own if name == "poem" else shared)[seed],
                "greedy_loss": GREEDY.get(name, mean) + shared[seed],
            }
            for name, mean in MEANS.items()
            for seed in range(seeds)
        ]
        frame = pd.DataFrame(rows)
        return DatasetResults(frame, frame.iloc[:0], dataset, Plan([dataset], ["snips"], seeds, [4], names=names))

    return make


def test_findings_name_the_best_what_is_beside_it_the_way_it_comes_and_whom_it_beats(results):
    expected, way, worse = findings(results("scene"))
    assert re.match(r"On scene \*\*KL-DRO\*\* is best: (0.99|1.00)\d ± 0.00\d labels are wrong per context", expected)
    numbers = [float(number) for number in re.findall(r"\d\.\d{3}", expected)]
    assert numbers[:1] + numbers[2:] == pytest.approx([1.0, 3.0, 2.0, 0.9], abs=0.02)
    greedy, share = way.split(" By it ")
    assert [float(number) for number in re.findall(r"\d\.\d{3}", greedy)] == pytest.approx(
        [0.95, 1.2, 2.0, 0.5], abs=0.02
    )
    assert (
        share
        == "KL-DRO comes 70 % of the way from CIPS to full supervision. π0, without learning, comes 53 % of the way."
    )
    assert worse == "Both others are significantly worse (paired t-tests over seeds at 0.05, adjusted by Holm)."
    assert findings(results("yeast", better=0.6))[0].startswith("On Yeast **POEM** is best: 0.8")


def test_without_a_way_to_full_supervision_none_is_measured(results):
    """Where CIPS loses no more than full supervision."""
    of = results("scene")
    skyline = of.metrics["greedy_loss"].where(of.metrics["algorithm"] != "skyline", 2.5)
    _, way, _ = findings(replace(of, metrics=of.metrics.assign(greedy_loss=skyline)))
    assert way.endswith("CIPS loses no more than full supervision: there is no way between them to measure.")


def test_what_is_no_gain_is_said_to_be_none(results):
    of = results("scene")
    greedy = of.metrics["greedy_loss"].where(of.metrics["algorithm"] != "logging", 0.8)
    way = findings(replace(of, metrics=of.metrics.assign(greedy_loss=greedy)))[1]
    assert "full supervision, which is no gain. π0, without learning, comes 80 %" in way
    greedy = of.metrics["greedy_loss"].where(of.metrics["algorithm"] != "logging", 2.5)
    way = findings(replace(of, metrics=of.metrics.assign(greedy_loss=greedy)))[1]
    assert way.endswith("supervision. π0, without learning, is no better than CIPS.")


def test_a_missing_seed_is_said_to_be(results):
    of = results("scene")
    lost = of.metrics[~((of.metrics["algorithm"] == "skyline") & (of.metrics["seed"] == 1))]
    expected, way, _ = findings(replace(of, metrics=lost))
    assert expected.endswith("sees all labels, missing.")
    assert "and missing for full supervision. A seed is missing, so the way from CIPS" in way
    none = of.metrics[(of.metrics["seed"] != 1) | of.metrics["algorithm"].isin(["logging", "skyline"])]
    assert findings(replace(of, metrics=none)) == ["On scene every algorithm lacks a seed: nothing can be compared."]


def test_the_gap_is_measured_by_greedy_losses_on_both_ends(results):
    gap = closed_gap(results("scene")).set_index("algorithm")["mean"]
    assert gap["cips"] == pytest.approx(0, abs=1e-9)
    assert gap["kl_dro"] == pytest.approx(100 * 1.05 / 1.5, abs=0.5)
    assert gap["logging"] == pytest.approx(100 * 0.8 / 1.5, abs=0.5)
    of = results("scene")
    other = replace(of, metrics=of.metrics.assign(expected_loss=7.0))
    pd.testing.assert_frame_equal(closed_gap(other), closed_gap(of))


@pytest.mark.parametrize(("better", "worse"), [(0.0, 2), (0.5, 1)])
def test_little_power_is_said_where_something_is_not_significant(results, better, worse):
    """POEM is as good as KL-DRO where it is better by 0.5."""
    said = findings(results("scene", better=better, seeds=4))[2]
    assert said.startswith("Both others are" if worse == 2 else "Of the two others one is significantly worse")
    assert ("4 seeds show only large differences" in said) == (worse < 2)
    assert "seeds show" not in findings(results("scene", better=better, seeds=8))[2]


def test_a_page_takes_in_the_table_and_the_picture(results):
    text = restructured_text("beyond", [results("scene")], "<table></table>\n", "<?xml?>\n<svg>\n</svg>\n")
    run = "Three algorithms learned a policy from the log of another policy, π0, on scene: CIPS, POEM and KL-DRO."
    assert text.startswith(f"beyond\n======\n\n{run} A log has what π0 did in 4 passes over the training contexts")
    assert (
        '.. raw:: html\n\n   <div class="beside">\n   <div>\n   <table></table>\n   </div>\n   <div>\n   <svg>' in text
    )
    assert "means over 8 seeds with 95 % intervals." in text
    several = restructured_text("beyond", [results("scene"), results("yeast")], "", "<svg/>")
    assert "\n\n- On scene **KL-DRO** is" in several
    assert "\n\n- On Yeast **KL-DRO** is" in several


def test_names_with_commas_can_be_told_apart_and_marks_are_none(results):
    of = results("scene")
    looks = {**of.plan.names.algorithms, "kl_dro": {**of.plan.names.algorithms["kl_dro"], "label": "KL-DRO, DR*_"}}
    named = replace(of, plan=replace(of.plan, names=replace(of.plan.names, algorithms=looks)))
    assert "on scene: CIPS; POEM; and KL-DRO, DR\\*\\_. A log" in what_was_compared([named])
    assert "**KL-DRO, DR\\*\\_**" in findings(named)[0]
