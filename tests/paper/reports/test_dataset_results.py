"""First page of an experiment's report: its sentences agree with the rows."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from drcrm.paper.reports.dataset_results import DatasetResults, findings, format_page
from drcrm.paper.reports.plan import Plan

MEANS = {"logging": 3.0, "cips": 2.0, "poem": 1.5, "kl_dro": 1.0, "skyline": 0.9}
GREEDY = {"logging": 1.2, "skyline": 0.5, "kl_dro": 0.95}


@pytest.fixture
def results(names):
    """Losses with these means. All algorithms except POEM share the same noise."""

    def make(dataset: str = "scene", improvement: float = 0.0, seeds: int = 8) -> DatasetResults:
        shared, noise_of_poem = 0.02 * np.random.default_rng(0).normal(size=(2, seeds))
        rows = []
        for name, mean in MEANS.items():
            is_poem = name == "poem"
            noise = noise_of_poem if is_poem else shared
            for seed in range(seeds):
                key = {"dataset": dataset, "replay_count": 4, "seed": seed, "algorithm": name, "selection": "snips"}
                loss = mean - improvement * is_poem + noise[seed]
                greedy = GREEDY.get(name, mean) + shared[seed]
                rows.append({**key, "expected_loss": loss, "greedy_loss": greedy})
        frame = pd.DataFrame(rows)
        return DatasetResults(frame, frame.iloc[:0], dataset, Plan([dataset], ["snips"], seeds, [4], names=names))

    return make


def numbers_in(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d\.\d{3}", text)]


def test_findings_name_the_best_algorithm_and_the_algorithms_it_beats(results):
    expected, beaten = findings(results())
    assert re.match(r"On scene \*\*KL-DRO\*\* is best: (0.99|1.00)\d ± 0.00\d labels are wrong per context", expected)
    mean, _, *levels = numbers_in(expected)
    assert [mean, *levels] == pytest.approx([1.0, 3.0, 2.0, 0.9], abs=0.02)
    assert beaten == (
        "Paired t-tests over seeds compare KL-DRO with 2 other algorithms (level 0.05, adjusted by Holm). KL-DRO is "
        "significantly better than 2 of them."
    )
    assert findings(results("yeast", improvement=0.6))[0].startswith("On Yeast **POEM** is best: 0.8")


SIGNIFICANCE = re.compile(r"significan|t-tests?\b|p-value|power|standard error|interval|seeds", re.IGNORECASE)


def test_one_seed_has_no_sentence_on_significance(results):
    texts = findings(results(seeds=1))
    assert len(texts) == 1
    assert not [text for text in texts if SIGNIFICANCE.search(text)]
    assert SIGNIFICANCE.search(findings(results(seeds=2))[-1])


def test_the_page_has_the_caption_of_the_overview(results):
    one = results(seeds=1)
    page = format_page("demo", [replace(one, plan=replace(one.plan, caption="Results of 1 seed, Δ < 4."))], "", "<svg")
    assert "<p>Results of 1 seed, Δ &lt; 4.</p>" in page
    assert not re.search("interval|repeated", page)
