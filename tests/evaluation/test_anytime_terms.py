"""Certificates that hold at every look: their terms by hand, their mean by enumeration, units, and simulated looks."""

import numpy as np
import pytest

from drcrm import BanditLog, CostModel, ExponentialPolicy, SoftmaxPolicy
from drcrm.certificates import policy_certificate, upper_bound
from drcrm.errors import InputError
from drcrm.logging_policy import SupportedModel

COSTS = (-2.0, 0.5)
PI, PI0 = np.array([0.1, 0.6, 0.3]), np.array([0.7, 0.1, 0.2])


def draw_log(n: int = 200, seed: int = 0, pi0: np.ndarray = PI0, context: np.ndarray | None = None) -> BanditLog:
    """Return a log of three actions with costs from −2 to 0.5."""
    rng = np.random.default_rng(seed)
    action = rng.choice(3, n, p=pi0)
    cost = np.clip(rng.normal(-0.5 * action, 0.5), *COSTS)
    X = np.ones((n if context is None else context.max() + 1, 1))
    return BanditLog(X, action, pi0[action], cost, n_actions=3, context=context)


def tile(probability: np.ndarray, log: BanditLog) -> np.ndarray:
    return np.tile(probability, (log.n_contexts, 1))


def certify(log: BanditLog, **settings):
    return policy_certificate(tile(PI, log), log, method="anytime", cost_range=COSTS, **settings)


def test_ips_bounds_its_terms():
    log = draw_log()
    reward, weight = 0.5 - log.cost, (PI / PI0)[log.Y]
    certificate = certify(log)
    assert certificate.estimate == "ips"
    assert certificate.bound == pytest.approx(upper_bound(0.5 - weight * reward, method="anytime", high=0.5), abs=1e-12)
    paired = certify(log, baseline="logging")
    assert paired.bound == pytest.approx(upper_bound((1 - weight) * reward, method="anytime", high=2.5), abs=1e-12)
    assert paired.value == pytest.approx(np.mean((1 - weight) * reward), abs=1e-12)


def doubly_robust_terms(model: np.ndarray, action: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Return z by the formula, with k = 5."""
    modelled, weight = np.clip(0.5 - model, 0, 2.5), PI / PI0
    truncated = np.minimum(modelled, 5 / weight)
    return 0.5 - weight[action] * (0.5 - cost - truncated[action]) - PI @ truncated


@pytest.mark.parametrize("model", [np.array([0.0, -0.5, -1.0]), np.array([3.0, -9.0, -1.0])])
def test_dr_bounds_its_terms(model):
    log = draw_log()
    known = {"cost_model": tile(model, log), "logging_policy": tile(PI0, log)}
    z = doubly_robust_terms(model, log.Y, log.cost)
    certificate = certify(log, **known)
    assert certificate.estimate == "dr"
    assert certificate.bound == pytest.approx(upper_bound(z, method="anytime", high=5.5), abs=1e-12)
    paired = certify(log, **known, baseline="logging")
    assert paired.bound == pytest.approx(upper_bound(z - log.cost, method="anytime", high=7.5), abs=1e-12)


def test_the_terms_have_the_mean_of_the_policy_or_charge_missing_actions_the_largest_cost():
    model, cost = np.array([0.3, -1.5, -0.2]), np.array([0.1, -0.7, -1.9])
    assert PI0 @ doubly_robust_terms(model, np.arange(3), cost) == pytest.approx(PI @ cost, abs=1e-12)
    pi0 = np.array([0.5, 0.0, 0.5])
    log = BanditLog(np.ones((2, 1)), [0, 2], [0.5, 0.5], cost[[0, 2]], n_actions=3)
    charged = PI @ np.where(pi0 > 0, cost, 0.5)
    known = {"cost_model": tile(model, log), "logging_policy": tile(pi0, log)}
    for settings in ({}, known):
        assert certify(log, **settings).value == pytest.approx(charged, abs=1e-12)


def test_contexts_and_groups_of_equal_size_are_units():
    context = np.repeat(np.arange(50), 4)
    log = draw_log(200, 1, context=context)
    z = 0.5 - (PI / PI0)[log.Y] * (0.5 - log.cost)
    by_context = upper_bound(z, method="anytime", high=0.5, groups=context)
    assert certify(log, by="context").bound == pytest.approx(by_context, abs=1e-12)
    groups = np.random.default_rng(2).permutation(200) % 20
    by_group = certify(log, groups=groups)
    assert by_group.bound == pytest.approx(upper_bound(z, method="anytime", high=0.5, groups=groups), abs=1e-12)
    assert by_group.value == pytest.approx(z.mean(), abs=1e-12)
    assert (by_group.by, by_group.n) == ("group", 20)


@pytest.mark.parametrize("settings", [{"groups": np.arange(200) // 3}, {"by": "context"}])
def test_the_mean_per_row_needs_groups_and_contexts_of_equal_size(settings):
    context = np.append(np.repeat(np.arange(66), 3), [0, 1])
    with pytest.raises(InputError, match="the mean per row needs groups or contexts with equally many rows"):
        certify(draw_log(200, 1, context=context), **settings)


@pytest.mark.parametrize("method", ["anytime", "confidence_sequence"])
def test_counts_and_weights_have_no_bound_by_bets_at_every_look(method):
    log = draw_log(200)
    counted = log.replace(count=np.where(np.arange(200) < 9, 5, 1))
    settings = {"method": method, "cost_range": COSTS}
    with pytest.raises(InputError, match="need rows that occur once, but count is up to 5"):
        policy_certificate(tile(PI, log), counted, **settings)
    weighted = counted.replace(is_weighted=True)
    if method == "anytime":
        with pytest.raises(InputError, match=r"rows have weights, such as those of pdrop, and a bound by anytime"):
            policy_certificate(tile(PI, log), weighted, **settings)
    else:
        assert np.isfinite(policy_certificate(tile(PI, log), weighted, check_tails=False, **settings).bound)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"cost_range": None}, "the method anytime needs cost_range="),
        ({"high": 0.5}, "high= does not apply to the method anytime here"),
        ({"estimate": "snips"}, "estimate of the method anytime is 'snips', expected"),
        ({"estimate": "dr"}, "'dr' by anytime needs cost_model="),
        ({"estimate": "dr", "cost_model": True}, "'dr' by anytime needs logging_policy="),
        ({"baseline": True}, "the method anytime needs largest_weight=, a known limit"),
    ],
)
def test_what_the_method_needs(settings, reason):
    log = draw_log()
    table = tile(PI, log)
    settings = {name: table if value is True else value for name, value in settings.items()}
    with pytest.raises(InputError, match=reason):
        policy_certificate(table, log, method="anytime", **({"cost_range": COSTS} | settings))


def test_label_vectors_use_ips():
    rng = np.random.default_rng(4)
    log = BanditLog(np.ones((80, 1)), rng.integers(0, 2, (80, 2)), np.full(80, 0.25), -rng.random(80))
    policy, settings = ExponentialPolicy([[0.2, -0.4]]), {"method": "anytime", "cost_range": (-1, 0)}
    weight = np.exp(policy.log_prob(log.X, log.Y)) / 0.25
    bound = policy_certificate(policy, log, **settings).bound
    assert bound == pytest.approx(upper_bound(weight * log.cost, method="anytime", high=0), abs=1e-12)
    with pytest.raises(InputError, match="needs one of K actions or lists of actions, not label vectors"):
        policy_certificate(policy, log, "dr", **settings)


def week(n: int, seed: int, coef: np.ndarray) -> BanditLog:
    """Return a log of two actions by a softmax policy. The second one is good in contexts with x = 1."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 2, n), np.ones(n)])
    policy = SoftmaxPolicy(coef)
    action = policy.sample(X, rng)
    cost = -(rng.random(n) < 0.2 + 0.6 * action * X[:, 0]).astype(float)
    return BanditLog(X, action, np.exp(policy.log_prob(X, action)), cost, n_actions=2)


def test_a_log_of_another_policy_than_the_stored_one_uses_no_control_variates():
    """The stored policy takes the second action rarely, that of the later log often; both have right propensities."""
    stored, later = np.array([[0.0, 0.0], [0.0, -3.0]]), np.array([[0.0, 1.0], [0.0, 0.5]])
    policy = SoftmaxPolicy(np.array([[-2.0, 2.0], [0.0, 0.0]]))
    first = week(3000, 0, stored)
    model = SupportedModel.of(CostModel().fit(first), first, SoftmaxPolicy(stored), 0.05)
    settings = {"method": "anytime", "cost_range": (-1, 0), "cost_model": model}
    assert policy_certificate(policy, first, **settings).estimate == "dr"
    share = policy.marginals(np.array([[0.0, 1.0], [1.0, 1.0]]))[:, 1]
    truth = -(0.2 + 0.6 * share[1] / 2)
    for seed in range(5):
        log = week(2000, seed + 1, later)
        certificate = policy_certificate(policy, log, **settings)
        assert certificate.estimate == "ips"
        assert certificate.bound > truth
        own = policy_certificate(policy, log, logging_policy=SoftmaxPolicy(later), **settings)
        assert (own.estimate, own.bound > truth) == ("dr", True)
    with pytest.raises(InputError, match="has other probabilities than the propensities of the log"):
        policy_certificate(policy, log, "dr", **settings)
    with pytest.raises(InputError, match="logging_policy= with the propensities of the log, which differ by up to"):
        policy_certificate(policy, log, "dr", logging_policy=SoftmaxPolicy(stored), **settings)
    rounded = log.replace(propensity=log.propensity.round(2))
    rounded.__dict__.pop("log_propensity", None)
    assert policy_certificate(policy, rounded, logging_policy=SoftmaxPolicy(later), **settings).estimate == "dr"


def test_the_stored_policy_of_another_log_does_not_hide_missing_actions():
    """The stored policy takes both actions; that of the later log never takes the second one for x = 1."""
    stored = np.zeros((2, 2))
    first, policy = week(2000, 0, stored), SoftmaxPolicy(np.array([[0.0, 1.0], [0.0, 0.0]]))
    model = SupportedModel.of(CostModel().fit(first), first, SoftmaxPolicy(stored), 0.05)
    later = week(2000, 1, np.array([[0.0, -30.0], [0.0, 0.0]]))
    assert not policy_certificate(policy, first, "dr", cost_model=model).missing
    assert policy_certificate(policy, later, "dr", cost_model=model).missing
