"""Each row of the matrix: relations that apply to it, numbers in its texts, and pairs of options that cannot be.

``python -m pytest tests/matrix -k row_17`` runs one row. ``make test`` runs the rows of ``FAST``, and ``make
test-matrix`` all of them.
"""

import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fixtures.user_logs import MAPPING, decisions

import matrix.computations  # noqa: F401, registers relations
from matrix.cases import Case, certify_options
from matrix.commands import run
from matrix.logs import mapping_of, write_log
from matrix.options import OPTIONS, REFUSED, Row, covering_array
from matrix.relations import RELATIONS, relations_of

ROWS = covering_array()
FAST = {0, 1, 12}
MARKED = [
    pytest.param(number, id=f"row_{number}", marks=() if number in FAST else pytest.mark.slow)
    for number in range(len(ROWS))
]


@pytest.mark.parametrize("number", MARKED)
def test_relations_hold(number, tmp_path):
    row = ROWS[number]
    case, failures = Case(row, tmp_path), []
    for name in relations_of(row):
        try:
            RELATIONS[name][0](case)
        except AssertionError as error:
            failures.append(f"{name}: {str(error)[:1000]}")
    assert not failures, "\n".join([f"python -m pytest tests/matrix -k 'row_{number}'", str(row), *failures])


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


FORMATS = {"count": {"format": "npz"}, "pdrop": {"format": "dsjson", "kind": "lists"}}


def question(pair) -> Row:
    """Return the row with a pair of values; watched counts and weights need the format that has them."""
    values = dict(pair)
    return Row(**(FORMATS.get(values.get("units"), {}) if "look" in values else {}) | values)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Return a function that returns the case of a row without its look, its estimate and its shift, made once."""
    made = {}

    def case_of(row: Row) -> Case:
        plain = row._replace(look="once", estimate="auto", shift="none")
        if plain not in made:
            made[plain] = Case(plain, tmp_path_factory.mktemp("refused"))
        return made[plain]

    return case_of


@pytest.mark.parametrize("pair", REFUSED, ids=lambda pair: "-".join(value for _, value in pair))
def test_a_pair_that_cannot_be_is_refused(pair, cases):
    row = question(pair)
    case = cases(row)
    log = case.log
    is_asked = {"look", "estimate", "shift", "reference"} & {name for name, _ in pair}
    config = "--config", json.dumps(mapping_of(log, **({"shift": 0.05} if row.shift == "shift" else {})))
    if row.files != "one":
        config = config[0], json.dumps(mapping_of(log))
    files = case.files if is_asked else write_log(log, case.new_folder())
    if not is_asked:
        answer = run("diagnose", *files, *config)
    elif row.reference == "column":
        answer = run("certify", "column:mine", *files, *config, *certify_options(row, files[0]))
    else:
        answer = run("certify", case.policies[0], *files, *config, *certify_options(row, case.policies[1]))
    assert REFUSED[pair] in answer.error + answer.text
    if not answer.json:
        assert answer.status in (1, 2)
    else:  # an asymptotic bound is refused in an answer
        assert answer.json["verdict"]["verdict"] == "the log cannot say"
        assert "bound" not in answer.json["candidates"][0]["certificate"]


def test_rows_cover_all_other_pairs():
    cells = {pair for row in covering_array() for pair in row.pairs}
    assert not cells & REFUSED.keys()
    names = [*Row._fields]
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            pairs = {pair for pair in cells | REFUSED.keys() if (pair[0][0], pair[1][0]) == (first, second)}
            assert len(pairs) == len(OPTIONS[first]) * len(OPTIONS[second]), (first, second)
