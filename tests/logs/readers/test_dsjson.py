"""dsjson: decisions of Vowpal Wabbit, their probabilities and weights, skipped lines and errors."""

import json

import numpy as np
import pytest
from fixtures.text_logs import decision, read_contexts, write_lines
from fixtures.user_input import refusal

import drcrm
from drcrm.errors import InputError
from drcrm.logs.batches import fit_encoding
from drcrm.logs.encoding.base import MATRIX
from drcrm.logs.read_log import read_raw_log
from drcrm.logs.readers.dsjson import features


def test_a_decision_is_read_like_vowpal_wabbit(tmp_path):
    second = decision(_label_Action=3, _labelIndex=2, _label_probability=0.2)
    log = drcrm.read_log(write_lines(tmp_path, decision(), second))
    assert (log.Y.tolist(), log.propensity.tolist(), log.cost.tolist()) == ([1, 2], [0.7, 0.2], [-1, -1])
    assert log.actions.starts.tolist() == [0, 3, 6]


def test_features_are_named_like_in_vowpal_wabbits_json():
    context = {
        "a": "x y",
        "n": 2.5,
        "t": True,
        "f": False,
        "z": None,
        "zero": 0,
        "l": [1, "u", {"k": 2}],
        "o": {"p": {"q": 1}},
        "_hidden": 3,
        "_multi": [{}],
        "_text": "two words",
        "deep": {"_text": "w"},
    }
    texts = dict.fromkeys(("a=x y", "t", "l[0]", "l=u", "o^p^q", "two", "words", "deep^w"), 1)
    assert dict(features(context)) == {**texts, "n": 2.5, "l^k": 2}


def test_skipped_lines_are_counted(tmp_path):
    path = write_lines(
        tmp_path,
        '[CHECKPOINT {"a": 1}]',
        decision(),
        decision(_skipLearn=True),
        {"RewardValue": 1, "EventId": "e", "EnqueuedTimeUtc": "t"},
        {"EventId": "e", "Observations": [{"v": 1}]},
        "",
        decision(_skipLearn=False),
    )
    raw_log = read_raw_log(path)
    assert raw_log.rows.get("number").tolist() == [1, 6]
    reasons = "checkpoints", "lines with _skipLearn", "rewards and observations without a decision"
    assert raw_log.skipped == dict(zip(reasons, (1, 1, 2), strict=True)) == dict(drcrm.read_log(path).skipped)


def test_actions_are_counted_from_0_if_a_has_0(tmp_path):
    lines = decision(a=[1, 0, 2], _label_Action=1), decision(a=[2, 1], p=[0.4, 0.6], _label_Action=2, _labelIndex=2)
    lines[1]["_label_probability"] = 0.4
    assert drcrm.read_log(write_lines(tmp_path, *lines)).Y.tolist() == [1, 2]


@pytest.mark.parametrize("left_out", [["_labelIndex"], ["_label_Action"], ["_label_probability"], ["p", "a"]])
def test_redundant_keys_may_be_missing(tmp_path, left_out):
    log = drcrm.read_log(write_lines(tmp_path, decision(**dict.fromkeys(left_out, ...))))
    assert (log.Y.tolist(), log.propensity.tolist()) == ([1], [0.7])


@pytest.mark.parametrize(
    "p",
    [
        [0.7, 0.3, 0],  # a bag without a vote for an action
        [0.7, 0.1, 0.1],  # a truncated list
        np.float32([0.7, 0.2, 0.1]).astype(float).tolist(),
        [0.7, 0.16, 0.15],  # rounded to two digits from 0.7, 0.155 and 0.145
    ],
)
def test_probabilities_may_be_zero_rounded_or_incomplete(tmp_path, p):
    assert drcrm.read_log(write_lines(tmp_path, decision(p=p, _label_probability=...))).propensity.tolist() == [p[0]]


@pytest.mark.parametrize(("dropped", "count"), [([0.5] * 3, [1, 1, 1]), ([0.5, 0, 0.75, 0.0], [2, 1, 4, 1])])
def test_counts_are_relative_weights_of_lines_that_were_not_dropped(tmp_path, dropped, count):
    log = drcrm.read_log(write_lines(tmp_path, *(decision(pdrop=value) for value in dropped)))
    assert log.count.tolist() == count
    assert log.is_weighted is (max(count) > 1)
    assert log.copies.tolist() == [1] * len(count)
    np.testing.assert_allclose(log.relative_weight * np.ones(len(count)), np.array(count) / np.mean(count))


def test_the_mean_count_is_the_weight(tmp_path):
    lines = [decision(pdrop=0.6)] * 2000 + [decision()]
    count = drcrm.read_log(write_lines(tmp_path, *lines)).count
    assert set(count[:-1]) == {2, 3}
    assert abs(count[:-1].mean() - 2.5) < 4 * 0.5 / np.sqrt(2000)


@pytest.mark.parametrize("broken", ['{"_label_cost": 0, "c": {"U', b'{"c": {"city": "Z\xc3', "3", "}"])
def test_malformed_lines_are_skipped_and_counted(tmp_path, broken):
    """They are at most 1 % of the lines of a log. Contexts have none, since each line gets an action."""
    whole = [json.dumps(decision(_label_cost=cost)).encode() for cost in range(198)]
    broken = broken if isinstance(broken, bytes) else broken.encode()
    path = tmp_path / "log.dsjson"
    path.write_bytes(b"\n".join([broken, *whole, broken]))
    raw_log = read_raw_log(path)
    assert (raw_log.cost.tolist(), raw_log.rows.get("number").tolist()) == ([*range(198)], [*range(1, 199)])
    assert raw_log.skipped == {"malformed lines": 2}
    with pytest.raises(InputError, match=r"row 0: is not .*correct or remove the line"):
        read_contexts(path, fit_encoding(raw_log))
    path.write_bytes(b"\n".join([*whole[1:], broken, broken]))
    with pytest.raises(InputError, match=r"row 197: is not .*; 2 of 199 lines are malformed, expected at most 1%"):
        read_raw_log(path)


@pytest.mark.parametrize("value", [float("nan"), np.float32("nan")])
def test_missing_values_are_left_out_and_counted(tmp_path, value):
    events = [decision(c={"User": {"age": age}, "_multi": [{"A": {"n": n}}, {"b": 1}, {}]}) for age, n in [(3, 2)] * 2]
    plain = read_raw_log(write_lines(tmp_path, *events))
    events[1]["c"]["_multi"][0]["A"]["n"] = float(value)
    events[0]["c"]["User"]["age"] = float(value)
    raw_log = read_raw_log(write_lines(tmp_path, *events))
    assert raw_log.description.missing == {"User^age": 1, "A^n": 1}
    for event, name in ((events[1]["c"]["_multi"][0]["A"], "n"), (events[0]["c"]["User"], "age")):
        del event[name]
    expected = read_raw_log(write_lines(tmp_path, *events))
    assert expected.X.get(MATRIX).nnz < plain.X.get(MATRIX).nnz
    assert abs(raw_log.X.get(MATRIX) - expected.X.get(MATRIX)).sum() == 0
    context = {"age": value, "city": "", "list": [value, 1]}
    assert [name for name, number in features(context) if number == number] == ["city=", "list[1]"]


@pytest.mark.parametrize(
    "label",
    [
        {"_label_Action": 2, "_label_Cost": -1.0, "_label_Probability": 0.7},
        {"_labelIndex": 1, "_label_cost": -1.0, "_label_probability": 0.7},
        {"_label": {"Action": 2, "Cost": -1.0, "Probability": 0.7}, "_tag": "e"},
    ],
)
def test_lines_of_vw_json_are_read_like_dsjson(tmp_path, label):
    expected = read_raw_log(write_lines(tmp_path, decision()))
    path = write_lines(tmp_path, decision()["c"] | label, name="log.json")
    raw_log = read_raw_log(path)
    for name in ("Y", "cost", "propensity"):
        assert getattr(raw_log, name) == getattr(expected, name)
    assert abs(raw_log.X.get(MATRIX) - expected.X.get(MATRIX)).sum() == 0
    assert len(read_contexts(path, fit_encoding(raw_log))[0]) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("3", "is not a map in JSON"),
        ({}, "has no 'c', expected the context"),
        ({"_label": "1:-1:0.5", "age": 3}, "VW --json (write events of single actions as Vowpal Wabbit's text)"),
        (decision(c=3), "'c' is of type int"),
        (decision(c={}), "_multi is missing"),
        (decision(c={"_multi": []}), "_multi is missing"),
        (decision(c={"_multi": [3]}), "_multi is missing or not a list of maps"),
        (decision(p=[0.7, 0.3]), "'a' has 3 entries and 'p' has 2, expected the same number"),
        (decision(a=[1, 3, 4]), "the logged action, 2, is not in the list 'a'"),
        (decision(a=[1, 0, 2]), "row 1: 'a' has the action 0, expected actions counted from 1, like in earlier lines"),
        (decision(a=3), "'a' or 'p' is not a list"),
        (decision(p=[0.1, 0.7, 0.2]), "_label_probability is 0.7, but the logged action has 0.1 in 'p'"),
        (decision(p=[1.2, 0.1, 0.2], _label_probability=1.2), "'p' has '1.2', expected a number in"),
        (decision(p=["x", 0.1, 0.2], _label_probability=...), "'p' has 'x', expected a number in"),
        (decision(p=[0, 0.5, 0.5], _label_probability=...), "'p' has '0', expected a number in (0, 1]"),
        (decision(p=[0.7, -0.1, 0.2]), "'p' has '-0.1', expected a number in [0, 1]"),
        (decision(p=[0.7, float("nan"), 0.2]), "'p' has 'nan', expected a number in [0, 1]"),
        (decision(p=[1, 1, 1], _label_probability=1), "'p' adds up to 3, expected at most 1"),
        (decision(p=[0.7, 0.2, 0.2]), "'p' adds up to 1.1, expected at most 1"),
        (decision(p=..., _label_probability=1.2), "propensity is 1.2 in row 1, expected a value in (0, 1]"),
        (decision(p=..., _label_probability=...), "has no 'p' and no _label_probability"),
        (decision(_label_Action=4), "_label_Action is 4, expected a whole number from 1 to 3"),
        (decision(_label_Action=0), "_label_Action is 0, expected a whole number from 1 to 3"),
        (decision(_label_Action="2"), "_label_Action is 2, expected a whole number"),
        (decision(_label_Action=1), "_label_Action and _labelIndex name actions 0 and 1"),
        (decision(_label_Action=..., _labelIndex=...), "has no _label_Action and no _labelIndex"),
        (decision(_label_cost=...), "has no _label_cost, expected a number"),
        (decision(_label_cost="low"), "_label_cost is 'low', expected a finite number"),
        (decision(_label_cost=float("nan")), "_label_cost is 'nan', expected a finite number"),
        (decision(_label_cost=10**400), "_label_cost is '1000"),
        (decision(pdrop=1), "pdrop is 1, expected a number of at least 0 and below 1"),
        (decision(pdrop=-0.1), "pdrop is -0.1, expected"),
        (decision(_outcomes=[]), "has _outcomes, so it describes conditional bandits (CCB) or slates; write an event"),
        ({"_label_ca": {}, "c": {}}, "describes continuous actions (CATS)"),
        (decision(c={"_multi": [{}], "_slots": []}), "describes conditional bandits (CCB)"),
        (decision(c={"x": float("inf"), "_multi": [{"a": 1}] * 3}), "x is 'inf', expected a finite number"),
    ],
)
def test_invalid_lines_are_rejected_with_their_row(tmp_path, line, message):
    path = write_lines(tmp_path, decision(), line)
    error = refusal(read_raw_log, path)
    assert message in error
    assert error.startswith(f"{path}: ")
    assert "row 1" in error


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "has no rows that can be read"),
        ([{"RewardValue": 1}], "has no rows that can be read, expected at least one; 1 rewards and observations"),
        ([decision(c={"_multi": [{}, {}, {}]})], "no action has features"),
    ],
)
def test_files_without_a_decision_are_rejected(tmp_path, lines, message):
    with pytest.raises(InputError, match=message):
        drcrm.read_log(write_lines(tmp_path, *lines))


def test_columns_cannot_be_mapped(tmp_path):
    with pytest.raises(InputError, match="mapping has reward, but a dsjson file has no named columns"):
        read_raw_log(write_lines(tmp_path, decision()), {"reward": "click"})
