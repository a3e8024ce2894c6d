"""Supervised data turned into bandit feedback: the actions of a logging policy, pass after pass."""

import numpy as np

from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.experiments.simulation.truth import CERTAIN, Rates, Truth, as_truth


def replay(
    policy, X, labels, count: int, rng: np.random.Generator, clicks: Rates = CERTAIN, click_rng=None
) -> BanditLog:
    """Log ``count`` passes of a policy over labelled contexts: supervised data turned into bandit feedback.

    Returns the log of N · count rows, pass after pass: the log of fewer passes, from generators in the same state, is a
    prefix of it. Costs are translated Hamming losses, or of one action of K −1 with the probability of a click.

    Parameters
    ----------
    policy : ExponentialPolicy or SoftmaxPolicy
    X : array or CSR (N, d)
    labels : Truth, or array (N, q) of 0 and 1, or integer array (N,)
    count : int
        Δ. Source: section 4 of the paper.
    rng : Generator
        Of the actions.
    clicks : (float, float)
        The probabilities of a click, of the right and of a wrong action, by default 1 and 0.
    click_rng : Generator, optional
        Of the clicks, where they are not certain: the actions are the same with any rates.
    """
    truth: Truth = as_truth(labels, policy.actions.log_options.get("n_actions"))
    if len(truth) != X.shape[0]:
        raise InputError(f"labels has {len(truth)} rows, expected {X.shape[0]}")
    truth.check(policy)
    mean, kind = policy.marginals(X), policy.actions
    Y = np.concatenate([kind.check(kind.sample(mean, rng)) for _ in range(count)])
    context = np.tile(np.arange(X.shape[0]), count)
    propensity = np.exp(policy.log_prob(X, Y, context))
    return BanditLog(X, Y, propensity, truth.cost(Y, context, clicks, click_rng), context, **kind.log_options)
