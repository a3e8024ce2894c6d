"""Supervised data turned into bandit feedback: the split of the contexts, and the logged actions of a policy."""

import math

import numpy as np

from drcrm.arrays.validation import Features
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.experiments.simulation.truth import CERTAIN, Rates, Truth, as_truth


def split_contexts(
    n: int, unit: str, logging_fraction: float, heldout_fraction: float, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw the contexts that train π0 (``logging``) and the held-out contexts of n, as rising context numbers.

    With ``unit`` "context" π0's contexts are a fraction of the training part, as in the paper's text. With "row" they
    are a fraction of all contexts, because rows are held out after the replay, as in the public POEM code. Counts are
    rounded up.
    """
    shuffled = rng.permutation(n)
    n_heldout = _share(heldout_fraction, n)
    heldout, train = shuffled[:n_heldout], shuffled[n_heldout:]
    if not len(train):
        raise InputError(f"no context is left to train on: a fraction of {heldout_fraction} holds out all of {n}")
    candidates = train if unit == "context" else np.arange(n)
    logging = rng.choice(candidates, _share(logging_fraction, len(candidates)), replace=False)
    return {"logging": np.sort(logging), "train": np.sort(train), "heldout": np.sort(heldout)}


def heldout_rows(n: int, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """Draw a mask (n,) of the held-out rows; their number is rounded up."""
    is_heldout = np.zeros(n, dtype=bool)
    is_heldout[rng.permutation(n)[: _share(fraction, n)]] = True
    return is_heldout


def _share(fraction: float, n: int) -> int:
    """Return a fraction of n, rounded up and at least 1; the guard keeps 0.07 · 100 from becoming 8."""
    return max(1, math.ceil(fraction * n - 1e-9))


def replay(
    policy,
    X: Features,
    labels,
    count: int,
    rng: np.random.Generator,
    clicks: Rates = CERTAIN,
    click_rng: np.random.Generator | None = None,
) -> BanditLog:
    """Log ``count`` passes of a policy over labelled contexts.

    Returns a log of N · count rows, pass after pass. The log of fewer passes, from generators in the same state, is a
    prefix of it. Costs are translated Hamming losses; for one action of K they are −1 for a click and 0 otherwise.

    Parameters
    ----------
    policy : ExponentialPolicy or SoftmaxPolicy
    X : array or CSR (N, d)
    labels : Truth, or array (N, q) of 0 and 1, or integer array (N,)
    count : int
        Δ. Source: section 4 of the paper.
    rng : Generator
        Draws the actions.
    clicks : (float, float)
        Probabilities of a click on the right and on a wrong action, by default 1 and 0.
    click_rng : Generator, optional
        Draws the clicks if they are not certain. The actions do not depend on them.
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
