"""Supervised data turned into bandit feedback: split the contexts, and log the actions that a policy draws."""

import math
import zlib

import numpy as np

from drcrm.arrays.validation import Features
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.paper.simulation.truth import CERTAIN, Rates, Truth, as_truth


def generator(dataset: str, seed: int, step: str) -> np.random.Generator:
    """Return the random generator of a step.

    The generator depends only on the data set, the seed and the step, so experiments with different options share their
    draws.
    """
    return np.random.default_rng([zlib.crc32(f"{dataset}/{step}".encode()), seed])


def split_contexts(
    n: int, unit: str, logging_fraction: float, heldout_fraction: float, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Split n contexts and return the rising context numbers of ``logging``, ``train`` and ``heldout``.

    The contexts of ``logging`` train the logging policy π0. With ``unit`` "context" they are a fraction of the training
    part, as in the paper's text. With "row" they are a fraction of all contexts, as in the public POEM code. That code
    holds out rows after the replay. Numbers of contexts are rounded up.
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
    """Return a random mask (n,) of the held-out rows. Their number is rounded up."""
    is_heldout = np.zeros(n, dtype=bool)
    is_heldout[rng.permutation(n)[: _share(fraction, n)]] = True
    return is_heldout


def _share(fraction: float, n: int) -> int:
    """Return a fraction of n, rounded up and at least 1."""
    return max(1, math.ceil(fraction * n - 1e-9))  # 0.07 · 100 is slightly above 7


def replay(
    policy,
    X: Features,
    labels,
    count: int,
    rng: np.random.Generator,
    clicks: Rates = CERTAIN,
    click_rng: np.random.Generator | None = None,
) -> BanditLog:
    """Draw a log: a policy acts on every labelled context ``count`` times.

    The log has N · count rows, one pass over the contexts after the other. With generators in the same state, a log of
    fewer passes is a prefix of it. The cost of a label vector is its translated Hamming loss. The cost of one action
    of K is −1 for a click and 0 otherwise.

    Parameters
    ----------
    policy : ExponentialPolicy or SoftmaxPolicy
    X : array or CSR (N, d)
    labels : Truth, or array (N, q) of 0 and 1, or integer array (N,)
    count : int
        Number of passes, Δ in section 4 of the paper.
    rng : Generator
        Draws the actions.
    clicks : (float, float)
        Probabilities of a click on the right action and on a wrong action, by default 1 and 0.
    click_rng : Generator, optional
        Draws the clicks unless the probabilities are 1 and 0. The actions do not depend on it.
    """
    truth: Truth = as_truth(labels, policy.actions.log_options.get("n_actions"))
    mean, kind = policy.marginals(X), policy.actions
    Y = np.concatenate([kind.check(kind.sample(mean, rng)) for _ in range(count)])
    context = np.tile(np.arange(X.shape[0]), count)
    propensity = np.exp(policy.log_prob(X, Y, context))
    return BanditLog(X, Y, propensity, truth.cost(Y, context, clicks, click_rng), context, **kind.log_options)
