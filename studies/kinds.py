"""How fast the learned policy approaches the best one, for every kind of action.

Contexts are normal, their last feature constant; coefficients, normal too, say how likely actions are clicked:

    label vectors      2 labels, 5 features, each label is 1 with σ(2 x·θ_l): the cost is how many are wrong, minus 2
    one action of K    5 actions, 5 features: the cost is −1 with σ(x·θ_a), 0 otherwise
    lists of actions   2 to 8 actions of 5 features: the cost is −1 with σ(ψ·θ), 0 otherwise

So the most probable actions of coefficients θ are the best policy, which is in the class, while no cost is linear.
π0 has coefficients a fifth as large. Weights are not clipped, so that what is minimised is right as n grows; it is not
convex, and some fits end in a local minimum.

A row per kind, algorithm and n, the number of logged rows, each of a context of its own: the mean over logs of the
expected cost minus that of the best policy, on 20 000 contexts more, with its Student interval. π0 is among the
algorithms. Log number s has seed s, and coefficients of its own; smaller logs are the first rows of larger ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from scipy.special import expit

from drcrm.actions.action_lists import ActionLists
from drcrm.estimators.base import CounterfactualEstimator
from drcrm.estimators.doubly_robust import DoublyRobustDRO
from drcrm.estimators.paper import CIPS
from drcrm.policies.exponential import ExponentialPolicy, SoftmaxPolicy
from drcrm.reports.tables.comparisons import interval

SIZES = (100, 316, 1000, 3162, 10_000, 31_623)
CONTEXTS = 20_000  # on which policies are compared
LOGGING = "logging"
ALGORITHMS = {"cips": CIPS(clip=None), "doubly_robust_dro": DoublyRobustDRO("auto", clip=None, safe=False)}


class LabelVectors:
    labels = 2

    def __init__(self, rng: np.random.Generator):
        self.rng, self.coef = rng, 2 * rng.normal(size=(5, self.labels))
        self.logging = ExponentialPolicy(0.2 * rng.normal(size=(5, self.labels)))

    def contexts(self, n: int):
        return np.column_stack([self.rng.normal(size=(n, 4)), np.ones(n)])

    def costs(self, X, Y: np.ndarray) -> np.ndarray:
        """Drawn costs of actions."""
        right = self.rng.random(Y.shape) < expit(X @ self.coef)
        return (right != Y).sum(axis=1) - float(self.labels)

    def expected(self, X, policy) -> float:
        """The expected cost of a policy, or with None of the best."""
        right = expit(X @ self.coef)
        by_label = np.maximum(right, 1 - right)
        if policy is not None:
            mean = policy.marginals(X)
            by_label = mean * right + (1 - mean) * (1 - right)
        return -by_label.sum(axis=1).mean()


class SingleChoice(LabelVectors):
    actions = 5

    def __init__(self, rng: np.random.Generator):
        self.rng, self.coef = rng, rng.normal(size=(5, self.actions))
        self.logging = SoftmaxPolicy(0.2 * rng.normal(size=(5, self.actions)))

    def costs(self, X, A: np.ndarray) -> np.ndarray:
        clicked = expit((X * self.coef.T[A]).sum(axis=1))
        return -(self.rng.random(len(A)) < clicked).astype(float)

    def expected(self, X, policy) -> float:
        clicked = expit(X @ self.coef)
        return -(clicked.max(axis=1) if policy is None else (policy.marginals(X) * clicked).sum(axis=1)).mean()


class ListedActions(SingleChoice):
    most = 8

    def __init__(self, rng: np.random.Generator):
        self.rng, self.coef = rng, rng.normal(size=5)
        self.logging = SoftmaxPolicy(0.2 * rng.normal(size=5))

    def contexts(self, n: int) -> ActionLists:
        starts = np.r_[0, np.cumsum(self.rng.integers(2, self.most + 1, n))]
        return ActionLists(self.rng.normal(size=(starts[-1], 5)), starts)

    def costs(self, X: ActionLists, A: np.ndarray) -> np.ndarray:
        clicked = expit(X.features[X.starts[:-1] + A] @ self.coef)
        return -(self.rng.random(len(A)) < clicked).astype(float)

    def expected(self, X: ActionLists, policy) -> float:
        clicked, first = expit(X.features @ self.coef), X.starts[:-1]
        best = np.maximum.reduceat(clicked, first)
        return -(best if policy is None else np.add.reduceat(policy.marginals(X) * clicked, first)).mean()


KINDS = {"label_vectors": LabelVectors, "single_choice": SingleChoice, "action_lists": ListedActions}


def regrets(
    kind: str, seed: int, sizes: Sequence[int], algorithms: dict[str, CounterfactualEstimator] = ALGORITHMS
) -> Iterator[tuple[str, int, float]]:
    """Expected costs above that of the best policy: algorithm, n and cost."""
    world = KINDS[kind](np.random.default_rng([seed, [*KINDS].index(kind)]))
    unseen, X = world.contexts(CONTEXTS), world.contexts(max(sizes))
    Y = world.logging.sample(X, world.rng)
    rows = {"propensity": np.exp(world.logging.log_prob(X, Y)), "cost": world.costs(X, Y)}
    best = world.expected(unseen, None)
    for n in sizes:
        part = slice(n)
        known = {name: values[part] for name, values in rows.items()}
        yield LOGGING, n, world.expected(unseen, world.logging) - best
        for name, estimator in algorithms.items():
            estimator.fit(X[part], Y[part], **known, logging_policy=world.logging)
            yield name, n, world.expected(unseen, estimator.policy_) - best


def table(repetitions: int, sizes: Sequence[int] = SIZES) -> pd.DataFrame:
    """A row per kind, algorithm and n."""
    with warnings.catch_warnings(action="ignore"):  # small logs: fits that do not converge, actions that no row has
        found = [(kind, *row) for kind in KINDS for seed in range(repetitions) for row in regrets(kind, seed, sizes)]
    columns = ["kind", "algorithm", "n"]
    groups = pd.DataFrame(found, columns=[*columns, "regret"]).groupby(columns, sort=False)["regret"]
    return pd.DataFrame(
        [{**dict(zip(columns, key, strict=True)), **interval(of.to_numpy())._asdict()} for key, of in groups]
    )


def summary(rows: pd.DataFrame) -> str:
    """The mean costs above the best policy's."""
    means = rows.pivot(index="n", columns=["kind", "algorithm"], values="mean")
    return means.to_string(float_format="%.4f")
