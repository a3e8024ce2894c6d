"""Exponential policies: π_Θ(y|x) ∝ e^{s(y)}, s(y) linear in the scores u = xᵀΘ; see :mod:`drcrm.core.actions`."""

import numpy as np

from ..errors import InputError
from .actions import LabelVectors
from .validation import Features, as_float, check_context, check_features, check_vector


class ExponentialPolicy:
    """π_Θ(y|x) ∝ exp(xᵀΘy) over the actions y ∈ {0,1}^q.

    Parameters
    ----------
    coef : array (d, q)
        Θ: one column per label. A constant feature of x, where there is one, makes its row the intercepts.
    intercept : array (q,), optional
        What is added to the scores of the labels; 0 by default.
    """

    def __init__(self, coef: np.ndarray, intercept: np.ndarray | None = None):
        coef = as_float(coef, "coef")
        if coef.ndim != 2:
            raise InputError(f"coef has shape {coef.shape}, expected (features, labels)")
        if not np.isfinite(coef).all():
            raise InputError("coef has a NaN or infinite entry, expected finite coefficients")
        self.coef = coef
        self.actions = LabelVectors(coef.shape[1])
        self.intercept = (
            np.zeros(coef.shape[1]) if intercept is None else check_vector(intercept, coef.shape[1], "intercept")
        )

    def __repr__(self) -> str:
        return f"ExponentialPolicy({self.coef.shape[0]} features, {self.actions})"

    @property
    def stacked(self) -> np.ndarray:
        """Θ of contexts with a constant 1 appended, shape (d + 1, q): the intercept is its last row."""
        return np.vstack([self.coef, self.intercept])

    def decision_function(self, X) -> np.ndarray:
        """Return the label scores u = XΘ, and the intercept, shape (n, q)."""
        X = check_features(X)
        if X.shape[1] != self.coef.shape[0]:
            raise InputError(f"X has {X.shape[1]} features, the policy has {self.coef.shape[0]}")
        return linear_scores(X, self.coef, self.intercept)

    def marginals(self, X) -> np.ndarray:
        """Return P(y_l = 1 | x) = σ(u_l), shape (n, q)."""
        return self.actions.log_partition(self.decision_function(X))[1]

    def greedy(self, X) -> np.ndarray:
        """Return the most probable action, y_l = 1[u_l ≥ 0], shape (n, q)."""
        return self.actions.most_probable(self.decision_function(X))

    def log_prob(self, X, Y, context=None) -> np.ndarray:
        """Return log π(y_i | x_{context_i}) ≤ 0, shape (n,); without ``context``, row i of Y belongs to row i of X."""
        scores = self.decision_function(X)
        Y = self.actions.check(Y, rows=len(scores) if context is None else None)
        context = np.arange(len(scores)) if context is None else check_context(context, len(Y), len(scores))
        log_partition, _ = self.actions.log_partition(scores)
        log_prob = self.actions.row_map(Y, context, len(scores)).to_rows(scores, log_partition)
        return np.minimum(log_prob, 0, out=log_prob)  # rounding may leave it above

    def sample(self, X, random_state=None) -> np.ndarray:
        """Draw one action for each row of X, shape (n, q); ``random_state`` is a seed or a numpy Generator."""
        return self.actions.draw(self.marginals(X), np.random.default_rng(random_state))


def linear_scores(X: Features, coef: np.ndarray, intercept: np.ndarray | None = None) -> np.ndarray:
    """Return u = XΘ, and the intercept, shape (m, q); InputError beyond the range of numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        scores = X @ coef if intercept is None else X @ coef + intercept
    if not np.isfinite(scores).all():
        raise InputError("X times coef is beyond the range of floating-point numbers")
    return scores


def as_policy(policy) -> ExponentialPolicy:
    """Return an exponential policy, or that of a fitted estimator; InputError for anything else."""
    own = policy if isinstance(policy, ExponentialPolicy) else getattr(policy, "policy_", None)
    if not isinstance(own, ExponentialPolicy):
        raise InputError(
            f"policy is of type {type(policy).__name__}, expected an ExponentialPolicy or a fitted estimator; "
            "of a pipeline, its last step, with X as the others make it"
        )
    return own
