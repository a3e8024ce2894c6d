"""Mappings: keys, conflicts between them, repeated keys, and the schema."""

import json

import pytest
from fixtures.user_input import examples, refusal
from hypothesis import given
from hypothesis import strategies as st

from drcrm.__main__ import main
from drcrm.errors import InputError
from drcrm.mapping.checks import parse_json, parse_yaml
from drcrm.mapping.log_mapping import LogMapping, as_mapping

WHOLE = {
    "action": "item",
    "propensity": "p",
    "reward": "click",
    "features": {"numeric": ["age"], "categorical": ["city"], "time": ["ts"]},
    "time": "ts",
    "delimiter": ";",
    "decimal": ",",
    "slice": "position",
    "group": "user",
    "candidate": "q",
    "algorithm": {"estimator": "KLDRO", "grid": [0.1]},
    "split": "last 12.5 %",
    "cost_range": [-1, 0],
    "shift": 0.2,
}


@pytest.mark.parametrize("left_out", [None, "slice", "group", "candidate", "algorithm", "split", "cost_range"])
def test_a_mapping_survives_json(left_out):
    mapping = as_mapping({key: value for key, value in WHOLE.items() if key != left_out})
    assert as_mapping(json.loads(json.dumps(mapping.as_dict()))) == mapping


def test_dict_yaml_and_json_have_the_same_mapping(tmp_path):
    (tmp_path / "m.json").write_text(json.dumps(WHOLE))
    (tmp_path / "m.yaml").write_text("\ufeff" + json.dumps(WHOLE), encoding="utf-8")
    for path in ("m.json", "m.yaml"):
        assert as_mapping(tmp_path / path) == as_mapping(str(tmp_path / path)) == as_mapping(WHOLE)


def test_the_default_split():
    assert as_mapping({}).split_rule == ("random", 0.25)
    assert as_mapping({"group": "user"}).split_rule == ("group", 0.25)
    assert as_mapping({"split": "last 10%"}).split_rule == ("last", 0.1)
    assert as_mapping(None) == LogMapping()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"acton": "item"}, "mapping has the key 'acton', expected only the keys action, labels, list, chosen"),
        ({"action": 3}, "action is 3, expected a column's name"),
        ({"action": ""}, "action is '', expected a column's name"),
        ({"slice": True}, "slice is True, expected a column's name, in quotes"),
        ({"labels": ["a"]}, "mapping has action and labels, expected only one of them"),
        ({"action": None, "labels": "a"}, "labels is 'a', expected a list of columns"),
        ({"action": None, "labels": []}, "labels is [], expected a list of at least one column"),
        ({"action": None, "labels": ["a", "a"]}, "labels is ['a', 'a'], expected a list of columns, each once"),
        ({"cost": "c"}, "mapping has reward and cost, expected only one of them"),
        ({"propensity": None}, "propensity is null; name a column, or add propensity_model: auto"),
        ({"propensity_model": "softmax"}, "propensity_model is 'softmax', but propensity is a column"),
        (
            {"propensity": None, "propensity_model": "forest"},
            "propensity_model is 'forest', expected 'softmax'",
        ),
        ({"features": ["age"]}, "features is ['age'], expected {numeric: [...], categorical: [...], time: [...]}"),
        ({"features": {"numeric": "age"}}, "features.numeric is 'age', expected a list of columns"),
        (
            {"features": {"text": ["age"]}},
            "features has the key 'text', expected only the keys numeric, categorical, time, in {numeric: [...], ",
        ),
        ({"features": {"numeric": ["a"], "categorical": ["a"]}}, "'a' is a numeric feature and a categorical feature"),
        ({"features": {"categorical": ["a"], "time": ["a"]}}, "'a' is a categorical feature and a time feature"),
        ({"features": {"time": ["click"]}}, "'click' is reward and a time feature, expected"),
        ({"time": 3}, "time is 3, expected a column's name"),
        ({"time": "click"}, "'click' is reward and time, expected a different column"),
        ({"delimiter": "x"}, "delimiter is 'x', expected one of ',', ';'"),
        ({"encoding": "utf-77"}, "encoding is 'utf-77', expected an encoding such as"),
        ({"features": {"numeric": ["click"]}}, "'click' is reward and a numeric feature, expected"),
        ({"features": {"categorical": ["item"]}}, "'item' is action and a categorical feature"),
        ({"propensity": "click"}, "'click' is propensity and reward, expected a different column for each"),
        ({"split": "first 10 %"}, "split is 'first 10 %', expected a text such as 'random 25 %'"),
        ({"split": "last 100 %"}, "split is 'last 100 %', expected a text such as"),
        ({"split": 0.25}, "split is 0.25, expected a text such as"),
        ({"group": None, "split": "group 25 %"}, "split is 'group 25 %', but the mapping has no group"),
        ({"cost_range": [0, -1]}, "cost_range is [0.0, -1.0], expected [least, largest]"),
        ({"cost_range": [0, float("inf")]}, "cost_range[1] is inf, expected a number"),
        ({"cost_range": 1}, "cost_range is 1, expected [least, largest]"),
        *(({"shift": value}, f"shift is {value!r}, expected a number above 0") for value in (0, -1, "a lot")),
        *(({"explore": value}, f"explore is {value!r}, expected a number from 0 to 1") for value in (-0.1, 1.5, "x")),
        *(({"least_propensity": value}, "expected a number above 0 and at most 1") for value in (0, -1, 1.1)),
        ({"algorithm": 3}, "algorithm is 3, expected a name, or a map (estimator"),
        ({"algorithm": {"weights": "none"}}, "algorithm is {'weights': 'none'}, expected a map with the key estimator"),
        ({"algorithm": {"estimator": None}}, "algorithm is {'estimator': None}, expected a map with the key estimator"),
        ({"algorithm": {"estimator": 3}}, "algorithm.estimator is 3, expected a name"),
        ({"algorithm": ["kl_dro", {"estimater": "POEM"}]}, "algorithm[1] has the key 'estimater', expected only the"),
        ({"algorithm": {"estimator": "POEM", "grid": 1}}, "algorithm.grid is 1, expected a list of numbers"),
        ({"algorithm": {"estimator": "POEM", "grid": [True]}}, "algorithm.grid[0] is True, expected a number"),
        (
            {"algorithm": {"estimator": "POEM", "options": {1: 2}}},
            "algorithm.options is 1, expected a key that is a text",
        ),
    ],
)
def test_invalid_mappings_are_rejected_in_one_line(changes, message):
    assert message in refusal(as_mapping, {**WHOLE, **changes})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.yaml", b"a: [", "line 1: not YAML: "),
        ("m.yaml", b"", "has no mapping of keys"),
        ("m.yaml", b"- action", "has no mapping of keys"),
        ("m.yaml", "city: Zürich".encode("latin-1"), "is not UTF-8 text"),
        ("m.json", b"{", "is not JSON: "),
        ("m.json", b"[" * 100_000, "is not JSON: "),
        ("m.json", b'{"action": 1}', "action is 1"),
    ],
)
def test_files_of_other_content_are_rejected(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    assert f"{tmp_path / name}: {message}" in refusal(as_mapping, tmp_path / name)


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ("action", "mapping has no action"),
        ("reward", "mapping has no reward"),
        ("propensity", "expected a column's name, {uniform: true}, or null with propensity_model: auto"),
        ("features", "mapping has no features"),
    ],
)
def test_a_table_needs_four_keys(left_out, message):
    with pytest.raises(InputError, match=message):
        as_mapping({key: value for key, value in WHOLE.items() if key != left_out}).require_table()


@pytest.mark.parametrize("key", ["action", "slice", "features"])
def test_files_without_named_columns_have_none_in_the_mapping(key):
    with pytest.raises(InputError, match=f"mapping has {key}, but dsjson has no named columns"):
        as_mapping({key: WHOLE[key]}).require_no_columns("dsjson")
    assert as_mapping({"split": "last 25 %"}).require_no_columns("dsjson").split == "last 25 %"


def _as_texts(value):
    """Return the value as ``--config`` of Snakemake passes it: every scalar is a text."""
    if isinstance(value, dict):
        return {key: _as_texts(item) for key, item in value.items()}
    return (
        [*map(_as_texts, value)] if isinstance(value, list) else value if isinstance(value, str) else json.dumps(value)
    )


@pytest.mark.parametrize("written", [_as_texts, lambda value: value], ids=["texts", "numbers"])
@pytest.mark.parametrize("propensity", [{"constant": 1e-3}, {"rule": "r", "exploration": 0.5}, {"uniform": True}, None])
def test_numbers_and_truth_values_may_be_texts_where_no_text_is_possible(written, propensity):
    options = {"ridge": 1e-3, "features": {"nystroem": 100}, "safe": True, "cost_model": "sklearn.svm:SVR"}
    content = WHOLE | {
        "propensity": propensity,
        "cost_range": [-1, 1.5e-3],
        "shift": 1e-2,
        "explore": 0,
        "least_propensity": 1e-3,
        "algorithm": [{"estimator": "KLDRO", "parameter": "radius", "grid": [1e-3, 2], "options": options}],
        "guardrails": {"a": {"cost": "b", "at_most": 1e-3, "range": [0, 1]}, "c": {"reward": "d", "at_least": "-1 %"}},
    }
    if propensity is None:
        content = {**content, "propensity_model": {"model": "auto", "trusted": True}}
    read = as_mapping(written(content) | {"propensity": written(propensity) if propensity else None})
    assert read == as_mapping(content)
    assert (read.least_propensity, read.explore, read.cost_range) == (1e-3, 0, (-1, 1.5e-3))
    assert read.algorithm[0]["options"] == options


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


@pytest.mark.parametrize("entry", ["[{}]", "{{<<: [{}]}}"], ids=["lists", "merged maps"])
def test_aliases_that_expand_endlessly_are_refused(entry):
    """Each line has ten copies of the line before. All of them together have a few hundred bytes."""
    lines = ["a0: &a0 " + entry.format("{x: 1}")]
    for number in range(1, 12):
        lines.append(f"a{number}: &a{number} " + entry.format(", ".join([f"*a{number - 1}"] * 10)))
    with pytest.raises(InputError, match="line 6: aliases must expand to at most 100000 values"):
        parse_yaml("\n".join(lines))
    with pytest.raises(InputError, match="aliases must expand to at most"):
        parse_yaml("a: &a [1, *a]")


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
