"""Behaviour cloning against scikit-learn's logistic regression."""

from __future__ import annotations

import numpy as np
import pytest
from label_logs import LABELS, make_log
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from drcrm import BanditLog, SoftmaxPolicy
from drcrm.data.scaling import feature_scales
from drcrm.optimization.behaviour_cloning import RIDGE, clone_behaviour, exploration_rate


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
@pytest.mark.parametrize("seed", range(2))
def test_cloning_is_logistic_regression_of_the_labels(dense, seed):
    log, n = make_log(seed, dense), make_log(seed).size
    unit = feature_scales(log.X)
    X = sparse.csr_array(log.X).toarray()[log.context] / unit
    coef = clone_behaviour(log, tol=1e-12).coef * unit[:, None]
    for label in range(LABELS):
        model = LogisticRegression(C=1 / (n * RIDGE), fit_intercept=False, tol=1e-10, max_iter=10_000)
        model.fit(X, log.Y[:, label], sample_weight=log.count)
        assert coef[:, label] == pytest.approx(model.coef_[0], abs=1e-2)
    gradient = X.T @ (log.count[:, None] * (expit(X @ coef) - log.Y)) / n + RIDGE * coef
    assert np.abs(gradient).max() < 1e-4


def test_cloning_uses_neither_costs_nor_propensities():
    log = make_log(7)
    changed = log.replace(propensity=np.sqrt(log.propensity), cost=-3 * log.cost + 1)
    assert np.array_equal(clone_behaviour(log).coef, clone_behaviour(changed).coef)


def test_the_ridge_keeps_the_policy_of_separable_actions_finite():
    log = make_log(8)
    log = BanditLog(log.X, np.tile([1, 0, 1], (len(log.Y), 1)), log.propensity, log.cost, log.context)
    marginals = clone_behaviour(log).marginals(log.X)
    assert marginals[:, 0].min() > 0.95
    assert marginals[:, 1].max() < 0.05


def test_cloning_finds_exploration_in_the_propensities():
    rng, theta, row = np.random.default_rng(0), np.array([[1.0, -1, 0], [0, 1, -1], [0.1, 0, -0.1]]), np.arange(4000)
    X = np.column_stack([rng.normal(size=(4000, 2)), np.ones(4000)])

    def draw(policy):
        truth = policy.marginals(X)
        action = (truth.cumsum(axis=1) > rng.random(4000)[:, None]).argmax(axis=1)
        return BanditLog(X, action, truth[row, action], -np.ones(4000)), truth

    assert exploration_rate(draw(SoftmaxPolicy(theta))[0]) == 0
    log, truth = draw(SoftmaxPolicy(20 * theta).with_exploration(0.2))
    explored, plain = clone_behaviour(log), clone_behaviour(BanditLog(X, log.Y, np.ones(4000), log.cost))
    assert explored.explore == pytest.approx(0.2, rel=1e-6)
    errors = [np.abs(cloned.marginals(X) - truth).mean() for cloned in (explored, plain)]
    assert errors[0] < 1e-3 < 0.03 < errors[1]


def test_uniform_logs_and_label_vectors_show_no_exploration():
    X = np.ones((90, 1))
    uniform = BanditLog(X, np.arange(90) % 3, np.full(90, 1 / 3), -np.ones(90))
    assert exploration_rate(uniform) == 0
    assert exploration_rate(make_log(0)) == 0
