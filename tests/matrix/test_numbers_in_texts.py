"""Numbers in the sentences, the terminal text and the report of answers have one format."""

import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fixtures.user_logs import MAPPING, decisions

from matrix.cases import Case, certify_options
from matrix.commands import run
from matrix.options import covering_array

ROWS = covering_array()
SIZES = [(0, 1e8), (1, 1e-7), (7, 3e4), (12, 1.0)]  # row of the matrix, factor of its costs
ASCII_KEYS = {"condition"}  # as the mapping writes it
FORBIDDEN = {
    "Python's exponent": r"(?<!\w)\d[\d.]*[eE][+\-−]?\d+(?![\w-])",
    "a hyphen as minus sign": r"(?<![\w.\-/:'`])-\.?\d",
    "a negative zero": r"(?<![\w.])[-−]0(?:[.,]0*)?(?![\d.])",
    "a plus before zero": r"\+0(?:\.0*)?(?![\d.])",
    "a number without a leading zero": r"(?<![\w.…])\.\d",
}


def texts_of(value: Any, key: str = "") -> Iterator[str]:
    """Yield the texts of an answer that are for people: those with a space."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from texts_of(part, name)
    elif isinstance(value, list):
        for part in value:
            yield from texts_of(part, key)
    elif isinstance(value, str) and " " in value and key not in ASCII_KEYS:
        yield value


def read_page(text: str) -> str:
    """Return the text of an HTML page."""
    text = re.sub(r"<(style|script)\b.*?</\1>", " ", text, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", " ", text))


def faults_in(text: str) -> list[str]:
    """Return the forbidden numbers in a text, each with its surroundings."""
    return [
        f"{name}: {text[max(0, match.start() - 40) : match.end() + 20]!r}"
        for name, pattern in FORBIDDEN.items()
        for match in re.finditer(pattern, text)
    ]


@pytest.mark.parametrize(
    "text", ["by +1.273e+05", "by -0.02", "by −0", "by -0.00 %", "of .07287", "+0 per row", "1e-7"]
)
def test_forbidden_numbers_are_found(text):
    assert faults_in(text)


@pytest.mark.parametrize("text", ["on 2024-03-01", "+0.02", "−0.5", "1.2 × 10⁻⁷", "k-2", "row 0", "0.000", "1−2"])
def test_right_numbers_are_no_faults(text):
    assert faults_in(text) == []


@pytest.mark.parametrize("factor", [1e7, 1e-6])
def test_learned_answers_have_no_forbidden_numbers(factor, tmp_path):
    frame = decisions(600)
    frame.assign(click=factor * frame["click"]).to_csv(tmp_path / "log.csv", index=False)
    report = tmp_path / "report.html"
    arguments = "--config", json.dumps(MAPPING), "--output", tmp_path / "policy.npz", "--report", report
    answer = run("learn", tmp_path / "log.csv", *arguments)
    assert answer.status == 0, answer.error
    texts = [answer.text, answer.error, *texts_of(answer.json), read_page(report.read_text(encoding="utf-8"))]
    assert [fault for text in texts for fault in faults_in(text)] == []


@pytest.mark.parametrize(("number", "factor"), SIZES, ids=[f"row_{number}" for number, _ in SIZES])
def test_answers_have_no_forbidden_numbers(number, factor, tmp_path):
    case = Case(ROWS[number], tmp_path)
    low, high = (factor * end for end in case.log.cost_range)
    log = replace(case.log, cost=factor * case.log.cost, cost_range=(low, high))
    policies, report = case.rewrite(log), tmp_path / "report.html"
    options = (*certify_options(log.row, policies[1]), "--report", report)
    answer = case.ask(log, policies=policies, options=options)
    texts = [answer.text, *texts_of(answer.json), read_page(report.read_text(encoding="utf-8"))]
    assert [fault for text in texts for fault in faults_in(text)] == []
