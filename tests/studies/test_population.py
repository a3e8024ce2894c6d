"""The distribution of a logged draw, compared with loops over all pairs and with losses in closed form."""

from itertools import product

import numpy as np
import pytest
from population import Population, draw_policies, enumerate_losses

from drcrm.errors import InputError
from drcrm.paper.simulation.truth import LabelTruth


@pytest.fixture
def setting(labelled, random_policy):
    """Return π0, a policy, and seven contexts with three labels."""
    X, labels = labelled(n=7, labels=3)
    return random_policy(1, labels=3), random_policy(2, labels=3), X, labels


def test_the_mean_is_the_loss_of_the_policy(setting):
    _, policy, X, labels = setting
    populations = enumerate_losses(*setting)
    loss = LabelTruth(labels).losses(policy, X)["expected_loss"]
    assert populations["right"].mean == pytest.approx(loss, abs=1e-12)
    assert populations["left"].mean == pytest.approx(loss - 3, abs=1e-12)


def test_the_distribution_has_every_pair(setting):
    logging, policy, X, labels = setting
    expected = {"light": [], "left": [], "right": [], "probability": []}
    for x, truth in zip(X, labels, strict=True):
        for action in product((0, 1), repeat=3):
            p, q = (np.exp(rule.log_prob(x[None], np.array([action]))[0]) for rule in (logging, policy))
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


def test_samples_follow_the_distribution():
    population = Population(np.array([-3.0, 0, 1]), np.array([0.2, 0.0, 0.8]))
    z = population.sample(10_000, np.random.default_rng(0))
    assert set(z) == {-3, 1}
    assert (z == -3).mean() == pytest.approx(0.2, abs=4 * 0.4 / 100)


def test_too_many_pairs_or_too_few_contexts_are_an_error(random_policy):
    policies = random_policy(0, labels=25), random_policy(1, labels=25)
    with pytest.raises(
        InputError, match=r"at most 10000000 pairs of a context and an action can be enumerated, got 2 · 2\^25"
    ):
        enumerate_losses(*policies, np.ones((2, 4)), np.zeros((2, 25), dtype=np.uint8))
    with pytest.raises(InputError, match="the theory needs at least 2 contexts, one for each policy, got 1"):
        draw_policies(np.ones((1, 4)), np.ones((1, 3)), np.random.default_rng(0))
