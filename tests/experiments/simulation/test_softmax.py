"""The softmax regression, compared with a minimiser of its objective."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import log_softmax

from drcrm.experiments.simulation.skylines import UNSEEN, fit_softmax


@pytest.fixture
def data():
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
def test_minimises_the_regularised_likelihood_without_a_penalty_on_the_constant(C, make, data):
    X, classes = data
    coef = fit_softmax(make(X), classes, 3, C).coef
    assert coef == pytest.approx(minimised(X, classes, C, 3), abs=1e-3)


def test_a_class_without_a_context_keeps_support(data):
    """It does not take part in the fit of the other classes."""
    X, classes = data
    places = np.array([0, 3, 2])  # no context has class 1
    coef = fit_softmax(X, places[classes], 4, 1.0).coef
    assert coef[:, 1].tolist() == [0, 0, 0, UNSEEN]
    assert coef[:, places] == pytest.approx(fit_softmax(X, classes, 3, 1.0).coef, abs=1e-4)


def test_contexts_of_a_single_class(data):
    X, _ = data
    coef = fit_softmax(X, np.full(90, 2), 3, 1.0).coef
    assert not coef[:-1].any()
    assert coef[-1].tolist() == [UNSEEN, UNSEEN, 0]
