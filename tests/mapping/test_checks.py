"""Repeated keys in YAML, JSON and options of commands."""

import json

import pytest
from fixtures.user_input import examples, refusal
from hypothesis import given
from hypothesis import strategies as st

from drcrm.__main__ import main
from drcrm.errors import InputError
from drcrm.mapping.checks import parse_json, parse_yaml
from drcrm.mapping.log_mapping import as_mapping

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('{}":\\ \nab'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('{}":\\ \nab'), inner, max_size=3),
    max_leaves=12,
)


@examples(30)
@given(st.dictionaries(st.text('{}":\\ \nab', min_size=1), VALUES, min_size=1), st.data())
def test_json_with_a_repeated_key_names_it(value, data):
    """At any depth, for any content."""
    key = data.draw(st.sampled_from(sorted(value)))
    members = [f"{json.dumps(name)}: {json.dumps(content)}" for name, content in [*value.items(), (key, value[key])]]
    text = '{"outer": [{\n' + ",\n".join(members) + "\n}]}"
    with pytest.raises(InputError) as error:
        parse_json(text)
    assert error.value.args == (f"{key} occurs twice in one map, expected once",)


def test_yaml_has_both_lines():
    text = "a: 1\nb:\n  - {c: 1, d: 2,\n     c: 3}\na: 2\n"
    with pytest.raises(InputError) as error:
        parse_yaml(text)
    assert error.value.args == (
        "line 4: c occurs twice, first in line 3",
        "line 5: a occurs twice, first in line 1",
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "m.yaml",
            "action: a\nreward: r\npropensity: p\nreward: s\n",
            "line 4: reward occurs twice, first in line 2",
        ),
        ("m.yaml", "features:\n  numeric: [a]\n  numeric: [b]\n", "line 3: numeric occurs twice"),
        ("m.json", '{"action": "a",\n "reward": "r",\n "action": "b"}', "action occurs twice in one map"),
    ],
)
def test_a_mapping_with_a_repeated_key_is_an_error(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    assert refusal(as_mapping, tmp_path / name).startswith(f"{tmp_path / name}: {message}")


def test_json_of_the_command_line_with_a_repeated_key_is_an_error(capsys):
    with pytest.raises(SystemExit):
        main(["diagnose", "log.csv", "--config", '{"reward": "r", "reward": "s"}'])
    message = "drcrm diagnose: argument --config: reward occurs twice in one map, expected once\n"
    assert capsys.readouterr().err == message


def test_ordinary_aliases_and_merged_keys_are_read():
    text = "base: &base {x: 1, y: [2, 3]}\nnext: {<<: *base, x: 4}\nlist: [*base, *base]"
    base = {"x": 1, "y": [2, 3]}
    assert parse_yaml(text) == {"base": base, "next": base | {"x": 4}, "list": [base, base]}


@pytest.mark.parametrize("number", ["1:30", "-1:30", "190:20:30", "1:30.5"])
def test_numbers_in_base_60_are_refused(number):
    with pytest.raises(InputError, match=f"line 2: YAML reads {number} as a number in base 60; write it in quotes"):
        parse_yaml(f"a: 1\nsplit: {number}")
    assert parse_yaml(f"a: '{number}'\nb: 10:75") == {"a": number, "b": "10:75"}


@pytest.mark.parametrize("number", ["1e-3", "1e3", "+1E+3", "-2.5e3", ".5e3", "5.e1"])
def test_a_number_with_an_exponent_is_a_number_as_in_json(number):
    """In quotes it is a text, and so are the digits of a hash."""
    assert parse_yaml(f"a: {number}") == {"a": float(number)}
    texts = [f"'{number}'", "6250e61dabf7506e8", "1e3x", "e3"]
    assert parse_yaml(f"[{', '.join(texts)}]") == [number, *texts[1:]]
