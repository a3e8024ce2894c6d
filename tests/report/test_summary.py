"""The first page of a report: three sentences that the rows bear out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from drcrm.report.figure_data import DatasetResults, closed_gap
from drcrm.report.summary import restructured_text, sentences, what_was_run

MEANS = {"logging": 3.0, "cips": 2.0, "poem": 1.5, "kl_dro": 1.0, "skyline": 0.9}
GREEDY = {"logging": 1.2, "skyline": 0.5}


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
        return DatasetResults(frame, frame.iloc[:0], dataset, ["snips"], seeds, [4], 5, names)

    return make


def test_sentences_name_the_best_the_way_it_comes_and_whom_it_beats(results):
    first, second, third = sentences([results("scene"), results("yeast", better=0.6)])
    assert first.startswith(
        "Chosen by SNIPS, the smallest expected Hamming loss of what is learned from the logs is 1.0"
    )
    assert "on scene (KL-DRO) and 0.88" in first
    assert first.endswith("on Yeast (POEM).")
    assert "that is 67 % and 7" in second
    assert second.endswith("actions come to 53 % and 53 %.")
    assert third.endswith("are 2 of 2 others on scene and 2 of 2 others on Yeast.")


def test_the_gap_is_measured_from_cips_to_the_greedy_skyline(results):
    gap = closed_gap(results("scene")).set_index(["algorithm", "loss"])["mean"]
    assert gap["cips", "expected_loss"] == pytest.approx(0, abs=1e-9)
    assert gap["kl_dro", "expected_loss"] == pytest.approx(100 * 1.0 / 1.5, abs=0.5)
    assert gap["logging", "expected_loss"] == pytest.approx(-100 * 1.0 / 1.5, abs=0.5)
    assert gap["logging", "greedy_loss"] == pytest.approx(100 * 0.8 / 1.5, abs=0.5)


def test_few_seeds_are_said_to_have_little_power(results):
    assert "(little power: 3 seeds)" in sentences([results("scene", seeds=3)])[2]


def test_a_page_takes_in_the_picture(results):
    text = restructured_text("beyond", [results("scene")], "<?xml?>\n<svg>\n</svg>\n")
    run = "CIPS, POEM and KL-DRO learned from logs of π0 on scene: 8 seeds, at replay count 4."
    assert text.startswith(f"beyond\n======\n\n{run}\n\nChosen by SNIPS")
    assert ".. raw:: html\n\n   <svg>\n   </svg>\n\n\n0 % is CIPS" in text
    assert text.endswith("Means over 8 seeds with 95 % intervals, at replay count 4.\n")


def test_labels_with_commas_can_be_told_apart(results):
    of = results("scene")
    looks = {**of.names.algorithms, "kl_dro": {**of.names.algorithms["kl_dro"], "label": "KL-DRO, DR"}}
    named = replace(of, names=replace(of.names, algorithms=looks))
    assert what_was_run([named]).startswith("CIPS; POEM; and KL-DRO, DR learned from logs of π0 on scene: 8 seeds")
