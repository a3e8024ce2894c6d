"""Trees and tilted policies within limits, against enumeration of all trees and a general optimiser."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from drcrm.optimization.prices import Problem, best_mixed_tree, find_prices
from drcrm.policies.trees.search import TreeSettings, fit_tree

RNG = np.random.default_rng(0)
EXACT = {"rtol": 0, "atol": 1e-6}


def searched(X, depth, counts=1.0):
    """Return a search for the exact tree of a depth, and the leaves of its contexts."""
    settings = TreeSettings(depth, thresholds=100, least_share=0.0)

    def search(scores):
        tree = fit_tree(X, scores * np.reshape(counts, (-1, 1)), settings)
        return tree, tree.apply(X)

    return search


def all_trees(X, K, depth):
    """Return the actions of all trees of depth 1 or 2, (trees, m); missing values may go to both sides."""
    m, missing = len(X), np.isnan(X)
    cuts = [(column, cut) for column in range(X.shape[1]) for cut in np.unique(X[~missing[:, column], column])]
    sides = {tuple((X[:, at] <= cut) | (missing[:, at] & goes)) for at, cut in cuts for goes in (False, True)}
    sides = np.array([*sides, (True,) * m])
    leaves = sides.astype(int)
    if depth == 2:
        pairs = [2 * root + np.where(root, first, second) for root, first, second in product(sides, repeat=3)]
        leaves = np.unique([np.unique(leaf, return_inverse=True)[1] for leaf in pairs], axis=0)
    actions = [np.array([*product(range(K), repeat=leaf.max() + 1)])[:, leaf] for leaf in leaves]
    return np.unique(np.concatenate(actions), axis=0)


@pytest.mark.parametrize(("depth", "seed"), [(1 + (seed >= 24), seed) for seed in range(60)])
def test_a_tree_within_limits_is_between_the_best_tree_and_the_best_mixture_of_trees(depth, seed):
    rng = np.random.default_rng(seed)
    m, K = (14, 3) if depth == 1 else (9, 3)
    counts = rng.integers(1, 4, m)
    X = rng.integers(0, 5 if depth == 1 else 3, (m, 2)).astype(float)
    X[rng.random(X.shape) < 0.2 * (seed % 4 > 1)] = np.nan
    scores = rng.normal(size=(m, K)) if seed % 3 else rng.integers(0, 2, (m, K)).astype(float)  # with ties
    costs = [np.array([0.0, 1.0, 0.0]), rng.normal(size=(m, K)), np.array([0.0, 0.3, 2.0])][: 1 + seed % 2]
    costs += [np.array([0.0, 0.3, 2.0])] * (seed % 4 == 3)
    limits = np.array([0.3, 0.4, 0.5][: len(costs)])
    result = best_mixed_tree(Problem(scores, costs, limits, counts), searched(X, depth, counts))
    actions, share = all_trees(X, K, depth), counts / counts.sum()
    values = scores[np.arange(m), actions] @ share
    of_trees = np.array([np.broadcast_to(cost, (m, K))[np.arange(m), actions] @ share for cost in costs])
    best = values[(of_trees <= limits[:, None]).all(axis=0)].max(initial=-np.inf)
    mixture = linprog(-values, of_trees, limits, np.ones((1, len(values))), [1.0])
    np.testing.assert_allclose(result.bound, -mixture.fun, **EXACT)  # the dual value, without a gap
    assert (result.costs <= limits + 1e-6).all()
    gap = -mixture.fun - best
    assert best - gap - 1e-6 <= result.value <= result.bound + 1e-6
    probability = result.probabilities[result.leaf]
    np.testing.assert_allclose(result.value, share @ (scores * probability).sum(axis=1), **EXACT)
    assert (result.probabilities.max(axis=1) < 1).sum() <= len(limits)  # so many leaves draw their action


def test_a_single_action_is_mixed_to_meet_a_share_exactly():
    scores = np.tile([0.0, 1.0, 0.4], (10, 1))
    problem = Problem(scores, [np.array([0.0, 1.0, 0.0])], np.array([0.2]), np.ones(10))
    result = best_mixed_tree(problem, searched(RNG.normal(size=(10, 1)), 1))
    np.testing.assert_allclose(result.probabilities, [[0.0, 0.2, 0.8]], **EXACT)
    np.testing.assert_allclose(result.value, 0.2 + 0.8 * 0.4, **EXACT)
    assert (
        result.as_tree().export_text(["none", "mail", "call"])
        == "mail with 20 % or call with 80 %  (100 % of the rows)\n"
    )


def test_a_gain_that_is_equal_in_half_of_the_contexts_uses_the_whole_limit():
    x = np.arange(100.0)[:, None]
    scores = np.column_stack([np.zeros(100), 1.0 * (x[:, 0] >= 50)])
    result = best_mixed_tree(Problem(scores, [np.array([0.0, 1.0])], np.array([0.2]), np.ones(100)), searched(x, 1))
    np.testing.assert_allclose([result.value, result.costs[0]], [0.2, 0.2], **EXACT)


def test_a_slack_limit_leaves_the_best_tree_unchanged():
    X, scores = RNG.normal(size=(50, 2)), RNG.normal(size=(50, 3))
    tree, leaf = searched(X, 2)(scores)
    result = best_mixed_tree(Problem(scores, [np.array([0.0, 1.0, 0.0])], np.array([1.0]), np.ones(50)), searched(X, 2))
    assert result.tree.root == tree.root
    np.testing.assert_array_equal(result.probabilities.argmax(axis=1)[leaf], tree.predict(X))


def test_only_one_action_and_limits_that_cannot_be_met_give_the_least_excess():
    one = Problem(np.ones((5, 1)), [np.array([1.0])], np.array([0.5]), np.ones(5))
    np.testing.assert_allclose(best_mixed_tree(one, searched(np.zeros((5, 1)), 1)).probabilities, [[1.0]])
    two = Problem(RNG.normal(size=(5, 2)), [*np.eye(2)], np.array([0.3, 0.3]), np.ones(5))
    result = best_mixed_tree(two, searched(RNG.normal(size=(5, 1)), 1))
    np.testing.assert_allclose(result.costs.sum() - 0.6, 0.4, **EXACT)


@pytest.mark.parametrize("seed", range(6))
def test_a_tilted_policy_meets_its_limits_at_the_least_divergence(seed):
    rng = np.random.default_rng(seed)
    m, K, counts = 12, 3, rng.integers(1, 3, 12)
    probability = rng.dirichlet(np.full(K, 0.5 if seed < 4 else 0.02), m)
    costs = [np.array([0.0, 1.0, 0.0]), rng.random((m, K))][: 1 + seed % 2]
    limits = np.array([0.2, 0.45][: len(costs)])
    with np.errstate(divide="ignore"):
        logs = np.log(probability)
    prices = find_prices(logs, costs, limits, counts)
    with np.errstate(divide="ignore"):
        logits = logs - sum(price * cost for price, cost in zip(prices, costs, strict=True))
    tilted = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    share = counts / counts.sum()
    means = np.array([share @ (tilted * cost).sum(axis=1) for cost in costs])
    assert (means <= limits + 1e-6).all()
    np.testing.assert_allclose(means[prices > 0], limits[prices > 0], **EXACT)

    def dual(values):
        tilted = logs - sum(value * cost for value, cost in zip(values, costs, strict=True))
        return share @ np.log(np.exp(tilted).sum(axis=1)) + values @ limits

    with np.errstate(divide="ignore"):
        best = minimize(dual, np.ones(len(costs)), bounds=[(0, None)] * len(costs), options={"ftol": 1e-14})
        np.testing.assert_allclose(dual(prices), best.fun, rtol=0, atol=1e-7)


def test_a_slack_limit_has_the_price_0():
    assert find_prices(np.zeros((4, 2)), [np.array([0.0, 1.0])], np.array([0.6]), np.ones(4)).tolist() == [0.0]


def test_a_nearly_deterministic_policy_meets_its_limit():
    logits = np.column_stack([np.linspace(900, 2000, 50), np.zeros(50)])  # the second probability underflows
    [price] = find_prices(logits, [np.array([1.0, 0.0])], np.array([0.333]), np.ones(50))
    share = 1 / (1 + np.exp(-np.clip(logits[:, 0] - price, -700, 700)))
    assert 0.333 - 1e-6 <= share.mean() <= 0.333 + 1e-6
