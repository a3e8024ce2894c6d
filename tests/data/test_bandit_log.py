"""The bandit log: checks, counts, duplicates, its clipping constant, and the scales of its features."""

import numpy as np
import pytest
from fixtures.action_logs import Choices
from scipy import sparse

from drcrm import ActionLists, BanditLog, SoftmaxPolicy
from drcrm.arrays.tables import Table
from drcrm.data.scaling import clipping_constant, describe_extreme_values, describe_unequal_scales
from drcrm.errors import InputError


def log_of(propensity, count=None) -> BanditLog:
    n = len(propensity)
    return BanditLog(np.ones((n, 1)), np.zeros((n, 1)), propensity, np.zeros(n), count=count)


@pytest.mark.parametrize("n", [1, 2, 10, 11, 37, 1001])
def test_the_clipping_constant_is_a_ratio_of_numpy_percentiles(n):
    propensity = np.exp(-np.random.default_rng(n).exponential(3, n))
    high = np.percentile(np.log(propensity), 90, method="lower")
    low = np.percentile(np.log(propensity), 10, method="higher")
    assert clipping_constant(log_of(propensity)) == pytest.approx(np.exp(max(high - low, 1)), rel=1e-12)
    count = np.random.default_rng(n).integers(0, 5, n) + (np.arange(n) == 0)
    assert clipping_constant(log_of(propensity, count)) == clipping_constant(log_of(np.repeat(propensity, count)))


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


VALID = {"X": [[1.0], [2.0]], "Y": [[0], [1]], "propensity": [0.5, 1.0], "cost": [-1.0, 0.0]}


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
        BanditLog(**{**VALID, **change})


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


@pytest.mark.parametrize(
    ("features", "cost", "propensity", "description"),
    [
        (1e9, -1, 0.5, "features reach 1e+09; scale the features"),
        (1e9, -1e12, 0.5, "costs reach 1e+12; give them in another unit"),
        (1e9, 0, 1e-20, "the smallest propensity is 1e-20; clip the weights"),
        (0, 0, 1, "the hyper-parameters or the start of the fit are too extreme"),
    ],
)
def test_the_most_extreme_values_are_described(features, cost, propensity, description):
    assert describe_extreme_values(BanditLog([[features]], [[1]], [propensity], [cost])) == description
