"""Simulators: logs of one of K actions, with the logging policy's probabilities and the true costs of policies.

A simulator is a subclass of :class:`Simulator` with the method ``draw_contexts(n, rng)``. A policy is a function of
contexts X (n, d) and scores (n, K) that returns probabilities (n, K). The scores are what the simulator lets policies
know about the rewards, by default the expected rewards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, softmax

from drcrm.actions.one_of_many import SingleChoice
from drcrm.arrays.formats import constructor_repr
from drcrm.bench.simulated_policies import (  # noqa: F401, some are public here
    EpsilonGreedy,
    PolicyFunction,
    Softmax,
    Uniform,
    checked_probabilities,
    make_named,
    make_policy,
)
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError

BATCH = 1_000_000  # largest number of probabilities in memory
MOST_CONTEXTS, MOST_CELLS = 100_000, 50_000_000  # of a Monte Carlo mean, by default
MEAN_UTILITY = -1.0
OWN = "own"  # name of a simulator's own logging policy


class TrueCost(NamedTuple):
    """Expected cost of a policy, with its Monte Carlo standard error, which is 0 in closed form."""

    value: float
    standard_error: float


@dataclass(frozen=True, eq=False)
class Sample:
    """A simulated log, and the logging policy's probabilities and the scores of all actions in its rows, (n, K)."""

    log: BanditLog
    logging: np.ndarray
    scores: np.ndarray

    def probabilities(self, policy: PolicyFunction) -> np.ndarray:
        """Return the probabilities of another policy in the rows of the log, (n, K)."""
        return checked_probabilities(policy, self.log.X, self.scores)


class Simulator(ABC):
    """Base class of simulators.

    Attributes
    ----------
    noise : float, array (K,) or None
        Standard deviation of normal costs, for each action. None: a cost is −1 with the probability of minus its
        expectation, and otherwise 0.
    action_features : int array (K, k) or None
        Discrete features of the actions.
    clusters : int array (K,) or None
        Cluster of each action, for the estimators "mips" and "cluster_dr", and for cost models of clusters.
    """

    noise: Any = None
    action_features: np.ndarray | None = None
    clusters: np.ndarray | None = None
    __repr__ = constructor_repr

    @abstractmethod
    def draw_contexts(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return contexts X (n, d) and the expected costs of all actions (n, K)."""

    def scores(self, X: np.ndarray, costs: np.ndarray) -> np.ndarray:
        """Return the scores that policies know, (n, K), by default the expected rewards."""
        return -costs

    def logged_costs(self, X: np.ndarray, costs: np.ndarray) -> np.ndarray:
        """Return the expected costs in the rows of a log, (n, K), which differ from ``costs`` under drift."""
        return costs

    def logging_policy(self, X: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the probabilities of the simulator's own logging policy, (n, K), by default the uniform one."""
        return Uniform()(X, scores)

    def population(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return contexts, expected costs and weights; the weights are None for n random contexts."""
        return *self.draw_contexts(n, rng), None

    def draw(self, n: int, logging_policy: PolicyFunction | None = None, seed: Any = 0) -> Sample:
        """Return a log of n rows.

        Parameters
        ----------
        n : int
            Number of rows.
        logging_policy : function, optional
            Policy that draws the actions; by default the simulator's own.
        seed : int, sequence of int, or Generator
            Seed of all draws.
        """
        rng = np.random.default_rng(seed)
        X, costs = self.draw_contexts(n, rng)
        scores, rows = self.scores(X, costs), np.arange(n)
        logging = checked_probabilities(logging_policy or self.logging_policy, X, scores)
        Y = SingleChoice(logging.shape[1]).sample(logging, rng)
        cost = self._draw_costs(self.logged_costs(X, costs)[rows, Y], Y, rng)
        return Sample(BanditLog(X, Y, logging[rows, Y], cost, n_actions=logging.shape[1]), logging, scores)

    def _draw_costs(self, mean: np.ndarray, Y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if self.noise is None:
            return -(rng.random(len(mean)) < -mean).astype(float)
        scale = np.asarray(self.noise, dtype=float)
        return mean - (scale[Y] if scale.ndim else scale) * rng.normal(size=len(mean))

    def true_cost(self, policy: PolicyFunction, contexts: int | None = None, seed: int = 0) -> TrueCost:
        """Return the expected cost of a policy.

        Parameters
        ----------
        policy : function
        contexts : int, optional
            Number of contexts of a Monte Carlo mean, by default 100 000, or 5·10⁷/K if this is less. Simulators with a
            closed form ignore it.
        seed : int
            Seed of these contexts.
        """
        rng, values, size = np.random.default_rng([seed, 1]), np.empty(0), 1000
        end = contexts or MOST_CONTEXTS
        while len(values) < end:
            X, costs, weights = self.population(min(size, end - len(values)), rng)
            end = contexts or min(MOST_CONTEXTS, MOST_CELLS // costs.shape[1])
            mean = (checked_probabilities(policy, X, self.scores(X, costs)) * costs).sum(axis=1)
            if weights is not None:
                return TrueCost(float(weights @ mean), 0.0)
            values, size = np.append(values, mean), max(BATCH // costs.shape[1], 1)
        return TrueCost(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))


class Linear(Simulator):
    """Normal contexts, and clicks with log-odds −1 + φ(x)·θ_a, in which φ(x) is x.

    The vector of an action is that of its cluster plus ``within`` times a vector of its own, all with standard normal
    entries. With k features of actions, the vector of a cluster is the sum of a vector for the value of each feature,
    divided by √k. φ has mean square 1. The log-odds of row i of n have moved by ``drift`` · (i/n − 1) φ(x)·η_a with
    another vector η_a, so the last rows of a log are like the future.

    Parameters
    ----------
    actions, features : int
        Numbers K and d.
    clusters : int, optional
        Number of clusters; by default each action is its own. Action a is in cluster a modulo this number.
    action_features : sequence of int, optional
        Number of values of each feature of the actions. Actions with equal features are a cluster. The values are the
        digits of the number of the action, the first feature having the last digit.
    within : float
        Size of the differences within clusters.
    drift : float
        Size of the drift.
    seed : int
        Seed of the vectors.
    """

    def __init__(
        self,
        actions: int = 10,
        features: int = 5,
        clusters: int | None = None,
        action_features: Sequence[int] = (),
        within: float = 0.0,
        drift: float = 0.0,
        seed: int = 0,
    ):
        if clusters and action_features:
            raise InputError("clusters follow from action_features; leave one of them out")
        values = [*action_features] or [clusters or actions]
        if min(actions, features, *values) < 1:
            raise InputError(f"numbers must be at least 1, got {actions} actions, {features} features, and {values}")
        self.features, self.drift = features, drift
        self.action_features = np.arange(actions)[:, None] // np.cumprod([1, *values[:-1]]) % values
        _, self.clusters = np.unique(self.action_features, axis=0, return_inverse=True)
        rng = np.random.default_rng(seed)
        size = self.feature_map(np.zeros((1, features))).shape[1]
        first, of_actions, change, *others = (rng.normal(size=(size, actions)) for _ in range(2 + len(values)))
        of_values = [vectors[:, value] for vectors, value in zip((first, *others), self.action_features.T, strict=True)]
        has_clusters = bool(clusters or action_features)
        self.coef = sum(of_values) / np.sqrt(len(values)) + (within * of_actions if has_clusters else 0)
        self.change = change

    def feature_map(self, X: np.ndarray) -> np.ndarray:
        """Return φ(x), with mean square 1."""
        return X / np.sqrt(self.features)

    def draw_contexts(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, self.features))
        return X, self._costs(X, 0.0)

    def logged_costs(self, X: np.ndarray, costs: np.ndarray) -> np.ndarray:
        return self._costs(X, self.drift * (np.arange(1, len(X) + 1)[:, None] / len(X) - 1)) if self.drift else costs

    def _costs(self, X: np.ndarray, moved: Any) -> np.ndarray:
        """Return the expected costs after log-odds have moved, (n, K)."""
        phi = self.feature_map(X)
        return -expit(MEAN_UTILITY + phi @ self.coef + (moved * (phi @ self.change) if np.any(moved) else 0))


class Quadratic(Linear):
    """Like :class:`Linear`, in which φ(x) has the features and their squares, each with mean square 1 in all."""

    def feature_map(self, X: np.ndarray) -> np.ndarray:
        return np.hstack([X, (X**2 - 1) / np.sqrt(2)]) / np.sqrt(2 * self.features)


class Interaction(Linear):
    """Like :class:`Linear`, in which φ(x) has the products of two different features; it needs two features."""

    def feature_map(self, X: np.ndarray) -> np.ndarray:
        first, second = np.triu_indices(self.features, 1)
        return X[:, first] * X[:, second] / np.sqrt(max(len(first), 1))


class ZhouAtheyWager(Simulator):
    """Three actions whose best one depends on regions of two of ten uniform features. Source: Zhou, Athey & Wager 2023.

    In region C the logging policy is (.4, .2, .4), elsewhere (.2, .6, .2). Costs have the variance 4.
    """

    noise = 2.0

    def draw_contexts(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        X = rng.random((n, 10))
        reward = np.tile([1.5, 2.0, 1.5], (n, 1))
        reward[(X[:, 4] < 0.6) & (X[:, 6] > 0.35)] = 3, 2, 1
        reward[self._in_region_c(X)] = -1.5, 0, 1.5
        return X, -reward

    def logging_policy(self, X: np.ndarray, scores: np.ndarray) -> np.ndarray:
        return np.where(self._in_region_c(X)[:, None], [0.4, 0.2, 0.4], [0.2, 0.6, 0.2])

    @staticmethod
    def _in_region_c(X: np.ndarray) -> np.ndarray:
        x, y = X[:, 4], X[:, 6]
        is_low, is_high = (x / 0.6) ** 2 + (y / 0.35) ** 2 < 1, ((x - 1) / 0.4) ** 2 + ((y - 1) / 0.35) ** 2 < 1
        return is_low | is_high


class KallusMaoWangZhou(Simulator):
    """Five actions with reward x·β_a for the fifth roots of unity β_a, and x uniform on [−1, 1]².

    The standard deviation is 0.1, 0.2 … 0.5 by action, and the logging policy is softmax(2 x·β). True costs are sums
    over ``nodes`` with ``weights``, a Gauss quadrature. Source: Kallus, Mao, Wang & Zhou 2022.
    """

    actions = 5
    noise = np.arange(1, actions + 1) / 10
    _angles = 2 * np.pi * np.arange(actions) / actions
    roots = np.array([np.cos(_angles), np.sin(_angles)])
    _nodes, _weights = np.polynomial.legendre.leggauss(80)
    nodes = np.stack(np.meshgrid(_nodes, _nodes), axis=-1).reshape(-1, 2)
    weights = np.outer(_weights, _weights).ravel() / 4

    def draw_contexts(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        X = rng.uniform(-1, 1, (n, 2))
        return X, -X @ self.roots

    def logging_policy(self, X: np.ndarray, scores: np.ndarray) -> np.ndarray:
        return softmax(2 * scores, axis=1)

    def population(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.nodes, -self.nodes @ self.roots, self.weights


class Labelled(Simulator):
    """Bandit feedback from labelled data: the cost is −1 for the right class and 0 for others.

    Contexts are drawn with replacement from one half of the data. The scores are the class probabilities of a logistic
    regression on the other half. True costs are means over the first half.

    Parameters
    ----------
    X : array (n, d)
    y : array (n,)
        Classes.
    seed : int
        Seed of the split.
    """

    __repr__ = object.__repr__

    def __init__(self, X: Any, y: Any, seed: int = 0):
        from sklearn.linear_model import LogisticRegression  # slow, and the workflow checks names of simulators

        classes, y = np.unique(y, return_inverse=True)
        inside, training = np.array_split(np.random.default_rng(seed).permutation(len(y)), 2)
        missing = np.setdiff1d(np.arange(len(classes)), y[training])
        if len(missing):
            raise InputError(
                f"each class needs a row in both halves, class {classes[missing[0]]} has none in the second"
            )
        X = np.asarray(X, dtype=float)
        self._regression = LogisticRegression(max_iter=2000).fit(X[training], y[training])
        self._X, self._costs = X[inside], -np.eye(len(classes))[y[inside]]

    def draw_contexts(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        rows = rng.integers(0, len(self._X), n)
        return self._X[rows], self._costs[rows]

    def scores(self, X: np.ndarray, costs: np.ndarray) -> np.ndarray:
        return self._regression.predict_proba(X)

    def population(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._X, self._costs, np.full(len(self._X), 1 / len(self._X))


SIMULATORS = {
    "linear": Linear,
    "quadratic": Quadratic,
    "interaction": Interaction,
    "zhou_athey_wager": ZhouAtheyWager,
    "kallus_mao_wang_zhou": KallusMaoWangZhou,
}


def make_simulator(value: Any) -> Any:
    """Return a simulator from a name of ``SIMULATORS``, a name with parameters, or a user's ``module:Class``."""
    return make_named(value, SIMULATORS, "simulator", "draw_contexts")
