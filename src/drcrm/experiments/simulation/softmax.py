"""Softmax regression by scikit-learn, for the logging policy and the skyline of one action of K."""

import numpy as np

from drcrm.arrays.validation import Features
from drcrm.policies.exponential import SoftmaxPolicy

UNSEEN = -5.0  # coefficient of the constant for a class without a context; its probability stays above 0
TOLERANCE = 1e-6  # tolerance for the gradient of the mean loss
MAX_ITERATIONS = 10_000


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
