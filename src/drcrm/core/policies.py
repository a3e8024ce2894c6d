"""The exponential policy with φ(x, y) = x ⊗ y, which factorises over the labels.

    π_Θ(y|x) = Π_l σ(u_l)^{y_l} σ(−u_l)^{1−y_l},  u = xᵀΘ,  log π = y·u − Σ_l log(1 + e^{u_l})

Source: sections 2.3 and 4 of the paper (exponential models, multi-label actions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from .action_map import action_map
from .numerics import exp
from .validation import as_float, check_actions, check_context, check_features, check_vector, with_constant

if TYPE_CHECKING:
    from .log import BanditLog

LARGE = 700.0  # e^u does not overflow up to here, and 1 + e^u = e^u from far below


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
        self.intercept = (
            np.zeros(coef.shape[1]) if intercept is None else check_vector(intercept, coef.shape[1], "intercept")
        )

    def __repr__(self) -> str:
        return f"ExponentialPolicy({self.coef.shape[0]} features, {self.coef.shape[1]} labels)"

    def without_intercept(self, log: BanditLog) -> tuple[BanditLog, np.ndarray]:
        """Return a log and Θ of this policy on its contexts: with a constant appended, if there is an intercept."""
        if not self.intercept.any():
            return log, self.coef
        return log.with_contexts(with_constant(log.X)), np.vstack([self.coef, self.intercept])

    def decision_function(self, X) -> np.ndarray:
        """Return the label scores u = XΘ, and the intercept, shape (n, q)."""
        X = check_features(X)
        if X.shape[1] != self.coef.shape[0]:
            raise InputError(f"X has {X.shape[1]} features, the policy has {self.coef.shape[0]}")
        with np.errstate(over="ignore", invalid="ignore"):
            scores = X @ self.coef + self.intercept
        if not np.isfinite(scores).all():
            raise InputError("X times coef is beyond the range of floating-point numbers")
        return scores

    def marginals(self, X) -> np.ndarray:
        """Return P(y_l = 1 | x) = σ(u_l), shape (n, q)."""
        return partition(self.decision_function(X))[1]

    def greedy(self, X) -> np.ndarray:
        """Return the most probable action, y_l = 1[u_l ≥ 0], shape (n, q)."""
        return (self.decision_function(X) >= 0).astype(np.int64)

    def log_prob(self, X, Y, context=None) -> np.ndarray:
        """Return log π(y_i | x_{context_i}) ≤ 0, shape (n,); without ``context``, row i of Y belongs to row i of X."""
        scores = self.decision_function(X)
        Y = check_actions(Y, rows=len(scores) if context is None else None)
        context = np.arange(len(scores)) if context is None else check_context(context, len(Y), len(scores))
        if Y.shape[1] != scores.shape[1]:
            raise InputError(f"Y has {Y.shape[1]} labels, the policy has {scores.shape[1]}")
        log_partition, _ = partition(scores)
        found = action_map(Y, context, len(scores)).log_prob(scores, log_partition)
        return np.minimum(found, 0, out=found)  # rounding may leave it above

    def sample(self, X, random_state=None) -> np.ndarray:
        """Draw one action for each row of X, shape (n, q); ``random_state`` is a seed or a numpy Generator."""
        marginals = self.marginals(X)
        return (np.random.default_rng(random_state).random(marginals.shape) < marginals).astype(np.int64)


def partition(scores: np.ndarray, buffers: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return Σ_l log(1 + e^{u_l}), shape (m,), and σ(u), shape (m, q), from scores u of shape (m, q).

    One exponential for both. ``buffers`` (2, m, q) is written to, and holds σ(u) afterwards: what evaluates many times
    need not allocate.
    """
    marginals, total = np.empty((2, *scores.shape)) if buffers is None else buffers
    large = scores.max() > LARGE
    exp(np.minimum(scores, LARGE) if large else scores, out=marginals)
    np.add(marginals, 1, out=total)
    np.divide(marginals, total, out=marginals)
    ones = np.ones(scores.shape[1])
    log_partition = np.log(total, out=total) @ ones
    if large:
        log_partition += np.maximum(scores - LARGE, 0) @ ones
    return log_partition, marginals


def as_policy(policy) -> ExponentialPolicy:
    """Return an exponential policy, or that of a fitted estimator; InputError for anything else."""
    found = policy if isinstance(policy, ExponentialPolicy) else getattr(policy, "policy_", None)
    if not isinstance(found, ExponentialPolicy):
        raise InputError(
            f"policy is of type {type(policy).__name__}, expected an ExponentialPolicy or a fitted estimator; "
            "of a pipeline, its last step, with X as the others make it"
        )
    return found
