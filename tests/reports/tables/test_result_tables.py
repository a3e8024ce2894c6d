"""The comparison with the paper and the public code lists differences in protocol that concern an algorithm."""

import pytest

from drcrm.reports.result_tables import PAPER, differences

ALGORITHMS = ["logging", "cips", "poem", "kl_dro", "skyline"]


@pytest.mark.parametrize(
    ("option", "value", "sentence", "concerned"),
    [
        ("replay_count", 8, "replay count 8, the paper's text: 4", ALGORITHMS),
        ("logging_c", 10, "π0 with C = 10, the paper's text: 0.1", ALGORITHMS[:-1]),
        ("logging_fraction", 0.5, "π0 trained on 0.5 of the contexts, the paper's text: 0.05", ALGORITHMS[:-1]),
        ("heldout_fraction", 0.5, "held out 0.5, the paper's text: 0.25", ALGORITHMS[:-1]),
        ("logging_sharpness", 4, "π0's coefficients times 4, the paper's text: 1", ALGORITHMS[:-1]),
        ("split_unit", "row", "held out by row, the paper's text: by context", ALGORITHMS[:-1]),
        ("absent_label_score", "half", "labels absent from π0's contexts: half, the paper's text: logged", ["logging"]),
        ("variance_penalty_scale", "calibrated", "scale of λ: calibrated, the paper's text: unit", ["poem"]),
    ],
)
def test_a_difference_is_listed_for_the_algorithms_it_concerns(option, value, sentence, concerned):
    ours = PAPER | {option: value}
    listed = {algorithm: differences(ours, PAPER, "the paper's text", algorithm) for algorithm in ALGORITHMS}
    assert listed == {algorithm: [sentence] * (algorithm in concerned) for algorithm in ALGORITHMS}
