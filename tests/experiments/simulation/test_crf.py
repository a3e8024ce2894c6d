"""The CRF against logistic regression, which it equals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from drcrm import ExponentialPolicy
from drcrm.errors import InputError
from drcrm.experiments.simulation.crf import absent_labels, fit_crf, fit_skyline
from drcrm.experiments.simulation.losses import greedy_hamming


@pytest.fixture
def data(labelled):
    """120 contexts with three labels, some of whose features are 0."""
    return labelled(n=120, features=5, labels=3, density=0.7)


@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_equals_logistic_regression(C, make, data):
    X, labels = data
    coef = fit_crf(make(X), labels, C).coef
    for column, positive in zip(coef.T, labels.T, strict=True):
        expected = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10000).fit(X, positive).coef_[0]
        assert column == pytest.approx(expected, abs=2e-5)  # crfsuite prints weights to 6 decimals


def test_duplicate_entries_of_csr_are_added(data):
    """As the policy's own products do."""
    X, labels = data
    halves = sparse.csr_array(X)
    twice = sparse.csr_array(
        (np.repeat(halves.data / 2, 2), np.repeat(halves.indices, 2), 2 * halves.indptr), shape=X.shape
    )
    assert not twice.has_canonical_format
    assert np.array_equal(fit_crf(twice, labels, 1.0).coef, fit_crf(X, labels, 1.0).coef)
    assert twice.nnz == 2 * halves.nnz


def test_labels_that_are_never_or_always_positive_are_certain(data):
    X, labels = data
    labels[:, 1], labels[:, 2] = 0, 1
    policy = fit_crf(X, labels, 1.0)
    assert policy.coef[:, 1].tolist() == [0, 0, 0, 0, -1000]
    assert policy.coef[:, 2].tolist() == [0, 0, 0, 0, 1000]
    assert policy.marginals(X)[:, 1:].tolist() == [[0, 1]] * len(X)
    assert absent_labels(labels).tolist() == [False, True, False]


def test_skyline_is_the_best_of_the_grid_on_the_heldout_part(labelled):
    X, labels = labelled(1, n=200, features=5, labels=3, density=0.7)
    grid = [0.001, 0.1, 10.0]
    policy, C = fit_skyline(X[:100], labels[:100], X[100:], labels[100:], grid)
    losses = {each: greedy_hamming(fit_crf(X[:100], labels[:100], each), X[100:], labels[100:]) for each in grid}
    assert losses[C] == min(losses.values())
    assert policy.coef == pytest.approx(fit_crf(X[:100], labels[:100], C).coef, abs=2e-5)
    assert losses[C] < greedy_hamming(ExponentialPolicy(np.zeros((5, 3))), X[100:], labels[100:])


def test_skyline_climbs_the_grid_until_the_loss_rises(monkeypatch):
    """Errors 3, 1, 1, 2, 0 on four contexts: the last value is not tried, and of the equal ones the first is taken."""
    errors, tried = {0.01: 3, 0.1: 1, 1.0: 1, 10.0: 2, 100.0: 0}, []

    class Planted:
        """In place of a CRF: its policy takes the label where it is wrong to, on as many contexts as is said."""

        def __init__(self, c2, **_):
            tried.append(1 / c2)

        def fit(self, sequences, labels):
            weights = np.where(np.arange(4) < errors[tried[-1]], 1.0, -1.0)
            self.state_features_ = {(str(feature), "1"): weight for feature, weight in enumerate(weights)}

    monkeypatch.setattr("sklearn_crfsuite.CRF", Planted)
    policy, C = fit_skyline(np.eye(4), np.eye(4)[:, :1], np.eye(4), np.zeros((4, 1)), list(errors))
    assert tried == [0.01, 0.1, 1.0, 10.0]
    assert C == 0.1
    assert policy.coef.sum() == -2


def test_features_at_which_crfsuite_stays_at_zero_are_an_error(data):
    X, labels = data
    X = X * [1000.0, 1, 1, 1, 1]
    message = r"the CRF does not move from 0: features reach [\d.]+e\+03; scale the features"
    with pytest.raises(InputError, match=message):
        fit_crf(X, labels, 0.1)
    with pytest.raises(InputError, match=message):
        fit_skyline(X, labels, X, labels, [0.1, 1.0])


def test_labels_that_features_say_nothing_of_are_no_error():
    """The solution is 0: half of the labels, whatever the feature."""
    X = np.column_stack([[1.0, 1, -1, -1], np.ones(4)])
    assert not fit_crf(X, np.array([[0], [1], [0], [1]]), 100.0).coef.any()
