"""The comparison says where our protocol is not the paper's or the public code's, and for whom it matters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drcrm.report.paper import CODE, PAPER

ALGORITHMS = ["logging", "cips", "poem", "kl_dro", "skyline"]


@pytest.mark.parametrize("known", [PAPER, CODE], ids=["paper", "code"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_same_protocol_differs_in_nothing(known, algorithm):
    protocol, selection, _ = known
    assert protocol.differences("", algorithm, selection, *known) == []


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
    ours = replace(PAPER[0], **{option: value})
    said = {algorithm: ours.differences("", algorithm, "ips", *PAPER) for algorithm in ALGORITHMS}
    assert said == {algorithm: [words] * (algorithm in concerned) for algorithm in ALGORITHMS}


def test_the_data_and_the_score_are_said_too():
    assert PAPER[0].differences("half of it", "poem", "snips", *PAPER) == [
        "half of it",
        "chosen by SNIPS, the paper's text: IPS",
    ]
    assert PAPER[0].differences("half of it", "cips", "snips", *PAPER) == ["half of it"]
