"""CRFs of label vectors and softmax regressions of one action of K, for the logging policy and the skyline.

With features x ⊗ y and no transitions, a CRF consists of one CRF of length 1 for each label. Each is a logistic
regression with coefficients θ = w_1 − w_0 and inverse regularisation C, which applies to the constant too.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import sklearn_crfsuite
from pycrfsuite import ItemSequence
from scipy import sparse

from drcrm.arrays.validation import Features
from drcrm.errors import InputError
from drcrm.paper.simulation.truth import choose_by_greedy_loss
from drcrm.policies.exponential import ExponentialPolicy, SoftmaxPolicy

CERTAIN = 1000.0
UNMOVED = 1e-3  # a fit with all weights 0 has failed if the gradient at 0 exceeds this share of max(1/C, Σ |x|)
SKYLINE_MEMORY = 50  # pairs of CRFsuite's L-BFGS. With its default of 6, a skyline takes 1.6 to 2.8 times as long.
UNSEEN = -5.0  # coefficient of the constant for a class without a context; its probability stays above 0
TOLERANCE = 1e-6  # tolerance for the gradient of the mean loss
MAX_ITERATIONS = 10_000


def fit_crf(X: Features, labels: np.ndarray, C: float) -> ExponentialPolicy:
    """Fit a CRF to labelled contexts and return it as an exponential policy.

    A label without a positive context is 0 with certainty: its constant has the weight −1000. A label that every
    context has is 1 with certainty.

    Parameters
    ----------
    X : array or CSR (n, d)
        Features; the last is the constant 1.
    labels : array (n, q) of 0 and 1
    C : float > 0
        Inverse regularisation.

    Raises
    ------
    InputError
        If CRFsuite's line search fails at its start and leaves all weights at 0. Features around 1000 cause this.
    """
    return _fit(_sequences(X), X, labels, C)


def fit_skyline(
    X: Features, labels: np.ndarray, X_heldout: Features, labels_heldout: np.ndarray, grid: Sequence[float]
) -> tuple[ExponentialPolicy, float]:
    """Return the CRF that :func:`choose_by_greedy_loss` chooses by the Hamming loss on held-out contexts, and its C."""
    fit = partial(_fit, _sequences(X), X, labels, num_memories=SKYLINE_MEMORY)
    return choose_by_greedy_loss(fit, grid, X_heldout, labels_heldout)


def _sequences(X: Features) -> list[ItemSequence]:
    X = sparse.csr_array(X, copy=True)
    X.sum_duplicates()
    names = np.arange(X.shape[1]).astype(str)
    rows = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    return [ItemSequence([dict(zip(names[X.indices[a:b]], X.data[a:b].tolist(), strict=True))]) for a, b in rows]


def _fit(sequences: list[ItemSequence], X: Features, labels: np.ndarray, C: float, **solver: int) -> ExponentialPolicy:
    coef = np.zeros((X.shape[1], labels.shape[1]))
    for column, positive in zip(coef.T, labels.T, strict=True):
        if positive.min() == positive.max():
            column[-1] = CERTAIN if positive[0] else -CERTAIN
            continue
        crf = sklearn_crfsuite.CRF(
            algorithm="lbfgs",
            all_possible_states=True,
            c1=0,
            c2=1 / C,
            epsilon=1e-9,
            delta=1e-14,
            max_iterations=5000,
            min_freq=-np.inf,  # a frequency is a sum of feature values, so a minimum of 0 would drop negative features
            **solver,
        )
        crf.fit(sequences, [[str(int(value))] for value in positive])
        for (feature, label), weight in crf.state_features_.items():
            column[int(feature)] += weight if label == "1" else -weight
        gradient = abs(X.T @ (positive - 0.5))
        if not column.any() and (gradient > UNMOVED * np.maximum(1 / C, abs(X).sum(axis=0))).any():
            raise InputError(f"the CRF does not move from 0: features reach {abs(X).max():.3g}; scale the features")
    return ExponentialPolicy(coef)


def fit_softmax(X: Features, classes: np.ndarray, n_actions: int, C: float) -> SoftmaxPolicy:
    """Fit a softmax regression to labelled contexts.

    The intercept, which is not regularised, becomes the coefficient of the constant feature. For a class without a
    context, this coefficient is −5 and all others are 0.

    Parameters
    ----------
    X : array or CSR (n, d)
        Features; the last is the constant 1.
    classes : integer array (n,)
        Classes from 0 to K − 1.
    n_actions : int
        The number K of classes.
    C : float > 0
        Inverse regularisation.
    """
    coef, present = np.zeros((X.shape[1], n_actions)), np.unique(classes)
    coef[-1] = UNSEEN
    coef[-1, present] = 0
    if len(present) > 1:
        from sklearn.linear_model import LogisticRegression

        fitted = LogisticRegression(C=C, tol=TOLERANCE, max_iter=MAX_ITERATIONS).fit(X[:, :-1], classes)
        weights = np.column_stack([fitted.coef_, fitted.intercept_]).T
        # For two classes, scikit-learn returns only the difference of their coefficients.
        coef[:, present] = weights if len(present) > 2 else np.hstack([-weights, weights]) / 2
    return SoftmaxPolicy(coef)
