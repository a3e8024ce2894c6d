"""Vowpal Wabbit's text: single actions, lists, tags, weights of namespaces, and errors."""

from __future__ import annotations

import re

import numpy as np
import pytest
from log_contexts import read_contexts
from sklearn.feature_extraction import FeatureHasher
from vw_lines import write_lines

import drcrm
from drcrm.errors import InputError
from drcrm.logs.encoded_log import log_of
from drcrm.logs.readers.log_files import read_records

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


def test_single_actions_and_their_features(tmp_path):
    log = drcrm.read_log(write_lines(tmp_path, SINGLE, name="log.vw"))
    assert (log.Y.tolist(), log.cost.tolist(), log.propensity.tolist()) == ([0, 1, 0], [-1, 0, 0.5], [0.5, 0.25, 1])
    assert log.encoding.names == [1, 2]
    named_features = [{"user^age": 2, "user^city=Bern": 1, "item^x": 2}, {"^a": 1, "^b": 1}, {"^a": 1}]
    expected = FeatureHasher(2**18).transform(named_features)[:, log.encoding.kept].toarray()
    assert np.array_equal(log.X.toarray(), np.column_stack([expected, np.ones(3)]))


def test_lists_of_actions(tmp_path):
    records = read_records(write_lines(tmp_path, LISTS, name="log.txt"))
    log = log_of(records)
    assert (log.Y.tolist(), log.cost.tolist(), log.propensity.tolist()) == ([1, 0], [-1, 0.25], [0.5, 0.75])
    assert log.actions.starts.tolist() == [0, 3, 5]
    assert records.skipped == {"blocks without a label": 1}
    assert records.rows.tolist() == [0, 5]


@pytest.mark.parametrize("text", [SINGLE, LISTS])
def test_estimated_propensities_replace_those_of_the_file(tmp_path, text):
    estimated = {"propensity": None, "propensity_model": "softmax"}
    assert read_records(write_lines(tmp_path, text, name="log.vw"), estimated).propensity is None


def test_contexts_need_no_labels(tmp_path):
    path = write_lines(tmp_path, LISTS, name="log.dat")
    lists, unseen = read_contexts(path, read_records(path).fit())
    assert (lists.starts.tolist(), unseen) == ([0, 3, 5, 7], {})
    single = read_records(write_lines(tmp_path, SINGLE, name="log.vw")).fit()
    X, unseen = read_contexts(write_lines(tmp_path, "| a\n| new", name="new.vw"), single)
    assert (X.shape, unseen) == ((2, 6), {"new features": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty, expected lines such as 1:-1:0.5 | features"),
        ("1:-1:0.5 | a\n1:2:x | a", "row 1: its probability is 'x', expected a finite number"),
        ("1:-1:0.5 | a\n1:-1:1.5 | a", "propensity is 1.5 in row 1, expected a value in (0, 1]"),
        ("1:-1:0.5 | a\n0:-1:0.5 | a", "row 1: the action is 0, expected 1 or more"),
        ("1:-1:0.5 | a\n1:-1:0.5 2 | a", "row 1: its label is '1:-1:0.5 2', expected action:cost:probability"),
        ("1:-1:0.5 | a\n1:-1| a", "row 1: its label is '1:-1'"),
        ("1:-1:0.5 | a\n1:-1:0.5 | a:b:c", "row 1: 'a:b:c' is not a feature"),
        ("1:-1:0.5 | a\n1:-1:0.5 | a:nan", "row 1: a:nan is 'nan', expected a finite number"),
        ("1:-1:0.5 | a\n1000000:-1:0.5 | a", "the largest action is 1000000 in 2 rows"),
        ("shared | a\n\n1:-1:.5 | a", "row 0: its block must have at least one action"),
        ("shared | a\n1:-1:.5 | a\n1:-1:.5 | a", "row 0: its block has 2 labels, expected one"),
        ("shared | a\nshared | a\n1:-1:.5 | a", "at most one shared line"),
        ("| a\n| b", "has no rows that can be read, expected at least one; 1 blocks without a label"),
        ('{"a": 1}', "row 0: is JSON, expected text"),
    ],
)
def test_invalid_text_is_rejected(tmp_path, text, message):
    path = write_lines(tmp_path, text, name="log.vw")
    with pytest.raises(InputError, match=re.escape(message)) as error:
        read_records(path)
    assert str(error.value).count(f"{path}: ") == 1


@pytest.mark.parametrize("name", ["log.vw", "log.dsjson"])
def test_bytes_that_are_not_utf_8_are_rejected(tmp_path, name):
    (tmp_path / name).write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="row 0: is not UTF-8"):
        read_records(tmp_path / name)
