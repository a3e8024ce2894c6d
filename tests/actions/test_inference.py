"""Action spaces by the form of X and Y, selection of lists of actions, and input that cannot be used."""

import re

import numpy as np
import pandas as pd
import pytest
from fixtures.user_input import refusal
from scipy import sparse

from drcrm import ActionLists, BanditLog, CostModel, ExponentialPolicy, SoftmaxPolicy
from drcrm.errors import InputError

LISTS = ActionLists(np.ones((7, 2)), [0, 3, 4, 7])
VALID = {"X": np.ones((3, 2)), "Y": [0, 2, 1], "propensity": np.full(3, 0.5), "cost": -np.arange(3.0)}
LOGS = {
    "single": BanditLog(**VALID),
    "lists": BanditLog(**{**VALID, "X": LISTS, "Y": [0, 0, 2]}),
    "labels": BanditLog(**{**VALID, "Y": np.eye(3, dtype=int)}),
}


def test_a_vector_of_actions_is_a_single_choice():
    X, p, c = np.ones((4, 2)), np.full(4, 0.5), -np.arange(4.0)
    assert repr(BanditLog(X, [0, 1, 2, 1], p, c)) == "BanditLog(4 rows, 4 contexts, 2 features, one of 3 actions)"
    assert BanditLog(X, [0, 1, 2, 1], p, c, n_actions=7).actions.shape == (7,)
    assert BanditLog(X, [0, 1, 2, 1], p, c, eligible=np.ones((4, 5), dtype=bool)).actions.shape == (5,)
    assert BanditLog(X, np.array([0.0, 1.0, 2.0, 1.0]), p, c).Y.tolist() == [0, 1, 2, 1]
    assert BanditLog(X, [[0, 1], [1, 0], [1, 1], [0, 0]], p, c).actions.shape == (2,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"Y": [0, 1.5, 1]}, r"Y is 1\.5 in row 1, expected a whole number"),
        ({"Y": [0, -1, 1]}, r"Y is -1 in row 1, expected .*0 or more"),
        ({"Y": [0, np.nan, 1]}, "Y is nan in row 1"),
        ({"Y": [0, 1]}, "Y has 2 rows, expected 3"),
        *(
            ({"Y": Y}, "Y is not an array of numbers, but of text such as 'a'; number the act.* by pandas.factorize")
            for Y in (["a", "b", "a"], pd.Series(["a", "b", "a"], dtype="category"), np.array(["a", 1, 2], object))
        ),
        ({"n_actions": 2}, "Y is 2 in row 1, expected one of 2 actions, numbered from 0"),
        ({"n_actions": 0}, "n_actions is 0, expected a whole number of at least 1"),
        ({"n_actions": 2.5}, "n_actions is 2.5, expected a whole number"),
        ({"n_actions": 4, "eligible": np.ones((3, 3))}, "eligible has 3 columns, expected one for each of 4 actions"),
        ({"eligible": np.ones((2, 3))}, "eligible has 2 rows, expected 3"),
        ({"eligible": np.ones(3)}, r"eligible has shape \(3,\), expected"),
        ({"eligible": [[1, 1, 1], [0, 0, 0], [1, 1, 1]]}, "eligible has no action in row 1, expected at least one"),
        ({"eligible": [[1, 1, 1], [1, 1, 2], [1, 1, 1]]}, r"eligible has 2 in row 1, .* 2, expected 0 or 1"),
        ({"eligible": [[1, 1, 1], [1, 1, 0], [1, 1, 1]]}, "Y is 2 in row 1, expected an action that is eligible"),
        ({"X": LISTS, "Y": [0, 1, 0]}, "Y is 1 in row 1, expected a place from 0 to 0"),
        ({"X": LISTS, "Y": [0, 0, -1]}, "Y is -1 in row 2"),
        ({"X": LISTS, "Y": np.zeros((3, 2))}, r"Y has shape \(3, 2\), expected"),
        ({"X": LISTS, "Y": [0, 0, 0], "n_actions": 3}, "n_actions cannot be used with lists"),
        ({"X": LISTS, "Y": [0, 0, 0], "eligible": np.ones((3, 3))}, "eligible cannot be used with lists"),
        ({"Y": [[0, 1], [1, 0], [1, 1]], "n_actions": 2}, r"Y has shape \(3, 2\), expected \(rows,\)"),
        ({"Y": [[0, 1], [1, 0], [1, 1]], "eligible": np.ones((3, 2))}, "eligible can be used only if Y is a vector"),
        ({"context": [0, 1, 3]}, "context is 3 in row 2"),
    ],
)
def test_invalid_actions_are_rejected(arguments, message):
    assert re.search(message, refusal(BanditLog, **{**VALID, **arguments}))


def test_one_hot_label_vectors_are_rejected_as_a_single_choice():
    Y = np.eye(4, dtype=np.uint8)[np.random.default_rng(0).integers(0, 4, 30)]
    with pytest.raises(InputError, match="every row of Y has exactly one 1: that is a single choice among 4 actions"):
        CostModel().fit(np.ones((30, 1)), Y, cost=np.arange(30))


@pytest.mark.parametrize(
    ("policy", "kind"),
    [
        (ExponentialPolicy(np.zeros((2, 3))), "single"),
        (SoftmaxPolicy(np.zeros((2, 3))), "labels"),
        (SoftmaxPolicy(np.zeros((2, 3))), "lists"),
        (SoftmaxPolicy(np.zeros(2)), "single"),
        (SoftmaxPolicy(np.zeros((2, 4))), "single"),
        (SoftmaxPolicy(np.zeros(3)), "lists"),
    ],
)
def test_a_policy_over_different_actions_is_rejected(policy, kind):
    assert re.search(r"expected|the policy is over .*, the log has", refusal(policy.log_prob_of_rows, LOGS[kind]))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_lists_are_indexed_like_rows(form):
    rng = np.random.default_rng(7)
    sizes = rng.integers(1, 5, 9)
    starts = np.r_[0, np.cumsum(sizes)]
    features = rng.normal(size=(starts[-1], 3)) * (rng.random((starts[-1], 3)) < 0.6)
    lists = ActionLists(form(features), starts)
    assert (len(lists), lists.shape) == (9, (9, 3))
    mask = rng.random(9) < 0.5
    for rows in (np.array([4, 0, 4, 8]), mask, slice(2, 7), slice(None, None, -2), [1, 2], np.array([-1, 3])):
        chosen = np.arange(9)[rows]
        part = lists[rows]
        expected = np.concatenate([features[starts[k] : starts[k + 1]] for k in chosen])
        dense = part.features.toarray() if sparse.issparse(part.features) else part.features
        assert np.array_equal(dense, expected)
        assert part.starts.tolist() == [0, *np.cumsum(sizes[chosen])]


@pytest.mark.parametrize(
    ("features", "starts", "message"),
    [
        (np.ones((7, 2)), [0, 3, 3, 7], "list 1 is empty"),
        (np.ones((7, 2)), [0, 3, 7, 7], "list 2 is empty"),
        (np.ones((7, 2)), [0, 4, 3, 7], "list 1"),
        (np.ones((7, 2)), [1, 3, 7], "starts .*0"),
        (np.ones((7, 2)), [0, 3, 6], "starts .*7"),
        (np.ones((7, 2)), [0, 3, 8], "starts .*7"),
        (np.ones((7, 2)), [], "starts"),
        (np.ones((7, 2)), [0, 2.5, 7], r"starts is 2\.5 in row 1, expected a whole number"),
        (np.ones((7, 2)), [[0, 7]], "starts"),
        (np.ones((7, 2)), ["a", "b"], "starts"),
        ([[1.0], [np.nan]], [0, 2], "row 1|features"),
        ([["a"], ["b"]], [0, 2], "features .*numbers"),
        ([1.0, 2.0], [0, 2], r"features has shape \(2,\)"),
        (np.zeros((2, 0)), [0, 2], "features"),
    ],
)
def test_invalid_lists_are_rejected(features, starts, message):
    assert re.search(message, refusal(ActionLists, features, starts))
