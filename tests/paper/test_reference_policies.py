"""CRFs and softmax regressions as logging policies and skylines, functions of them, and classifiers of logged rows."""

import numpy as np
import pytest
from fixtures.pipeline import LOG, run_chain
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from drcrm import KLDRO, BanditLog
from drcrm.bench.simulated_policies import Softmax
from drcrm.errors import InputError
from drcrm.files import read_npz
from drcrm.logging_policy import LoggingPolicy
from drcrm.paper.array_files import read_policy, read_truth
from drcrm.paper.reference_policies import (
    UNSEEN,
    action_probabilities,
    choose_by_greedy_loss,
    closest_policy,
    competitor_probabilities,
    fit_crf,
    fit_skyline,
    fit_softmax,
    function_of_crf,
    with_probabilities,
)
from drcrm.paper.simulation import LabelTruth, as_truth, replay
from drcrm.policies.classifier_policy import row_weights
from drcrm.policies.exponential import ExponentialPolicy, SoftmaxPolicy
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.heldout_scores import fit_cost_model

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(200, 3)), np.ones(200)])
COEF = RNG.normal(size=(4, 5))


@pytest.fixture
def data(labelled):
    """Return 120 contexts with three labels; some features are 0."""
    return labelled(n=120, features=5, labels=3, density=0.7)


@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_equals_logistic_regression(C, make, data):
    X, labels = data
    coef = fit_crf(make(X), labels, C).coef
    for column, positive in zip(coef.T, labels.T, strict=True):
        expected = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10000).fit(X, positive).coef_[0]
        assert column == pytest.approx(expected, abs=2e-5)  # crfsuite prints weights to 6 decimals


def test_labels_that_are_never_or_always_positive_are_certain(data):
    X, labels = data
    labels[:, 1], labels[:, 2] = 0, 1
    policy = fit_crf(X, labels, 1.0)
    assert policy.coef[:, 1].tolist() == [0, 0, 0, 0, -1000]
    assert policy.coef[:, 2].tolist() == [0, 0, 0, 0, 1000]
    assert policy.marginals(X)[:, 1:].tolist() == [[0, 1]] * len(X)
    assert LabelTruth(labels).absent().tolist() == [False, True, False]


def test_features_for_which_crfsuite_stays_at_zero_are_an_error(data):
    X, labels = data
    X = X * [1000.0, 1, 1, 1, 1]
    message = r"the CRF does not move from 0: features reach [\d.]+e\+03; scale the features"
    with pytest.raises(InputError, match=message):
        fit_crf(X, labels, 0.1)
    with pytest.raises(InputError, match=message):
        fit_skyline(X, labels, X, labels, [0.1, 1.0])


@pytest.fixture
def classified():
    """Return 90 contexts, whose last feature is constant, with three classes."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(90, 3)), np.ones(90)])
    return X, (X @ rng.normal(size=(4, 3)) + rng.gumbel(size=(90, 3))).argmax(axis=1)


def minimised(X: np.ndarray, classes: np.ndarray, C: float, K: int) -> np.ndarray:
    """Minimise C Σ −log π(a*|x) + ½ ‖Θ‖² over Θ (d, K); the row of the constant has no penalty."""

    def objective(flat):
        coef = flat.reshape(-1, K)
        fit = log_softmax(X @ coef, axis=1)[np.arange(len(X)), classes].sum()
        return -C * fit + 0.5 * (coef[:-1] ** 2).sum() + 1e-9 * (coef[-1] ** 2).sum()

    return minimize(objective, np.zeros(X.shape[1] * K), tol=1e-10).x.reshape(-1, K)


@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_minimises_the_regularised_likelihood_without_a_penalty_on_the_constant(C, make, classified):
    X, classes = classified
    coef = fit_softmax(make(X), classes, 3, C).coef
    assert coef == pytest.approx(minimised(X, classes, C, 3), abs=1e-3)


def test_a_class_without_a_context_keeps_support(classified):
    """It does not take part in the fit of the other classes."""
    X, classes = classified
    places = np.array([0, 3, 2])  # no context has class 1
    coef = fit_softmax(X, places[classes], 4, 1.0).coef
    assert coef[:, 1].tolist() == [0, 0, 0, UNSEEN]
    assert coef[:, places] == pytest.approx(fit_softmax(X, classes, 3, 1.0).coef, abs=1e-4)


def test_contexts_of_a_single_class(classified):
    X, _ = classified
    coef = fit_softmax(X, np.full(90, 2), 3, 1.0).coef
    assert not coef[:-1].any()
    assert coef[-1].tolist() == [UNSEEN, UNSEEN, 0]


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
    model, _ = fit_cost_model(log, algorithm, logging=LoggingPolicy.of(closest_policy(log), log))
    assert model.logging.is_approximate
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


def test_the_choice_of_C_stops_when_the_loss_rises():
    """Errors 3, 1, 1, 2, 0: the last value is not tried, and the first of equal ones wins."""
    errors, tried = {0.01: 3, 0.1: 1, 1.0: 1, 10.0: 2, 100.0: 0}, []

    class Planted:
        def __init__(self, C):
            tried.append(C)
            self.C = C

        def greedy(self, X):
            return (np.arange(4) < errors[self.C]).astype(int)

    best, C = choose_by_greedy_loss(Planted, list(errors), np.ones((4, 1)), np.zeros(4, dtype=int))
    assert (tried, C, best.C) == ([0.01, 0.1, 1.0, 10.0], 0.1, 0.1)


CHOICES_LOG = BanditLog(np.eye(3), [0, 2, 2], [0.5, 0.001, 0.25], [-1.0, -0.5, 0.5], count=[1, 2, 3], n_actions=4)


def test_weights_are_distances_from_the_largest_cost_divided_by_the_propensity():
    """At most 100 for each occurrence of a row."""
    assert row_weights(CHOICES_LOG, "none").tolist() == [1.5, 2, 0]
    assert row_weights(CHOICES_LOG, "inverse_propensity").tolist() == [3, 200, 0]


@pytest.mark.parametrize("classifier", ["linear", "trees"])
def test_an_action_without_a_rewarded_row_has_probability_0(classifier):
    probability = action_probabilities(CHOICES_LOG, np.eye(3), classifier, "none", 0)
    assert (probability[:, [1, 3]] == 0).all()
    assert probability.sum(axis=1) == pytest.approx(np.ones(3))


def test_a_single_rewarded_action_is_certain():
    log = BanditLog(np.eye(2), [1, 0], [0.5, 0.5], [-1.0, 0.0], n_actions=3)
    assert action_probabilities(log, np.ones((2, 2)), "linear", "none", 0).tolist() == [[0, 1, 0]] * 2


def test_equal_costs_are_an_error():
    log = BanditLog(np.eye(2), [1, 0], [0.5, 0.5], [-1.0, -1.0], n_actions=3)
    with pytest.raises(InputError, match="costs must differ to weight the rows, but every logged cost is -1"):
        action_probabilities(log, np.ones((2, 2)), "linear", "none", 0)


def test_a_competitor_of_actions_gets_every_logged_row():
    """Rows occur once, twice and three times; two rows of action 2 are cheaper than 0."""
    probability = competitor_probabilities(
        CHOICES_LOG, np.eye(3), {"fixtures.user_input:Frequencies": {"largest_cost": -0.2}}, 0
    )
    assert probability == pytest.approx(np.tile([1 / 3, 0, 2 / 3, 0], (3, 1)))
    assert competitor_probabilities(CHOICES_LOG, np.eye(3), "fixtures.user_input:Frequencies", 0)[0] == pytest.approx(
        [1 / 6, 0, 5 / 6, 0]
    )


def test_a_competitor_of_labels_has_the_losses_of_its_probabilities():
    labels = np.array([[0, 1], [1, 1], [1, 0], [1, 0]])
    log = BanditLog(np.eye(4), labels, np.full(4, 0.25), [-1.0, -2.0, -1.0, 0.0])
    probability = competitor_probabilities(log, np.eye(4), "fixtures.user_input:Frequencies", 0)
    assert probability == pytest.approx(np.tile([0.75, 0.5], (4, 1)))
    losses = as_truth(labels).losses_of_probabilities(probability)
    assert losses == pytest.approx({"expected_loss": (1.25 + 0.75 + 3 * 0 + 0.75 + 0.75) / 4, "greedy_loss": 3 / 4})


def test_an_estimator_of_drcrm_can_be_a_competitor():
    """It knows actions 0 to 2, because action 3 was not logged."""
    X, rows = np.ones((3, 1)), np.repeat(np.arange(3), CHOICES_LOG.count)
    log = CHOICES_LOG.replace(X=X, propensity=np.full(3, 0.25))
    probability = competitor_probabilities(log, X, {"drcrm:KLDRO": {"radius": 0.1}}, 0)
    logged = {"propensity": log.propensity[rows], "cost": log.cost[rows]}
    fitted = KLDRO(radius=0.1).fit(X[rows], log.Y[rows], **logged)
    np.testing.assert_array_equal(probability, np.column_stack([fitted.predict_proba(X), np.zeros(3)]))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("TooLarge", "probabilities must be from 0 to 1, and those of K actions must add up to 1"),
        ("NarrowMarginals", "probabilities have shape"),
        ("Missing", "has no attribute 'Missing'"),
    ],
)
def test_a_competitor_with_a_fault_is_an_error(name, message):
    labels = np.array([[0, 1], [1, 1], [1, 0], [1, 0]])
    log = BanditLog(np.eye(4), labels, np.full(4, 0.25), [-1.0, -2.0, -1.0, 0.0])
    with pytest.raises(InputError, match=message):
        competitor_probabilities(log, np.eye(4), f"fixtures.user_input:{name}", 0)
