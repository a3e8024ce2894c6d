"""Hamming losses, compared with enumeration and sampling."""

from __future__ import annotations

import numpy as np
import pytest

from drcrm import ExponentialPolicy
from drcrm.errors import InputError
from drcrm.experiments.simulation.losses import expected_hamming, greedy_hamming, hamming_cost, hamming_losses
from drcrm.experiments.simulation.replay import replay


def test_cost_is_the_translated_hamming_distance():
    assert hamming_cost(np.array([[1, 0, 1], [0, 0, 0]]), np.array([[1, 1, 1], [0, 0, 0]])).tolist() == [-2, -3]


def test_expected_hamming_is_the_mean_over_samples(labelled, random_policy):
    (X, labels), policy = labelled(n=5), random_policy()
    many = np.repeat(np.arange(5), 20000)
    sampled = (policy.sample(X[many], 1) != labels[many]).sum(axis=1).mean()
    assert expected_hamming(policy, X, labels) == pytest.approx(sampled, abs=0.02)


def test_losses_of_known_policies():
    X, labels = np.ones((2, 1)), np.array([[1, 0, 0], [1, 1, 0]])
    coin, sure = ExponentialPolicy(np.zeros((1, 3))), ExponentialPolicy([[1000.0, -1000.0, -1000.0]])
    assert expected_hamming(coin, X, labels) == 1.5
    assert greedy_hamming(coin, X, labels) == 1.5
    assert expected_hamming(sure, X, labels) == greedy_hamming(sure, X, labels) == 0.5


def test_if_every_label_is_tossed_losses_are_those_of_coins():
    tossed = hamming_losses(ExponentialPolicy([[1.0, 2.0]]), np.ones((3, 1)), np.ones((3, 2)), np.ones(2, dtype=bool))
    assert tossed == {"expected_loss": 1.0, "greedy_loss": 1.0}


@pytest.mark.parametrize(
    "call",
    [hamming_losses, lambda policy, X, labels: replay(policy, X, labels, 1, np.random.default_rng(0))],
)
def test_a_policy_with_another_number_of_labels_is_an_error(call):
    with pytest.raises(InputError, match="the policy has 1 labels, expected 2"):
        call(ExponentialPolicy([[1.0]]), np.ones((3, 1)), np.ones((3, 2)))
