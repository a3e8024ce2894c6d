"""Vowpal Wabbit's formats: text and dsjson, and what becomes of their features."""

from __future__ import annotations

import gzip
import json
import re

import numpy as np
import pytest
from log_contexts import read_contexts
from sklearn.feature_extraction import FeatureHasher

import drcrm
from drcrm.errors import InputError
from drcrm.logs.encoded_log import log_of
from drcrm.logs.encoding.hashed_features import TIMES
from drcrm.logs.encoding.registry import encoding_of
from drcrm.logs.readers.dsjson import features
from drcrm.logs.readers.log_files import read_records


def decision(**changes) -> dict:
    """A line as VW writes it: action 2 of 3 was chosen."""
    said = {
        "_label_cost": -1.0,
        "_label_probability": 0.7,
        "_label_Action": 2,
        "_labelIndex": 1,
        "o": [{"EventId": "e", "v": 1}],
        "Timestamp": "2020-01-01T00:00:00Z",
        "Version": "1",
        "EventId": "e",
        "a": [2, 1, 3],
        "c": {
            "User": {"city": "Bern", "age": 3},
            "_multi": [{"A": {"id": "x"}}, {"A": {"id": "y", "n": 2}}, {"b": True}],
        },
        "p": [0.7, 0.1, 0.2],
        "VWState": {"m": "0"},
    }
    return {key: value for key, value in {**said, **changes}.items() if value is not ...}


def file_of(folder, *lines, name="log.dsjson"):
    path = folder / name
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


def test_a_decision_is_read_as_vw_does(tmp_path):
    log = drcrm.read_log(
        file_of(tmp_path, decision(), decision(_label_Action=3, _labelIndex=2, _label_probability=0.2))
    )
    assert (log.Y.tolist(), log.propensity.tolist(), log.cost.tolist()) == ([1, 2], [0.7, 0.2], [-1, -1])
    assert log.actions.starts.tolist() == [0, 3, 6]


def test_features_are_own_ones_and_products(tmp_path):
    """By another route: the hasher on every name of an action."""
    records = read_records(file_of(tmp_path, decision()))
    shared = {"User^city=Bern": 1, "User^age": 3}
    own = [{"A^id=x": 1}, {"A^id=y": 1, "A^n": 2}, {"b": 1}]
    named = [{**each, **{f"{a}{TIMES}{s}": each[a] * shared[s] for a in each for s in shared}} for each in own]
    expected = FeatureHasher(2**18).transform(named).tocsr()
    encoding = records.fit()
    assert encoding.kept == sorted(set(expected.indices.tolist()))
    found = encoding.contexts(records.data).features.toarray()
    assert np.array_equal(found, expected[:, encoding.kept].toarray())


def test_features_as_vws_json_has_them():
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
    assert dict(features(context)) == {
        "a=x y": 1,
        "n": 2.5,
        "t": 1,
        "l[0]": 1,
        "l=u": 1,
        "l^k": 2,
        "o^p^q": 1,
        "two": 1,
        "words": 1,
        "deep^w": 1,
    }


def test_what_is_skipped_is_counted(tmp_path):
    path = file_of(
        tmp_path,
        '[CHECKPOINT {"a": 1}]',
        decision(),
        decision(_skipLearn=True),
        {"RewardValue": 1, "EventId": "e", "EnqueuedTimeUtc": "t"},
        {"EventId": "e", "Observations": [{"v": 1}]},
        "",
        decision(_skipLearn=False),
    )
    records = read_records(path)
    assert records.rows.tolist() == [1, 6]
    assert records.skipped == {
        "checkpoints": 1,
        "lines with _skipLearn": 1,
        "rewards and observations without a decision": 2,
    }
    assert dict(drcrm.read_log(path).skipped) == records.skipped


def test_a_file_with_0_in_a_is_numbered_from_0(tmp_path):
    lines = decision(a=[1, 0, 2], _label_Action=1), decision(a=[2, 1], p=[0.4, 0.6], _label_Action=2, _labelIndex=2)
    lines[1]["_label_probability"] = 0.4
    assert drcrm.read_log(file_of(tmp_path, *lines)).Y.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("left_out", "place"), [(["_labelIndex"], 1), (["_label_Action"], 1), (["_label_probability"], 1), (["p", "a"], 1)]
)
def test_what_is_said_twice_need_be_said_once(tmp_path, left_out, place):
    log = drcrm.read_log(file_of(tmp_path, decision(**dict.fromkeys(left_out, ...))))
    assert (log.Y.tolist(), log.propensity.tolist()) == ([place], [0.7])


@pytest.mark.parametrize(
    "p",
    [
        [0.7, 0.3, 0],  # a bag that has no vote for an action
        [0.7, 0.1, 0.1],  # a list that was cut off
        np.float32([0.7, 0.2, 0.1]).astype(float).tolist(),
        [0.7, 0.16, 0.15],  # two digits each, as 0.7, 0.155 and 0.145 may be rounded
    ],
)
def test_probabilities_may_be_0_rounded_or_of_some_actions(tmp_path, p):
    log = drcrm.read_log(file_of(tmp_path, decision(p=p, _label_probability=...)))
    assert log.propensity.tolist() == [p[0]]


def test_a_pdrop_that_is_the_same_cancels(tmp_path):
    assert (drcrm.read_log(file_of(tmp_path, *[decision(pdrop=0.5)] * 3)).count == 1).all()


def test_a_pdrop_that_differs_counts(tmp_path):
    lines = [decision(pdrop=0.5), decision(), decision(pdrop=0.75), decision(pdrop=0.0)]
    assert drcrm.read_log(file_of(tmp_path, *lines)).count.tolist() == [2, 1, 4, 1]


def test_counts_of_pdrop_have_the_weight_as_their_mean(tmp_path):
    lines = [decision(pdrop=0.6)] * 2000 + [decision()]
    count = drcrm.read_log(file_of(tmp_path, *lines)).count
    assert set(count[:-1]) == {2, 3}
    assert abs(count[:-1].mean() - 2.5) < 4 * 0.5 / np.sqrt(2000)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("3", "is not a map in JSON"),
        ({}, "has no c, expected the context"),
        (decision(c=3), "c is of type int"),
        (decision(c={}), "_multi is missing"),
        (decision(c={"_multi": []}), "_multi is missing"),
        (decision(c={"_multi": [3]}), "_multi is missing or not a list of maps"),
        (decision(p=[0.7, 0.3]), "a has 3 entries, p 2, expected the same number"),
        (decision(a=[1, 3, 4]), "the logged action, 2, is not in a"),
        (decision(a=3), "a or p is not a list"),
        (decision(p=[0.1, 0.7, 0.2]), "_label_probability is 0.7, but p of the logged action 0.1"),
        (
            decision(p=[1.2, 0.1, 0.2], _label_probability=1.2),
            "row 1: p has '1.2', expected a number in",
        ),
        (decision(p=["x", 0.1, 0.2], _label_probability=...), "row 1: p has 'x', expected a number in"),
        (
            decision(p=[0, 0.5, 0.5], _label_probability=...),
            "row 1: p has '0', expected a number in (0, 1]",
        ),
        (decision(p=[0.7, -0.1, 0.2]), "row 1: p has '-0.1', expected a number in [0, 1]"),
        (decision(p=[0.7, float("nan"), 0.2]), "row 1: p has 'nan', expected a number in [0, 1]"),
        (decision(p=[1, 1, 1], _label_probability=1), "row 1: p adds up to 3, expected at most 1"),
        (decision(p=[0.7, 0.7, 0.7]), "row 1: p adds up to 2.1, expected at most 1"),
        (decision(p=..., _label_probability=1.2), "propensity is 1.2 in row 1, expected a value in (0, 1]"),
        (decision(p=..., _label_probability=...), "has no p and no _label_probability"),
        (decision(_label_Action=4), "_label_Action is 4, expected a whole number from 1 to 3"),
        (decision(_label_Action=0), "_label_Action is 0, expected a whole number from 1 to 3"),
        (decision(_label_Action="2"), "_label_Action is 2, expected a whole number"),
        (decision(_label_Action=1), "_label_Action and _labelIndex are of actions 0 and 1"),
        (decision(_label_Action=..., _labelIndex=...), "has no _label_Action and no _labelIndex"),
        (decision(_label_cost=...), "has no _label_cost, expected a number"),
        (decision(_label_cost="low"), "_label_cost is 'low', expected a finite number"),
        (decision(_label_cost=float("nan")), "_label_cost is 'nan', expected a finite number"),
        (decision(_label_cost=10**400), "_label_cost is '1000"),
        (decision(pdrop=1), "pdrop is 1, expected a number from 0 to below 1"),
        (decision(pdrop=-0.1), "pdrop is -0.1, expected"),
        (decision(_outcomes=[]), "describes conditional bandits (CCB) or slates, expected one action of a list"),
        ({"_label_ca": {}, "c": {}}, "describes continuous actions (CATS)"),
        (decision(c={"_multi": [{}], "_slots": []}), "describes conditional bandits (CCB)"),
        (decision(c={"x": float("inf"), "_multi": [{"a": 1}] * 3}), "x is inf, expected a finite number"),
    ],
)
def test_lines_that_are_no_decision(tmp_path, line, message):
    path = file_of(tmp_path, decision(), line)
    with pytest.raises(InputError, match=re.escape(message)) as error:
        read_records(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "row 1" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "has no rows that can be read"),
        ([{"RewardValue": 1}], "has no rows that can be read, expected at least one; 1 rewards and observations"),
        ([decision(c={"_multi": [{}, {}, {}]})], "no action has features, expected"),
    ],
)
def test_files_without_a_decision(tmp_path, lines, message):
    with pytest.raises(InputError, match=message):
        drcrm.read_log(file_of(tmp_path, *lines))


def test_a_file_that_is_cut_off(tmp_path):
    path = tmp_path / "log.json.gz"
    path.write_bytes(gzip.compress("\n".join([json.dumps(decision(EventId=str(i))) for i in range(99)]).encode())[:-40])
    with pytest.raises(InputError, match=r"log\.json\.gz: is truncated or damaged"):
        read_records(path)


def test_a_list_encoding_goes_through_json_and_says_what_is_new(tmp_path):
    records = read_records(file_of(tmp_path, *[decision()] * 3))
    encoding = encoding_of(json.loads(json.dumps(records.fit().as_dict())))
    assert encoding == records.fit()
    new = decision(c={"_multi": [{"A": {"id": "x"}}, {"A": {"id": "new"}}]}, _label_cost=..., p=..., a=...)
    lists, unseen = read_contexts(file_of(tmp_path, new, name="new.json"), encoding)
    assert lists.starts.tolist() == [0, 2]
    assert unseen == {"new features": 1}
    assert not lists.features[[1]].toarray().any()


def test_some_lists_are_those_of_their_rows(tmp_path):
    lines = [decision(c={"s": i, "_multi": [{"k": f"{i}{j}"} for j in range(2 + i % 3)]}) for i in range(9)]
    for line in lines:
        line.update(a=[2], p=[0.7])
    records = read_records(file_of(tmp_path, *lines))
    encoding, rows = records.fit(), np.array([7, 2, 5])
    some = log_of(records.take(rows), encoding)
    every = log_of(records, encoding)
    expected = every.actions.unbind(every.X)[rows]
    assert np.array_equal(some.actions.starts, expected.starts)
    assert np.array_equal(some.X.toarray(), expected.features.toarray())
    assert some.context.tolist() == [0, 1, 2]


TEXT = """1:-1:0.5 'tag|user age:2 city=Bern |item:2 x
2:0:0.25 | a b
1:0.5:1 tag| a
"""


def test_text_of_single_actions(tmp_path):
    path = file_of(tmp_path, TEXT, name="log.vw")
    log = drcrm.read_log(path)
    assert (log.Y.tolist(), log.cost.tolist(), log.propensity.tolist()) == ([0, 1, 0], [-1, 0, 0.5], [0.5, 0.25, 1])
    assert log.encoding.names == [1, 2]
    named = [{"user^age": 2, "user^city=Bern": 1, "item^x": 2}, {"^a": 1, "^b": 1}, {"^a": 1}]
    assert np.array_equal(
        log.X.toarray()[:, :-1], FeatureHasher(2**18).transform(named)[:, log.encoding.kept].toarray()
    )
    assert sorted(abs(log.X.toarray()[0])) == [0, 0, 1, 1, 2, 2]
    assert (log.X.toarray()[:, -1] == 1).all()


LISTS = """shared |user age:2
|a x
0:-1:0.5 |a y
|a z

shared |user age:3
1:0.25:0.75 |a y
|a x

|a x
|a y
"""


def test_text_of_lists(tmp_path):
    records = read_records(file_of(tmp_path, LISTS, name="log.txt"))
    log = log_of(records)
    assert (log.Y.tolist(), log.cost.tolist(), log.propensity.tolist()) == ([1, 0], [-1, 0.25], [0.5, 0.75])
    assert log.actions.starts.tolist() == [0, 3, 5]
    assert records.skipped == {"blocks without a label": 1}
    assert records.rows.tolist() == [0, 5]


def test_contexts_of_text(tmp_path):
    path = file_of(tmp_path, LISTS, name="log.dat")
    lists, unseen = read_contexts(path, read_records(path).fit())
    assert (lists.starts.tolist(), unseen) == ([0, 3, 5, 7], {})
    single = read_records(file_of(tmp_path, TEXT, name="log.vw")).fit()
    X, unseen = read_contexts(file_of(tmp_path, "| a\n| new", name="new.vw"), single)
    assert (X.shape, unseen) == ((2, 6), {"new features": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty, expected lines such as 1:-1:0.5 | features"),
        ("1:-1:0.5 | a\n1:2:x | a", "row 1: its probability is 'x', expected a finite number"),
        ("1:-1:0.5 | a\n1:-1:1.5 | a", "propensity is 1.5 in row 1, expected a value in (0, 1]"),
        ("1:-1:0.5 | a\n0:-1:0.5 | a", "row 1: the action is 0, expected 1 or more"),
        ("1:-1:0.5 | a\n1:-1:0.5 2 | a", "row 1: its label is '1:-1:0.5 2', expected action:cost:probability"),
        ("1:-1:0.5 | a\n1:-1 | a", "row 1: its label is '1:-1'"),
        ("1:-1:0.5 | a\n1:-1:0.5 | a:b:c", "row 1: 'a:b:c' is not a feature"),
        ("1:-1:0.5 | a\n1:-1:0.5 | a:nan", "row 1: a:nan is 'nan', expected a finite number"),
        ("1:-1:0.5 | a\n1000000:-1:0.5 | a", "actions reach 1000000 in 2 rows"),
        ("shared | a\n\n1:-1:.5 | a", "row 0: its block has no actions"),
        ("shared | a\n1:-1:.5 | a\n1:-1:.5 | a", "row 0: its block has 2 labels, expected one"),
        ("shared | a\nshared | a\n1:-1:.5 | a", "or several shared lines"),
        ("| a\n| b", "has no rows that can be read, expected at least one; 1 blocks without a label"),
        ('{"a": 1}', "row 0: is JSON, expected text"),
    ],
)
def test_text_that_is_none(tmp_path, text, message):
    path = file_of(tmp_path, text, name="log.vw")
    with pytest.raises(InputError, match=re.escape(message)) as error:
        read_records(path)
    assert str(error.value).startswith(f"{path}: ")


@pytest.mark.parametrize("name", ["log.vw", "log.dsjson"])
def test_bytes_that_are_not_utf_8(tmp_path, name):
    (tmp_path / name).write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="row 0: is not UTF-8"):
        read_records(tmp_path / name)


def test_columns_cannot_be_mapped(tmp_path):
    with pytest.raises(InputError, match="mapping has reward, but a dsjson file has no named columns"):
        read_records(file_of(tmp_path, decision()), {"reward": "click"})
