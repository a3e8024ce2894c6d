"""Guardrails of a mapping with their columns in logs of all kinds, and known propensities by another route."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fixtures.user_logs import PUSH_MAPPING, REVENUE, UNSUBSCRIBED, push_log, write_table

from drcrm.errors import InputError
from drcrm.logs.read_log import read_raw_log
from drcrm.mapping.checks import parse_yaml
from drcrm.mapping.entries import Guardrail
from drcrm.mapping.log_mapping import as_mapping

BOTH = {"guardrails": {"unsubscribed": UNSUBSCRIBED, "money": REVENUE | {"range": [0, 5]}}}


def test_a_mapping_with_guardrails_can_be_written_and_read_again():
    mapping = as_mapping(PUSH_MAPPING | BOTH)
    assert mapping.guardrails == (
        Guardrail("unsubscribed", "unsubscribed", False, 0.01),
        Guardrail("money", "revenue", True, 0.01, is_relative=True, cost_range=(-5.0, 0.0)),
    )
    assert as_mapping(json.loads(json.dumps(mapping.as_dict()))) == mapping
    assert mapping.columns[-2:] == mapping.guardrail_columns == ["unsubscribed", "revenue"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"cost": "u"}, r"guardrails.g is \{'cost': 'u'\}, expected \{cost: COLUMN, at_most: MARGIN\} or"),
        ({"cost": "u", "at_least": 1}, "guardrails.g is "),
        ({"cost": "u", "reward": "v", "at_most": 1, "at_least": 1}, "guardrails.g is "),
        ({"cost": "u", "at_most": "little"}, "guardrails.g.at_most is 'little', expected a number, or a percentage"),
        ({"cost": "u", "at_most": np.inf}, "guardrails.g.at_most is inf, expected a number, or a percentage"),
        ({"cost": "u", "at_most": "-101 %"}, "guardrails.g.at_most is '-101 %', expected at least -100 %"),
        ({"cost": "u", "at_most": 1, "range": [1, 1]}, r"guardrails.g.range is \[1, 1\], expected \[least, largest\]"),
        (
            {"cost": "u", "at_most": 1, "scale": 2},
            "guardrails.g has the key 'scale', .*, in {cost: COLUMN, at_most: MARGIN} or",
        ),
        ({"cost": "click", "at_most": 1}, "'click' is reward and the outcome of a guardrail"),
        ({"cost": "x", "at_most": 1}, "'x' is the outcome of a guardrail and a numeric feature"),
    ],
)
def test_errors_name_the_guardrail(entry, message):
    with pytest.raises(InputError, match=message):
        as_mapping(PUSH_MAPPING | {"guardrails": {"g": entry}})


def test_a_relative_margin_is_a_factor_of_the_logging_policys_cost():
    """A cost may rise to (1 + q) times the logging policy's; a reward may fall to (1 − q) times it."""
    cost = Guardrail.of("c", {"cost": "c", "at_most": "5 %"})
    reward = Guardrail.of("r", {"reward": "r", "at_least": "-1%"})
    assert (cost.margin_of(0.2), cost.baseline_factor) == pytest.approx((0.01, 1.05))
    assert (reward.margin_of(-0.2), reward.baseline_factor) == pytest.approx((0.002, 0.99))
    for guardrail, mean in ((cost, 0.0), (reward, 0.1)):
        with pytest.raises(InputError, match="which must be above 0"):
            guardrail.margin_of(mean)
    assert (cost.describe_margin(), reward.describe_margin()) == ("at most +5 %", "at least -1 %")


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_outcomes_ride_on_the_rows_of_the_log(name, tmp_path):
    frame = push_log(300)
    raw_log = read_raw_log(write_table(frame, tmp_path, name), as_mapping(PUSH_MAPPING | BOTH))
    expected = np.column_stack([frame["unsubscribed"] == "yes", -frame["revenue"]])
    assert raw_log.rows.get("guardrails") == pytest.approx(expected.astype(float))
    rows = np.arange(300) % 3 == 0
    assert raw_log.take(rows).rows.get("guardrails") == pytest.approx(expected[rows])
    assert [*raw_log.X.columns] == ["x"]


def test_lists_take_outcomes_from_the_chosen_row():
    frame = push_log(60).assign(list=np.repeat(np.arange(30), 2), chosen=np.tile([1, 0], 30))
    mapping = {**PUSH_MAPPING, **BOTH, "action": None, "list": "list", "chosen": "chosen"}
    raw_log = read_raw_log(frame, as_mapping(mapping))
    assert raw_log.rows.get("guardrails")[:, 1] == pytest.approx(-frame["revenue"][::2])


def test_a_missing_outcome_is_an_error_like_a_missing_reward():
    frame = push_log(50)
    frame.loc[7, "revenue"] = np.nan
    with pytest.raises(InputError, match="guardrail 'money', column 'revenue', is nan in row 7, expected a finite"):
        read_raw_log(frame, as_mapping(PUSH_MAPPING | BOTH))


def slices_of(raw_log) -> list:
    return np.column_stack([raw_log.rows.texts(f"slice {place}") for place in range(2)]).tolist()


def test_several_slice_columns_ride_on_the_rows(tmp_path):
    frame = push_log(90).assign(city=np.tile(["Bern", "Genf", ""], 30), place=np.repeat([1, 2], 45))
    mapping = as_mapping(PUSH_MAPPING | {"slice": ["city", "place"]})
    assert mapping.as_dict()["slice"] == ["city", "place"]
    raw_log = read_raw_log(write_table(frame, tmp_path, "log.csv"), mapping)
    assert slices_of(raw_log) == frame[["city", "place"]].astype(str).to_numpy().tolist()
    parts = [write_table(part, tmp_path, f"{name}.csv") for name, part in (("b", frame[45:]), ("a", frame[:45]))]
    assert slices_of(read_raw_log(parts, mapping)) == slices_of(raw_log)[45:] + slices_of(raw_log)[:45]


def test_the_guardrails_of_the_page_are_valid():
    page = (Path(__file__).parents[2] / "docs/user-guide/own-logs.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```yaml\n(guardrails:.*?)```", page, re.S)
    rails = as_mapping(PUSH_MAPPING | parse_yaml(block)).guardrails
    assert [rail.describe_margin() for rail in rails] == ["at most +0.002", "at least -1 %"]
    assert rails[1].cost_range == (-500, 0)


FEATURES = {"numeric": ["x"]}
MINIMAL = {"action": "a", "reward": "r", "features": FEATURES}
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
    raw_log = read_raw_log(frame, MINIMAL | {"propensity": propensity} | changes)
    assert not raw_log.imitated_propensities
    return raw_log.propensity


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
        mapping = MINIMAL | {"propensity": propensity}
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
        {"constant": "0.2x"},
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
        as_mapping(MINIMAL | {"propensity": propensity})


def test_estimated_propensities_are_trusted_only_if_the_mapping_says_so():
    for entry, trusts in (("auto", False), ({"model": "auto"}, False), ({"model": "auto", "trusted": True}, True)):
        mapping = as_mapping(MINIMAL | {"propensity": None, "propensity_model": entry})
        assert (mapping.propensity_model, mapping.trusts_propensities) == ("auto", trusts)
        assert as_mapping(mapping.as_dict()) == mapping
    for entry in ({"trusted": True}, {"model": "forest"}, {"model": "auto", "trusted": "sure"}):
        with pytest.raises(InputError, match=r"propensity_model is .*, or a map such as \{model: auto, trusted"):
            as_mapping(MINIMAL | {"propensity": None, "propensity_model": entry})


def test_conflicts_are_rejected():
    known = MINIMAL | {"propensity": {"uniform": True}}
    with pytest.raises(InputError, match="propensity_model is 'softmax', but propensity is known"):
        as_mapping(known | {"propensity_model": "softmax"})
    with pytest.raises(InputError, match="'a' is action and rule"):
        as_mapping(MINIMAL | {"propensity": {"rule": "a", "exploration": 0.1}})
    frame = rule_frame(20, 0.1)
    ruled = {"rule": "rule", "exploration": 0.1}
    with pytest.raises(InputError, match="the log never follows the rule"):
        propensities(frame.assign(rule=frame["rule"].str.upper()), ruled)
    with pytest.raises(InputError, match=re.escape("propensity.rule 'rule' is missing in row 3")):
        propensities(frame.assign(rule=frame["rule"].where(np.arange(20) != 3)), ruled)


def test_a_rule_may_be_a_feature_and_a_mapping_survives_a_round_trip():
    ruled = MINIMAL | {"propensity": {"rule": "rule", "exploration": 0.1}, "features": {"categorical": ["rule"]}}
    for content in (ruled, MINIMAL | {"propensity": {"uniform": True}}, MINIMAL | {"propensity": {"constant": 0.5}}):
        mapping = as_mapping(content)
        assert as_mapping(mapping.as_dict()) == mapping
        assert mapping.as_dict()["propensity"] == content["propensity"]
