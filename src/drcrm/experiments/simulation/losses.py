"""Exact losses of a policy on labelled contexts, and the choice of the regularisation C by the greedy loss."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drcrm.arrays.validation import Features
from drcrm.errors import InputError
from drcrm.policies.exponential import ExponentialPolicy


def check_labels(policy: ExponentialPolicy, labels: np.ndarray) -> None:
    """Raise InputError unless a policy has as many labels as ``labels``, (n, q)."""
    if policy.coef.shape[1] != labels.shape[1]:
        raise InputError(f"the policy has {policy.coef.shape[1]} labels, expected {labels.shape[1]}")


def hamming_cost(Y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the translated cost of actions Y, their Hamming distance to the true labels minus q, in [−q, 0].

    Both arrays have shape (n, q). Costs are translated because a policy that avoids all logged actions would minimise
    clipped IPS of non-negative costs.
    """
    return (labels != Y).sum(axis=1, dtype=float) - Y.shape[1]


def expected_hamming(policy: ExponentialPolicy, X: Features, labels: np.ndarray) -> float:
    """Return the mean over contexts of Σ_l P(y_l ≠ y*_l), in labels."""
    marginals = policy.marginals(X)
    return float(np.where(labels == 1, 1 - marginals, marginals).sum(axis=1).mean())


def greedy_hamming(policy: ExponentialPolicy, X: Features, labels: np.ndarray) -> float:
    """Return the mean Hamming loss of the most probable actions, y_l = 1[u_l ≥ 0], in labels."""
    return float((policy.greedy(X) != labels).sum(axis=1).mean())


def hamming_losses(
    policy: ExponentialPolicy, X: Features, labels: np.ndarray, tossed: np.ndarray | None = None
) -> dict[str, float]:
    """Return ``expected_loss`` and ``greedy_loss``, Hamming losses in labels. A label in the mask ``tossed`` counts ½.

    Raise InputError for a policy with another number of labels.
    """
    check_labels(policy, labels)
    judged = np.ones(labels.shape[1], dtype=bool) if tossed is None else ~tossed
    if not judged.any():
        return dict.fromkeys(("expected_loss", "greedy_loss"), 0.5 * len(judged))
    part = ExponentialPolicy(policy.coef[:, judged], features=policy.features)
    truth, coins = labels[:, judged], 0.5 * (~judged).sum()
    return {
        "expected_loss": expected_hamming(part, X, truth) + coins,
        "greedy_loss": greedy_hamming(part, X, truth) + coins,
    }


def error_rates(probability: np.ndarray, greedy: np.ndarray, classes: np.ndarray) -> dict[str, float]:
    """Return ``expected_loss`` and ``greedy_loss`` of one action of K: the means of 1 − π(a*|x) and of 1[a ≠ a*].

    Parameters
    ----------
    probability : array (n, K)
        Probabilities π(·|x) of all actions.
    greedy : integer array (n,)
        The most probable actions a.
    classes : integer array (n,)
        The right actions a*.
    """
    right = probability[np.arange(len(classes)), classes]
    return {"expected_loss": float((1 - right).mean()), "greedy_loss": float((greedy != classes).mean())}


def choose_by_greedy_loss(
    fit: Callable[[float], Any], grid: Sequence[float], X: Features, labels: np.ndarray
) -> tuple[Any, float]:
    """Return the policy with the smallest greedy loss on held-out contexts, and its C. The grid of C must increase.

    The search stops as soon as the loss rises, because fits with a large C take most of the time. On Scene, Yeast and
    samples of RCV1 and TMC2007 the loss first falls to its minimum and then rises. The first of equally good policies
    wins.
    """
    best, fewest = None, np.inf
    for C in grid:
        policy = fit(C)
        errors = np.count_nonzero(policy.greedy(X) != labels)
        if errors > fewest:
            break
        if errors < fewest:
            best, fewest = (policy, C), errors
    return best
