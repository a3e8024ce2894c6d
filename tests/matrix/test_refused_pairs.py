"""Pairs of options that cannot be: drcrm refuses the question, and says why."""

import json

import pytest

from matrix.cases import Case, certify_options
from matrix.commands import run
from matrix.logs import mapping_of, write_log
from matrix.options import REFUSED, Row, covering_array

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
            assert len(pairs) == count_values(first) * count_values(second), (first, second)


def count_values(name: str) -> int:
    from matrix.options import OPTIONS

    return len(OPTIONS[name])
