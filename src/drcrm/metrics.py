"""The loss of a policy on labelled contexts, exact: no sampling."""

from __future__ import annotations

import numpy as np

from .policy import ExponentialPolicy


def expected_hamming(policy: ExponentialPolicy, X, labels: np.ndarray) -> float:
    """Return the mean over contexts of Σ_l P(y_l ≠ y*_l), in labels."""
    marginals = policy.marginals(X)
    return float(np.where(labels == 1, 1 - marginals, marginals).sum(axis=1).mean())


def greedy_hamming(policy: ExponentialPolicy, X, labels: np.ndarray) -> float:
    """Return the mean Hamming loss of the most probable actions, y_l = 1[u_l ≥ 0], in labels."""
    return float((policy.greedy(X) != labels).sum(axis=1).mean())
