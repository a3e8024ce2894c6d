"""Dependent rows fail, with the column that groups them; independent rows do not."""

import numpy as np
import pandas as pd
import pytest
from dependent_logs import MAPPING, draw_jittered, draw_rows, draw_users
from drawn_actions import draw_actions

from drcrm.diagnostics.opened_log import open_log
from drcrm.diagnostics.repeated_rows import independence
from drcrm.logs.mapping import as_mapping
from drcrm.rows.agreement import measure_agreement

SILENT = lambda message: None  # noqa: E731


def check_independence(frame: pd.DataFrame, folder, suffix: str = "csv", **changes):
    """Return the check of a log as `open_log` runs it."""
    path = folder / f"log.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, index=False)
    return open_log(path, as_mapping(MAPPING | changes), SILENT).checks.diagnostics[1]


@pytest.mark.parametrize(("is_constant", "suffix"), [(False, "parquet"), (True, "csv")])
def test_the_column_of_users_is_named(is_constant, suffix, tmp_path):
    check = check_independence(draw_users(np.random.default_rng(0), is_constant), tmp_path, suffix)
    assert check.level == "fail"
    assert (
        "rows with the same `visitor` have the same action 2.93 times as often as their propensities allow"
        in check.sentence
    )
    assert "add `group: visitor`" in check.sentence


def test_users_without_a_column_are_found_by_their_features(tmp_path):
    check = check_independence(draw_users(np.random.default_rng(0), True).drop(columns="visitor"), tmp_path)
    assert check.level == "fail"
    assert "rows with nearly equal features have the same action" in check.sentence
    assert check.value > 2  # 1(equal)/p has an expectation of at most 1


@pytest.mark.parametrize("neighbours", [independence.MAX_NEIGHBOURS, 200])
def test_nearly_equal_rows_fail(neighbours, tmp_path, monkeypatch):
    monkeypatch.setattr(independence, "MAX_NEIGHBOURS", neighbours)
    assert check_independence(draw_jittered(np.random.default_rng(0)), tmp_path).level == "fail"


def test_dependence_is_a_caution_with_estimated_propensities(tmp_path):
    changes = {"propensity": None, "propensity_model": "softmax"}
    assert check_independence(draw_jittered(np.random.default_rng(0)), tmp_path, **changes).level == "caution"


def test_independent_rows_are_good(tmp_path):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        frame = draw_rows(rng, 1000)
        frame["visitor"] = rng.integers(0, 300, 1000)  # visits with independent actions
        frame["price"] = np.round(frame["a"].map({"u": 1.0, "v": 2.0, "w": 3.0}) + rng.random(1000), 2)
        frame["item"] = frame["a"] + "!"
        assert check_independence(frame, tmp_path).level == "good"


def test_unmapped_columns_may_hold_anything(tmp_path):
    frame = draw_rows(np.random.default_rng(0), 100)
    frame["lists"] = [[1, 2]] * 100
    assert check_independence(frame, tmp_path, "parquet").level == "good"
    late = draw_rows(np.random.default_rng(0), 20_000)
    late.insert(0, "note", "")
    late.loc[19_999, "note"] = "é"
    (tmp_path / "log.csv").write_bytes(late.to_csv(index=False).encode("latin-1"))
    opened = open_log(tmp_path / "log.csv", as_mapping(MAPPING), SILENT)
    assert opened.checks.diagnostics[1].level == "good"


def test_the_ratio_of_independent_rows_has_expectation_one():
    rng, first = np.random.default_rng(0), np.arange(0, 40, 2)
    ratios = []
    for _ in range(1000):
        p = rng.dirichlet([3, 3, 3], 40)
        action = draw_actions(p, rng)
        agreement = measure_agreement(action, p[np.arange(40), action], first, first + 1)
        assert agreement.pairs == 20
        ratios.append(agreement.ratio)
    assert abs(np.mean(ratios) - 1) < 4 * np.std(ratios) / np.sqrt(1000)


def find_repeated_contexts(frame: pd.DataFrame, path, **changes) -> list[str]:
    """Return the sentences of the check of repeated contexts."""
    frame.to_csv(path, index=False)
    mapping = {"action": "action", "propensity": "p", "reward": "reward", "features": {"numeric": ["age", "size"]}}
    checks = open_log(path, as_mapping(mapping | changes), SILENT).checks.diagnostics
    return [check.sentence for check in checks if check.name == "repeated contexts"]


@pytest.mark.parametrize("has_column", [False, True])
def test_features_that_identify_users_are_a_caution(has_column, tmp_path):
    rng = np.random.default_rng(0)
    users = pd.DataFrame({"visitor": np.arange(80), "age": rng.integers(18, 90, 80), "size": rng.normal(size=80)})
    frame = users.iloc[rng.integers(0, 80, 2000)].assign(
        action=rng.integers(0, 3, 2000), p=1 / 3, reward=rng.integers(0, 2, 2000)
    )
    path = tmp_path / "log.csv"
    named = frame if has_column else frame.drop(columns="visitor")
    [sentence] = find_repeated_contexts(named, path)
    column = "visitor" if has_column else "size"
    assert sentence.startswith(f"the rows have only 80 contexts, which `{column}` identifies.")
    assert find_repeated_contexts(pd.concat([named, named[:200]]), path)  # copies form groups
    assert not find_repeated_contexts(frame, path, group="visitor")
    assert not find_repeated_contexts(frame.drop(columns="visitor"), path, features={"numeric": ["age"]})
    frame["size"] = rng.normal(size=2000)
    assert not find_repeated_contexts(frame, path)


@pytest.mark.parametrize(
    "column",
    [
        np.arange(2000),  # the number of a row
        np.arange(2000) // 2,  # a session
        np.where(np.arange(2000) < 300, np.arange(2000) % 72, np.nan),  # rarely known
    ],
)
def test_columns_that_do_not_identify_contexts_are_no_caution(column, tmp_path):
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 72, 2000)
    frame = pd.DataFrame({"age": cells // 8, "size": cells % 8, "action": rng.integers(0, 3, 2000), "p": 1 / 3})
    frame = frame.sort_values(["age", "size"], ignore_index=True).assign(number=column, reward=rng.integers(0, 2, 2000))
    assert not find_repeated_contexts(frame, tmp_path / "log.csv", features={"categorical": ["age", "size"]})
