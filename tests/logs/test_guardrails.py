"""Guardrails of a mapping, and their columns in logs of all kinds."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from log_fixtures import write_table
from push_logs import MAPPING, REVENUE, UNSUBSCRIBED, push_log

from drcrm.errors import InputError
from drcrm.files import parse_yaml
from drcrm.logs.mapping import as_mapping
from drcrm.logs.mapping_entries import Guardrail
from drcrm.logs.read_log import read_raw_log

BOTH = {"guardrails": {"unsubscribed": UNSUBSCRIBED, "money": REVENUE | {"range": [0, 5]}}}


def test_a_mapping_with_guardrails_can_be_written_and_read_again():
    mapping = as_mapping(MAPPING | BOTH)
    assert mapping.guardrails == (
        Guardrail("unsubscribed", "unsubscribed", False, 0.01),
        Guardrail("money", "revenue", True, 0.01, is_relative=True, cost_range=(-5.0, 0.0)),
    )
    assert as_mapping(json.loads(json.dumps(mapping.as_dict()))) == mapping
    assert mapping.columns[-2:] == mapping.guardrail_columns == ["unsubscribed", "revenue"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"cost": "u"}, "guardrails.g must be {cost: COLUMN, at_most: …} or {reward: COLUMN, at_least: …}"),
        ({"cost": "u", "at_least": 1}, "guardrails.g must be"),
        ({"cost": "u", "reward": "v", "at_most": 1, "at_least": 1}, "guardrails.g must be"),
        ({"cost": "u", "at_most": "little"}, "guardrails.g.at_most is 'little', expected a number, or a percentage"),
        ({"cost": "u", "at_most": np.inf}, "guardrails.g.at_most is inf, expected a finite number"),
        ({"cost": "u", "at_most": 1, "range": [1, 1]}, r"guardrails.g.range is \[1, 1\], expected \[least, largest\]"),
        ({"cost": "u", "at_most": 1, "scale": 2}, "guardrails.g is .*, expected {cost: COLUMN, at_most: MARGIN}"),
        ({"cost": "click", "at_most": 1}, "'click' is reward and the outcome of a guardrail"),
        ({"cost": "x", "at_most": 1}, "'x' is the outcome of a guardrail and a numeric feature"),
    ],
)
def test_errors_name_the_guardrail(entry, message):
    with pytest.raises(InputError, match=message):
        as_mapping(MAPPING | {"guardrails": {"g": entry}})


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
    raw_log = read_raw_log(write_table(frame, tmp_path, name), as_mapping(MAPPING | BOTH))
    expected = np.column_stack([frame["unsubscribed"] == "yes", -frame["revenue"]])
    assert raw_log.rows.get("guardrails") == pytest.approx(expected.astype(float))
    rows = np.arange(300) % 3 == 0
    assert raw_log.take(rows).rows.get("guardrails") == pytest.approx(expected[rows])
    assert [*raw_log.X.columns] == ["x"]


def test_lists_take_outcomes_from_the_chosen_row():
    frame = push_log(60).assign(list=np.repeat(np.arange(30), 2), chosen=np.tile([1, 0], 30))
    mapping = {**MAPPING, **BOTH, "action": None, "list": "list", "chosen": "chosen"}
    raw_log = read_raw_log(frame, as_mapping(mapping))
    assert raw_log.rows.get("guardrails")[:, 1] == pytest.approx(-frame["revenue"][::2])


def test_a_missing_outcome_is_an_error_like_a_missing_reward():
    frame = push_log(50)
    frame.loc[7, "revenue"] = np.nan
    with pytest.raises(InputError, match="guardrail 'money', column 'revenue', is nan in row 7, expected a finite"):
        read_raw_log(frame, as_mapping(MAPPING | BOTH))


def slices_of(raw_log) -> list:
    return np.column_stack([raw_log.rows.texts(f"slice {place}") for place in range(2)]).tolist()


def test_several_slice_columns_ride_on_the_rows(tmp_path):
    frame = push_log(90).assign(city=np.tile(["Bern", "Genf", ""], 30), place=np.repeat([1, 2], 45))
    mapping = as_mapping(MAPPING | {"slice": ["city", "place"]})
    assert mapping.as_dict()["slice"] == ["city", "place"]
    raw_log = read_raw_log(write_table(frame, tmp_path, "log.csv"), mapping)
    assert slices_of(raw_log) == frame[["city", "place"]].astype(str).to_numpy().tolist()
    parts = [write_table(part, tmp_path, f"{name}.csv") for name, part in (("b", frame[45:]), ("a", frame[:45]))]
    assert slices_of(read_raw_log(parts, mapping)) == slices_of(raw_log)[45:] + slices_of(raw_log)[:45]


def test_the_guardrails_of_the_page_are_valid():
    page = (Path(__file__).parents[2] / "docs/user-guide/own-logs.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```yaml\n(guardrails:.*?)```", page, re.S)
    rails = as_mapping(MAPPING | parse_yaml(block)).guardrails
    assert [rail.describe_margin() for rail in rails] == ["at most +0.002", "at least -1 %"]
    assert rails[1].cost_range == (-500, 0)
