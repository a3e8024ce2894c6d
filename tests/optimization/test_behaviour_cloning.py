"""Behaviour cloning against scikit-learn's logistic regression."""

import numpy as np
import pytest
from fixtures.action_logs import LABELS, make_log
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from drcrm import BanditLog
from drcrm.data.scaling import feature_scales
from drcrm.optimization.starts import RIDGE, clone_behaviour


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


def test_the_ridge_keeps_the_policy_of_separable_actions_finite():
    log = make_log(8)
    log = BanditLog(log.X, np.tile([1, 0, 1], (len(log.Y), 1)), log.propensity, log.cost, log.context)
    marginals = clone_behaviour(log).marginals(log.X)
    assert marginals[:, 0].min() > 0.95
    assert marginals[:, 1].max() < 0.05
