"""The exponential policy against direct enumeration of its actions."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, log_expit

from drcrm import ExponentialPolicy
from drcrm.actions.label_vectors import LabelVectors
from drcrm.arrays.numerics import exp
from drcrm.errors import InputError
from drcrm.policies.exponential import as_policy

ACTIONS = np.array(list(product([0, 1], repeat=3)))


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
def test_log_prob_is_the_softmax_over_all_actions(make, labelled, random_policy):
    policy, (X, _) = random_policy(labels=3), labelled(n=6)
    energy = X @ policy.coef @ ACTIONS.T
    expected = energy - np.log(np.exp(energy).sum(axis=1, keepdims=True))
    for column, action in zip(expected.T, ACTIONS, strict=True):
        assert policy.log_prob(make(X), np.tile(action, (6, 1))) == pytest.approx(column, rel=1e-12)
    assert policy.marginals(make(X)) == pytest.approx(np.exp(expected) @ ACTIONS, rel=1e-12)
    best = ACTIONS[expected.argmax(axis=1)]
    assert np.array_equal(policy.greedy(make(X)), best)


@pytest.mark.parametrize("rows", [4, 31, 32, 100], ids=lambda rows: f"{rows} rows a context")
def test_context_picks_the_row_of_x(rows, labelled, random_policy):
    policy, (X, _) = random_policy(1, labels=3), labelled(1, n=6)
    rng = np.random.default_rng(2)
    context = rng.permutation(np.repeat(np.arange(len(X)), rows))
    Y = ACTIONS[rng.integers(0, len(ACTIONS), len(context))]
    assert policy.log_prob(X, Y, context) == pytest.approx(policy.log_prob(X[context], Y), rel=1e-13)


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("labels", [1, 3, 40])
def test_log_prob_is_never_above_zero(labels, rows, labelled, random_policy):
    """Not even by rounding: p = e^{log π} is a propensity, which must be at most 1."""
    X, _ = labelled(5, n=30)
    for scale in (1, 30, 100, 1000):
        policy = random_policy(scale, labels=labels, scale=scale)
        context = np.repeat(np.arange(30), rows)
        assert policy.log_prob(X, policy.greedy(X)[context], context).max() <= 0


def test_greedy_takes_a_label_on_the_boundary():
    assert ExponentialPolicy([[0.0, -1.0, 1.0]]).greedy([[1.0]]).tolist() == [[1, 0, 1]]


def test_actions_are_signed_integers(random_policy):
    """So that minus how many labels they have is what it says."""
    policy = random_policy(5)
    X = np.ones((20, 4))
    for actions in (policy.greedy(X), policy.sample(X, random_state=0)):
        assert actions.dtype == np.int64
        assert -2 <= (-actions.sum(axis=1)).min() <= (-actions.sum(axis=1)).max() <= 0


def test_samples_have_the_marginals(labelled, random_policy):
    policy, (X, _) = random_policy(2, labels=3), labelled(2, n=6)
    many = np.repeat(X[:2], 20000, axis=0)
    share = policy.sample(many, random_state=3).reshape(2, 20000, 3).mean(axis=1)
    assert share == pytest.approx(policy.marginals(X[:2]), abs=4 * 0.5 / np.sqrt(20000))
    assert np.array_equal(policy.sample(X, 4), policy.sample(X, np.random.default_rng(4)))


@pytest.mark.parametrize("size", [1.0, 40.0, 690.0, 710.0, 1000.0])
def test_the_log_partition_of_large_scores(size):
    scores = size * np.array([[1.0, -1.0], [0.3, 1.0], [-1.0, -1.0]])
    log_partition, marginals = LabelVectors(2).log_partition(scores)
    assert log_partition == pytest.approx(-log_expit(-scores).sum(axis=1), rel=1e-14, abs=1e-15)
    assert marginals == pytest.approx(expit(scores), rel=1e-13)


def test_certain_labels_have_log_probability_zero():
    policy = ExponentialPolicy([[-1000.0, 1000.0]])
    assert policy.log_prob([[1.0]], [[0, 1]]) == [0.0]
    assert policy.marginals([[1.0]]).tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.marginals([[1.0, 2.0]]), "X has 2 features, the policy has 4"),
        (lambda p: p.marginals([[1.0, np.nan, 0, 0]]), "X has nan in row 0, column 1, expected finite"),
        (lambda p: p.log_prob([[1.0, 0, 0, 0]], [[0, 1]]), "Y has 2 labels, the policy has 3"),
        (lambda p: p.log_prob([[1.0, 0, 0, 0]], [[0, 1, 2]]), "Y has 2 in row 0, label 2, expected 0 or 1"),
        (
            lambda p: p.log_prob(np.ones((2, 4)), [[0, 1, 0]], [-1]),
            "context is -1 in row 0, expected a row of X",
        ),
        (lambda p: p.log_prob(np.ones((2, 4)), [[0, 1, 0]], [2]), "context is 2 in row 0"),
        (lambda p: ExponentialPolicy([[np.nan]]), "coef has a NaN or infinite entry"),
        (lambda p: ExponentialPolicy([1.0]), r"coef has shape \(1,\)"),
        (lambda p: p.marginals("text"), "X is not an array of numbers"),
    ],
)
def test_errors_say_what_is_wrong(call, message, random_policy):
    with pytest.raises(InputError, match=message):
        call(random_policy(labels=3))


def test_exponentials_that_vanish_are_zero():
    x = np.array([-1000.0, -201.0, -199.0, 0.0, 3.0])
    expected = np.where(x < -200, 0, np.exp(x))
    out = np.empty(5)
    assert np.array_equal(exp(x, out=out), expected)
    assert np.array_equal(exp(x, out=x), expected)


def test_a_policy_is_itself_or_that_of_an_estimator(random_policy):
    policy = random_policy(labels=3)
    assert as_policy(policy) is policy
    assert as_policy(SimpleNamespace(policy_=policy)) is policy
    for other in (policy.coef, SimpleNamespace(), None):
        with pytest.raises(InputError, match="expected an ExponentialPolicy or a SoftmaxPolicy, or a fitted"):
            as_policy(other)
