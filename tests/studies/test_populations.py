"""The distribution of a logged draw, by loops over all pairs, and the study's divergences in closed form."""

from itertools import product

import numpy as np
import pytest
from other_divergences import CressieRead3, TotalVariation
from population import Population, draw_policies, enumerate_losses
from scipy.optimize import linprog

from drcrm.errors import InputError
from drcrm.paper.simulation import LabelTruth
from drcrm.risks import PhiBall


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


def test_cressie_and_read_with_k_3_is_coherent_and_has_a_closed_form():
    divergence, share = CressieRead3(), np.array([0.4, 0.6])
    t = np.geomspace(1e-3, 1e3, 50)
    assert divergence.phi(t) == pytest.approx((t**3 - 3 * t + 2) / 6, rel=1e-9, abs=1e-9)
    for smaller in (1e-6, 0.03, 0.3):
        density = np.array([(1 - 0.6 * smaller) / 0.4, smaller])
        value, worst = PhiBall(divergence, share @ divergence.phi(density))([0.0, -1.0], share)
        assert value == pytest.approx(-0.6 * smaller, abs=1e-12)
        assert worst == pytest.approx(share * density, abs=1e-12)


@pytest.mark.parametrize("radius", [0.01, 0.3, 1.9])
def test_total_variation_is_a_linear_program(radius):
    """q = 1/n + up − down with Σ up + Σ down ≤ radius."""
    z = np.random.default_rng(0).normal(size=20)
    ones, bounds = np.ones(20), [(0, None)] * 20 + [(0, 1 / 20)] * 20
    solution = linprog(np.r_[-z, z], [np.r_[ones, ones]], [radius], [np.r_[ones, -ones]], [0], bounds)
    assert PhiBall(TotalVariation(), radius)(z)[0] == pytest.approx(z.mean() - solution.fun, abs=1e-8)
