"""Exploration: the mixture (1 − ε) π + ε U of a policy and the uniform policy U over the actions of a context.

For label vectors, U makes each label 1 with probability ½, and labels of the mixture are not independent.
"""

import numpy as np

from drcrm.actions.base import Actions


def uniform_policy(actions: Actions, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log U(y|x) of every available action, (m,), and μ of U, in the shape of the scores."""
    log_partition, mean = actions.log_partition(np.zeros_like(scores))
    return -log_partition, mean


def explored_mean(actions: Actions, mean: np.ndarray, explore: float) -> np.ndarray:
    """Return μ of the mixture, from μ of the policy."""
    if not explore:
        return mean
    return (1 - explore) * mean + explore * uniform_policy(actions, mean)[1]


def explored_log_prob(log_prob: np.ndarray, uniform_log_prob: np.ndarray, explore: float) -> np.ndarray:
    """Return log((1 − ε) π + ε U) of the same actions, from log π and log U."""
    if not explore:
        return log_prob
    with np.errstate(divide="ignore"):  # of ε = 1
        return np.logaddexp(np.log1p(-explore) + log_prob, np.log(explore) + uniform_log_prob)


def largest_probability(actions: Actions, explore: float) -> float:
    """Return an upper bound on the probability of an action under any mixture; 1 without exploration, and for lists."""
    if not explore or not actions.are_shared:
        return 1.0
    log_prob, _ = uniform_policy(actions, np.zeros((1, *actions.shape)))
    return float(1 - explore + explore * np.exp(log_prob[0]))
