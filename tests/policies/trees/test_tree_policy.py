"""Policies of trees that read the columns of a table from encoded features, and their storage."""

import numpy as np
import pandas as pd
import pytest

from drcrm import BanditLog, read_log
from drcrm.logs.encoding.tables import ONE_HOT
from drcrm.policies.feature_maps import FeatureMap
from drcrm.policies.stored_policies import from_bytes, to_bytes
from drcrm.policies.trees.encoded_columns import BOOLEAN, NUMBER, readable_columns
from drcrm.policies.trees.search import fit_encoded_tree, optimal_tree
from drcrm.policies.trees.tree import tree_of
from drcrm.policies.trees.tree_policy import tree_policy
from drcrm.selection.limits.training_limits import TreeLearner

RNG = np.random.default_rng(0)
N = 600
AGE = np.where(RNG.random(N) < 0.2, np.nan, RNG.integers(18, 60, N))
CITY = RNG.choice(["Bern", "Genf", "Zürich", None], N)
MEMBER = RNG.choice(["yes", "no"], N)
PRICE = 1e6 + RNG.integers(0, 50, N) / 10  # far from 0, so that the encoding rounds
TIMES = pd.date_range("2024-01-01 00:30", periods=N, freq="37min")
FRAME = pd.DataFrame({"age": AGE, "city": CITY, "member": MEMBER, "price": PRICE, "at": TIMES.astype(str)})
MAPPING = {
    "action": "item",
    "propensity": "p",
    "reward": "r",
    "booleans": "yes/no",
    "features": {"numeric": ["age", "member", "price"], "categorical": ["city"], "time": ["at"]},
}


def encoded(frame: pd.DataFrame, item, reward=0.0):
    return read_log(frame.assign(item=item, p=1 / 3, r=reward), MAPPING)


LOG = encoded(FRAME, np.arange(N) % 3)


def columns_of(names) -> pd.DataFrame:
    return FRAME[names].assign(**({"member": MEMBER == "yes"} if "member" in names else {}))


@pytest.mark.parametrize("seed", range(5))
def test_the_tree_is_that_of_the_table(seed):
    scores = np.random.default_rng(seed).normal(size=(N, 3))
    names = ["age", "member", "price", "city"]
    columns = [column for column in readable_columns(LOG) if column.name in names]
    tree = fit_encoded_tree(columns, LOG.X, scores, np.ones(N), 2)
    expected = optimal_tree(columns_of(names), scores)
    assert tree.export_text() == expected.export_text()
    policy = tree_policy(tree, LOG.X)
    np.testing.assert_array_equal(policy.greedy(LOG.X), expected.predict(columns_of(names)))
    chosen = policy.marginals(LOG.X)[np.arange(N), policy.greedy(LOG.X)]
    np.testing.assert_allclose(chosen, 1, rtol=1e-15)


@pytest.mark.parametrize(
    ("is_best", "first"),
    [
        (TIMES.hour > 16, "if at: hour ≤ 16:"),
        (TIMES.day_name() == "Sunday", "at: weekday in {"),
        (MEMBER == "yes", "if member is false:"),
        (np.isnan(AGE), "if age is not missing:"),
        (CITY == "Genf", "if city in {"),
        (PRICE > 1000002.5, "if price ≤ 1000002.55:"),
    ],
)
def test_a_known_rule_is_found_in_each_kind_of_column(is_best, first):
    rng = np.random.default_rng(1)
    item = rng.integers(0, 3, N)
    reward = (item == np.where(is_best, 2, 1)) + rng.normal(0, 0.3, N)
    log = encoded(FRAME, item, reward)
    policy = TreeLearner.of(log, 1).learn()
    assert first in tree_of(policy).export_text()
    np.testing.assert_array_equal(policy.greedy(log.X), np.where(is_best, 2, 1))


def test_missing_and_unseen_values_go_where_the_tree_says():
    rng = np.random.default_rng(2)
    item = rng.integers(0, 3, N)
    best = np.where(pd.isna(CITY) | (CITY == "Genf"), 2, 0)
    log = encoded(FRAME, item, 1.0 * (item == best))
    policy = TreeLearner.of(log, 1).learn()
    rows = FRAME.head(3).assign(city=["Basel", None, "Bern"], age=1e9)
    X = log.encoding.contexts(rows)
    np.testing.assert_array_equal(policy.greedy(X), [2, 2, 0])


def test_a_missing_number_without_indicator_is_the_mean():
    frame = FRAME.assign(age=np.arange(N) % 50)
    item = np.arange(N) % 3
    log = encoded(frame, item, 1.0 * (item == np.where(frame.age <= 20, 0, 1)))
    policy = TreeLearner.of(log, 1).learn()
    tree = tree_of(policy)
    assert tree.columns[tree.root.column].name == "age"
    assert tree.root.missing_left is False  # the mean is 24.5
    assert policy.greedy(log.encoding.contexts(frame.head(1).assign(age=np.nan))) == [1]


def test_kinds_of_columns_and_columns_that_nobody_can_read():
    many = [f"u{number}" for number in range(ONE_HOT + 1)]
    frame = FRAME.assign(city=np.resize(many, N), member="yes")
    log = encoded(frame, np.arange(N) % 3)
    assert [column.name for column in readable_columns(log)] == ["age", "member", "price", "at: hour", "at: weekday"]
    tree = fit_encoded_tree(readable_columns(log), log.X, RNG.normal(size=(N, 3)), np.ones(N), 2)
    assert [column.kind for column in tree.columns][1:4] == [BOOLEAN, NUMBER, NUMBER]  # one of them is constant


def test_of_many_columns_the_best_are_searched():
    X = np.column_stack([RNG.normal(size=(N, 40)), np.ones(N)])
    log = BanditLog(X, np.arange(N) % 2, np.full(N, 0.5), np.zeros(N))
    scores = np.column_stack([np.sign(X[:, 33]), np.zeros(N)])
    tree = fit_encoded_tree(readable_columns(log), log.X, scores, np.ones(N), 1)
    assert len(tree.columns) == 20
    assert tree.columns[tree.root.column].name == "x33"
    assert np.mean(tree_policy(tree, X).greedy(X) == (X[:, 33] < 0)) > 0.98


def test_depth_0_is_the_best_single_action():
    item = np.arange(N) % 3
    policy = TreeLearner.of(encoded(FRAME, item, 0.3 * (item == 1)), 0).learn()
    assert tree_of(policy).export_text() == "1  (100 % of the rows)\n"
    assert (policy.greedy(LOG.X) == 1).all()
    assert tree_of(policy.with_exploration(0.1)) is not None


def test_the_feature_map_is_stored_without_pickle():
    policy = TreeLearner.of(encoded(FRAME, np.arange(N) % 3, RNG.random(N)), 2).learn()
    restored = from_bytes(to_bytes(policy.features, "map"), FeatureMap, "map")
    np.testing.assert_array_equal(restored(LOG.X), policy.features(LOG.X))
    assert restored.transformer.tree.export_text() == tree_of(policy).export_text()
