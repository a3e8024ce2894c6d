"""Unsupported mass and mean weights of a policy, written out."""

from __future__ import annotations

import numpy as np
import pytest
from softmax_logs import Choices

from drcrm import SoftmaxPolicy, policy_support
from drcrm.optimization.behaviour_cloning import clone_behaviour


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
