"""Policy trees that are learned from logs, and the doubly robust scores that they maximise."""

import pickle

import matplotlib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from drcrm import BanditLog, PolicyTree, off_policy_value
from drcrm.cost_models.cross_fitting import cross_fit
from drcrm.errors import InputError
from drcrm.evaluation.policy_terms import doubly_robust_scores


@pytest.fixture(scope="module")
def shop() -> dict:
    """A log of three actions. Action 1 is best for mobile users without an age, action 2 for others above 40."""
    rng = np.random.default_rng(0)
    n = 1500
    X = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.4, np.nan, rng.integers(20, 60, n)),
            "device": rng.choice(["desktop", "mobile", "tablet"], n),
        }
    )
    propensity = np.array([0.5, 0.3, 0.2])
    Y = rng.choice(3, n, p=propensity)
    best = np.where(X.age.isna(), np.where(X.device == "mobile", 1, 0), np.where(X.age > 40, 2, 0))
    cost = -1.0 * (best == Y) + 0.2 * rng.normal(size=n)
    return {"X": X, "Y": Y, "propensity": propensity[Y], "cost": cost, "best": best}


def fit(shop: dict, **options) -> PolicyTree:
    rows = {name: shop[name] for name in ("Y", "propensity", "cost")}
    return PolicyTree(regressor=LinearRegression(), **options).fit(shop["X"], **rows)


def test_scores_are_doubly_robust():
    """The mean score of the logged policy's actions, and of each action, equals the formula row by row."""
    rng = np.random.default_rng(1)
    X, Y = np.column_stack([rng.normal(size=60), np.ones(60)]), rng.integers(0, 3, 60)
    log = BanditLog(X, Y, rng.uniform(0.2, 1, 60), rng.normal(size=60), count=rng.integers(1, 4, 60))
    scores = doubly_robust_scores(log, LinearRegression(), support=0)
    model = cross_fit(log, LinearRegression()).values
    for row, action in enumerate(Y):
        expected = -model[row]
        expected[action] -= (log.cost[row] - model[row, action]) / log.propensity[row]
        np.testing.assert_allclose(scores[row], log.count[row] * expected)


def test_scores_of_unsupported_actions():
    """An action that π0 hardly takes has the largest cost, whatever the costs of its few rows are."""
    rng = np.random.default_rng(2)
    n = 4000
    x = rng.random(n)
    rare = 0.001 + 0.008 * x
    Y = (rng.random(n) < rare).astype(int)
    cost = np.where(Y == 1, -5.0, rng.random(n))
    log = BanditLog(np.column_stack([x, np.ones(n)]), Y, np.where(Y == 1, rare, 1 - rare), cost)
    scores = doubly_robust_scores(log, LinearRegression())
    assert Y.sum() > 5
    np.testing.assert_allclose(scores[:, 1], -cost.max())


def test_learned_tree(shop):
    tree = fit(shop)
    assert (tree.predict(shop["X"]) == shop["best"]).mean() > 0.95
    np.testing.assert_array_equal(tree.predict_proba(shop["X"]).argmax(axis=1), tree.predict(shop["X"]))
    text = tree.export_text(["none", "banner", "mail"])
    assert "age is missing" in text
    assert "mobile" in text
    assert [*tree.feature_names_in_] == ["age", "device"]
    again = pickle.loads(pickle.dumps(tree))
    np.testing.assert_array_equal(again.predict(shop["X"]), tree.predict(shop["X"]))
    assert clone(tree).get_params()["depth"] == 2


def test_value_of_a_tree(shop):
    """A tree of numbers is a policy for estimates on new rows."""
    X = np.nan_to_num(shop["X"][["age"]].to_numpy(), nan=-1)
    rows = [shop[name] for name in ("Y", "propensity", "cost")]
    half = slice(0, 750), slice(750, None)
    tree = PolicyTree(regressor=LinearRegression()).fit(X[half[0]], *(row[half[0]] for row in rows))
    held = BanditLog(X[half[1]], *(row[half[1]] for row in rows))
    value = float(off_policy_value(tree, held, estimate="ips"))
    is_taken = tree.predict(held.X) == held.Y
    assert value == pytest.approx((is_taken / held.propensity * held.cost).mean())


def test_groups_and_unused_actions(shop):
    groups = np.arange(1500) // 3
    tree = PolicyTree(1, regressor=LinearRegression())
    tree.fit(shop["X"], shop["Y"], shop["propensity"], shop["cost"], groups=groups, n_actions=4)
    assert tree.predict_proba(shop["X"]).shape == (1500, 4)
    assert tree.predict(shop["X"]).max() < 3


def test_plot(shop):
    matplotlib.use("agg")
    tree = fit(shop)
    ax = tree.plot(["none", "banner", "mail"])
    texts = [text.get_text() for text in ax.texts]
    assert len(texts) == 2 * len(tree.tree_.leaves) - 1
    actions = [text.split(": ")[-1].split()[0] for text in texts if ": " in text]
    assert actions == [["none", "banner", "mail"][leaf.action] for leaf in tree.tree_.leaves]
    long = tree.plot([f"an action with a rather long name, number {number}" for number in range(3)])
    for figure in (ax.figure, long.figure):
        figure.canvas.draw()
        assert all(text.get_window_extent().x1 < figure.bbox.x1 for text in figure.axes[0].texts)
        matplotlib.pyplot.close(figure)


def test_refusals(shop):
    with pytest.raises(NotFittedError):
        PolicyTree().predict(shop["X"])
    with pytest.raises(InputError, match="propensity"):
        PolicyTree().fit(shop["X"], shop["Y"], cost=shop["cost"])
    with pytest.raises(InputError, match="depth"):
        fit(shop, depth=0)
    with pytest.raises(InputError, match="one action of K"):
        PolicyTree().fit(shop["X"], np.eye(3)[shop["Y"]], shop["propensity"], shop["cost"])
    with pytest.raises(InputError, match="rows"):
        PolicyTree().fit(shop["X"][:5], shop["Y"], shop["propensity"], shop["cost"])
