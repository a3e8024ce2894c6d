"""Propensities that a mapping describes: exact probabilities, checked by another route and by the audit."""

import re

import numpy as np
import pandas as pd
import pytest

from drcrm.errors import InputError
from drcrm.logs.mapping import as_mapping
from drcrm.logs.read_log import read_raw_log

FEATURES = {"numeric": ["x"]}
MAPPING = {"action": "a", "reward": "r", "features": FEATURES}
NAMES = np.array(["left", "middle", "right"])


def rule_frame(n: int, exploration: float, seed: int = 0) -> pd.DataFrame:
    """Return rows of a rule of x with uniform exploration, and the true probabilities as a column."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    rule = (x > -0.5).astype(int) + (x > 0.5)
    action = np.where(rng.random(n) < exploration, rng.integers(0, 3, n), rule)
    p = np.where(action == rule, 1 - exploration + exploration / 3, exploration / 3)
    return pd.DataFrame({"x": x, "a": NAMES[action], "rule": NAMES[rule], "p": p, "r": rng.normal(size=n)})


def propensities(frame, propensity, **changes) -> np.ndarray:
    raw_log = read_raw_log(frame, MAPPING | {"propensity": propensity} | changes)
    assert not raw_log.imitated_propensities
    return raw_log.propensity


def test_a_rule_with_exploration_has_the_probabilities_of_its_draw():
    frame = rule_frame(300, 0.1)
    np.testing.assert_allclose(propensities(frame, {"rule": "rule", "exploration": 0.1}), frame["p"], rtol=1e-14)


@pytest.mark.parametrize(
    ("propensity", "expected"),
    [
        ({"uniform": True}, 1 / 3),
        ({"constant": 0.2}, 0.2),
        ({"constant": 1}, 1.0),
        ({"rule": "rule", "exploration": 1}, 1 / 3),
    ],
)
def test_constant_propensities(propensity, expected):
    np.testing.assert_allclose(propensities(rule_frame(40, 0.5), propensity), expected, rtol=1e-15)


def test_files_of_several_batches_have_the_actions_of_all(tmp_path, monkeypatch):
    """The last action occurs only in the second batch, and still counts in the propensities of the first."""
    monkeypatch.setattr("drcrm.logs.read_log.ROWS", 30)
    frame = rule_frame(60, 0.3).sort_values("a", ignore_index=True)
    frame.to_csv(tmp_path / "log.csv", index=False)
    for propensity, expected in (({"uniform": True}, 1 / 3), ({"rule": "rule", "exploration": 0.3}, frame["p"])):
        mapping = MAPPING | {"propensity": propensity}
        np.testing.assert_allclose(read_raw_log(tmp_path / "log.csv", mapping).propensity, expected, rtol=1e-14)


def test_numbered_actions_and_columns_with_numbers_as_names():
    frame = pd.DataFrame({0: [1.0, 2.0, 3.0, 4.0], 1: [7, 8, 7, 8], 2: [7.0, 7.0, 7.0, 8.0], 3: [0, 1, 0, 1]})
    mapping = {"action": 1, "cost": 3, "propensity": {"rule": 2, "exploration": 0.2}, "features": {"numeric": [0]}}
    np.testing.assert_allclose(read_raw_log(frame, mapping).propensity, [0.9, 0.1, 0.9, 0.9])


def test_lists_are_drawn_uniformly_or_by_a_marked_candidate():
    columns = {"list": [0, 0, 1, 1, 1], "took": [1, 0, 0, 1, 0], "first": [1, 0, 1, 0, 0], "x": range(5), "c": 1.0}
    mapping = {"list": "list", "chosen": "took", "cost": "c", "features": FEATURES}
    frame = pd.DataFrame(columns)
    uniform = read_raw_log(frame, mapping | {"propensity": {"uniform": True}})
    np.testing.assert_allclose(uniform.propensity, [1 / 2, 1 / 3])
    ruled = read_raw_log(frame, mapping | {"propensity": {"rule": "first", "exploration": 0.3}})
    np.testing.assert_allclose(ruled.propensity, [0.7 + 0.15, 0.1])
    with pytest.raises(InputError, match=re.escape("propensity.rule 'first' is 1 in 2 of the rows 0 to 1")):
        read_raw_log(frame.assign(first=1)[:4], mapping | {"propensity": {"rule": "first", "exploration": 0.3}})


def test_label_vectors_are_uniform_over_all_vectors():
    frame = pd.DataFrame({"u": [0, 1, 1], "v": [1, 1, 0], "x": [1.0, 2, 3], "r": 0.0})
    changes = {"labels": ["u", "v"], "action": None}
    np.testing.assert_allclose(propensities(frame, {"uniform": True}, **changes), 1 / 4)
    with pytest.raises(InputError, match="propensity is a rule, but the actions are label vectors"):
        propensities(frame, {"rule": "x", "exploration": 0.1}, **changes)


def test_npz_and_obp_logs(tmp_path):
    arrays = {"X": np.eye(3), "Y": [0, 1, 0], "n_actions": 4, "cost": [0.0, 1, 2]}
    np.savez(tmp_path / "log.npz", **arrays)
    uniform = {"propensity": {"uniform": True}}
    np.testing.assert_allclose(read_raw_log(tmp_path / "log.npz", uniform).propensity, 1 / 4)
    feedback = {"context": np.eye(3), "action": np.array([0, 1, 2]), "reward": np.zeros(3), "pscore": np.full(3, 0.9)}
    np.testing.assert_allclose(read_raw_log(feedback, uniform).propensity, 1 / 3)
    with pytest.raises(InputError, match=r"mapping has propensity\.rule, but an npz file has no named columns"):
        read_raw_log(tmp_path / "log.npz", {"propensity": {"rule": "x", "exploration": 0.5}})


@pytest.mark.parametrize(
    "propensity",
    [
        {},
        {"uniform": False},
        {"constant": 0},
        {"constant": 1.1},
        {"constant": "0.2"},
        {"rule": "rule"},
        {"exploration": 0.1},
        {"rule": "rule", "exploration": 0},
        {"uniform": True, "constant": 0.2},
        {"column": "p"},
        ["p"],
    ],
)
def test_other_values_are_rejected(propensity):
    with pytest.raises(InputError, match=r"propensity is .*, expected a column's name, .* or one of {uniform: true}"):
        as_mapping(MAPPING | {"propensity": propensity})


def test_conflicts_are_rejected():
    known = MAPPING | {"propensity": {"uniform": True}}
    with pytest.raises(InputError, match="propensity_model is 'softmax', but propensity is known"):
        as_mapping(known | {"propensity_model": "softmax"})
    with pytest.raises(InputError, match="'a' is action and rule"):
        as_mapping(MAPPING | {"propensity": {"rule": "a", "exploration": 0.1}})
    frame = rule_frame(20, 0.1)
    ruled = {"rule": "rule", "exploration": 0.1}
    with pytest.raises(InputError, match="the log never follows the rule"):
        propensities(frame.assign(rule=frame["rule"].str.upper()), ruled)
    with pytest.raises(InputError, match=re.escape("propensity.rule 'rule' is missing in row 3")):
        propensities(frame.assign(rule=frame["rule"].where(np.arange(20) != 3)), ruled)


def test_a_rule_may_be_a_feature_and_a_mapping_survives_a_round_trip():
    ruled = MAPPING | {"propensity": {"rule": "rule", "exploration": 0.1}, "features": {"categorical": ["rule"]}}
    for content in (ruled, MAPPING | {"propensity": {"uniform": True}}, MAPPING | {"propensity": {"constant": 0.5}}):
        mapping = as_mapping(content)
        assert as_mapping(mapping.as_dict()) == mapping
        assert mapping.as_dict()["propensity"] == content["propensity"]
