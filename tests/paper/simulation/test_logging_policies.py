"""Logging policies that are functions of a CRF's probabilities, against formulas written out here."""

import numpy as np
import pytest
from fixtures.pipeline import LOG, run_chain
from scipy.special import expit, softmax

from drcrm.bench.simulated_policies import Softmax
from drcrm.errors import InputError
from drcrm.files import read_npz
from drcrm.paper.array_files import read_policy, read_truth
from drcrm.paper.simulation.logging_policies import closest_policy, function_of_crf, with_probabilities
from drcrm.paper.simulation.replay import replay
from drcrm.policies.exponential import ExponentialPolicy, SoftmaxPolicy
from drcrm.selection.registry.algorithms import Algorithm
from drcrm.selection.training_costs import fit_cost_model

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(200, 3)), np.ones(200)])
COEF = RNG.normal(size=(4, 5))


def greedy(probability: np.ndarray) -> np.ndarray:
    return np.eye(probability.shape[1])[probability.argmax(axis=1)]


SINGLE = softmax(X @ COEF, axis=1)
LABELS = expit(X @ COEF)


@pytest.mark.parametrize(
    ("value", "of_actions", "of_labels"),
    [
        ("uniform", np.full((200, 5), 0.2), np.full((200, 5), 0.5)),
        ({"epsilon_greedy": {"epsilon": 0.1}}, 0.9 * greedy(SINGLE) + 0.02, 0.9 * (LABELS > 0.5) + 0.05),
        ({"epsilon_greedy": {"epsilon": 0}}, greedy(SINGLE), LABELS > 0.5),
        ({"softmax": {"temperature": 0.25}}, softmax(4 * SINGLE, axis=1), expit(4 * (2 * LABELS - 1))),
    ],
)
def test_probabilities_of_actions_and_labels(value, of_actions, of_labels):
    """The best action of a CRF keeps its probability under epsilon_greedy, and a label is decided by itself."""
    single, labels = (function_of_crf(policy(COEF), value) for policy in (SoftmaxPolicy, ExponentialPolicy))
    np.testing.assert_allclose(single.marginals(X), of_actions, atol=1e-12)
    np.testing.assert_allclose(labels.marginals(X), of_labels, atol=1e-12)
    Y = RNG.integers(2, size=(200, 5))
    expected = np.where(Y, of_labels, 1 - of_labels).prod(axis=1)
    np.testing.assert_allclose(np.exp(labels.log_prob(X, Y)), expected, atol=1e-12)


def test_unsupported_actions_are_never_logged():
    policy = function_of_crf(SoftmaxPolicy(COEF), {"softmax": {"unsupported": 0.4}})
    is_missing = policy.marginals(X).max(axis=0) == 0
    assert is_missing.sum() == 2
    log = replay(policy, X, RNG.integers(5, size=200), 5, np.random.default_rng(0))
    assert not is_missing[log.Y].any()
    np.testing.assert_allclose(log.propensity, policy.marginals(X)[log.context, log.Y])


def test_a_users_class_gets_contexts_without_the_constant(tmp_path, monkeypatch):
    (tmp_path / "own_logging.py").write_text(
        "import numpy as np\n\n\nclass BySign:\n    def __call__(self, X, scores):\n"
        "        assert X.shape[1] == 3\n        first = np.where(X[:, 0] > 0, 0.9, 0.1)[:, None]\n"
        "        rest = np.repeat((1 - first) / (scores.shape[1] - 1), scores.shape[1] - 1, axis=1)\n"
        "        return np.hstack([first, rest])\n\n\n"
        "class Broken(BySign):\n    def __call__(self, X, scores):\n        return scores + 1\n"
    )
    monkeypatch.chdir(tmp_path)
    policy = function_of_crf(SoftmaxPolicy(COEF), "own_logging:BySign")
    np.testing.assert_allclose(policy.marginals(X)[:, 0], np.where(X[:, 0] > 0, 0.9, 0.1))
    labels = function_of_crf(ExponentialPolicy(COEF), "own_logging:BySign")
    np.testing.assert_allclose(labels.marginals(X)[:, 2], np.where(X[:, 0] > 0, 0.1, 0.9))
    with pytest.raises(InputError, match="probabilities of shape"):
        function_of_crf(SoftmaxPolicy(COEF), "own_logging:Broken").marginals(X)


def test_a_temperature_is_an_inverse_sharpness():
    scores = RNG.normal(size=(7, 3))
    np.testing.assert_array_equal(Softmax(temperature=0.5)(X[:7], scores), Softmax(2)(X[:7], scores))
    np.testing.assert_array_equal(Softmax(temperature=-1)(X[:7], scores), Softmax(-1)(X[:7], scores))


def log_of(policy, X, count=1):
    """Return a log of a policy, with its probabilities of all actions."""
    log = replay(policy, X, RNG.integers(5, size=len(X)), count, np.random.default_rng(0))
    return with_probabilities(log, policy)


def test_fits_start_at_the_closest_policy_to_the_known_probabilities():
    """One-hot contexts have a coefficient for each probability, and a constant has that of their mean."""
    value = {"epsilon_greedy": {"epsilon": 0.3}}
    greedy_policy = function_of_crf(SoftmaxPolicy(COEF[:4]), value)
    of_context = np.column_stack([np.eye(3), np.ones(3)])
    exact = closest_policy(log_of(greedy_policy, np.repeat(of_context, 20, axis=0)))
    np.testing.assert_allclose(exact.marginals(of_context), greedy_policy.marginals(of_context), atol=1e-4)
    log = log_of(greedy_policy, X)
    ones = log.replace(X=np.ones((len(X), 1)))
    mean = log.actions.logging_mean.mean(axis=0)
    np.testing.assert_allclose(closest_policy(ones).marginals(np.ones((1, 1)))[0], mean, atol=1e-5)
    uniform = closest_policy(log_of(function_of_crf(SoftmaxPolicy(COEF), "uniform"), X))
    np.testing.assert_array_equal(uniform.coef, 0)


def test_the_closest_policy_to_a_crf_is_the_crf():
    """A softmax of scores x·B is linear; labels with the same log-odds, too."""

    class Linear:
        n_features = 4

        def __init__(self, crf):
            self.crf = crf

        def __call__(self, contexts):
            return self.crf.decision_function(contexts)

    for kind in (SoftmaxPolicy, ExponentialPolicy):
        policy = kind(np.eye(5), features=Linear(kind(COEF)))
        labels = RNG.integers(2, size=(200, 5)) if kind is ExponentialPolicy else RNG.integers(5, size=200)
        log = replay(policy, X, labels, 1, np.random.default_rng(0))
        log = with_probabilities(log, policy)
        np.testing.assert_allclose(closest_policy(log).marginals(X), kind(COEF).marginals(X), atol=2e-3)


def test_fits_know_which_actions_another_logging_policy_never_takes(tmp_path):
    """The support of the known probabilities decides, not that of a policy with coefficients."""
    policy = function_of_crf(SoftmaxPolicy(COEF), {"softmax": {"sharpness": 3, "unsupported": 0.4}})
    log = log_of(policy, X, 4)
    algorithm = Algorithm.of_entry({"estimator": "CIPS", "options": {"estimate": "dr", "start": "model"}})
    model, _ = fit_cost_model(log, algorithm, logging_policy=closest_policy(log))
    assert model.logging.is_cloned
    is_missing = policy.marginals(X) < 0.05 / 5
    assert is_missing.any(axis=0).sum() >= 2
    assert (model.effects(log.X, log.actions)[is_missing] == log.cost.max()).all()
    supported = model.model.effects(log.X, log.actions).clip(log.cost.min(), log.cost.max())
    np.testing.assert_array_equal(model.effects(log.X, log.actions)[~is_missing], supported[~is_missing])


def test_all_steps_run_with_another_logging_policy(tmp_path):
    """The log has its propensities, and fits and certificates use it."""
    run_chain(tmp_path, seed=0, logging={"epsilon_greedy": {"epsilon": 0.3}})
    contexts, truth = read_truth(tmp_path / "train.npz")
    mean = 0.7 * (expit(contexts @ read_npz(tmp_path / "logging.npz", ["coef"])["coef"]) > 0.5) + 0.15
    np.testing.assert_allclose(read_policy(tmp_path / "logging.npz", truth.actions).marginals(contexts), mean)
    log = read_npz(tmp_path / "replay4/log.npz", LOG)
    expected = np.where(log["Y"], mean[log["context"]], 1 - mean[log["context"]]).prod(axis=1)
    np.testing.assert_allclose(log["propensity"], expected)
