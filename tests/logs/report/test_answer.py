"""The view of a command's answer, and its short text for the terminal."""

import unicodedata

import pytest
from fixtures.log_answers import ANSWERS, as_answer, better, diagnosed, not_shown, wrong

from drcrm.arrays.formats import ConfidenceInterval
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.logs.diagnostics.comparison.judged_constraints import JudgedGuardrail
from drcrm.logs.report.page import page
from drcrm.logs.report.texts import headline, text, wrap
from drcrm.mapping.entries import Guardrail


def all_good() -> dict:
    return diagnosed() | {"diagnostics": [check | {"level": "good"} for check in diagnosed()["diagnostics"]]}


def certified(shown: str, **changes: str) -> dict:
    """Return an answer of ``certify``. Its title is the verdict, whatever an interval at one look says."""
    return better() | {"verdict": better()["verdict"] | {"verdict": "certified"} | changes, "shown": shown}


ASSUMED = {"assumption": "the estimated propensities are right"}


@pytest.mark.parametrize(
    ("answer", "kind", "title"),
    [
        (better(), "better", "Better than the logging policy"),
        (wrong(), "wrong", "The log is wrong: inconsistent propensities"),
        (wrong() | {"verdict": None}, "wrong", "2 checks of 8 fail"),
        (all_good(), "better", "No fault found"),
        (certified("better"), "better", "Certified better than the logging policy"),
        (certified("worse"), "worse", "Certified, and worse than the logging policy"),
        (certified("not shown"), "open", "Certified, not shown to be better"),
        (
            better() | {"verdict": better()["verdict"] | ASSUMED},
            "better",
            "Better, if the estimated propensities are right",
        ),
        (certified("better", **ASSUMED), "better", "Certified better, if the estimated propensities are right"),
        (certified("not shown", **ASSUMED), "open", "Certified, not shown to be better"),
    ],
)
def test_verdict_or_summary_of_the_checks(answer, kind, title):
    assert headline(as_answer(answer))[:2] == (kind, title)


def test_rewards_are_negated_costs_with_swapped_ends():
    costs, rewards = as_answer(better() | {"reward": False}), as_answer(better())
    cost, reward = costs.chosen, rewards.chosen
    assert reward.interval == ConfidenceInterval(-cost.interval.value, -cost.interval.high, -cost.interval.low)
    assert reward.interval.low < reward.interval.value < reward.interval.high
    assert (reward.bound, reward.difference_bound) == (-cost.bound, -cost.difference_bound)
    assert rewards.units.convert(rewards.logging) == 0.0512


def test_headline_numbers_are_of_the_best_other_candidate_if_the_logging_policy_is_kept():
    view = as_answer(not_shown())
    assert view.keeps_reference
    assert (view.evaluated.label, view.evaluated.described_settings) == ("KL-DRO, DR", "radius 0.1")  # least bound
    assert [view.ranked[0].is_logging, view.ranked[1]] == [True, view.evaluated]
    assert view.subject == "The best candidate"


def test_numbers_are_of_the_candidate_that_the_sentence_is_about():
    answer = not_shown()
    *_, last = [entry for entry in answer["candidates"] if not entry.get("is_logging")]
    last["best"] = True
    assert as_answer(answer).evaluated.comparison is last


def test_the_main_estimate_is_that_of_the_certificate():
    answer = better()
    answer["candidates"][4]["certificate"]["estimate"] = "snips"
    assert as_answer(answer).chosen.main_estimate == "snips"
    answer["candidates"][4]["estimates"]["snips"] = None
    assert as_answer(answer).chosen.main_estimate == "dr"


@pytest.mark.parametrize("kind", ANSWERS)
def test_text_cannot_control_the_terminal(kind):
    written = text(as_answer(ANSWERS[kind]()))
    assert written.endswith("\n")
    categories = {unicodedata.category(character) for character in written.replace("\n", "").replace("\u200d", "")}
    assert not categories & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    if kind != "hostile":
        assert max(map(len, written.splitlines())) <= 100


def test_guardrails_the_outcome_and_the_next_step_are_in_the_text():
    difference = Interval(-0.01, standard_error=0.004, low=-0.018, high=-0.002)
    guardrail = Guardrail("signups", "signup", is_reward=True, margin=0.01, is_relative=True)
    rail = JudgedGuardrail(guardrail, difference, allowed=0.002, bound=0.003)
    answer = as_answer(better() | {"outcome": "click", "next_step": "Deploy it.", "guardrails": [rail]})
    lines = [" ".join(line.split()) for line in text(answer).splitlines()]
    assert any(line.startswith("click 95 % interval") for line in lines)
    assert "signups +0.0100 at least −0.0030 at least −1 %, −0.0020 not shown" in lines
    assert "Next: Deploy it." in lines
    written = page(answer)
    assert "0 of 1 guardrail hold" in written
    assert "<b>Next:</b> Deploy it." in written
    assert "Click minus that of the logging policy" in written


def test_no_line_ends_inside_a_number():
    for words in range(40):
        lines = wrap("word " * words + "1 250 000 rows at 95 %")
        assert any("1 250 000" in line for line in lines)
        assert any("95 %" in line for line in lines)
