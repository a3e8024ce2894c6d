"""Supervised data turned into bandit feedback: the actions of a logging policy, pass after pass."""

import numpy as np

from ..core.log import BanditLog
from ..core.policies import ExponentialPolicy
from ..core.validation import check_actions
from .losses import check_labels, hamming_cost


def replay(policy: ExponentialPolicy, X, labels, count: int, rng: np.random.Generator) -> BanditLog:
    """Log ``count`` passes of a policy over labelled contexts: supervised data turned into bandit feedback.

    Returns the log of N · count rows, pass after pass: the log of fewer passes, from a generator in the same state,
    is a prefix of it. Costs are translated Hamming losses. Source: section 4 of the paper (the replay count is Δ).
    """
    labels = check_actions(labels, rows=X.shape[0])
    check_labels(policy, labels)
    marginals = policy.marginals(X)
    Y = np.concatenate([rng.random(marginals.shape) < marginals for _ in range(count)]).astype(np.uint8)
    context = np.tile(np.arange(X.shape[0]), count)
    propensity = np.exp(policy.log_prob(X, Y, context))
    return BanditLog(X, Y, propensity, hamming_cost(Y, labels[context]), context)
