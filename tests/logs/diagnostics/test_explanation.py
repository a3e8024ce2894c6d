"""The tree that explains a policy: against the search on the same half of the rows, and logs that have none."""

import numpy as np
import pytest

from drcrm import ActionLists, BanditLog, SoftmaxPolicy, optimal_tree
from drcrm.data.folds import context_folds
from drcrm.logs.diagnostics.comparison.segments import explain

N = 400


def draw_log(seed: int = 0, n_actions: int = 3, n: int = N) -> BanditLog:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 2)).round(1), np.ones(n)])
    return BanditLog(X, rng.integers(0, n_actions, n), np.full(n, 1 / n_actions), -rng.random(n), n_actions=n_actions)


@pytest.mark.parametrize("n_actions", [2, 3, 5])
def test_the_tree_is_the_best_one_on_half_of_the_rows_and_its_fidelity_is_that_on_the_others(n_actions):
    log, rng = draw_log(n_actions, n_actions), np.random.default_rng(n_actions)
    log = log.recount(rng.integers(1, 5, N))
    mean = SoftmaxPolicy(rng.normal(size=(3, n_actions))).marginals(log.X)
    explanation, fold = explain(None, log, mean), context_folds(log, 2)
    first, second = (np.repeat(np.flatnonzero(fold == side), log.count[fold == side]) for side in (0, 1))
    expected = optimal_tree(log.X[first], mean[first])
    taken = expected.predict(log.X[second])
    assert explanation.rows == len(second)
    assert explanation.fidelity == pytest.approx(np.mean(taken == mean[second].argmax(axis=1)), abs=1e-12)
    np.testing.assert_array_equal(explanation.leaf, expected.apply(log.X))
    assert sum(part.rows.sum() for part in explanation.leaves) == N


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


def test_the_fidelity_to_probabilities_without_a_rule_is_that_of_a_guess():
    results = []
    for seed in range(20):
        mean = np.random.default_rng(seed).dirichlet(np.ones(4), 100)
        results.append(explain(None, draw_log(seed, 4, 100), mean).fidelity)
    assert abs(np.mean(results) - 1 / 4) < 0.06  # on the rows of the fit it is above 0.4


def test_equal_probabilities_have_no_split_and_many_actions_keep_their_names():
    log = draw_log()
    explanation = explain(None, log, np.full((N, 3), 1 / 3))
    assert (explanation.fidelity, explanation.leaves) == (1, [])  # every action is a most likely one
    assert explanation.as_dict()["nodes"][0]["action"] == "0"
    best = np.where(draw_log(0, 50).X[:, 0] <= 0, 47, 3)
    explanation = explain(None, draw_log(0, 50), np.eye(50)[best])
    assert [leaf["action"] for leaf in explanation.as_dict()["nodes"][1:]] == ["47", "3"]


def test_other_actions_unknown_probabilities_and_a_single_row_have_no_tree():
    rng, log = np.random.default_rng(0), draw_log()
    labels = BanditLog(log.X, rng.integers(0, 2, (N, 3)), np.full(N, 1 / 8), log.cost)
    lists = BanditLog(
        ActionLists(rng.normal(size=(2 * N, 2)), np.arange(0, 2 * N + 1, 2)),
        np.zeros(N, int),
        np.full(N, 0.5),
        log.cost,
    )
    assert explain(None, labels, np.full((N, 3), 0.5)) is None
    assert explain(None, lists, np.full(2 * N, 0.5)) is None
    assert explain(None, log, None) is None
    assert explain(None, draw_log(n=1), np.full((1, 3), 1 / 3)) is None
