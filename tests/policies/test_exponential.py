"""Exponential and softmax policies against sums over all actions."""

import re
from itertools import product

import numpy as np
import pytest
from fixtures.action_logs import Choices, every_form, normal_coef
from fixtures.user_input import refusal
from scipy.special import expit, log_expit

from drcrm import ActionLists, ExponentialPolicy, SoftmaxPolicy
from drcrm.actions.label_vectors import LabelVectors

VECTORS = np.array(list(product([0, 1], repeat=3)))
LISTS = ActionLists(np.ones((7, 2)), [0, 3, 4, 7])
restricted = pytest.mark.parametrize("restricted", [True, False], ids=["eligible", "all"])


def both_policies(choices: Choices, theta: np.ndarray) -> list[tuple[SoftmaxPolicy, object, dict]]:
    """Return the same policy over K actions and over lists, with its contexts and keyword arguments."""
    eligible = {} if choices.eligible.all() else {"eligible": choices.eligible}
    return [(SoftmaxPolicy(theta), choices.X, eligible), (SoftmaxPolicy(theta.ravel()), choices.lists(), {})]


# Label vectors


@every_form
def test_log_prob_is_the_softmax_over_all_label_vectors(form, labelled, random_policy):
    policy, (X, _) = random_policy(labels=3), labelled(n=6)
    energy = X @ policy.coef @ VECTORS.T
    expected = energy - np.log(np.exp(energy).sum(axis=1, keepdims=True))
    for column, vector in zip(expected.T, VECTORS, strict=True):
        assert policy.log_prob(form(X), np.tile(vector, (6, 1))) == pytest.approx(column, rel=1e-12)
    assert policy.marginals(form(X)) == pytest.approx(np.exp(expected) @ VECTORS, rel=1e-12)
    assert np.array_equal(policy.greedy(form(X)), VECTORS[expected.argmax(axis=1)])


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("labels", [1, 3, 40])
def test_log_prob_of_labels_is_at_most_zero_after_rounding(labels, rows, labelled, random_policy):
    """Otherwise p = e^{log π} would be a propensity above 1."""
    X, _ = labelled(5, n=30)
    context = np.repeat(np.arange(30), rows)
    for scale in (1, 30, 100, 1000):
        policy = random_policy(scale, labels=labels, scale=scale)
        assert policy.log_prob(X, policy.greedy(X)[context], context).max() <= 0


@pytest.mark.parametrize("size", [1.0, 40.0, 690.0, 710.0, 1000.0])
def test_the_log_partition_of_large_label_scores_is_exact(size):
    scores = size * np.array([[1.0, -1.0], [0.3, 1.0], [-1.0, -1.0]])
    log_partition, marginals = LabelVectors(2).log_partition(scores)
    assert log_partition == pytest.approx(-log_expit(-scores).sum(axis=1), rel=1e-14, abs=1e-15)
    assert marginals == pytest.approx(expit(scores), rel=1e-13)


# One of many actions


@every_form
@restricted
def test_a_softmax_policy_is_the_softmax_over_the_available_actions(form, restricted):
    choices, theta, intercept = Choices.drawn(1, restricted=restricted), normal_coef(), normal_coef(1, 3)
    policy, X, expected = SoftmaxPolicy(theta, intercept), form(choices.X), choices.probabilities(theta, intercept)
    known = {} if choices.eligible.all() else {"eligible": choices.eligible}
    assert policy.marginals(X, **known) == pytest.approx(expected, rel=1e-12)
    assert (policy.marginals(X, **known)[~choices.eligible] == 0).all()
    assert policy.greedy(X, **known).tolist() == expected.argmax(axis=1).tolist()
    log_prob = policy.log_prob(X, choices.A, choices.context, **known)
    assert log_prob == pytest.approx(np.log(choices.of_rows(expected)), rel=1e-12)
    lists, policy, expected = choices.lists(form), SoftmaxPolicy(theta.ravel()), choices.probabilities(theta)
    assert policy.marginals(lists) == pytest.approx(expected[choices.eligible], rel=1e-12)
    best = [row[available].argmax() for row, available in zip(expected, choices.eligible, strict=True)]
    assert policy.greedy(lists).tolist() == best
    log_prob = policy.log_prob(lists, choices.position, choices.context)
    assert log_prob == pytest.approx(np.log(choices.of_rows(expected)), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1, 30, 1e3, 1e6, 1e12])
def test_probabilities_of_any_size_sum_to_one_and_log_prob_is_at_most_zero(scale):
    choices = Choices.drawn(4, contexts=30, actions=5)
    theta = normal_coef(3, (4, 5), scale)
    expected, (context, action) = choices.probabilities(theta), np.nonzero(choices.eligible)
    place = (np.cumsum(choices.eligible, axis=1) - 1)[context, action]
    for policy, X, known in both_policies(choices, theta):
        log_prob = policy.log_prob(X, action if known else place, context, **known)
        assert log_prob.max() <= 0
        assert np.bincount(context, np.exp(log_prob)) == pytest.approx(1, rel=1e-9)
        assert np.exp(log_prob) == pytest.approx(expected[choices.eligible], rel=1e-9, abs=1e-60)


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e3])
def test_sampled_and_greedy_actions_are_eligible(scale):
    """Even if rounding leaves the sum of the probabilities below 1, or if the best action is not eligible."""
    K, m, rng = 1000, 3000, np.random.default_rng(6)
    X, eligible = np.ones((m, 1)), rng.random((m, K)) < 0.01
    eligible[np.arange(m), rng.integers(0, K, m)] = True
    policy = SoftmaxPolicy(scale * rng.normal(size=(1, K)))
    assert eligible[np.arange(m), policy.sample(X, 0, eligible=eligible)].all()
    assert eligible[np.arange(m), policy.greedy(X, eligible=eligible)].all()


# Errors


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.marginals([[1.0, 2.0]]), "X has 2 features, the policy has 4"),
        (lambda p: p.marginals([[1.0, np.nan, 0, 0]]), "X has nan in row 0, column 1, expected finite"),
        (lambda p: p.log_prob([[1.0, 0, 0, 0]], [[0, 1]]), "Y has 2 labels, the policy has 3"),
        (lambda p: p.log_prob([[1.0, 0, 0, 0]], [[0, 1, 2]]), "Y has 2 in row 0, label 2, expected 0 or 1"),
        (lambda p: p.log_prob(np.ones((2, 4)), [[0, 1, 0]], [-1]), "context is -1 in row 0, expected a row of X"),
        (lambda p: p.log_prob(np.ones((2, 4)), [[0, 1, 0]], [2]), "context is 2 in row 0"),
        (lambda p: ExponentialPolicy([[np.nan]]), "coef has a NaN or infinite entry"),
        (lambda p: ExponentialPolicy([1.0]), r"coef has shape \(1,\)"),
        (lambda p: p.marginals("text"), "X is not an array of numbers"),
        (lambda p: p.marginals(LISTS), "ActionLists"),
        (lambda p: p.marginals(np.ones((1, 4)), eligible=[[True] * 3]), "eligible"),
    ],
)
def test_errors_of_a_policy_over_labels(call, message):
    assert re.search(message, refusal(call, ExponentialPolicy(np.ones((4, 3)))))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.marginals(np.ones((2, 3))), "X has 3 features, the policy has 2"),
        (lambda p: p.marginals(LISTS), "ActionLists"),
        (lambda p: p.log_prob(np.ones((2, 2)), [0, 3]), "Y is 3 in row 1"),
        (lambda p: p.log_prob(np.ones((2, 2)), [0, -1]), "Y is -1 in row 1"),
        (lambda p: p.log_prob(np.ones((2, 2)), [0]), "Y has 1 rows, expected 2"),
        (lambda p: p.log_prob(np.ones((2, 2)), [[0, 1, 0], [1, 0, 0]]), "Y"),
        (lambda p: p.marginals(np.ones((2, 2)), eligible=np.ones((2, 2))), "eligible has 2 columns, expected one for"),
        (lambda p: p.log_prob(np.ones((1, 2)), [1], eligible=[[1, 0, 1]]), "Y is 1 in row 0.*eligible"),
        (lambda p: p.sample(np.ones((1, 2)), 0, eligible=[[False, False, False]]), "eligible"),
        (lambda p: SoftmaxPolicy([1.0, 1.0]).marginals(np.ones((2, 2))), "[Ll]ists"),
        (lambda p: SoftmaxPolicy([1.0, 1.0]).log_prob(LISTS, [0, 1, 0]), "Y is 1 in row 1"),
        (lambda p: SoftmaxPolicy([1.0]).marginals(LISTS), "2 features"),
        (lambda p: SoftmaxPolicy(1.0), "coef"),
        (lambda p: SoftmaxPolicy([[np.inf]]), "coef has a NaN or infinite entry"),
        (lambda p: SoftmaxPolicy(np.ones((2, 3)), [1.0, 2.0]), "intercept"),
    ],
)
def test_errors_of_a_softmax_policy(call, message):
    assert re.search(message, refusal(call, SoftmaxPolicy(np.ones((2, 3)))))
