"""The losses of a policy on labelled contexts, without sampling: Hamming's, whose translation is logged, and errors."""

import numpy as np

from drcrm.errors import InputError
from drcrm.policies.exponential import ExponentialPolicy


def check_labels(policy: ExponentialPolicy, labels: np.ndarray) -> None:
    """Raise InputError unless a policy has as many labels as there are, (n, q)."""
    if policy.coef.shape[1] != labels.shape[1]:
        raise InputError(f"the policy has {policy.coef.shape[1]} labels, expected {labels.shape[1]}")


def hamming_cost(Y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the translated cost, Hamming distance − q ∈ [−q, 0], of actions Y with true labels, both (n, q).

    With non-negative costs clipped IPS is smallest for a policy that flees every logged action; hence the translation.
    """
    return (labels != Y).sum(axis=1, dtype=float) - Y.shape[1]


def expected_hamming(policy: ExponentialPolicy, X, labels: np.ndarray) -> float:
    """Return the mean over contexts of Σ_l P(y_l ≠ y*_l), in labels."""
    marginals = policy.marginals(X)
    return float(np.where(labels == 1, 1 - marginals, marginals).sum(axis=1).mean())


def greedy_hamming(policy: ExponentialPolicy, X, labels: np.ndarray) -> float:
    """Return the mean Hamming loss of the most probable actions, y_l = 1[u_l ≥ 0], in labels."""
    return float((policy.greedy(X) != labels).sum(axis=1).mean())


def hamming_losses(policy: ExponentialPolicy, X, labels: np.ndarray, tossed: np.ndarray | None = None) -> dict:
    """Return both losses by their names; a label of the mask ``tossed`` counts ½ in each, whatever the policy does.

    InputError for a policy of other labels.
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
    """Return both losses of one action of K by their names: the mean of 1 − π(a*|x), and of 1[a ≠ a*] of greedy a.

    From the probabilities of all actions, (n, K), the greedy ones and the right ones, (n,).
    """
    right = probability[np.arange(len(classes)), classes]
    return {"expected_loss": float((1 - right).mean()), "greedy_loss": float((greedy != classes).mean())}
