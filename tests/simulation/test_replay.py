"""Logs made of labelled data."""

from __future__ import annotations

import numpy as np
import pytest

from drcrm import ExponentialPolicy
from drcrm.simulation.replay import replay


def test_replay_logs_what_the_policy_does():
    rng = np.random.default_rng(1)
    X, labels = rng.normal(size=(40, 3)), rng.integers(0, 2, (40, 2))
    policy = ExponentialPolicy(rng.normal(size=(3, 2)))
    log = replay(policy, X, labels, 500, np.random.default_rng(2))
    assert log.size == 40 * 500
    assert np.log(log.propensity) == pytest.approx(policy.log_prob(X[log.context], log.Y), rel=1e-12)
    assert np.array_equal(log.cost, (labels[log.context] != log.Y).sum(axis=1) - 2)
    shares = log.Y.reshape(500, 40, 2).mean(axis=0)
    assert shares == pytest.approx(policy.marginals(X), abs=4.5 * 0.5 / np.sqrt(500))
    prefix = replay(policy, X, labels, 3, np.random.default_rng(2))
    assert np.array_equal(prefix.Y, log.Y[:120])
