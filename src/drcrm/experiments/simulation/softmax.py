"""Softmax regression for the logging policy and the skyline of one action of K: scikit-learn's logistic regression."""

import numpy as np

from drcrm.arrays.validation import Features
from drcrm.policies.exponential import SoftmaxPolicy

UNSEEN = -5.0  # coefficient of the constant for a class without a context, which keeps its support
TOLERANCE = 1e-6  # of the gradient of the mean loss
MAX_ITERATIONS = 10_000


def fit_softmax(X: Features, classes: np.ndarray, n_actions: int, C: float) -> SoftmaxPolicy:
    """Fit a softmax regression to labelled contexts.

    The intercept, which is not regularised, becomes the coefficient of the constant. A class without a context has −5
    there and 0 elsewhere.

    Parameters
    ----------
    X : array or CSR (n, d)
        Features; the last is the constant 1.
    classes : integer array (n,)
        From 0 to K − 1.
    n_actions : int
        K.
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
        # For two classes scikit-learn has one column, their difference.
        coef[:, present] = weights if len(present) > 2 else np.hstack([-weights, weights]) / 2
    return SoftmaxPolicy(coef)
