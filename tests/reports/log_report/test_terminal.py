"""Short text of an answer for the terminal."""

import unicodedata

import pytest
from log_answers import ANSWERS, better

from drcrm.reports.log_report.page import page
from drcrm.reports.log_report.terminal import text


@pytest.mark.parametrize("kind", ANSWERS)
def test_text_cannot_control_the_terminal(kind):
    written = text(ANSWERS[kind]())
    assert written.endswith("\n")
    categories = {unicodedata.category(character) for character in written.replace("\n", "").replace("\u200d", "")}
    assert not categories & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    if kind != "hostile":
        assert max(map(len, written.splitlines())) <= 100


def test_guardrails_the_outcome_and_the_next_step_are_in_the_text():
    rail = {
        "name": "signups",
        "outcome": "signup",
        "reward": True,
        "status": "not shown",
        "margin": 0.002,
        "condition": "at least -1 %",
        "estimate": "dr",
        "difference": {"value": -0.01, "standard_error": 0.004, "low": -0.018, "high": -0.002, "bound": 0.003},
        "refused": None,
    }
    answer = better() | {"outcome": "click", "next_step": "Deploy it.", "guardrails": [rail]}
    lines = [" ".join(line.split()) for line in text(answer).splitlines()]
    assert any(line.startswith("click 95 % interval") for line in lines)
    assert "signups +0.0100 at least −0.0030 at least −1 %, −0.0020 not shown" in lines
    assert "Next: Deploy it." in lines
    written = page(answer)
    assert "0 of 1 guardrail hold" in written
    assert "<b>Next:</b> Deploy it." in written
    assert "Click minus that of the logging policy" in written
    certified = answer | {"verdict": {"verdict": "certified", "sentence": "."}}
    assert text(certified).startswith("Certified, not shown to be better.")
    held = certified | {"guardrails": [rail | {"status": "holds"}]}
    assert text(held).startswith("Certified better than the logging policy.")
