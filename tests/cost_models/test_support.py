"""Support: the rule written out, what it costs where π0 is soft, and what it saves where π0 is sharp."""

import numpy as np
import pytest
from scipy import sparse
from softmax_logs import Choices, cost_model

import drcrm
from drcrm import (
    BanditLog,
    CostModel,
    DoublyRobustDRO,
    ExponentialPolicy,
    SoftmaxPolicy,
    off_policy_value,
    policy_support,
)
from drcrm.cost_models.ridge_model import action_effects
from drcrm.cost_models.support import SUPPORT, SupportedModel, find_unsupported
from drcrm.errors import InputError
from drcrm.optimization.behaviour_cloning import clone_behaviour
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.grid_search import learn
from drcrm.selection.heldout_scores import SCORES

VECTORS = [0, 0], [0, 1], [1, 0], [1, 1]


def sharp_labels(scale: float, seed: int = 0, n: int = 400, passes: int = 4):
    """A log of three labels, π0 and the loss of policies: labels follow π0's scores and products of the features.

    A linear model of the cost is wrong where π0 never goes, the more often the sharper it is.
    """
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 4)), np.ones(n)])
    coef = rng.normal(size=(5, 3))
    right = X @ coef + (X[:, :4] * np.roll(X[:, :4], -1, axis=1)) @ rng.normal(size=(4, 3)) > 0
    policy = ExponentialPolicy(scale * coef)
    context = np.tile(np.arange(n), passes)
    Y = policy.sample(X[context], rng)
    cost = (right[context] != Y).sum(axis=1) - 3.0
    log = BanditLog(X, Y, np.exp(policy.log_prob(X[context], Y)), cost, context)
    return log, policy, lambda learned: np.where(right, 1 - learned.marginals(X), learned.marginals(X)).sum() / n


def test_the_rule_for_label_vectors(logged, random_policy):
    log, policy = logged(3), random_policy(4, scale=3.0)
    model = CostModel(0.01).fit_log(log)
    support = 0.5
    made = SupportedModel.of(model, log, policy, support)
    e, mu = model.effects(log.X), policy.marginals(log.X)
    R = np.quantile(abs(e[:, :2]), 0.99)
    for k in range(len(e)):
        first, second, base = e[k]
        moved = np.array([first, second])
        for label in range(2):
            if mu[k, label] < support / 2:
                moved[label] = max(moved[label], R)
            if 1 - mu[k, label] < support / 2:
                before, moved[label] = moved[label], min(moved[label], -R)
                base += before - moved[label]
        for Y in VECTORS:
            believed = made.predict(log.X[[k]], np.array([Y]))[0]
            assert believed == pytest.approx(base + moved @ Y, rel=1e-12)
            as_is = model.predict(log.X[[k]], np.array([Y]))[0]
            often = np.where(Y, mu[k], 1 - mu[k]) >= support / 2
            assert believed >= as_is - 1e-12
            if often.all():
                assert believed == pytest.approx(as_is, abs=1e-12)
    of_vectors = (
        np.exp(policy.log_prob(log.X, each)) * made.predict(log.X, each)
        for each in (np.tile(Y, (len(e), 1)) for Y in VECTORS)
    )
    assert made.expectation(log.X, policy) == pytest.approx(sum(of_vectors), rel=1e-10)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_rule_for_one_action_of_many(form):
    given = Choices.drawn(2, actions=5, contexts=30)
    rng = np.random.default_rng(0)
    B, logging = rng.normal(size=(2, 4, 5))
    logging *= 3
    pi = given.probabilities(logging)
    rare = pi < 0.5 / given.eligible.sum(axis=1, keepdims=True)
    assert 0.1 < rare[given.eligible].mean() < 0.9
    expected = np.where(rare, given.cost.max(), np.clip(given.X @ B, given.cost.min(), given.cost.max()))
    for log, coef, theta in (
        (given.single(form), B, logging),
        (given.listed(form), B.ravel(), logging.ravel()),
    ):
        made = SupportedModel.of(cost_model(coef), log, SoftmaxPolicy(theta), 0.5)
        effects = action_effects(made, log.X, log.actions)
        assert np.asarray(effects)[... if coef.ndim == 1 else given.eligible] == pytest.approx(
            expected[given.eligible], rel=1e-12
        )
        assert np.array_equal(made.with_support(0).action_effects(log.X, log.actions), log.X @ coef)


def test_the_mass_of_label_vectors_without_support_and_their_rows(logged, random_policy):
    """Σ π(y) over the vectors with any label that π0 hardly gives."""
    log, policy, logging, support = logged(5), random_policy(6, scale=2.0), random_policy(4, scale=3.0), 0.5
    mass, rows = find_unsupported(policy, log, logging, support)
    known = logging.marginals(log.X)

    def is_odd(Y, mu):
        return (np.where(Y == 1, mu, 1 - mu) < support / 2).any(axis=1)

    each = [np.tile(Y, (len(log.X), 1)) for Y in VECTORS]
    expected = sum(np.exp(policy.log_prob(log.X, Y)) * is_odd(Y, known) for Y in each)
    assert 0.05 < expected.mean() < 0.95
    assert mass == pytest.approx(expected, abs=1e-12)
    assert np.array_equal(rows, is_odd(log.Y, known[log.context]))
    assert 0 < rows.mean() < 1


def test_the_mass_of_choices_without_support_and_their_rows():
    given = Choices.drawn(2, actions=5, contexts=30)
    B, logging, policy = np.random.default_rng(0).normal(size=(3, 4, 5)) * [[[1]], [[3]], [[1]]]
    rare = given.probabilities(logging) < 0.5 / given.eligible.sum(axis=1, keepdims=True)
    expected = (given.probabilities(policy) * rare).sum(axis=1)
    for log, theta, coef in (
        (given.single(), logging, policy),
        (given.listed(), logging.ravel(), policy.ravel()),
    ):
        mass, rows = find_unsupported(SoftmaxPolicy(coef), log, SoftmaxPolicy(theta), 0.5)
        assert mass == pytest.approx(expected, abs=1e-12)
        assert np.array_equal(rows, rare[given.context, given.A])
        made = SupportedModel.of(cost_model(B if coef.ndim == 2 else B.ravel()), log, SoftmaxPolicy(theta), 0.5)
        most, least = given.cost.max() + 3, given.cost.min() - 3
        believed = made.action_effects(log.X, log.actions)
        places = given.eligible if coef.ndim == 2 else ...
        for extreme, sign in ((most, 1), (least, -1)):
            counted = np.asarray(made.effects_at_extreme(log.X, log.actions, extreme, sign))[places]
            wanted = np.where(rare[given.eligible], extreme, np.asarray(believed)[places])
            assert np.array_equal(counted, wanted)
        assert np.array_equal(made.effects_at_extreme(log.X, log.actions, given.cost.max() - 9, 1), believed)


def test_labels_that_are_counted_at_the_least_cost_mirror_the_largest(logged, random_policy):
    log, policy = logged(3), random_policy(4, scale=3.0)
    model, mirrored = CostModel(0.01).fit_log(log), CostModel(0.01).fit_log(log.with_cost(-log.cost))
    made, other = (SupportedModel.of(each, log, policy, 0.5) for each in (model, mirrored))
    dear, cheap = (
        made.effects_at_extreme(log.X, log.actions, 0.0, 1),
        made.effects_at_extreme(log.X, log.actions, -3.0, -1),
    )
    assert np.array_equal(dear, made.action_effects(log.X, log.actions))
    assert cheap == pytest.approx(-other.effects_at_extreme(log.X, log.actions, 3.0, 1), abs=1e-9)
    costs = [
        log.actions.effect_space.expected_cost(policy.marginals(log.X), each)
        for each in (cheap, model.effects(log.X), dear)
    ]
    assert (costs[0] <= costs[1] + 1e-12).all()
    assert (costs[1] <= costs[2] + 1e-12).all()
    assert (costs[0] < costs[2] - 1e-3).any()


@pytest.mark.parametrize("K", [2, 1000])
def test_a_uniform_policy_has_support_everywhere(K):
    rng = np.random.default_rng(0)
    X, A = np.ones((50, 1)), rng.integers(0, K, 50)
    log = BanditLog(X, A, np.full(50, 1 / K), rng.uniform(-1, 0, 50), n_actions=K)
    model = CostModel(0.1).fit_log(log)
    made = SupportedModel.of(model, log, SoftmaxPolicy(np.zeros((1, K))), 1.0)
    believed = np.clip(model.effects(X), log.cost.min(), log.cost.max())
    assert np.array_equal(made.action_effects(X, log.actions), believed)
    assert policy_support(SoftmaxPolicy(rng.normal(size=(1, K))), log, SoftmaxPolicy(np.zeros((1, K)))).mass == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_sharp_log_does_not_fool_a_fit_with_support(seed):
    """Without support the policy is worse than π0; scores take support, whatever the fit took, and see it."""
    log, policy, loss = sharp_labels(10.0, seed)
    losses, promised = {}, {}
    for support in (0, SUPPORT):
        options = {"estimate": "dr", "start": "model", "tilt": "auto", "support": support}
        fits = learn(log, Algorithm("KLDRO", "radius", [0.01], options), log, policy).fits
        losses[support] = loss(ExponentialPolicy(fits.coef[0]))
        promised[support] = dict(zip(SCORES, fits.scores[0], strict=True))["dr"]
    assert losses[SUPPORT] < loss(policy) < losses[0]
    assert promised[SUPPORT] < promised[0]


def test_a_soft_log_is_left_alone():
    log, policy, _ = sharp_labels(0.1)
    plain, careful = (DoublyRobustDRO(support=each, safe=False) for each in (0, SUPPORT))
    for each in (plain, careful):
        each.fit(log.X, log.Y, log.propensity, log.cost, log.context, logging_policy=policy)
    assert np.array_equal(plain.coef_, careful.coef_)


def test_an_imitation_is_in_the_place_of_a_policy_that_is_not_known():
    log, policy, loss = sharp_labels(10.0)
    rows = log.X, log.Y, log.propensity, log.cost, log.context
    found = DoublyRobustDRO(safe=False).fit(*rows)
    known = found.cost_model_.logging_policy
    assert known.coef == pytest.approx(clone_behaviour(log).coef, abs=1e-6)
    again = DoublyRobustDRO(safe=False).fit(*rows, cost_model=found.cost_model_)
    assert again.cost_model_.logging_policy is known
    assert again.objective_ == pytest.approx(found.objective_, rel=1e-5)
    assert loss(found.policy_) < loss(policy)
    given = DoublyRobustDRO(safe=False).fit(*rows, logging_policy=policy)
    assert given.cost_model_.logging_policy is policy


def test_the_value_with_support_is_that_of_the_model_with_support(logged, random_policy):
    log, policy, logging = logged(5), random_policy(6), random_policy(7, scale=3.0)
    model = CostModel(0.1).fit_log(log)
    made = SupportedModel.of(model, log, logging, 0.3)
    for estimate in ("dr", "dm"):
        arguments = policy, log, estimate
        with_support = off_policy_value(*arguments, cost_model=model, support=0.3, logging_policy=logging)
        assert with_support == off_policy_value(*arguments, cost_model=made)
        assert with_support == off_policy_value(*arguments, cost_model=made.with_support(0.1), support=0.3)
        assert with_support > off_policy_value(*arguments, cost_model=model)
    fitted = {"cost_model": CostModel().fit_log(log), "logging_policy": clone_behaviour(log)}
    assert off_policy_value(*arguments, support=0.3) == off_policy_value(*arguments, support=0.3, **fitted)


def test_what_a_policy_has_without_support(logged, random_policy):
    log, policy, logging = logged(8), random_policy(9, scale=2.0), random_policy(10, scale=2.0)
    found = policy_support(policy, log, logging, 0.4)
    mu, known = policy.marginals(log.X), logging.marginals(log.X)
    rows = log.context
    missing = np.where(known < 0.2, mu, 0) + np.where(known > 0.8, 1 - mu, 0)
    assert found.mass_by_action == pytest.approx(missing[rows].mean(axis=0), rel=1e-12)
    assert found.mass == pytest.approx(found.mass_by_action.sum(), rel=1e-12)
    ratio = np.where(log.Y, mu[rows] / known[rows], (1 - mu[rows]) / (1 - known[rows])).mean(axis=0)
    assert found.mean_weight_by_action == pytest.approx(ratio, rel=1e-12)
    weight = np.exp(policy.log_prob(log.X, log.Y, log.context)) / log.propensity
    assert found.mean_weight == pytest.approx(weight.mean(), rel=1e-12)
    assert policy_support(policy, log).mass == policy_support(policy, log, clone_behaviour(log)).mass


def test_what_a_policy_over_actions_has_without_support():
    given = Choices.drawn(4, actions=4, contexts=20, rows=200)
    rng = np.random.default_rng(1)
    theta, logging = 2 * rng.normal(size=(2, 4, 4))
    pi, known = given.probabilities(theta), given.probabilities(logging)
    share = np.bincount(given.context, given.count, 20) / given.count.sum()
    missing = np.where(known < 0.3 / given.eligible.sum(axis=1, keepdims=True), pi, 0)
    weight = given.of_rows(pi) / given.propensity
    of_action = np.bincount(given.A, given.count * weight, 4) / given.count.sum()
    single = policy_support(SoftmaxPolicy(theta), given.single(), SoftmaxPolicy(logging), 0.3)
    listed = policy_support(SoftmaxPolicy(theta.ravel()), given.listed(), SoftmaxPolicy(logging.ravel()), 0.3)
    assert single.mass_by_action == pytest.approx(share @ missing, rel=1e-12)
    assert single.mean_weight_by_action == pytest.approx(of_action / (share @ pi), rel=1e-12)
    assert [single.mass, single.mean_weight] == pytest.approx([listed.mass, listed.mean_weight], rel=1e-12)


@pytest.mark.parametrize("support", [-0.1, 1.5, np.nan, "0.05", None])
def test_a_support_that_is_none(logged, support):
    log = logged()
    with pytest.raises(InputError, match=r"support is .*, expected a number from 0 to 1"):
        DoublyRobustDRO(support=support).fit(log.X, log.Y, log.propensity, log.cost, log.context)
    with pytest.raises(InputError, match=r"support is .*, expected a number from 0 to 1"):
        off_policy_value(ExponentialPolicy(np.zeros((4, 2))), log, support=support)


def test_a_logging_policy_of_other_features(logged):
    log = logged()
    other = ExponentialPolicy(np.zeros((3, 2)))
    with pytest.raises(InputError, match=r"the logging policy's coef has shape \(3, 2\), expected \(4, 2\)"):
        drcrm.CIPS(estimate="dr").fit(log.X, log.Y, log.propensity, log.cost, log.context, logging_policy=other)
