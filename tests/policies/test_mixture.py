"""Mixtures of policies: their probabilities, draws and estimates."""

import numpy as np
import pytest
from fixtures.action_logs import block_log, random_coef, random_effects

from drcrm import ExponentialPolicy, SoftmaxPolicy, off_policy_value
from drcrm.cost_models.base import TabularModel
from drcrm.errors import InputError
from drcrm.policies.base import MixturePolicy

WEIGHTS = np.array([0.2, 0.5, 0.3])
KINDS = ["labels", "single", "eligible", "lists"]
pytestmark = pytest.mark.filterwarnings("ignore:the (estimate by|mean weight)")


def policies_for(log, explore: float = 0.1) -> list:
    kind = ExponentialPolicy if not log.actions.are_choices else SoftmaxPolicy
    return [kind(random_coef(log, seed) / 2).with_exploration(explore) for seed in range(3)]


@pytest.fixture(params=KINDS)
def log(request):
    return block_log(request.param)


def test_probabilities_are_weighted_means(log):
    policies = policies_for(log)
    mixture = MixturePolicy(policies, WEIGHTS)
    X = log.actions.unbind(log.X)
    known = {} if log.actions.eligible is None else {"eligible": log.actions.eligible}
    expected = sum(w * p.marginals(X, **known) for w, p in zip(WEIGHTS, policies, strict=True))
    assert mixture.marginals(X, **known) == pytest.approx(expected, rel=1e-12)
    assert mixture.marginals_on(log.X, log.actions) == pytest.approx(expected, rel=1e-12)
    of_rows = sum(
        w * np.exp(p.log_prob(X, log.Y, log.context, **known)) for w, p in zip(WEIGHTS, policies, strict=True)
    )
    for log_prob in (mixture.log_prob(X, log.Y, log.context, **known), mixture.probabilities(log)[0]):
        assert np.exp(log_prob) == pytest.approx(of_rows, rel=1e-9)


def test_drawn_actions_have_their_probabilities(log):
    """With exploration ε, a greedy draw has the probability 1 − ε + ε U, or ε U for other actions."""
    policies = policies_for(log, 0.0)
    mixture = MixturePolicy(policies, WEIGHTS).with_exploration(0.3)
    X = log.actions.unbind(log.X)
    assert mixture.explore == pytest.approx(0.3, abs=1e-12)
    action, propensity = mixture.draw(X, 0)
    expected = sum(
        w * np.exp(p.with_exploration(0.3).log_prob(X, action)) for w, p in zip(WEIGHTS, policies, strict=True)
    )
    assert propensity == pytest.approx(expected, rel=1e-12)
    action, propensity = mixture.draw(X, 0, greedy=True)
    uniform = np.exp(policies[0].with_exploration(1.0).log_prob(X, action))
    best = mixture.greedy(X)
    is_best = (action == best).reshape(len(best), -1).all(axis=1)
    assert 0.5 < is_best.mean() < 1
    assert propensity == pytest.approx(0.3 * uniform + 0.7 * is_best, rel=1e-12)


@pytest.mark.parametrize("estimate", ["ips", "dr", "dm"])
def test_estimates_of_a_mixture_are_weighted_means(estimate, log):
    """Estimates with unclipped weights are linear in the policy."""
    policies, model = policies_for(log), TabularModel(random_effects(log))
    options = {"cost_model": None if estimate == "ips" else model}
    values = [float(off_policy_value(policy, log, estimate, **options)) for policy in policies]
    value = off_policy_value(MixturePolicy(policies, WEIGHTS), log, estimate, **options)
    assert float(value) == pytest.approx(WEIGHTS @ values, rel=1e-9)


def test_draws_have_the_probabilities():
    log = block_log("single", 4)
    mixture, draws = MixturePolicy(policies_for(log), WEIGHTS), 4000
    X = np.tile(log.X[:1], (draws, 1))
    share = np.bincount(mixture.sample(X, random_state=0), minlength=4) / draws
    assert share == pytest.approx(mixture.marginals(X[:1])[0], abs=4 * np.sqrt(0.25 / draws))
    assert np.array_equal(mixture.sample(X, random_state=1), mixture.sample(X, random_state=1))


def test_labels_of_a_mixture_depend_on_each_other():
    """One policy sets both labels, the other none: the mixture never sets a single one."""
    X = np.ones((500, 1))
    mixture = MixturePolicy([ExponentialPolicy([[40.0, 40.0]]), ExponentialPolicy([[-40.0, -40.0]])], [0.5, 0.5])
    drawn = mixture.sample(X, random_state=0)
    assert set(map(tuple, drawn)) == {(0, 0), (1, 1)}
    assert np.exp(mixture.log_prob(X[:2], [[1, 0], [1, 1]])) == pytest.approx([0, 0.5], abs=1e-12)


def test_policies_without_weight_are_left_out():
    log = block_log("single")
    policies = policies_for(log)
    assert MixturePolicy(policies, [0, 1, 0]).policies == policies[1:2]


@pytest.mark.parametrize("weights", [[0.5, 0.5, 0.5], [-0.5, 1.0, 0.5], [1.0, 0.0, np.nan]])
def test_invalid_weights_are_refused(weights):
    with pytest.raises(InputError, match="weights"):
        MixturePolicy(policies_for(block_log("single")), weights)


def test_policies_over_other_features_are_refused():
    policies = [SoftmaxPolicy(np.zeros((d, 2))) for d in (2, 3)]
    with pytest.raises(InputError, match="the policies of a mixture have different actions or features"):
        MixturePolicy(policies, [0.5, 0.5])
