"""The population of a logged draw: its law against loops over all pairs, and against losses in closed form."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from drcrm.errors import InputError
from drcrm.experiments.simulation.losses import expected_hamming
from drcrm.experiments.simulation.population import Population, draw_policies, enumerate_losses


@pytest.fixture
def setting(labelled, random_policy):
    """π0, a policy, and seven contexts with three labels."""
    X, labels = labelled(n=7, labels=3)
    return random_policy(1, labels=3), random_policy(2, labels=3), X, labels


def test_the_mean_is_the_policys_loss(setting):
    _, policy, X, labels = setting
    found = enumerate_losses(*setting)
    loss = expected_hamming(policy, X, labels)
    assert found["right"].mean == pytest.approx(loss, abs=1e-12)
    assert found["left"].mean == pytest.approx(loss - 3, abs=1e-12)


def test_the_law_is_that_of_every_pair(setting):
    logging, policy, X, labels = setting
    expected = {"light": [], "left": [], "right": [], "probability": []}
    for x, truth in zip(X, labels, strict=True):
        for action in product((0, 1), repeat=3):
            p, q = (np.exp(each.log_prob(x[None], np.array([action]))[0]) for each in (logging, policy))
            loss = sum(a != b for a, b in zip(action, truth, strict=True))
            expected["probability"].append(p / 7)
            expected["light"].append(min(2, q / p) * (loss - 3))
            expected["left"].append(q / p * (loss - 3))
            expected["right"].append(q / p * loss)
    for tail, population in enumerate_losses(*setting).items():
        pairs, wanted = (
            sorted(zip(z, p, strict=True))
            for z, p in ((population.z, population.probability), (expected[tail], expected["probability"]))
        )
        np.testing.assert_allclose(np.array(pairs), np.array(wanted), rtol=1e-9, atol=1e-12)
        variance = np.average(population.z**2, weights=population.probability) - population.mean**2
        assert population.deviation == pytest.approx(np.sqrt(variance))


def test_draws_follow_the_law():
    population = Population(np.array([-3.0, 0, 1]), np.array([0.2, 0.0, 0.8]))
    z = population.sample(10_000, np.random.default_rng(0))
    assert set(z) == {-3, 1}
    assert (z == -3).mean() == pytest.approx(0.2, abs=4 * 0.4 / 100)


def test_policies_are_of_different_contexts(labelled):
    X, labels = labelled(n=60, labels=3)
    first, second = draw_policies(X, labels, np.random.default_rng(0))
    again, _ = draw_policies(X, labels, np.random.default_rng(0))
    np.testing.assert_array_equal(first.coef, again.coef)
    assert first.coef.shape == second.coef.shape == (4, 3)
    assert not np.allclose(first.coef, second.coef)


def test_what_is_too_large_or_too_small_is_said(random_policy):
    policies = random_policy(0, labels=25), random_policy(1, labels=25)
    with pytest.raises(InputError, match=r"2 contexts with 2\^25 actions each: expected at most 10000000 pairs"):
        enumerate_losses(*policies, np.ones((2, 4)), np.zeros((2, 25), dtype=np.uint8))
    with pytest.raises(InputError, match="1 contexts, expected at least 2"):
        draw_policies(np.ones((1, 4)), np.ones((1, 3)), np.random.default_rng(0))
