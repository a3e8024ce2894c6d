"""Overlap diagnostics: missing mass on gaps with known answers, and the support of a policy written out."""

import numpy as np
import pytest
from fixtures.action_logs import Choices

from drcrm import BanditLog, SoftmaxPolicy, policy_support
from drcrm.evaluation.policy_on_log import grade_overlap, has_missing_mass, unlogged_charges
from drcrm.optimization.starts import clone_behaviour


def test_a_mean_weight_that_rests_on_few_rows_is_no_evidence_of_overlap():
    """1 000 gaps have mean 0. Mass is missing if ten rows bring this about, and not if a hundred do."""
    few, many = (np.r_[np.full(1000 - k, 0.1), np.full(k, -0.1 * (1000 - k) / k)] for k in (10, 100))
    ones = np.ones(1000)
    for scale in (1e-300, 1, 1e300):
        assert has_missing_mass(scale * few, ones)
        assert not has_missing_mass(scale * many, ones)
    assert not has_missing_mass(-few, ones)
    assert has_missing_mass(np.array([-9.9, 0.1])[::-1], np.array([990, 10]))
    assert not has_missing_mass(np.array([-0.9, 0.1]), np.array([100, 900]))
    assert not has_missing_mass(np.zeros(7), np.ones(7))
    assert not has_missing_mass(np.full(7, 1e-12), np.ones(7), unit=1.0)


def test_actions_whose_weights_exceed_every_logged_one_are_charged_the_largest_cost():
    """Rows 1 to 3 leave 0.91 to the other action, whose weight is 9.1, and the largest weight is 3.1."""
    weight, propensity = np.array([3.1, 0.1, 0.1, 0.1]), np.array([0.2, 0.9, 0.9, 0.9])
    log = BanditLog(np.ones((4, 1)), np.arange(4) % 2, propensity, np.arange(4) - 4.0, n_actions=2)
    modelled, predicted = np.array([0.2, 0.4, 0.1, 0.9]), np.array([0.3, 0.1, 0.2, 0.4])
    expected = np.maximum(0.91 * 0.5 - (modelled - 0.09 * predicted), 0)
    assert unlogged_charges(modelled, predicted, weight, log, 0.5) == pytest.approx(np.r_[0, expected[1:]])
    assert not unlogged_charges(modelled, predicted, 3 * weight, log, 0.5).any()


def test_support_of_a_policy_over_label_vectors(logged, random_policy):
    log, policy, logging = logged(8), random_policy(9, scale=2.0), random_policy(10, scale=2.0)
    result = policy_support(policy, log, logging, 0.4)
    mu, known, rows = policy.marginals(log.X), logging.marginals(log.X), log.context
    missing = np.where(known < 0.2, mu, 0) + np.where(known > 0.8, 1 - mu, 0)
    assert result.mass_by_action == pytest.approx(missing[rows].mean(axis=0), rel=1e-12)
    assert result.mass == pytest.approx(result.mass_by_action.sum(), rel=1e-12)
    ratio = np.where(log.Y, mu[rows] / known[rows], (1 - mu[rows]) / (1 - known[rows])).mean(axis=0)
    assert result.mean_weight_by_action == pytest.approx(ratio, rel=1e-12)
    weight = np.exp(policy.log_prob(log.X, log.Y, log.context)) / log.propensity
    assert result.mean_weight == pytest.approx(weight.mean(), rel=1e-12)
    assert policy_support(policy, log).mass == policy_support(policy, log, clone_behaviour(log)).mass


def test_support_of_a_policy_over_choices():
    choices = Choices.drawn(4, actions=4, contexts=20, rows=200)
    theta, logging = 2 * np.random.default_rng(1).normal(size=(2, 4, 4))
    pi, known = choices.probabilities(theta), choices.probabilities(logging)
    share = np.bincount(choices.context, choices.count, 20) / choices.count.sum()
    missing = np.where(known < 0.3 / choices.eligible.sum(axis=1, keepdims=True), pi, 0)
    weight = choices.of_rows(pi) / choices.propensity
    by_action = np.bincount(choices.A, choices.count * weight, 4) / choices.count.sum()
    single = policy_support(SoftmaxPolicy(theta), choices.single(), SoftmaxPolicy(logging), 0.3)
    listed = policy_support(SoftmaxPolicy(theta.ravel()), choices.listed(), SoftmaxPolicy(logging.ravel()), 0.3)
    assert single.mass_by_action == pytest.approx(share @ missing, rel=1e-12)
    assert single.mean_weight_by_action == pytest.approx(by_action / (share @ pi), rel=1e-12)
    assert [single.mass, single.mean_weight] == pytest.approx([listed.mass, listed.mean_weight], rel=1e-12)


@pytest.mark.parametrize(
    ("weight", "grade"),
    [
        (np.ones(100), 2),
        (np.arange(100) < 9, 0),  # fewer than ten effective rows
        (np.append(np.ones(99), 120.0), 0),  # one row has more than half of the weight
        (np.append(np.ones(99), 40.0), 0),  # one row has all of the difference from the logging policy
        (np.append(np.linspace(0, 2, 99), 5.0), 2),
        (np.zeros(100), 0),
    ],
)
def test_a_log_judges_policies_without_dominant_rows(weight, grade):
    log = BanditLog(np.ones((100, 1)), np.arange(100) % 2, np.full(100, 0.5), -np.ones(100))
    assert grade_overlap(weight.astype(float), log, log.cost) == grade


@pytest.mark.parametrize("rare", [0.001, 0.3])
def test_a_log_with_rare_costs_judges_only_policies_close_to_the_logging_policy(rare):
    rng = np.random.default_rng(0)
    cost = (rng.random(2000) < rare).astype(float)
    log = BanditLog(np.ones((2000, 1)), np.arange(2000) % 2, np.full(2000, 0.5), cost)
    weight = np.repeat([[0.0], [2.0]], 1000, axis=1)[np.arange(2000) % 2, 0]
    assert grade_overlap(weight, log, cost - cost.mean()) == (2 if rare > 0.01 else 1)
