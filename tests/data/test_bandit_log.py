"""The bandit log: its actions, checks, counts, duplicates, clipping constant, and the scales of its features."""

import re

import numpy as np
import pandas as pd
import pytest
from fixtures.action_logs import Choices
from fixtures.user_input import refusal
from scipy import sparse

from drcrm import ActionLists, BanditLog, CostModel, ExponentialPolicy, SoftmaxPolicy
from drcrm.arrays.numerics import describe_unequal_scales
from drcrm.arrays.tables import Table
from drcrm.errors import InputError

LISTS = ActionLists(np.ones((7, 2)), [0, 3, 4, 7])
VALID = {"X": np.ones((3, 2)), "Y": [0, 2, 1], "propensity": np.full(3, 0.5), "cost": -np.arange(3.0)}
LOGS = {
    "single": BanditLog(**VALID),
    "lists": BanditLog(**{**VALID, "X": LISTS, "Y": [0, 0, 2]}),
    "labels": BanditLog(**{**VALID, "Y": np.eye(3, dtype=int)}),
}


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_costs_that_wrapped_around_are_rejected(kind):
    costs = np.array([1, 0, 2], dtype=kind)
    assert BanditLog(np.ones((3, 1)), np.eye(3), np.full(3, 0.5), costs).cost.tolist() == [1, 0, 2]
    with pytest.raises(InputError, match=r"cost is .* in row 0, expected a smaller number.* unsigned type uint"):
        BanditLog(np.ones((3, 1)), np.eye(3), np.full(3, 0.5), 0 - costs)


def test_merging_duplicates_keeps_every_row_and_its_count(logged):
    log = logged(3, n=10, features=2, labels=9, passes=60, scale=3)
    merged, group = log.merge_duplicates()
    assert merged.size == log.size
    assert len(merged.Y) < len(log.Y)
    assert (np.diff(merged.context) >= 0).all()
    for name in ("Y", "propensity", "cost", "context"):
        assert np.array_equal(getattr(merged, name)[group], getattr(log, name))
    distinct = {(c, *y) for c, y in zip(log.context.tolist(), log.Y.tolist(), strict=True)}
    assert len(merged.Y) == len(distinct)
    assert len(merged.merge_duplicates()[0].Y) == len(merged.Y)


@pytest.mark.parametrize("restricted", [True, False], ids=["eligible", "all"])
@pytest.mark.parametrize("kind", ["single", "listed"])
def test_recount_keeps_the_probabilities_of_the_remaining_rows(kind, restricted):
    choices, theta = Choices.drawn(12, rows=60, restricted=restricted), np.random.default_rng(7).normal(size=(4, 3))
    count = choices.count * np.isin(choices.context, [1, 4, 7])
    log = getattr(choices, kind)().recount(count)
    log_prob = SoftmaxPolicy(theta if kind == "single" else theta.ravel()).log_prob_of_rows(log)
    expected = np.log(choices.of_rows(choices.probabilities(theta)))[count > 0]
    assert log_prob == pytest.approx(expected, rel=1e-11, abs=1e-13)
    assert log.size == count.sum()


def features_of_rows(log: BanditLog) -> list:
    """Return the features of the row's context or, for lists, of its action."""
    rows = log.actions.feature_rows(log.Y, log.context) if log.actions.starts is not None else log.context
    return (log.X.toarray() if sparse.issparse(log.X) else np.asarray(log.X))[rows].tolist()


@pytest.mark.parametrize("is_shared", [False, True], ids=["paired", "shared"])
@pytest.mark.parametrize("kind", ["dense", "CSR", "lists", "eligible"])
def test_a_slice_takes_the_rows_of_its_numbers(kind, is_shared, tmp_path):
    n, rng = 11, np.random.default_rng(0)
    context, X = (rng.integers(0, n, n) if is_shared else None), np.column_stack([np.arange(n), np.ones(n)])
    starts = np.cumsum([0, *rng.integers(2, 4, n)])
    features = {
        "CSR": sparse.csr_array(X),
        "lists": ActionLists(np.arange(2.0 * starts[-1]).reshape(-1, 2), starts),
    }.get(kind, X)
    actions = {"n_actions": 2} if kind in ("dense", "CSR") else {}
    actions |= {"eligible": np.tile([[1, 1, 0], [1, 1, 1]], (n, 1))[:n]} if kind == "eligible" else {}
    log = BanditLog(features, np.arange(n) % 2, np.full(n, 0.5), -np.arange(n) / n, context=context, **actions)
    log.rows = Table(n, {"ids": np.arange(n), "sparse": sparse.csr_array(X)})
    for rows in (np.s_[0:n:2], np.s_[::-1], np.s_[8:1:-3], np.s_[-4:], np.s_[2:9], np.s_[1::4]):
        taken, expected = log.take(rows), log.take(np.arange(n)[rows])
        right = [features_of_rows(log)[number] for number in range(n)[rows]]
        assert features_of_rows(taken) == features_of_rows(expected) == right
        for part in (taken, expected):
            assert part.cost.tolist() == log.cost[rows].tolist()
            assert part.column("ids").tolist() == [*range(n)[rows]]
            assert part.column("sparse").toarray()[:, 0].tolist() == [*range(n)[rows]]
    if not is_shared and kind != "lists":
        path = tmp_path / "X.npy"
        np.save(path, X)
        mapped = log.replace(X=np.load(path, mmap_mode="r")).take(slice(None, None, -2))
        assert np.asarray(mapped.X)[mapped.context].tolist() == X[::-2].tolist()


TWO_ROWS = {"X": [[1.0], [2.0]], "Y": [[0], [1]], "propensity": [0.5, 1.0], "cost": [-1.0, 0.0]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"propensity": [0.5, 0.0]}, r"propensity is 0.0 in row 1, expected a value in \(0, 1\]"),
        ({"propensity": [1.5, 0.5]}, "propensity is 1.5 in row 0"),
        ({"propensity": [0.5, np.nan]}, "propensity is nan in row 1, expected a finite number"),
        ({"propensity": [0.5]}, r"propensity has shape \(1,\), expected \(2,\)"),
        ({"cost": [np.inf, 0]}, "cost is inf in row 0"),
        ({"cost": ["a", "b"]}, "cost is not an array of numbers"),
        ({"cost": ["1", "2"]}, "cost is not an array of numbers"),
        ({"cost": [1j, 0]}, "cost is not an array of numbers"),
        ({"cost": [[1], [1, 2]]}, "cost is not an array of numbers"),
        ({"cost": np.array(["2020", "2021"], dtype="M8[Y]")}, "cost is not an array of numbers"),
        ({"cost": np.array([1, 2], dtype=np.longdouble) * np.longdouble("1e4000")}, "cost is inf in row 0"),
        ({"X": [[1.0]], "Y": [[0]], "propensity": 0.5, "cost": [0]}, r"propensity has shape \(\), expected \(1,\)"),
        ({"X": [[1j], [0]]}, "X is not an array of numbers"),
        ({"X": sparse.csr_matrix([[1j], [0]])}, "X is not an array of numbers"),
        ({"Y": [[1j], [0]]}, "Y is not an array of numbers"),
        ({"Y": [[0], [0, 1]]}, "Y is not an array of numbers"),
        ({"Y": np.zeros((2, 1), dtype=[("a", "i4")])}, "Y is not an array of numbers"),
        ({"context": [0, 1e19]}, r"context is 1e\+19 in row 1, expected a whole number of less than 16 digits"),
        ({"count": [0, 1e19]}, r"count is 1e\+19 in row 1, expected a whole number of less than 16 digits"),
        ({"count": [6e14, 6e14]}, r"count adds up to 1.2e\+15, expected less than 1e\+15"),
        ({"X": [[1.0], [np.nan]]}, "X has nan in row 1, column 0, expected finite features"),
        ({"X": sparse.csr_matrix([[0.0, 1.0], [0.0, np.inf]])}, "X has inf in row 1, column 1"),
        ({"X": np.empty((0, 3)), "Y": np.empty((0, 1)), "propensity": [], "cost": []}, r"X has shape \(0, 3\)"),
        ({"Y": [[0], [2]]}, "Y has 2 in row 1, label 0, expected 0 or 1"),
        ({"Y": [[0]]}, "Y has 1 rows, expected 2"),
        ({"Y": [[[0]], [[1]]]}, r"Y has shape \(2, 1, 1\)"),
        ({"context": [0, 2]}, "context is 2 in row 1, expected a row of X, 0 to 1"),
        ({"context": [0, 0.5]}, "context is 0.5 in row 1, expected a whole number"),
        ({"count": [1, -1]}, "count is -1 in row 1, expected 0 or more"),
        ({"count": [0, 0]}, "the log is empty: the counts of all 2 rows are 0"),
    ],
)
def test_invalid_arrays_are_rejected_with_their_row(change, message):
    with pytest.raises(InputError, match=message):
        BanditLog(**TWO_ROWS | change)


@pytest.mark.parametrize(
    ("scales", "description"),
    [
        ([1, 3, 2000], "column 2 reaches 2e+03, others 1"),
        ([1e3, 5, 0.9], "column 0 reaches 1e+03, others 0.9"),
        ([0, 40, 2e-2, 50, 0], "column 2 reaches only 0.02, others 50"),
        ([1e-9, 1e-9, 1, 1, 1], "columns 0, 1 reach only 1e-09, others 1"),
        ([1.0, *[1e4] * 6, *[2.0] * 8], "columns 1, 2, 3, 4, 5, … reach 1e+04, others 1"),
        ([5e-324, 1e308], "column 1 reaches 1e+308, others 4.94e-324"),
        ([1, 1000], ""),
        ([0, 0], ""),
        ([0, 3e-5], ""),
        ([1e300, 1e299], ""),
    ],
)
def test_the_smaller_group_of_unequal_columns_is_described(scales, description):
    expected = description and f"the scales of features differ by more than 1000: {description}"
    assert describe_unequal_scales(np.array(scales, float)) == expected


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
