"""Copies of rows, and rows that depend on each other."""

import numpy as np
import pandas as pd
import pytest
from fixtures.click_logs import DEPENDENT_MAPPING, draw_actions, draw_rows, draw_users
from scipy.special import softmax

from drcrm import learn
from drcrm.data.bandit_log import BanditLog
from drcrm.logs.decisions.opened_log import open_log
from drcrm.logs.diagnostics.diagnosis import check_rows
from drcrm.logs.row_identity import agreement_p_value
from drcrm.mapping.log_mapping import as_mapping

ACTIONS = 3
N = 1000


def draw_log(X: np.ndarray, rng, cost=None, scale: float = 1.0) -> BanditLog:
    """Draw actions by a softmax policy; costs are normal by default, whatever the action."""
    scores = scale * (X / max(np.abs(X).max(), 1)) @ np.random.default_rng(7).normal(size=(X.shape[1], ACTIONS))
    p = softmax(scores, axis=1)
    Y = draw_actions(p, rng)
    cost = rng.normal(size=len(X)) if cost is None else cost(X, Y, rng)
    return BanditLog(X, Y, p[np.arange(len(X)), Y], cost, n_actions=ACTIONS)


def take(log: BanditLog, rows: np.ndarray) -> BanditLog:
    return BanditLog(log.X[rows], log.Y[rows], log.propensity[rows], log.cost[rows], n_actions=ACTIONS)


def draw_clicks(X, Y, rng) -> np.ndarray:
    return (rng.random(len(Y)) < 0.3).astype(float)


ORDERS = {
    "concatenated": lambda rows, rng: np.append(rows, rows),
    "shuffled": lambda rows, rng: rng.permutation(np.append(rows, rows)),
    "three times": lambda rows, rng: rng.permutation(np.tile(rows, 3)),
    "30 %, shuffled": lambda rows, rng: rng.permutation(np.append(rows, rows[: 3 * N // 10])),
}
FEATURES = {
    "6 contexts": lambda rng: rng.integers(0, [2, 3], (N, 2)),
    "30": lambda rng: rng.integers(0, [5, 6], (N, 2)),
    "300": lambda rng: rng.integers(0, [15, 20], (N, 2)),
    "continuous": lambda rng: rng.normal(size=(N, 2)),
}


@pytest.mark.parametrize(
    ("features", "order"),
    [
        (features, order)
        for features in FEATURES
        for order in ORDERS
        if order != "three times" or features == "continuous"
    ],
)
def test_copies_are_found_in_any_order(features, order):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        log = draw_log(FEATURES[features](rng).astype(float), rng)
        rows = ORDERS[order](np.arange(N), rng)
        (check, *_), units = check_rows(take(log, rows))
        assert check.level == "caution"
        assert len(np.unique(units)) == N
        assert (rows[np.unique(units, return_index=True)[1]][units] == rows).all()


def draw_prices(X, Y, rng) -> np.ndarray:
    return np.round(np.random.default_rng(3).lognormal(3, 1, 200), 2)[rng.integers(0, 200, len(Y))] + Y


WITHOUT_COPIES = {
    "discrete": (lambda rng, n: rng.integers(0, 6, n), draw_clicks),
    "prices": (lambda rng, n: rng.integers(0, 30, n), draw_prices),
    "determined costs": (lambda rng, n: rng.integers(0, 300, n), lambda X, Y, rng: np.sin(7 * X[:, 0] + Y)),
    "each user twice": (lambda rng, n: np.repeat(rng.normal(size=n // 2), 2), lambda X, Y, rng: np.sin(X[:, 0] + Y)),
    "four times": (lambda rng, n: rng.permutation(np.repeat(rng.normal(size=n // 4), 4)), draw_clicks),
    "bursts": (lambda rng, n: np.repeat(rng.normal(size=n), rng.geometric(0.2, n))[:n], draw_clicks),
}


@pytest.mark.parametrize("kind", WITHOUT_COPIES)
def test_rows_that_are_equal_by_chance_are_no_copies(kind):
    draw_feature, cost = WITHOUT_COPIES[kind]
    for seed in range(5):
        rng = np.random.default_rng(seed)
        log = draw_log(draw_feature(rng, N)[:, None].astype(float), rng, cost, scale=float(rng.choice([0, 1, 4])))
        checks, units = check_rows(log)
        assert [check.level for check in checks] == ["good", "good"]
        assert units is None


def test_equal_contexts_with_new_actions_are_no_copies():
    rng = np.random.default_rng(0)
    X = np.eye(3)[rng.integers(0, 3, 900)]
    for p in (0.25, 1.0):  # with certain actions every row is the same, which shows nothing
        Y = rng.integers(0, 4, 900) if p < 1 else np.zeros(900, int)
        log = BanditLog(X, Y, np.full(900, p), -(rng.random(900) < 0.01).astype(float), n_actions=4)
        (check, _), units = check_rows(log)
        assert (check.level, units) == ("good", None)
        assert check.value > 0.95
    shared = BanditLog(np.eye(3), log.Y, log.propensity, log.cost, X.argmax(axis=1), n_actions=4)
    assert check_rows(shared)[0][0].value == check.value
    fixed = BanditLog(X, X.argmax(axis=1), np.full(900, 0.25), np.zeros(900), n_actions=4)
    assert check_rows(fixed)[0][0].level == "caution"


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
