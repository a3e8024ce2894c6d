"""npz files; the dictionary of the Open Bandit Pipeline, and the csv of the Open Bandit Dataset."""

import re

import numpy as np
import pytest
from fixtures.text_logs import read_contexts

import drcrm
from drcrm.errors import InputError
from drcrm.logs.read_log import read_raw_log

DATASET = """,timestamp,item_id,position,click,propensity_score,user_feature_0,user_feature_1,user-item_affinity_0
0,t,0,1,0,0.25,u0,v,0.0
1,t,1,2,1,0.25,u1,v,0.0
2,t,2,1,0,0.25,u0,v,0.0
3,t,0,2,1,0.25,u1,v,0.0"""


@pytest.mark.parametrize("kind", ["single", "labels", "lists"])
@pytest.mark.parametrize("name", ["cost", "reward"])
def test_arrays_of_a_log_are_read(tmp_path, kind, name):
    rng = np.random.default_rng(0)
    arrays = {"X": rng.normal(size=(6, 2)), "propensity": np.full(6, 0.5), name: rng.normal(size=6)}
    arrays["Y"] = rng.integers(0, 2, (6, 3) if kind == "labels" else 6)
    X = arrays["X"]
    if kind == "lists":
        arrays["X"], arrays["starts"] = rng.normal(size=(12, 2)), np.arange(0, 13, 2)
        X = drcrm.ActionLists(arrays["X"], arrays["starts"])
    arrays |= {"context": np.array([0, 0, 1, 2, 4, 5]), "count": np.arange(1, 7)}
    np.savez(tmp_path / "a.npz", **arrays)
    log = drcrm.read_log(tmp_path / "a.npz")
    rest = {key: arrays[key] for key in ("propensity", "context", "count")}
    expected = drcrm.BanditLog(X, arrays["Y"], cost=arrays[name] * (1 if name == "cost" else -1), **rest)
    for key in ("X", "Y", "cost", "propensity", "context", "count"):
        assert np.array_equal(getattr(log, key), getattr(expected, key)), key


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "has the arrays none, expected X, Y, propensity, and cost or reward"),
        ({"X": np.eye(2), "propensity": np.ones(2), "cost": np.ones(2)}, "expected X, Y, propensity, and cost"),
        ({"X": np.eye(2), "Y": [0, 1], "cost": [1, 1], "reward": [1, 1]}, "expected X, Y, propensity, and cost"),
        ({"X": np.eye(2), "Y": [0, 1], "cost": [1, 1]}, "has no propensity; add it"),
        ({"X": np.eye(2), "Y": [0, 1], "cost": [1, 1], "propensity": [1, 0]}, "propensity is 0.0 in row 1"),
        ({"X": np.eye(2), "Y": [0, 1, 1], "cost": [1, 1, 1], "propensity": [1, 1, 1]}, "Y has 3 rows, expected 2"),
        ({"X": ["a", "b"], "Y": [0, 1], "cost": [1, 1]}, "X is not an array of numbers"),
        ({"X": np.array([{}], dtype=object)}, "X has Python objects, expected numbers: convert the array"),
        ({"features": np.eye(2)}, "has the arrays features, expected X, Y"),
    ],
)
def test_other_arrays_are_rejected(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=re.escape(message)):
        drcrm.read_log(tmp_path / "a.npz")


@pytest.fixture
def feedback() -> dict:
    rng = np.random.default_rng(0)
    return {
        "n_rounds": 30,
        "n_actions": 4,
        "context": rng.normal(size=(30, 2)),
        "action": rng.integers(0, 3, 30),
        "position": rng.integers(0, 3, 30),
        "reward": rng.integers(0, 2, 30),
        "pscore": rng.uniform(0.1, 1, 30),
        "pi_b": None,
        "expected_reward": None,
    }


def test_feedback_is_read_from_the_dictionary_and_from_npz(feedback, tmp_path):
    path = tmp_path / "log.npz"
    np.savez(path, **feedback)  # None becomes an array of objects
    for log in (drcrm.BanditLog.from_obp(feedback), drcrm.read_log(path)):
        assert np.array_equal(log.X, np.column_stack([feedback["context"], np.ones(30)]))
        assert log.actions.shape == (4,)
        assert np.array_equal(log.Y, feedback["action"])
        assert np.array_equal(log.cost, -feedback["reward"])
        assert np.array_equal(log.propensity, feedback["pscore"])
        assert np.array_equal(read_contexts(path, log.encoding)[0], log.X)
    assert read_raw_log(path).rows.texts("slice 0").tolist() == feedback["position"].astype(str).tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"action": None}, "feedback has no 'action', expected the keys action, reward, context"),
        ({"pscore": None}, "has no pscore; add it"),
        ({"context": np.zeros(30)}, "context has shape (30,), expected (rows, features)"),
        ({"context": np.full((30, 2), np.nan)}, "context has nan in row 0, column 0"),
        ({"n_rounds": 31}, "n_rounds is 31, expected 30, the number of rows"),
        ({"n_actions": 2}, "action: Y is 2 in row 2, expected one of 2 actions"),
        ({"action": np.full(30, -1)}, "action: Y is -1 in row 0"),
        ({"action": np.full(30, 10**9), "n_actions": None}, "the largest action of Y is 1000000000"),
        ({"reward": np.zeros(29)}, "cost has shape (29,), expected (30,)"),
        ({"pscore": np.full(30, 1.5)}, "propensity is 1.5 in row 0, expected a value in (0, 1]"),
    ],
)
def test_invalid_feedback_is_rejected(feedback, changes, message):
    with pytest.raises(InputError, match=re.escape(message)):
        drcrm.BanditLog.from_obp({**feedback, **changes})


def test_the_csv_of_the_dataset_needs_no_mapping(tmp_path):
    path = tmp_path / "all.csv"
    path.write_text(DATASET)
    raw_log = read_raw_log(path)
    assert raw_log.description.mapping.categorical == ("user_feature_0", "user_feature_1", "position")
    assert raw_log.rows.texts("slice 0").tolist() == ["1", "2"] * 2
    assert raw_log.description.names == [0, 1, 2]
    assert (raw_log.description.is_reward, raw_log.propensity.tolist()) == (True, [0.25] * 4)
    mapping = {"action": "item_id", "reward": "click", "propensity": "propensity_score", "features": {}}
    assert read_raw_log(path, mapping).column("slice 0") is None
    estimated = {"propensity": None, "propensity_model": "softmax"}
    assert drcrm.read_log(path, estimated).imitated_propensities
