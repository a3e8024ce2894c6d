"""The CRF, compared with logistic regression, which it equals."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from drcrm import ExponentialPolicy
from drcrm.errors import InputError
from drcrm.experiments.simulation.skylines import fit_crf, fit_skyline
from drcrm.experiments.simulation.truth import LabelTruth


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
