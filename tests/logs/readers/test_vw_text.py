"""Vowpal Wabbit's text: single actions, lists, tags, weights of namespaces, and errors."""

import re

import numpy as np
import pytest
from fixtures.text_logs import read_contexts, write_lines
from fixtures.user_input import refusal
from fixtures.user_logs import encoded
from sklearn.feature_extraction import FeatureHasher

import drcrm
from drcrm.errors import InputError
from drcrm.logs.batches import fit_encoding
from drcrm.logs.encoding.base import MATRIX
from drcrm.logs.read_log import read_raw_log

SINGLE = """1:-1:0.5 'tag|user age:2 city=Bern |item:2 x
2:0:0.25 | a b
1:0.5:1 tag| a
"""
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


def columns_of(raw_log) -> dict:
    """Return the columns, features and lists of raw_log, for a comparison by ==."""
    arrays = {**raw_log.rows.columns, "X": raw_log.X.get(MATRIX).toarray(), "Y": raw_log.Y, "cost": raw_log.cost}
    arrays["starts"] = getattr(raw_log.actions, "starts", None)
    return {name: np.array(values).tolist() for name, values in arrays.items() if name != "number"}


def test_single_actions_and_their_features(tmp_path):
    log = drcrm.read_log(write_lines(tmp_path, SINGLE, name="log.vw"))
    assert (log.Y.tolist(), log.cost.tolist(), log.propensity.tolist()) == ([0, 1, 0], [-1, 0, 0.5], [0.5, 0.25, 1])
    assert log.encoding.names == [1, 2]
    named_features = [{"user^age": 2, "user^city=Bern": 1, "item^x": 2}, {"^a": 1, "^b": 1}, {"^a": 1}]
    expected = FeatureHasher(2**18).transform(named_features)[:, log.encoding.kept].toarray()
    assert np.array_equal(log.X.toarray(), np.column_stack([expected, np.ones(3)]))


def test_lists_of_actions(tmp_path):
    raw_log = read_raw_log(write_lines(tmp_path, LISTS, name="log.txt"))
    log = encoded(raw_log)
    assert (log.Y.tolist(), log.cost.tolist(), log.propensity.tolist()) == ([1, 0], [-1, 0.25], [0.5, 0.75])
    assert log.actions.starts.tolist() == [0, 3, 5]
    assert raw_log.skipped == {"decisions without a label": 1}
    assert raw_log.rows.get("number").tolist() == [0, 5]


@pytest.mark.parametrize("text", [SINGLE, LISTS])
def test_estimated_propensities_replace_those_of_the_file(tmp_path, text):
    estimated = {"propensity": None, "propensity_model": "softmax"}
    assert read_raw_log(write_lines(tmp_path, text, name="log.vw"), estimated).propensity is None


def test_contexts_need_no_labels(tmp_path):
    path = write_lines(tmp_path, LISTS, name="log.dat")
    lists, unseen = read_contexts(path, fit_encoding(read_raw_log(path)))
    assert (lists.starts.tolist(), unseen) == ([0, 3, 5, 7], {})
    single = fit_encoding(read_raw_log(write_lines(tmp_path, SINGLE, name="log.vw")))
    X, unseen = read_contexts(write_lines(tmp_path, "| a\n| new", name="new.vw"), single)
    assert (X.shape, unseen) == ((2, 6), {"new features": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows that can be read, expected at least one"),
        ("1:-1:0.5 | a\n1:2:x | a", "row 1: its probability is 'x', expected a finite number"),
        ("1:-1:0.5 | a\n1:-1:1.5 | a", "propensity is 1.5 in row 1, expected a value in (0, 1]"),
        ("1:-1:0.5 | a\n0:-1:0.5 | a", "row 1: the action is 0, expected 1 or more"),
        ("1:-1:0.5 | a\n1:-1:0.5 b | a", "row 1: its label is '1:-1:0.5 b', expected action:cost:probability"),
        ("1:-1:0.5 | a\n1:-1| a", "propensity is nan in row 1, expected a value in (0, 1]"),
        ("1:-1:0.5 | a\n1:nan:0.5 | a", "cost is nan in row 1, expected a finite number"),
        ("1:-1:0.5 2 | a\n1:0:.5 2:0:.5 | a", "row 1: its line has 2 labels, expected one"),
        ("1:-1:0.5 2 3 | a\n1:0:.5 2 | a", "row 1: its actions are 1, 2, expected 1, 2, 3, the same in all lines"),
        ("1:-1:0.5 2 | a\n1:0:.5 2 3 | a", "row 1: its actions are 1, 2, 3, expected 1, 2, the same"),
        ("3:-1:0.5 | a\n1:0:.5 2 | a", "row 1: its actions are 1, 2, expected 1, 2, the same"),
        ("1 2 4:0:1 | a", "row 0: its actions are 1, 2, 4, expected 1, 2, 3, 4"),
        ("1 2 | a\n1 2 | a", "expected at least one; 2 decisions without a label"),
        ("shared | a\n1 2 | a\n0:0:1 | a", "row 0: its block has available actions in a line"),
        ("ccb shared | a\nccb action | a\nccb slot 0:0.8:1.0 0 | a", "describes conditional contextual bandits (CCB)"),
        ("ca 185.1:0.6:0.2 | a", "row 0: describes continuous actions (CATS)"),
        ("1:-1:0.5 | a\n1:-1:0.5 | a:b:c", "row 1: 'a:b:c' is not a feature"),
        ("1:-1:0.5 | a\n1:-1:0.5 | a:inf", "row 1: a:inf is 'inf', expected a finite number"),
        ("1:-1:0.5 | a\n1000000:-1:0.5 | a", "the largest action is 1000000 in 2 rows"),
        ("shared | a\n\n1:-1:.5 | a", "row 0: its block must have at least one action"),
        ("shared | a\n1:-1:.5 | a\n1:-1:.5 | a", "row 0: its block has 2 labels, expected one"),
        ("shared | a\nshared | a\n1:-1:.5 | a", "at most one shared line"),
        ("| a\n| b", "has no rows that can be read, expected at least one; 1 decisions without a label"),
        ('{"a": 1}', "row 0: is JSON, expected text"),
    ],
)
def test_invalid_text_is_rejected(tmp_path, text, message):
    path = write_lines(tmp_path, text, name="log.vw")
    error = refusal(read_raw_log, path)
    assert message in error
    assert error.count(f"{path}: ") == 1


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (re.sub("shared ", "shared 12", LISTS), LISTS),  # a numeric tag of the shared line
        (re.sub(r"(?m)^\|", "7|", LISTS), LISTS),  # of the actions
        (LISTS.replace("0.5 |", "0.5 6896|"), LISTS),  # after a label
        (SINGLE.replace("'tag|", "12:30|"), SINGLE),  # a time as a tag
    ],
)
def test_numeric_tags_are_ignored(tmp_path, text, plain):
    first, second = (read_raw_log(write_lines(tmp_path, content, name="log.vw")) for content in (text, plain))
    assert columns_of(first) == columns_of(second)


@pytest.mark.parametrize(
    ("label", "n_labelled"),
    [
        ("1 2 {0}", 3),  # the logged action last
        ("{0} 1 2", 3),
        ("1:5 {0} 2:0.5", 3),  # costs of other actions
        ("1 2 3", 0),
    ],
)
def test_available_actions(tmp_path, label, n_labelled):
    """A line may list the available actions. Lines without a label are contexts for ``predict``."""
    labels, words = ["3:-1:0.5", "3:0:0.25", "3:0.5:1"], ["age:2 x", "y", "x"]
    plain = [f"{label} |u {word}" for label, word in zip(labels, words, strict=True)]
    lines = [f"{label.format(own)} |u {word}" for own, word in zip(labels, words, strict=True)]
    expected = read_raw_log(write_lines(tmp_path, *plain, name="plain.vw"))
    path = write_lines(tmp_path, *lines, *plain[n_labelled:], name="log.vw")
    raw_log = read_raw_log(path)
    assert columns_of(raw_log) == columns_of(expected)
    assert raw_log.skipped == ({} if n_labelled else {"decisions without a label": 3})
    contexts, unseen = read_contexts(write_lines(tmp_path, *lines, name="new.vw"), fit_encoding(expected))
    assert np.array_equal(contexts.toarray(), encoded(expected).X.toarray())
    assert unseen == {}


def test_contexts_must_list_every_action_of_the_policy(tmp_path):
    encoding = fit_encoding(read_raw_log(write_lines(tmp_path, SINGLE, name="log.vw")))
    assert len(read_contexts(write_lines(tmp_path, "1 2 9 | a", name="new.vw"), encoding)[0].toarray()) == 1
    with pytest.raises(InputError, match="row 0: its actions are 1, expected 1, 2, the same in all lines"):
        read_contexts(write_lines(tmp_path, "1 | a", name="new.vw"), encoding)


@pytest.mark.parametrize("value", ["NaN", "nan", "", "NA"])
@pytest.mark.parametrize("text", [SINGLE, LISTS])
def test_missing_values_are_left_out_and_counted(tmp_path, text, value):
    with_missing = read_raw_log(write_lines(tmp_path, text.replace("age:2", f"age:{value}"), name="log.vw"))
    without = read_raw_log(write_lines(tmp_path, text.replace("age:2", ""), name="log.vw"))
    assert columns_of(with_missing) == columns_of(without)
    assert (with_missing.description.missing, without.description.missing) == ({"user^age": 1}, {})


@pytest.mark.parametrize("name", ["log.vw", "log.dsjson"])
def test_bytes_that_are_not_utf_8_are_rejected(tmp_path, name):
    (tmp_path / name).write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="row 0: is not UTF-8"):
        read_raw_log(tmp_path / name)
