"""Slices and periods of a log, and the tree that explains a policy."""

import numpy as np
import pandas as pd
import pytest
from fixtures.click_logs import with_columns

from drcrm import ActionLists, BanditLog, SoftmaxPolicy, optimal_tree
from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.folds import context_folds
from drcrm.evaluation.off_policy_value import off_policy_value
from drcrm.logs.diagnostics.comparison.segments import explain, name_periods, natural_key
from drcrm.logs.diagnostics.diagnosis import diagnose

N = 3000
DAYS = ["2024-02-28", "2024-02-29", "2024-03-01", "2024-03-02"]
POLICY = SoftmaxPolicy(np.array([[0.0, 0.3], [0.0, 1.0]]))  # mostly the second action


def draw(harmful: np.ndarray | None = None, seed: int = 0) -> BanditLog:
    """Return a log in which the second action is better, but worse in the harmful rows."""
    rng = np.random.default_rng(seed)
    X, Y = np.column_stack([rng.normal(size=N), np.ones(N)]), rng.integers(0, 2, N)
    gain = np.where(np.zeros(N, dtype=bool) if harmful is None else harmful, -0.25, 0.2)
    return BanditLog(X, Y, np.full(N, 0.5), -(rng.random(N) < 0.4 + gain * Y).astype(float))


def microseconds(dates: pd.DatetimeIndex) -> np.ndarray:
    return dates.to_numpy().astype("datetime64[us]").astype(float)


@pytest.mark.parametrize(
    ("days", "first", "last", "number"),
    [
        (5, "2024-02-27", "2024-03-02", 5),
        (20, "two days from 2024-02-27", "two days from 2024-03-16", 10),
        (40, "week of 2024-02-26", "week of 2024-04-01", 6),
        (200, "2024-02", "2024-09", 8),
        (700, "2024 Q1", "2026 Q1", 9),
        (2000, "2024", "2029", 6),
    ],
)
def test_the_calendar_gives_4_to_12_periods(days, first, last, number):
    time = microseconds(pd.date_range("2024-02-27", periods=24 * days, freq="h"))
    names = name_periods(time)
    distinct = sorted(set(names))
    assert (distinct[0], distinct[-1], len(distinct)) == (first, last, number)
    assert list(names) == sorted(names)


@pytest.mark.parametrize("days", [1, 3, 20_000])
def test_too_short_and_too_long_logs_have_no_periods(days):
    first = pd.Timestamp("1930-02-27")
    assert name_periods(microseconds(pd.date_range(first, first + pd.Timedelta(days=days - 0.1), 200))) is None


def test_values_are_in_natural_order():
    names = ["a10", "10", "b", "9.5", "-5", "a2", "", "-12"]
    assert sorted(names, key=natural_key) == ["", "-12", "-5", "9.5", "10", "a2", "a10", "b"]


@pytest.mark.parametrize("has_model", [False, True])
@pytest.mark.parametrize("groups", [None, np.arange(N) // 2])
def test_differences_are_those_of_the_library_on_the_rows_of_the_part(has_model, groups):
    log = draw()
    model = CostModel().fit(draw(seed=1)) if has_model else None
    values = np.array(["10", "9"], dtype=object)[np.arange(N) % 2]
    days = np.repeat(DAYS, N // 4)
    log = with_columns(log, {"city": values}, time=microseconds(pd.DatetimeIndex(days)), groups=groups)
    diagnosis = diagnose(log, POLICY, cost_model=model, confidence=0.9)
    assert [entry["slice"] for entry in diagnosis.tables["slices"]] == ["9", "10"]
    assert [entry["period"] for entry in diagnosis.tables["periods"]] == DAYS
    level = 1 - 0.1 / 6
    for entry, rows in (
        (diagnosis.tables["slices"][0], values == "9"),
        (diagnosis.tables["periods"][2], days == DAYS[2]),
    ):
        part = log.recount(rows.astype(int))
        options = {"cost_model": model, "groups": None if groups is None else groups[rows]}
        expected = off_policy_value(
            POLICY, part, "dr" if has_model else "snips", baseline="logging", confidence=level, **options
        ).as_dict()
        expected.pop("standard_error")
        assert entry["difference"] == pytest.approx(expected)
        assert entry["rows"] == rows.sum()
        assert entry["difference"]["value"] == pytest.approx(entry["policy"] - entry["logging"])


def test_a_harmful_period_and_a_harmful_slice_are_named():
    period = np.repeat(DAYS, N // 4)
    log = with_columns(draw(period == DAYS[2]), time=microseconds(pd.DatetimeIndex(period)))
    diagnosis = diagnose(log, POLICY)
    checks = {check.name: check for check in diagnosis.diagnostics}
    worse = checks["difference by slice"]
    assert worse.level == "caution"
    assert f"in the period {DAYS[2]!r}, the policy's cost per row minus the logging policy's is +0." in worse.sentence
    assert worse.low > 0


def test_a_part_without_a_trustworthy_interval_has_none():
    """Five rows, with one large cost, do not show that a slice is worse."""
    log = draw()
    cost = log.cost.copy()
    cost[:5], cost[4] = 0, 50
    diagnosis = diagnose(with_columns(log.with_cost(cost), {"late": np.arange(N) >= 5}), POLICY)
    [small, large] = diagnosis.tables["slices"]
    assert (small["slice"], small["difference"]["low"], large["rows"]) == ("False", None, N - 5)
    [check] = [check for check in diagnosis.diagnostics if check.name == "difference by slice"]
    assert check.level == "good"


ROWS = 400


def draw_log(seed: int = 0, n_actions: int = 3, n: int = ROWS) -> BanditLog:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 2)).round(1), np.ones(n)])
    return BanditLog(X, rng.integers(0, n_actions, n), np.full(n, 1 / n_actions), -rng.random(n), n_actions=n_actions)


@pytest.mark.parametrize("n_actions", [2, 3, 5])
def test_the_tree_is_the_best_one_on_half_of_the_rows_and_its_fidelity_is_that_on_the_others(n_actions):
    log, rng = draw_log(n_actions, n_actions), np.random.default_rng(n_actions)
    log = log.recount(rng.integers(1, 5, ROWS))
    mean = SoftmaxPolicy(rng.normal(size=(3, n_actions))).marginals(log.X)
    explanation, fold = explain(None, log, mean), context_folds(log, 2)
    first, second = (np.repeat(np.flatnonzero(fold == side), log.count[fold == side]) for side in (0, 1))
    expected = optimal_tree(log.X[first], mean[first])
    taken = expected.predict(log.X[second])
    assert explanation.rows == len(second)
    assert explanation.fidelity == pytest.approx(np.mean(taken == mean[second].argmax(axis=1)), abs=1e-12)
    np.testing.assert_array_equal(explanation.leaf, expected.apply(log.X))
    assert sum(part.rows.sum() for part in explanation.leaves) == ROWS


def test_a_policy_with_two_splits_is_explained_in_full():
    log = draw_log()
    best = np.where(log.X[:, 0] <= 0.25, np.where(log.X[:, 1] <= -0.35, 2, 0), 1)
    mean = 0.9 * np.eye(3)[best] + 0.1 / 3
    explanation = explain(None, log, mean)
    assert (explanation.fidelity, explanation.is_policy) == (1, False)
    nodes = explanation.as_dict()["nodes"]
    assert [(node["depth"], node["parent"], node["if"], node.get("action")) for node in nodes] == [
        (0, None, "", None),
        (1, 0, "x0 ≤ 0.2", None),
        (2, 1, "x1 ≤ −0.35", "2"),
        (2, 1, "x1 > −0.35", "0"),
        (1, 0, "x0 > 0.2", "1"),
    ]
    assert [node["leaf"] for node in nodes if "leaf" in node] == explanation.tree.leaf_conditions()


def test_equal_probabilities_have_no_split_and_many_actions_keep_their_names():
    log = draw_log()
    explanation = explain(None, log, np.full((ROWS, 3), 1 / 3))
    assert (explanation.fidelity, explanation.leaves) == (1, [])  # every action is a most likely one
    assert explanation.as_dict()["nodes"][0]["action"] == "0"
    best = np.where(draw_log(0, 50).X[:, 0] <= 0, 47, 3)
    explanation = explain(None, draw_log(0, 50), np.eye(50)[best])
    assert [leaf["action"] for leaf in explanation.as_dict()["nodes"][1:]] == ["47", "3"]


def test_other_actions_unknown_probabilities_and_a_single_row_have_no_tree():
    rng, log = np.random.default_rng(0), draw_log()
    labels = BanditLog(log.X, rng.integers(0, 2, (ROWS, 3)), np.full(ROWS, 1 / 8), log.cost)
    lists = BanditLog(
        ActionLists(rng.normal(size=(2 * ROWS, 2)), np.arange(0, 2 * ROWS + 1, 2)),
        np.zeros(ROWS, int),
        np.full(ROWS, 0.5),
        log.cost,
    )
    assert explain(None, labels, np.full((ROWS, 3), 0.5)) is None
    assert explain(None, lists, np.full(2 * ROWS, 0.5)) is None
    assert explain(None, log, None) is None
    assert explain(None, draw_log(n=1), np.full((1, 3), 1 / 3)) is None
