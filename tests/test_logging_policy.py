"""Support rule written out, and its effect on fits to near-deterministic and to exploring logs."""

from dataclasses import replace

import numpy as np
import pytest
from fixtures.action_logs import Choices, cost_model
from fixtures.reference_formulas import predict
from scipy import sparse
from scipy.special import ndtr

from drcrm import (
    ActionLists,
    BanditLog,
    CostModel,
    DoublyRobustDRO,
    ExponentialPolicy,
    SoftmaxPolicy,
    off_policy_value,
    policy_support,
    thompson_propensities,
)
from drcrm.cost_models.base import action_effects
from drcrm.errors import InputError
from drcrm.logging_policy import LoggingPolicy, SupportedModel, restrict_to_support
from drcrm.optimization.starts import clone_behaviour
from drcrm.policies.exponential import make_policy

VECTORS = [0, 0], [0, 1], [1, 0], [1, 1]


@pytest.fixture
def label_model(logged, random_policy):
    """A log, its cost model, the logging policy, and the model with support."""
    log, policy, model = logged(3), random_policy(4, scale=3.0), CostModel(0.01).fit(logged(3))
    return log, model, policy, restrict_to_support(model, log, policy, 0.5)


@pytest.fixture
def choices():
    """A log of choices, and coefficients of a cost model, the logging policy and another policy."""
    coefs = np.random.default_rng(0).normal(size=(3, 4, 5)) * [[[1]], [[3]], [[1]]]
    return Choices.drawn(2, actions=5, contexts=30), *coefs


def test_the_rule_for_label_vectors(label_model):
    log, model, policy, supported = label_model
    effects, mu = model.effects(log.X), policy.marginals(log.X)
    R = np.quantile(abs(effects[:, :2]), 0.99)
    costs = np.empty((len(effects), len(VECTORS)))
    for k, (*labels, base) in enumerate(effects):
        for label in range(2):
            if mu[k, label] < 0.25:
                labels[label] = max(labels[label], R)
            if mu[k, label] > 0.75:
                before, labels[label] = labels[label], min(labels[label], -R)
                base += before - labels[label]
        costs[k] = [base + np.dot(labels, Y) for Y in VECTORS]
    for column, vector in enumerate(VECTORS):
        Y = np.tile(vector, (len(effects), 1))
        assert predict(supported, log.X, Y) == pytest.approx(costs[:, column], rel=1e-12)
        plain, is_supported = predict(model, log.X, Y), (np.where(Y, mu, 1 - mu) >= 0.25).all(axis=1)
        assert (costs[:, column] >= plain - 1e-12).all()
        assert costs[is_supported, column] == pytest.approx(plain[is_supported], abs=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_rule_for_choices_and_lists(form, choices):
    choice_log, B, logging, _ = choices
    is_rare = choice_log.probabilities(logging) < 0.5 / choice_log.eligible.sum(axis=1, keepdims=True)
    expected = np.where(
        is_rare, choice_log.cost.max(), np.clip(choice_log.X @ B, choice_log.cost.min(), choice_log.cost.max())
    )
    for log, coef, theta, places in (
        (choice_log.single(form), B, logging, choice_log.eligible),
        (choice_log.listed(form), B.ravel(), logging.ravel(), ...),
    ):
        model = restrict_to_support(cost_model(coef), log, SoftmaxPolicy(theta), 0.5)
        effects = np.asarray(action_effects(model, log.X, log.actions))
        assert effects[places] == pytest.approx(expected[choice_log.eligible], rel=1e-12)
        assert np.array_equal(model.with_support(0).effects(log.X, log.actions), log.X @ coef)


def test_unsupported_choices_can_be_charged_an_extreme_cost(choices):
    choice_log, B, logging, policy = choices
    is_rare = choice_log.probabilities(logging) < 0.5 / choice_log.eligible.sum(axis=1, keepdims=True)
    expected = (choice_log.probabilities(policy) * is_rare).sum(axis=1)
    for log, theta, coef, costs, places in (
        (choice_log.single(), logging, policy, B, choice_log.eligible),
        (choice_log.listed(), logging.ravel(), policy.ravel(), B.ravel(), ...),
    ):
        mass, is_unsupported = LoggingPolicy(SoftmaxPolicy(theta), 0.5).find_unsupported(
            log, SoftmaxPolicy(coef).components(log.X, log.actions, "")
        )
        assert mass == pytest.approx(expected, abs=1e-12)
        assert np.array_equal(is_unsupported, is_rare[choice_log.context, choice_log.A])
        model = restrict_to_support(cost_model(costs), log, SoftmaxPolicy(theta), 0.5)
        effects = model.effects(log.X, log.actions)
        for extreme, sign in ((choice_log.cost.max() + 3, 1), (choice_log.cost.min() - 3, -1)):
            charged = np.asarray(model.effects_at_extreme(log.X, log.actions, extreme, sign))[places]
            assert np.array_equal(charged, np.where(is_rare[choice_log.eligible], extreme, np.asarray(effects)[places]))
        assert np.array_equal(model.effects_at_extreme(log.X, log.actions, choice_log.cost.max() - 9, 1), effects)


def test_an_unknown_logging_policy_is_cloned(logged, random_policy):
    log, policy = logged(3, n=200), random_policy(3)
    rows = log.X, log.Y, log.propensity, log.cost, log.context
    fitted = DoublyRobustDRO(safe=False).fit(*rows)
    cloned = fitted.cost_model_.logging.policy
    assert cloned.coef == pytest.approx(clone_behaviour(log).coef, abs=1e-6)
    again = DoublyRobustDRO(safe=False).fit(*rows, cost_model=fitted.cost_model_)
    assert again.cost_model_.logging.policy is cloned
    assert restrict_to_support(again.cost_model_, log, None, 0.5).logging.support == 0.5
    known = DoublyRobustDRO(safe=False).fit(*rows, logging_policy=policy)
    assert known.cost_model_.logging.policy is policy


def test_logged_propensities_show_support_whatever_the_estimate_says():
    """Action 1 has a propensity below τ/3, action 2 has none, and a row with p > 1 − τ/3 refutes all other actions."""
    X, unlikely = np.ones((6, 1)), SoftmaxPolicy([[0.0, -99, -99]])
    uniform = SoftmaxPolicy(np.zeros((1, 3)))
    cases = {
        (0.3,) * 6: [0, 0, 1 / 3],
        (0.3, 0.3, 0.3, 0.3, 0.3, 0.016): [0, 1 / 3, 1 / 3],
        (0.99, 0.3, 0.3, 0.3, 0.3, 0.3): [0, 1 / 3, 1 / 3],
        (0.05 / 3,) * 6: [0, 0, 1 / 3],
    }
    for propensity, expected in cases.items():
        log = BanditLog(X, [0, 0, 0, 1, 1, 1], propensity, np.arange(6.0), n_actions=3)
        model = restrict_to_support(CostModel().fit(log), log, None, 0.05)
        model = replace(model, logging=replace(model.logging, policy=unlikely))
        mass, _ = LoggingPolicy(unlikely, 0.05, model.logging.is_supported).find_unsupported(
            log, uniform.components(log.X, log.actions, "")
        )
        assert mass == pytest.approx(np.full(6, sum(expected)))
        is_charged = model.effects(log.X, log.actions)[0] == log.cost.max()
        assert is_charged.tolist()[1:] == [value > 0 for value in expected][1:]
        assert policy_support(uniform, log).mass_by_action[1] in (0, pytest.approx(1 / 3))
        imitated = log.replace(imitated_propensities=True)
        assert restrict_to_support(model.model, imitated, None, 0.05).logging.is_supported is None


@pytest.mark.parametrize(("rows", "is_supported"), [(60, True), (6000, False)])
def test_an_action_that_a_uniform_log_lacks(rows, is_supported):
    """Action 3 is missing by chance in 60 rows, but in 6000 rows the propensity of 1/4 cannot be right."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=rows), np.ones(rows)])
    log = BanditLog(X, np.arange(rows) % 3, np.full(rows, 0.25), rng.random(rows), n_actions=4)
    mass = policy_support(SoftmaxPolicy(np.zeros((2, 4))), log).mass_by_action
    assert mass == pytest.approx([0, 0, 0, 0 if is_supported else 0.25])


def test_a_log_refutes_the_support_of_an_action_that_half_of_the_contexts_lack():
    """All propensities are 1/2 or 1/3, but action 2 is never taken if x < 0; if it is, the estimate is not believed."""
    for available, mass in (([0, 1], 1 / 6), ([0, 1, 2], 0)):
        rng = np.random.default_rng(0)
        x = rng.normal(size=1000)
        Y = np.where(x < 0, rng.choice(available, 1000), rng.integers(0, 3, 1000))
        p = np.where(x < 0, 1 / len(available), 1 / 3)
        log = BanditLog(np.column_stack([x, np.ones(1000)]), Y, p, rng.random(1000), n_actions=3)
        cloned = SoftmaxPolicy([[0, 0, 50.0], [0, 0, 0]])
        model = SupportedModel(CostModel().fit(log), LoggingPolicy(cloned, 0.05).with_logged_support(log), (0, 1))
        found, _ = LoggingPolicy(cloned, 0.05, model.logging.is_supported).find_unsupported(
            log, SoftmaxPolicy(np.zeros((2, 3))).components(log.X, log.actions, "")
        )
        charged = model.effects(log.X, log.actions)[x < -0.1, 2] == 1
        # The estimate also says that actions 0 and 1 are rare for x > 0, which the log refutes in both cases.
        assert (found[x < -0.1] == pytest.approx(1 / 3 if mass else 0), charged.all()) == (True, mass > 0)
        assert model.logging.is_supported.tolist() == [True, True, not mass]


@pytest.mark.parametrize(
    ("rows", "share", "supported"),
    [
        (6000, 1.0, [True, True, True]),
        (300, 1.0, [False, False, False]),  # too few rows to show that the rate is constant
        (6000, 0.1, [False, False, False]),  # the rate differs, and few rows have the smaller one
    ],
)
def test_constant_exploration_shows_support(rows, share, supported):
    """π0 takes a rule's action, or one of three at random at a rate of 2 %, which is less than τ."""
    rng = np.random.default_rng(0)
    x, action = rng.normal(size=rows), np.arange(3)
    rate = np.where(x > 1.5, 0.02 * share, 0.02)[:, None]
    probability = (1 - rate) * ((x > 0)[:, None] == action) + rate / 3
    Y = (probability.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)
    p = probability[np.arange(rows), Y]
    log = BanditLog(np.column_stack([x, np.ones(rows)]), Y, p, rng.random(rows), n_actions=3)
    cloned = SoftmaxPolicy([[-50.0, 50.0, -50.0], [0, 0, 0]])
    model = SupportedModel(CostModel().fit(log), LoggingPolicy(cloned, 0.05).with_logged_support(log), (0, 1))
    assert model.logging.is_supported.tolist() == supported
    lacks = (x > 1)[:, None] & (action == 0)  # there, the propensities of actions 1 and 2 show that 0 is not explored
    uneven = np.where((x > 0)[:, None], [0.9, 0.09, 0.01], [0.85, 0.15, 0])
    for other in (np.where(lacks, 0, probability + np.where(lacks.any(axis=1), rate[:, 0] / 6, 0)[:, None]), uneven):
        chosen = (other.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)
        changed = log.replace(Y=chosen, propensity=other[np.arange(rows), chosen])
        assert not changed.actions.find_supported(changed, cloned.marginals(changed.X), 0.05)[action[::2]].all()
    lists = BanditLog(ActionLists(np.tile(np.eye(3), (rows, 1)), np.arange(0, 3 * rows + 1, 3)), Y, p, rng.random(rows))
    assert lists.actions.find_supported(lists, np.ones(3 * rows), 0.05) == all(supported)


def test_uniform_logs_support_every_action_of_every_kind():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 12))
    labels = BanditLog(X, rng.integers(0, 2, (40, 3)), np.full(40, 1 / 8), rng.random(40))
    eligible = np.ones((40, 4), dtype=bool)
    eligible[:20, 3] = False
    Y = np.where(np.arange(40) < 20, np.arange(40) % 3, np.arange(40) % 4)
    choices = BanditLog(X, Y, 1 / eligible.sum(axis=1), rng.random(40), n_actions=4, eligible=eligible)
    candidates = ActionLists(rng.normal(size=(100, 12)), np.arange(0, 101, 5))
    lists = BanditLog(candidates, rng.integers(0, 5, 20), np.full(20, 1 / 5), rng.random(20))
    for log, shape in ((labels, (12, 3)), (choices, (12, 4)), (lists, 12)):
        assert policy_support(make_policy(log.actions, 3 * rng.normal(size=shape)), log).mass == 0


@pytest.mark.parametrize("support", [-0.1, 1.5, np.nan, "0.05", None])
def test_a_support_outside_0_to_1_is_refused(logged, support):
    log = logged()
    with pytest.raises(InputError, match=r"support is .*, expected a number from 0 to 1"):
        DoublyRobustDRO(support=support).fit(log.X, log.Y, log.propensity, log.cost, log.context)
    with pytest.raises(InputError, match=r"support is .*, expected a number from 0 to 1"):
        off_policy_value(ExponentialPolicy(np.zeros((4, 2))), log, support=support)


@pytest.mark.parametrize("support", [0.05, 1.0])
def test_the_support_of_any_number_of_labels_is_that_of_the_exponents(support):
    """A vector is rare below τ/2^q. With 1020 labels this is a float; with more, propensities keep their distance."""
    rng = np.random.default_rng(0)
    results = []
    for labels in (1020, 1060, 1100):
        Y = (rng.random((30, labels)) < 0.5).astype(np.uint8)
        Y[:, :4] = np.arange(30)[:, None] >> np.arange(4) & 1
        propensity = np.where(np.arange(30) < 15, 0.5, 1.0) * support * 2.0**-1020 * 1.5
        log = BanditLog(np.ones((30, 1)), Y, propensity, -np.ones(30))
        found = log.actions.find_supported(log, np.full((30, labels), 0.5), support)
        results.append(found[:, :4].tolist())
        assert np.isinf(log.actions.count_choices()[0]) == (labels > 1023)
    log = BanditLog(np.ones((30, 1)), Y, np.full(30, 0.5), -np.ones(30))
    assert log.actions.find_supported(log, np.full((30, 1100), 0.5), support)[:, :4].all()
    assert results[1] == results[2] == [[True] * 4] * 2
    assert results[0] != results[1]


def test_thompson_propensities_are_the_shares_of_draws_in_which_an_action_is_best():
    """Two normal posteriors: the first action is better with probability Φ(0.5/√2); ties share a draw."""
    draws = np.random.default_rng(0).normal([0.5, 0.0], 1, (40_000, 2))
    np.testing.assert_allclose(thompson_propensities(draws)[0], ndtr(0.5 / np.sqrt(2)), atol=0.01)
    tied = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0]])
    np.testing.assert_allclose(thompson_propensities([tied, tied[::-1, ::-1]]), [[0.25, 0.75, 0], [0, 0.75, 0.25]])
    for wrong in ([0.5, 0.5], np.empty((0, 2)), [[1.0, np.nan]]):
        with pytest.raises(InputError, match="draws has"):
            thompson_propensities(wrong)
