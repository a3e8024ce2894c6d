"""The CRF, compared with logistic regression, which it equals, and the softmax regression with its objective."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from drcrm import ExponentialPolicy
from drcrm.errors import InputError
from drcrm.paper.simulation.skylines import UNSEEN, fit_crf, fit_skyline, fit_softmax
from drcrm.paper.simulation.truth import LabelTruth


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


def test_skyline_is_the_best_of_the_grid_on_the_heldout_part(labelled):
    X, labels = labelled(1, n=200, features=5, labels=3, density=0.7)
    grid = [0.001, 0.1, 10.0]
    policy, C = fit_skyline(X[:100], labels[:100], X[100:], labels[100:], grid)
    truth = LabelTruth(labels[100:])
    losses = {value: truth.losses(fit_crf(X[:100], labels[:100], value), X[100:])["greedy_loss"] for value in grid}
    assert losses[C] == min(losses.values())
    assert policy.coef == pytest.approx(fit_crf(X[:100], labels[:100], C).coef, abs=2e-5)
    assert losses[C] < truth.losses(ExponentialPolicy(np.zeros((5, 3))), X[100:])["greedy_loss"]


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
