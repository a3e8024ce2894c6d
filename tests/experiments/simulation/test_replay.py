"""Logs made of labelled data."""

from __future__ import annotations

import numpy as np
import pytest

from drcrm.experiments.simulation.replay import replay


def test_replay_logs_what_the_policy_does(labelled, random_policy):
    (X, labels), policy = labelled(n=40), random_policy()
    log = replay(policy, X, labels, 500, np.random.default_rng(2))
    assert log.size == 40 * 500
    assert np.log(log.propensity) == pytest.approx(policy.log_prob(X[log.context], log.Y), rel=1e-12)
    assert np.array_equal(log.cost, (labels[log.context] != log.Y).sum(axis=1) - 2)
    shares = log.Y.reshape(500, 40, 2).mean(axis=0)
    assert shares == pytest.approx(policy.marginals(X), abs=4.5 * 0.5 / np.sqrt(500))
    prefix = replay(policy, X, labels, 3, np.random.default_rng(2))
    assert np.array_equal(prefix.Y, log.Y[:120])
