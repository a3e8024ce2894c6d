"""The mixture (1 − ε) π + ε U against sums over all actions, for label vectors, one of K and lists of actions."""

from itertools import product

import numpy as np
import pytest

from drcrm import ActionLists, BanditLog, ExponentialPolicy, SoftmaxPolicy
from drcrm.errors import InputError
from drcrm.logging_policy import LoggingPolicy
from drcrm.policies.prepared_log import PreparedLog, importance_weights, select_occurring

M, EXPLORE = 5, 0.3
VECTORS = np.array(list(product([0, 1], repeat=3)))
SIZES = [2, 3, 1, 4, 2]
ELIGIBLE = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1], [1, 0, 0], [1, 1, 1]], dtype=bool)
KINDS = ["labels", "single", "eligible", "lists"]
every_kind = pytest.mark.parametrize("kind", KINDS)


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
def test_an_evaluation_has_the_values_of_the_rows_and_contexts_that_occur(kind, explore):
    whole, policy, actions = make_log(kind)
    mixed, log = policy.with_exploration(explore), whole.without_empty_rows()
    effects = np.random.default_rng(4).normal(size=(whole.X.shape[0], *log.actions.effect_shape))
    kept = select_occurring(effects, whole)
    prepared, log_prob = PreparedLog(log, kept), mixed.log_prob_of_rows(log)
    X, occurs = whole.actions.unbind(whole.X), whole.count > 0
    of_rows = mixed.log_prob(X, whole.Y, whole.context)[occurs]
    np.testing.assert_allclose(log_prob, of_rows, rtol=1e-12)
    np.testing.assert_allclose(importance_weights(log_prob, log), np.exp(of_rows) / log.propensity, rtol=1e-12)
    components = mixed.components(log.X, log.actions, "")
    expected = sum(share * log.actions.expected_cost(mean, kept) for share, mean in components)
    contexts = np.unique(whole.context[occurs])
    assert 1 not in contexts
    for number, (context, probability) in enumerate(
        zip(contexts, [law(mixed, X, {}, actions)[context] for context in contexts], strict=True)
    ):
        if kind == "labels":
            costs = actions[context] @ effects[context, :-1] + effects[context, -1]
        else:
            costs = np.split(effects, np.cumsum(SIZES)[:-1])[context] if kind == "lists" else effects[context]
        assert expected[number] == pytest.approx(probability @ costs, rel=1e-12)
        rows = np.flatnonzero(log.context == number)
        place = [np.flatnonzero((actions[context] == y).reshape(len(costs), -1).all(axis=1))[0] for y in log.Y[rows]]
        assert prepared.modelled_cost[rows] == pytest.approx(costs[place], rel=1e-12)
    np.testing.assert_allclose(mixed.marginals_on(whole.X, whole.actions), mixed.marginals(X), rtol=1e-12)


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
