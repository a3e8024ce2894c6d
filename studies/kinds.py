"""How fast does the learned policy approach the best one, for each kind of action?

Contexts are normal with a constant. Coefficients θ, normal too, determine the costs:

    label vectors      2 labels, 5 features; label l is 1 with probability σ(2 x·θ_l); the cost is the number of wrong
                       labels minus 2
    one action of K    5 actions, 5 features; the cost is −1 with probability σ(x·θ_a), else 0
    lists of actions   2 to 8 actions with 5 features; the cost is −1 with probability σ(ψ·θ), else 0

The most probable actions under θ are the best policy. It is in the class of policies, although no cost is linear. The
logging policy has random coefficients a fifth as large. Weights are not clipped, so the estimates converge as n grows.
The objective is not convex, and some fits end in a local minimum.

The table has a row per kind, algorithm and n (logged rows, each with its own context): the mean over logs of the
expected cost minus that of the best policy, on 20 000 fresh contexts, with its Student interval. The logging policy is
one of the algorithms. Log s has seed s and its own coefficients. Smaller logs are the first rows of larger ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from scipy.special import expit
from synthetic import normal_contexts

from drcrm.actions.one_of_many import ActionLists
from drcrm.estimators.base import CounterfactualEstimator
from drcrm.estimators.by_risk import CIPS
from drcrm.estimators.doubly_robust import DoublyRobustDRO
from drcrm.paper.reports.result_tables import interval
from drcrm.policies.exponential import ExponentialPolicy, SoftmaxPolicy

SIZES = (100, 316, 1000, 3162, 10_000, 31_623)
FRESH_CONTEXTS = 20_000
LOGGING = "logging"
ALGORITHMS = {"cips": CIPS(clip=None), "doubly_robust_dro": DoublyRobustDRO("auto", clip=None, safe=False)}


class LabelVectors:
    """Contexts and costs of label vectors, and their logging policy."""

    labels = 2

    def __init__(self, rng: np.random.Generator):
        self.rng, self.coef = rng, 2 * rng.normal(size=(5, self.labels))
        self.logging = ExponentialPolicy(0.2 * rng.normal(size=(5, self.labels)))

    def contexts(self, n: int):
        return normal_contexts(self.rng, n, 4)

    def costs(self, X, Y: np.ndarray) -> np.ndarray:
        """Draw the costs of actions."""
        right = self.rng.random(Y.shape) < expit(X @ self.coef)
        return (right != Y).sum(axis=1) - float(self.labels)

    def expected_cost(self, X, policy) -> float:
        """Return the expected cost of a policy, or of the best policy for None."""
        right = expit(X @ self.coef)
        by_label = np.maximum(right, 1 - right)
        if policy is not None:
            mean = policy.marginals(X)
            by_label = mean * right + (1 - mean) * (1 - right)
        return -by_label.sum(axis=1).mean()


class SingleChoice(LabelVectors):
    """Contexts and costs of one action of K, and their logging policy."""

    actions = 5

    def __init__(self, rng: np.random.Generator):
        self.rng, self.coef = rng, rng.normal(size=(5, self.actions))
        self.logging = SoftmaxPolicy(0.2 * rng.normal(size=(5, self.actions)))

    def costs(self, X, A: np.ndarray) -> np.ndarray:
        clicked = expit((X * self.coef.T[A]).sum(axis=1))
        return -(self.rng.random(len(A)) < clicked).astype(float)

    def expected_cost(self, X, policy) -> float:
        clicked = expit(X @ self.coef)
        return -(clicked.max(axis=1) if policy is None else (policy.marginals(X) * clicked).sum(axis=1)).mean()


class ListedActions(SingleChoice):
    """Contexts and costs of lists of actions, and their logging policy."""

    max_length = 8

    def __init__(self, rng: np.random.Generator):
        self.rng, self.coef = rng, rng.normal(size=5)
        self.logging = SoftmaxPolicy(0.2 * rng.normal(size=5))

    def contexts(self, n: int) -> ActionLists:
        starts = np.r_[0, np.cumsum(self.rng.integers(2, self.max_length + 1, n))]
        return ActionLists(self.rng.normal(size=(starts[-1], 5)), starts)

    def costs(self, X: ActionLists, A: np.ndarray) -> np.ndarray:
        clicked = expit(X.features[X.starts[:-1] + A] @ self.coef)
        return -(self.rng.random(len(A)) < clicked).astype(float)

    def expected_cost(self, X: ActionLists, policy) -> float:
        clicked, first = expit(X.features @ self.coef), X.starts[:-1]
        best = np.maximum.reduceat(clicked, first)
        return -(best if policy is None else np.add.reduceat(policy.marginals(X) * clicked, first)).mean()


KINDS = {"label_vectors": LabelVectors, "single_choice": SingleChoice, "action_lists": ListedActions}


def regrets(
    kind: str, seed: int, sizes: Sequence[int], algorithms: dict[str, CounterfactualEstimator] = ALGORITHMS
) -> Iterator[tuple[str, int, float]]:
    """Yield algorithm, n and the expected cost minus that of the best policy."""
    world = KINDS[kind](np.random.default_rng([seed, [*KINDS].index(kind)]))
    fresh, X = world.contexts(FRESH_CONTEXTS), world.contexts(max(sizes))
    Y = world.logging.sample(X, world.rng)
    propensity, cost = np.exp(world.logging.log_prob(X, Y)), world.costs(X, Y)
    best = world.expected_cost(fresh, None)
    for n in sizes:
        yield LOGGING, n, world.expected_cost(fresh, world.logging) - best
        for name, estimator in algorithms.items():
            estimator.fit(X[:n], Y[:n], propensity=propensity[:n], cost=cost[:n], logging_policy=world.logging)
            yield name, n, world.expected_cost(fresh, estimator.policy_) - best


def measure(repetition: int, sizes: Sequence[int] = SIZES) -> Iterator[dict[str, object]]:
    """Yield a row per kind, algorithm and n."""
    for kind in KINDS:
        for algorithm, n, regret in regrets(kind, repetition, sizes):
            yield {"kind": kind, "algorithm": algorithm, "n": n, "regret": regret}


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean and its interval by kind, algorithm and n."""
    keys = ["kind", "algorithm", "n"]
    groups = rows.groupby(keys, sort=False)["regret"]
    return pd.DataFrame([dict(zip(keys, key, strict=True)) | interval(values.to_numpy()) for key, values in groups])
