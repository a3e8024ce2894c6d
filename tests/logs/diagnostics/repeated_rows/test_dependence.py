"""Dependent rows fail; independent rows do not. A column that identifies repeated contexts is named."""

import numpy as np
import pandas as pd
import pytest
from fixtures.click_logs import DEPENDENT_MAPPING, draw_actions, draw_rows, draw_users

from drcrm import learn
from drcrm.logs.decisions.opened_log import open_log
from drcrm.logs.rows import agreement_p_value
from drcrm.mapping.log_mapping import as_mapping

SILENT = lambda message: None  # noqa: E731


def check_independence(frame: pd.DataFrame, folder, **changes):
    """Return the check of a log as `open_log` runs it."""
    path = folder / "log.csv"
    frame.to_csv(path, index=False)
    return open_log(path, as_mapping(DEPENDENT_MAPPING | changes), SILENT).checks.diagnostics[1]


def test_users_with_the_same_features_and_action_fail(tmp_path):
    frame = draw_users(np.random.default_rng(0))
    check = check_independence(frame, tmp_path)
    assert check.level == "fail"
    assert "rows with equal features have the same action" in check.sentence
    assert check.value > 2  # 1(equal)/p has an expectation of at most 1
    assert check_independence(frame, tmp_path, group="visitor").level == "good"
    changes = {"propensity": None, "propensity_model": "softmax"}
    assert check_independence(frame, tmp_path, **changes).level == "caution"


def test_the_first_advice_on_dependent_rows_is_to_set_the_group():
    answer = learn(draw_users(np.random.default_rng(0)), DEPENDENT_MAPPING | {"algorithm": "cips"}).as_dict()
    verdict = answer["verdict"]
    assert verdict["verdict"] == "the log cannot say"
    assert verdict["changes"][0].startswith("Set `group:` to the column of user ids")
    assert verdict["cautions"][0].endswith("add `group: visitor`.")


def test_independent_rows_are_good(tmp_path):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        frame = draw_rows(rng, 1000)
        frame["x0"] = rng.integers(0, 300, 1000)  # equal features with independent actions
        features = {"numeric": ["x0"]}
        assert check_independence(frame, tmp_path, features=features).level == "good"


@pytest.mark.parametrize("has_frequent_actions", [False, True])
def test_the_p_value_of_independent_pairs_is_at_most_uniform(has_frequent_actions):
    """The first of two rows may have another logging policy, which prefers actions that are frequent in the second."""
    rng, p_values = np.random.default_rng(0), []
    for _ in range(2000):
        p = rng.dirichlet([3, 3, 3], 300)
        second = draw_actions(p, rng)
        first = p.argmax(axis=1) if has_frequent_actions else draw_actions(p, rng)
        p_values.append(agreement_p_value(first == second, p[np.arange(300), second]))
    assert all(np.mean(np.array(p_values) <= level) <= level + 0.01 for level in (0.01, 0.05, 0.2))


def test_unmapped_columns_may_hold_anything(tmp_path):
    late = draw_rows(np.random.default_rng(0), 20_000)
    late.insert(0, "note", "")
    late.loc[19_999, "note"] = "é"
    (tmp_path / "log.csv").write_bytes(late.to_csv(index=False).encode("latin-1"))
    assert open_log(tmp_path / "log.csv", as_mapping(DEPENDENT_MAPPING), SILENT).checks.diagnostics[1].level == "good"
    frame = draw_rows(np.random.default_rng(0), 100).assign(lists=[[1, 2]] * 100)
    frame.to_parquet(tmp_path / "log.parquet")
    assert (
        open_log(tmp_path / "log.parquet", as_mapping(DEPENDENT_MAPPING), SILENT).checks.diagnostics[1].level == "good"
    )


def find_repeated_contexts(frame: pd.DataFrame, path, **changes) -> list[str]:
    """Return the sentences of the check of repeated contexts."""
    frame.to_csv(path, index=False)
    mapping = {"action": "action", "propensity": "p", "reward": "reward", "features": {"numeric": ["age", "size"]}}
    checks = open_log(path, as_mapping(mapping | changes), SILENT).checks.diagnostics
    return [check.sentence for check in checks if check.name == "repeated contexts"]


def test_a_column_that_identifies_contexts_is_a_caution(tmp_path):
    rng = np.random.default_rng(0)
    users = pd.DataFrame({"visitor": np.arange(80), "age": rng.integers(18, 90, 80), "size": rng.normal(size=80)})
    frame = users.iloc[rng.integers(0, 80, 2000)].assign(
        action=rng.integers(0, 3, 2000), p=1 / 3, reward=rng.integers(0, 2, 2000)
    )
    path = tmp_path / "log.csv"
    [sentence] = find_repeated_contexts(frame, path)
    assert sentence.startswith("the rows have only 80 contexts, which `visitor` identifies.")
    assert find_repeated_contexts(pd.concat([frame, frame[:200]]), path)  # copies form groups
    assert not find_repeated_contexts(frame, path, group="visitor")
    assert not find_repeated_contexts(frame.drop(columns="visitor"), path)
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
