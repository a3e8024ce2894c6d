"""Exploration (1 − ε) π + ε U and mixtures of policies, against sums over all actions."""

from itertools import product

import numpy as np
import pytest
from fixtures.action_logs import block_log, random_coef, random_effects

from drcrm import ActionLists, BanditLog, ExponentialPolicy, SoftmaxPolicy, off_policy_value
from drcrm.cost_models.base import TabularModel
from drcrm.errors import InputError
from drcrm.logging_policy import LoggingPolicy
from drcrm.policies.base import MixturePolicy
from drcrm.policies.prepared_log import select_occurring

M, EXPLORE = 5, 0.3
VECTORS = np.array(list(product([0, 1], repeat=3)))
SIZES = [2, 3, 1, 4, 2]
ELIGIBLE = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1], [1, 0, 0], [1, 1, 1]], dtype=bool)
KINDS = ["labels", "single", "eligible", "lists"]
every_kind = pytest.mark.parametrize("kind", KINDS)
WEIGHTS = np.array([0.2, 0.5, 0.3])
KINDS = ["labels", "single", "eligible", "lists"]
pytestmark = pytest.mark.filterwarnings("ignore:the (estimate by|mean weight)")


def make_case(kind: str):
    """Return a policy, its contexts, keyword arguments, and the actions of each context as rows of an array."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(M, 4))
    if kind == "labels":
        return ExponentialPolicy(rng.normal(size=(4, 3))), X, {}, [VECTORS] * M
    if kind == "lists":
        lists = ActionLists(rng.normal(size=(sum(SIZES), 4)), np.cumsum([0, *SIZES]))
        return SoftmaxPolicy(3 * rng.normal(size=4)), lists, {}, [np.arange(size) for size in SIZES]
    eligible = ELIGIBLE if kind == "eligible" else np.ones_like(ELIGIBLE)
    options = {"eligible": eligible} if kind == "eligible" else {}
    return SoftmaxPolicy(rng.normal(size=(4, 3))), X, options, [np.flatnonzero(row) for row in eligible]


def law(policy, X, options, actions) -> list[np.ndarray]:
    """Return the probabilities of all actions of each context, by the policy's ``log_prob``."""
    context = np.repeat(np.arange(M), [len(part) for part in actions])
    probability = np.exp(policy.log_prob(X, np.concatenate(actions), context, **options))
    return np.split(probability, np.flatnonzero(np.diff(context)) + 1)


@every_kind
@pytest.mark.parametrize("explore", [0.02, EXPLORE, 1.0])
def test_the_mixture_is_that_of_the_laws(kind, explore):
    policy, *case = make_case(kind)
    mixed = law(policy.with_exploration(explore), *case)
    for known, probability in zip(law(policy, *case), mixed, strict=True):
        np.testing.assert_allclose(probability, (1 - explore) * known + explore / len(known), rtol=1e-12)
        assert probability.sum() == pytest.approx(1, abs=1e-12)
    X, options, actions = case
    mean = policy.with_exploration(explore).marginals(X, **options)
    if kind == "labels":
        np.testing.assert_allclose(mean, np.array(mixed) @ VECTORS, rtol=1e-12)
    elif kind == "lists":
        np.testing.assert_allclose(mean, np.concatenate(mixed), rtol=1e-12)
    else:
        np.testing.assert_allclose([row[part] for row, part in zip(mean, actions, strict=True)][1], mixed[1])
        assert mean.sum() == pytest.approx(M)
    np.testing.assert_array_equal(policy.greedy(X, **options), policy.with_exploration(explore).greedy(X, **options))


@every_kind
@pytest.mark.parametrize("explore", [0.0, EXPLORE])
@pytest.mark.parametrize("greedy", [False, True])
def test_draws_have_the_frequencies_and_the_probabilities_of_the_mixture(kind, explore, greedy):
    """Binomial: no frequency is 4.5 standard errors from its probability."""
    policy, X, options, actions = make_case(kind)
    explored, draws = policy.with_exploration(explore), 4000
    many = np.repeat(np.arange(M), draws)
    if options:
        drawn, probability = explored.sample(X[many], 1, options["eligible"][many]), None
    else:
        drawn, probability = explored.draw(X[many], 1, greedy)
    expected = law(explored, X, options, actions)
    for row, part in enumerate(actions):
        exact = expected[row]
        if greedy and not options:
            best = (part == policy.greedy(X)[row]).reshape(len(part), -1).all(axis=1)
            exact = (1 - explore) * best + explore / len(part)
        same = (drawn[many == row][:, None] == part).reshape(draws, len(part), -1).all(axis=2)
        error = np.sqrt(exact * (1 - exact) / draws)
        assert np.all(np.abs(same.mean(axis=0) - exact) <= 4.5 * error + 1e-12)
        if probability is not None:
            np.testing.assert_allclose(probability[many == row], same @ exact, rtol=1e-12)


@pytest.mark.parametrize("kind", ["labels", "single"])
def test_one_draw_is_like_a_draw_of_several(kind):
    policy, X, *_ = make_case(kind)
    policy = policy.with_exploration(EXPLORE)
    for seed in range(200):
        action, probability = policy.actions.draw_one(
            policy.decision_function(X[:1])[0], np.random.default_rng(seed), EXPLORE
        )
        [expected], [expected_probability] = policy.draw(X[:1], seed)
        assert np.array_equal(action, expected)
        assert probability == pytest.approx(expected_probability, rel=1e-12)


def make_log(kind: str, seed: int = 2) -> tuple[BanditLog, object, list]:
    policy, X, _, actions = make_case(kind)
    rng = np.random.default_rng(seed)
    context = rng.integers(0, M, 40)
    Y = np.array([actions[row][rng.integers(len(actions[row]))] for row in context])
    count = np.where(context == 1, 0, rng.integers(0, 3, 40))
    return BanditLog(X, Y, rng.uniform(0.1, 1, 40), rng.normal(size=40), context, count), policy, actions


@pytest.mark.parametrize("explore", [0.0, EXPLORE])
@pytest.mark.parametrize("kind", ["labels", "single", "lists"])
def test_a_log_has_the_probabilities_of_its_rows_and_the_expected_costs_of_its_contexts(kind, explore):
    whole, policy, actions = make_log(kind)
    mixed, log, X = policy.with_exploration(explore), whole.without_empty_rows(), whole.actions.unbind(whole.X)
    of_rows = mixed.log_prob(X, whole.Y, whole.context)[whole.count > 0]
    np.testing.assert_allclose(mixed.log_prob_of_rows(log), of_rows, rtol=1e-12)
    np.testing.assert_allclose(mixed.marginals_on(whole.X, whole.actions), mixed.marginals(X), rtol=1e-12)
    effects = np.random.default_rng(4).normal(size=(whole.X.shape[0], *log.actions.effect_shape))
    kept, components = select_occurring(effects, whole), mixed.components(log.X, log.actions, "")
    expected = sum(share * log.actions.expected_cost(mean, kept) for share, mean in components)
    for number, context in enumerate(np.unique(whole.context[whole.count > 0])):
        if kind == "labels":
            costs = actions[context] @ effects[context, :-1] + effects[context, -1]
        else:
            costs = np.split(effects, np.cumsum(SIZES)[:-1])[context] if kind == "lists" else effects[context]
        assert expected[number] == pytest.approx(law(mixed, X, {}, actions)[context] @ costs, rel=1e-12)


def test_the_probability_of_unsupported_label_vectors_is_that_of_the_mixture():
    """Labels of the mixture are not independent, so products of its marginals would be wrong."""
    log, policy, _ = make_log("labels")
    mixed, rng = policy.with_exploration(EXPLORE), np.random.default_rng(5)
    logging_policy = ExponentialPolicy(6 * rng.normal(size=(4, 3)))
    mass, _ = LoggingPolicy(logging_policy, 0.5).find_unsupported(log, mixed.components(log.X, log.actions, ""))
    logging_mean = logging_policy.marginals(log.X)
    is_rare = np.where(VECTORS[:, None] == 1, logging_mean < 0.25, 1 - logging_mean < 0.25).any(axis=2)
    expected = [
        probability @ rare for probability, rare in zip(law(mixed, log.X, {}, [VECTORS] * M), is_rare.T, strict=True)
    ]
    assert 0.05 < np.mean(is_rare) < 0.95
    np.testing.assert_allclose(mass, expected, rtol=1e-12)


@pytest.mark.parametrize("explore", [-0.1, 1.1, np.nan, "x", None])
def test_the_share_must_be_a_probability(explore):
    with pytest.raises(InputError, match="explore is"):
        SoftmaxPolicy(np.zeros((2, 2))).with_exploration(explore)


def policies_for(log, explore: float = 0.1) -> list:
    kind = ExponentialPolicy if not log.actions.are_choices else SoftmaxPolicy
    return [kind(random_coef(log, seed) / 2).with_exploration(explore) for seed in range(3)]


@pytest.fixture(params=KINDS)
def log(request):
    return block_log(request.param)


def test_probabilities_are_weighted_means(log):
    policies, X = policies_for(log), log.actions.unbind(log.X)
    mixture, known = MixturePolicy(policies, WEIGHTS), {}
    if log.actions.eligible is not None:
        known["eligible"] = log.actions.eligible
    expected = np.tensordot(WEIGHTS, [policy.marginals(X, **known) for policy in policies], 1)
    assert mixture.marginals(X, **known) == pytest.approx(expected, rel=1e-12)
    assert mixture.marginals_on(log.X, log.actions) == pytest.approx(expected, rel=1e-12)
    of_rows = WEIGHTS @ np.exp([policy.log_prob(X, log.Y, log.context, **known) for policy in policies])
    for log_prob in (mixture.log_prob(X, log.Y, log.context, **known), mixture.log_prob_of_rows(log)):
        assert np.exp(log_prob) == pytest.approx(of_rows, rel=1e-9)


def test_drawn_actions_have_their_probabilities(log):
    """With exploration ε, a greedy draw has the probability 1 − ε + ε U, or ε U for other actions."""
    policies = policies_for(log, 0.0)
    mixture = MixturePolicy(policies, WEIGHTS).with_exploration(0.3)
    X = log.actions.unbind(log.X)
    assert mixture.explore == pytest.approx(0.3, abs=1e-12)
    action, propensity = mixture.draw(X, 0)
    expected = WEIGHTS @ np.exp([policy.with_exploration(0.3).log_prob(X, action) for policy in policies])
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
    policies = policies_for(block_log("single"))
    assert MixturePolicy(policies, [0, 1, 0]).policies == policies[1:2]


@pytest.mark.parametrize(
    ("features", "weights", "message"),
    [
        ((2, 2, 2), [0.5, 0.5, 0.5], "weights"),
        ((2, 2, 2), [-0.5, 1.0, 0.5], "weights"),
        ((2, 2, 2), [1.0, 0.0, np.nan], "weights"),
        ((2, 3), [0.5, 0.5], "the policies of a mixture have different actions or features"),
    ],
)
def test_other_policies_and_weights_are_refused(features, weights, message):
    with pytest.raises(InputError, match=message):
        MixturePolicy([SoftmaxPolicy(np.zeros((d, 2))) for d in features], weights)
