"""Dependent rows are found, with the column that groups them; independent ones are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from dependent_logs import MAPPING, drawn, jittered, users

from drcrm.diagnostics.repeated_rows import dependence
from drcrm.logs.mapping import as_mapping
from drcrm.logs.opened_log import open_log


def independence(frame: pd.DataFrame, folder, form: str = "csv", **changes):
    path = folder / f"log.{form}"
    if form == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)
    found = open_log(path, as_mapping(MAPPING | changes), lambda said: None)
    return found.checks.diagnostics[1]


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("is_constant", [False, True])
def test_a_column_of_users_with_one_action_each_is_named(is_constant, form, tmp_path):
    check = independence(users(np.random.default_rng(0), is_constant), tmp_path, form)
    assert check.level == "fail"
    assert "rows with the same `visitor` have the same action in 100% of 400 pairs" in check.sentence
    assert "add `group: visitor`" in check.sentence


def test_users_that_no_column_tells_are_found_by_their_features(tmp_path):
    check = independence(users(np.random.default_rng(0), True).drop(columns="visitor"), tmp_path)
    assert check.level == "fail"
    assert "rows with nearly equal features have the same action in 100%" in check.sentence


def test_nearly_equal_rows_fail(tmp_path):
    check = independence(jittered(np.random.default_rng(0)), tmp_path)
    assert check.level == "fail"
    assert "100% of 400 pairs" in check.sentence


def test_groups_that_are_given_are_no_fault(tmp_path):
    assert independence(users(np.random.default_rng(0), True), tmp_path, group="visitor").level == "good"


def test_estimated_propensities_are_a_caution(tmp_path):
    changes = {"propensity": None, "propensity_model": "softmax"}
    assert independence(jittered(np.random.default_rng(0)), tmp_path, **changes).level == "caution"


def test_independent_rows_are_good(tmp_path):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        frame = drawn(rng, 1000)
        frame["visitor"] = rng.integers(0, 300, 1000)  # repeated visits, each drawn anew
        frame["price"] = np.round(frame["a"].map({"u": 1.0, "v": 2.0, "w": 3.0}) + rng.random(1000), 2)  # of the action
        frame["item"] = frame["a"] + "!"
        assert independence(frame, tmp_path).level == "good"


def test_an_unmapped_column_may_have_anything(tmp_path):
    frame = drawn(np.random.default_rng(0), 100)
    frame["lists"] = [[1, 2]] * 100
    assert independence(frame, tmp_path, "parquet").level == "good"
    late = drawn(np.random.default_rng(0), 20_000)
    late.insert(0, "note", "")
    late.loc[19_999, "note"] = "é"
    (tmp_path / "log.csv").write_bytes(late.to_csv(index=False).encode("latin-1"))
    found = open_log(tmp_path / "log.csv", as_mapping(MAPPING), lambda said: None)
    assert found.checks.diagnostics[1].level == "good"


def test_near_rows_stay_together_among_many(tmp_path, monkeypatch):
    monkeypatch.setattr(dependence, "MOST_NEAR", 200)
    assert independence(jittered(np.random.default_rng(0)), tmp_path).level == "fail"
