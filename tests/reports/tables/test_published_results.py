"""The comparison says where our protocol is not the paper's or the public code's, and for whom it matters."""

from __future__ import annotations

import pandas as pd
import pytest

from drcrm.reports.tables.plan import PROTOCOL, Plan
from drcrm.reports.tables.published_results import CODE, PAPER, differences, paper_comparison

ALGORITHMS = ["logging", "cips", "poem", "kl_dro", "skyline"]


@pytest.mark.parametrize("known", [PAPER, CODE], ids=["paper", "code"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_same_protocol_differs_in_nothing(known, algorithm):
    assert differences(known, known, "the other", algorithm) == []


@pytest.mark.parametrize(
    ("option", "value", "words", "concerned"),
    [
        ("replay_count", 8, "replay count 8, the paper's text: 4", ALGORITHMS),
        ("logging_c", 10, "π0 with C = 10, the paper's text: 0.1", ALGORITHMS[:-1]),
        ("split_unit", "row", "held out by row, the paper's text: by context", ALGORITHMS[:-1]),
        ("absent_label_score", "half", "labels absent from π0's contexts: half, the paper's text: logged", ["logging"]),
        ("variance_penalty_scale", "calibrated", "scale of λ: calibrated, the paper's text: unit", ["poem"]),
    ],
)
def test_each_option_is_said_of_whom_it_concerns(option, value, words, concerned):
    ours = PAPER | {option: value}
    said = {algorithm: differences(ours, PAPER, "the paper's text", algorithm) for algorithm in ALGORITHMS}
    assert said == {algorithm: [words] * (algorithm in concerned) for algorithm in ALGORITHMS}


def test_the_data_and_the_protocol_are_said_of_a_cell():
    """And the data once, beside the paper and the public code alike."""
    row = {"dataset": "mine", "selection": "snips", "mean": 1.5, "standard_error": 0.1, "n_seeds": 20}
    table = pd.DataFrame([{**row, "algorithm": name} for name in ("cips", "poem")])
    protocol = {key: PAPER[key] for key in PROTOCOL}
    plan = Plan(["mine"], ["snips"], 20, [4], protocol=protocol, papers={"mine": ("yeast", "half of it")})
    of_cips, of_poem = paper_comparison({"expected_loss": table}, plan)["differs"]
    assert of_cips == "half of it; held out by context, the public code: by row"
    assert of_poem == (
        "half of it; chosen by SNIPS, the paper's text: IPS; held out by context, the public code: by row; "
        "scale of λ: unit, the public code: calibrated"
    )
