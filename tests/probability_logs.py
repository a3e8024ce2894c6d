"""Logs of every kind of action with a policy, for tests of off-policy values."""

import numpy as np

from drcrm import ActionLists, BanditLog, ExponentialPolicy, SoftmaxPolicy

KINDS = ("single", "labels", "lists")


def log_and_policy(kind: str, n: int = 60, m: int = 20, seed: int = 0):
    """Return a log with rows of count 0 and contexts without rows, a policy over its actions, and its contexts."""
    rng = np.random.default_rng(seed)
    context = rng.integers(0, m - 2, n)
    if kind == "lists":
        starts = np.append(0, np.cumsum(rng.integers(1, 5, m)))
        X = ActionLists(rng.normal(size=(starts[-1], 3)), starts)
        Y, policy = rng.integers(0, np.diff(starts)[context]), SoftmaxPolicy(rng.normal(size=3))
    else:
        X = np.column_stack([rng.normal(size=(m, 2)), np.ones(m)])
        Y = rng.integers(0, 4, n) if kind == "single" else rng.integers(0, 2, (n, 3))
        coef = rng.normal(size=(3, 4 if kind == "single" else 3))
        policy = SoftmaxPolicy(coef) if kind == "single" else ExponentialPolicy(coef)
    count, options = rng.integers(0, 3, n), {"n_actions": 4} if kind == "single" else {}
    return BanditLog(X, Y, rng.uniform(0.2, 1, n), -rng.random(n), context, count, **options), policy, X
