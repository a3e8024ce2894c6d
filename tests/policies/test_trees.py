"""Policy trees: the search against brute force, and policies that read a table's columns from encoded features."""

import numpy as np
import pandas as pd
import pytest

from drcrm import BanditLog, read_log
from drcrm.errors import InputError
from drcrm.logs.encoding.tables import ONE_HOT
from drcrm.logs.training_limits import TreeLearner
from drcrm.policies.trees.encoded_columns import BOOLEAN, CATEGORY, NUMBER, Column, readable_columns
from drcrm.policies.trees.search import fit_encoded_tree, optimal_tree
from drcrm.policies.trees.tree import ActionTree, Node, tree_of
from drcrm.policies.trees.tree_policy import tree_policy

TWO = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
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


def all_splits(X: pd.DataFrame, tree: ActionTree) -> np.ndarray:
    """Return the rows that go left, for each cut of each column and both places of its missing values, (splits, n)."""
    splits = []
    for column in tree.columns:
        values = X[column.name].to_numpy()
        if column.kind == "category":
            place = {name: number for number, name in enumerate(column.values)}
            values = np.array([place.get(value, np.nan) for value in values])
        values = values.astype(float)
        missing = np.isnan(values)
        splits += [(values <= cut) | (missing & side) for cut in np.unique(values[~missing]) for side in (False, True)]
    return np.array(splits)


def best_value(splits: np.ndarray, scores: np.ndarray, rows: np.ndarray, depth: int, least: float) -> float:
    """Return the value of the best tree on some rows; −∞ if there are fewer than ``least``."""
    best = scores[rows].sum(axis=0).max() if rows.sum() >= least else -np.inf
    if depth == 1 and len(splits):
        left, right = splits & rows, ~splits & rows
        value = (left @ scores).max(axis=1) + (right @ scores).max(axis=1)
        return max(best, value[np.minimum(left.sum(axis=1), right.sum(axis=1)) >= least].max(initial=-np.inf))
    for split in splits if depth else ():
        sides = [best_value(splits, scores, rows & side, depth - 1, least) for side in (split, ~split)]
        best = max(best, sum(sides))
    return best


def draw_problem(rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Return contexts with numbers, categories, booleans and missing values, and scores with ties."""
    n, n_actions = rng.integers(2, 30), rng.integers(2, 5)
    missing = 0.25 * (rng.random() < 0.7)
    X = {
        "number": np.where(rng.random(n) < missing, np.nan, rng.integers(0, 5, n) / 4),
        "category": np.where(rng.random(n) < missing, None, rng.choice(np.array([*"abcd"], dtype=object), n)),
        "boolean": rng.random(n) < 0.5,
        "other": rng.integers(0, 3, n).astype(float),
    }
    scores = rng.integers(-2, 3, (n, n_actions)).astype(float)
    return pd.DataFrame(X), scores if rng.random() < 0.5 else scores + rng.normal(size=scores.shape)


@pytest.mark.parametrize(
    ("depth", "problems"), [(1, 40), (2, 40), pytest.param(2, 200, marks=pytest.mark.slow)], ids=["1", "2", "2, all"]
)
def test_best_value(depth, problems):
    rng = np.random.default_rng(depth)
    for _ in range(problems):
        X, scores = draw_problem(rng)
        share = rng.choice([0.0, 0.1, 0.3])
        tree = optimal_tree(X, scores, depth, least_share=share)
        n = len(X)
        least, actions = max(1, np.ceil(share * n - 1e-9)), tree.predict(X)
        sizes = np.bincount(tree.apply(X), minlength=len(tree.leaves))
        expected = best_value(all_splits(X, tree), scores, np.ones(n, dtype=bool), depth, least)
        assert scores[np.arange(n), actions].sum() == pytest.approx(expected, abs=1e-9)
        assert (sizes >= least).all()
        np.testing.assert_allclose([leaf.share for leaf in tree.leaves], sizes / n)


def test_deeper_tree():
    rng = np.random.default_rng(0)
    for _ in range(20):
        X, scores = draw_problem(rng)
        rows = np.arange(len(X))
        two, three = (scores[rows, optimal_tree(X, scores, depth).predict(X)].sum() for depth in (2, 3))
        assert two - 1e-9 <= three <= scores.max(axis=1).sum()
    X = rng.integers(0, 2, (400, 3))
    code = X @ [4, 2, 1]
    assert (optimal_tree(X, np.eye(8)[code], 3).predict(X) == code).all()


def test_two_categories_of_scores():
    """With two actions, the split between the ordered categories is the best of all subsets."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"c": rng.integers(0, 6, 60).astype(str)})
    scores = rng.normal(size=(60, 2))
    subsets = [[bool(number >> int(value) & 1) for value in X.c] for number in range(64)]
    expected = best_value(np.array(subsets), scores, np.ones(60, dtype=bool), 1, 1)
    tree = optimal_tree(X, scores, 1, least_share=0)
    assert scores[np.arange(60), tree.predict(X)].sum() == pytest.approx(expected)


def test_quantiles():
    rng = np.random.default_rng(2)
    X = rng.lognormal(size=(3000, 2))
    scores = np.column_stack([np.zeros(3000), X[:, 0] - 1])
    tree = optimal_tree(X, scores, 1, thresholds=9)
    tenths = np.quantile(X[:, 0], np.arange(1, 10) / 10)
    assert np.abs(tree.root.cut - tenths).min() < 0.02
    values = [np.abs((X[:, 0] <= cut) @ scores[:, 1] - scores[:, 1].sum()) for cut in tenths]
    assert scores[np.arange(3000), tree.predict(X)].sum() == pytest.approx(max(values), rel=1e-3)


def test_times_and_new_values():
    days = pd.date_range("2026-01-01", periods=40, tz="Europe/Paris")
    X = pd.DataFrame({"day": days, "city": ["Rome", "Oslo"] * 20, "n": [1, None] * 20})
    scores = np.zeros((40, 2))
    scores[20:, 1], scores[:20, 1] = 1, -1
    tree = optimal_tree(X, scores)
    lines = tree.export_text(["no", "yes"]).splitlines()
    assert lines[1::2] == ["    no  (50 % of the rows)", "    yes  (50 % of the rows)"]
    assert lines[0].startswith("if day ≤ 2026-01-20T")
    assert lines[2].startswith("if day > 2026-01-20T")
    assert tree.predict(X.assign(day=X.day.astype(str))).tolist() == [0] * 20 + [1] * 20
    scores[:, 1] = np.where(X.city == "Oslo", 1, -2)
    tree = optimal_tree(X[["city"]], scores)
    assert tree.predict(pd.DataFrame({"city": ["Rome", "Oslo", None, "Bern"]})).tolist()[:2] == [0, 1]
    tree = optimal_tree(X[["n"]], scores)
    assert tree.export_text() == (
        "if n is not missing:\n    0  (50 % of the rows)\nif n is missing:\n    1  (50 % of the rows)\n"
    )


@pytest.mark.parametrize(
    ("X", "scores"),
    [
        ([[1.0]], [[0.0, 2.0]]),
        (np.ones((9, 2)), np.tile([1.0, 2.0], (9, 1))),
        (np.full((9, 2), np.nan), np.tile([1.0, 2.0], (9, 1))),
        (np.arange(9.0)[:, None], np.tile([3.0], (9, 1))),
        (pd.DataFrame({"c": [None, None], "d": pd.Series([pd.NaT, pd.NaT])}), [[0.0, 1.0]] * 2),
    ],
    ids=["one row", "constant", "missing", "one action", "empty columns"],
)
def test_leaf(X, scores):
    tree = optimal_tree(X, scores)
    assert not tree.root.children
    assert tree.predict(X).tolist() == [int(np.argmax(scores[0]))] * len(scores)


def test_huge_numbers():
    values = np.array([-np.inf, -1.7e308, -1.0, 1.0, np.nextafter(1.0, 2), 1.7e308, np.inf])
    for place in range(1, 7):
        scores = np.zeros((7, 2))
        scores[:place, 0], scores[place:, 1] = 1.7e308, 1.7e308
        tree = optimal_tree(values[:, None], scores)
        assert tree.predict(values[:, None]).tolist() == [0] * place + [1] * (7 - place)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0]], [[np.nan, 0]]), "finite"),
        (([[1.0]], [0.0]), "shape"),
        (([[1.0], [2.0]], [[0.0, 1.0]]), "shape"),
        ((np.ones(3), np.ones((3, 2))), "columns"),
        (([[1.0]], [[0.0, 1.0]], 0), "depth"),
        (([[1.0]], [[0.0, 1.0]], 2, 0), "thresholds"),
        (([[1.0]], [[0.0, 1.0]], 2, 1, 1.5), "least_share"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(InputError, match=message):
        optimal_tree(*arguments)


@pytest.mark.parametrize(
    ("contexts", "message"),
    [
        (TWO[["a"]], "'b'"),
        (np.ones((2, 2)), "DataFrame"),
        (TWO.assign(a=["x", "y"]), "'a'"),
    ],
)
def test_refused_contexts(contexts, message):
    with pytest.raises(InputError, match=message):
        optimal_tree(TWO, np.eye(2)).predict(contexts)
    with pytest.raises(InputError, match="3 columns"):
        optimal_tree(np.ones((2, 2)), np.eye(2)).predict(np.ones((2, 3)))


def test_the_conditions_of_leaves_list_only_values_that_are_left():
    city = Column("city", CATEGORY, list("abcd"), has_missing=True)
    leaves = [Node(action, 0.25) for action in range(3)]
    inner = Node(0, 0.5, 1, 1.0, False, (leaves[0], leaves[1]))
    old = Node(1, 0.1, 0, 5.0, False, tuple(leaves[:2]))
    root = Node(0, 1.0, 1, 2.0, True, (inner, Node(2, 0.25, 0, 3.0, False, (leaves[2], old))))
    tree = ActionTree(root, [Column("age"), city], 3)
    assert tree.export_text().startswith("if city in {a, b, c} or missing:\n    if city in {a, b}:\n")
    assert all(placed.parent < place for place, placed in enumerate(tree.placed_nodes()))
    assert tree.leaf_conditions() == [
        "city in {a, b}",
        "city in {c} or missing",
        "city in {d} and age ≤ 3",
        "city in {d} and age > 3 and age ≤ 5",
        "city in {d} and age > 5",
    ]


def encoded(frame: pd.DataFrame, item, reward=0.0):
    return read_log(frame.assign(item=item, p=1 / 3, r=reward), MAPPING)


def learn_best(best, frame=FRAME, depth: int = 1):
    """Return a log whose reward is 1 for the best items, with noise, and the policy of its tree."""
    rng = np.random.default_rng(1)
    item = rng.integers(0, 3, N)
    log = encoded(frame, item, (item == best) + rng.normal(0, 0.3, N))
    return log, TreeLearner.of(log, depth).learn()


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
    log, policy = learn_best(np.where(is_best, 2, 1))
    assert first in tree_of(policy).export_text()
    np.testing.assert_array_equal(policy.greedy(log.X), np.where(is_best, 2, 1))


def test_missing_and_unseen_values_go_where_the_tree_says():
    log, policy = learn_best(np.where(pd.isna(CITY) | (CITY == "Genf"), 2, 0))
    rows = FRAME.head(3).assign(city=["Basel", None, "Bern"], age=1e9)
    np.testing.assert_array_equal(policy.greedy(log.encoding.contexts(rows)), [2, 2, 0])


def test_a_missing_number_without_indicator_is_the_mean():
    frame = FRAME.assign(age=np.arange(N) % 50)
    log, policy = learn_best(np.where(frame.age <= 20, 0, 1), frame)
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
    _, policy = learn_best(1, depth=0)
    assert tree_of(policy).export_text() == "1  (100 % of the rows)\n"
    assert (policy.greedy(LOG.X) == 1).all()
    assert tree_of(policy.with_exploration(0.1)) is not None
