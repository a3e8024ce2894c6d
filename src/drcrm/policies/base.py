"""Interface of the policies that a log can evaluate, and mixtures of policies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import logsumexp

from drcrm.actions.base import Actions, explored_mean, uniform_policy
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.validation import check_vector
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError

if TYPE_CHECKING:
    from drcrm.policies.exponential import LinearPolicy

ROUNDING = 1e-9  # tolerance for the sum of the probabilities


class Policy(ABC):
    """A policy (1 − ε) π + ε U, where U is the uniform policy.

    In messages, ``name`` is the role of the policy, and ``purpose`` is the use of its probabilities.

    Attributes
    ----------
    explore : float in [0, 1]
        Share ε.
    knows_all_actions : bool
        Whether the probabilities of all actions are known, not only those of the logged actions.
    """

    explore = 0.0
    knows_all_actions = True

    @abstractmethod
    def log_prob_of_rows(self, log: BanditLog, name: str = "policy") -> np.ndarray:
        """Return log π(y_i|x_i) of the rows of a log without rows of count 0, (n,).

        Raise InputError if the log has other features or actions than the policy.
        """

    @abstractmethod
    def probabilities(self, log: BanditLog, name: str = "policy") -> tuple[np.ndarray, list[tuple[float, np.ndarray]]]:
        """Return ``log_prob_of_rows`` and the ``components``, in one pass over a log without rows of count 0.

        There are no components if only the logged actions are known.
        """

    @abstractmethod
    def _unexplored_marginals(self, X: Features, actions: Actions, name: str, purpose: str) -> np.ndarray:
        """Return μ of π, without exploration, in the shape of scores."""

    def marginals_on(
        self, X: Features, actions: Actions, name: str = "policy", purpose: str = "the support rule"
    ) -> np.ndarray:
        """Return μ of the policy on the contexts of a log, in the shape of scores.

        Raise InputError if the log has other features or actions, or if only the logged actions are known.
        """
        return explored_mean(actions, self._unexplored_marginals(X, actions, name, purpose), self.explore)

    def components(self, X: Features, actions: Actions, purpose: str) -> Iterator[tuple[float, np.ndarray]]:
        """Yield the share and μ of π and of U. Labels are independent within each, but not in the mixture."""
        mean = self._unexplored_marginals(X, actions, "policy", purpose)
        yield 1 - self.explore, mean
        if self.explore:
            yield self.explore, uniform_policy(actions, mean)[1]

    def check_log(self, log: BanditLog, name: str) -> None:
        """Raise InputError if the probabilities belong to another log."""
        return

    def select(self, contexts: np.ndarray, actions: Actions) -> Self:
        """Return the policy for selected contexts of its log."""
        return self


def check_compatible(policy: Any, n_features: int, actions: Actions, name: str) -> None:
    """Raise InputError unless the policy has the features and actions of the log."""
    if not policy.actions.is_like(actions):
        raise InputError(f"{name} is over {policy.actions}, the log has {actions}")
    shape, expected = (policy.n_features, *policy.coef.shape[1:]), (n_features, *actions.shape)
    if shape != expected:
        raise InputError(f"{name}'s coef has shape {shape}, expected {expected} to match the log")


class MixturePolicy(Policy):
    """Policy Σ ω_j π_j: for each context, it draws policy j with probability ω_j, and then π_j's action.

    Parameters
    ----------
    policies : sequence of J policies
        ExponentialPolicy or SoftmaxPolicy, for the same contexts and actions.
    weights : array (J,)
        ω_j, at least 0 with sum 1. Policies of weight 0 are left out.

    Attributes
    ----------
    explore : float in [0, 1]
        Share of uniform actions, the mean of those of the policies.

    Notes
    -----
    The arguments and results of the methods have the shapes of those of :class:`LinearPolicy`.
    """

    def __init__(self, policies: Sequence[LinearPolicy], weights: Any):
        weights = check_vector(weights, len(policies), "weights")
        if not ((weights >= 0).all() and abs(weights.sum() - 1) <= ROUNDING):
            raise InputError(f"weights is {weights.tolist()}, expected numbers of at least 0 with sum 1")
        self.policies = [policy for policy, weight in zip(policies, weights, strict=True) if weight > 0]
        self.weights = weights[weights > 0]
        self.actions, self.n_features = self.policies[0].actions, self.policies[0].n_features
        if any(not p.actions.is_like(self.actions) or p.n_features != self.n_features for p in self.policies):
            raise InputError("the policies of a mixture have different actions or features, expected the same")
        self.explore = float(self.weights @ [policy.explore for policy in self.policies])

    def __repr__(self) -> str:
        return f"MixturePolicy({len(self.policies)} policies, {self.n_features} features, {self.actions})"

    def with_exploration(self, explore: float) -> Self:
        """Return the mixture of the policies with another share of uniform actions."""
        return type(self)([policy.with_exploration(explore) for policy in self.policies], self.weights)

    def marginals(self, X: Any, eligible: Any = None) -> np.ndarray:
        """Return Σ ω_j μ_j, the probability of each label or action, like :meth:`LinearPolicy.marginals`."""
        return self._average([policy.marginals(X, eligible) for policy in self.policies])

    def log_prob(self, X: Any, Y: Any, context: Any = None, eligible: Any = None) -> np.ndarray:
        """Return log Σ ω_j π_j(y_i|x) of given actions, (n,), like :meth:`LinearPolicy.log_prob`."""
        return self._join([policy.log_prob(X, Y, context, eligible) for policy in self.policies])

    def sample(self, X: Any, random_state: Any = None, eligible: Any = None) -> np.ndarray:
        """Draw one action for each context, like :meth:`LinearPolicy.sample`."""
        rng = np.random.default_rng(random_state)
        drawn = np.stack([policy.sample(X, rng, eligible) for policy in self.policies])
        m = drawn.shape[1]
        return drawn[rng.choice(len(self.weights), m, p=self.weights), np.arange(m)]

    def greedy(self, X: Any, eligible: Any = None) -> np.ndarray:
        """Return the most probable action of each context; of label vectors, the most probable value of each label."""
        policies = [policy.with_exploration(0.0) for policy in self.policies]
        mean = self._average([policy.marginals(X, eligible) for policy in policies])
        _, actions = self.actions.bind(X, eligible)
        return actions.most_probable(mean - 0.5)

    def draw(self, X: Any, random_state: Any = None, greedy: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Draw one action for each context, and return it with its probability, like :meth:`LinearPolicy.draw`."""
        rng = np.random.default_rng(random_state)
        if not greedy:
            action = self.sample(X, rng)
            return action, np.exp(self.log_prob(X, action))
        best, (drawn, uniform) = self.greedy(X), self.policies[0].with_exploration(1.0).draw(X, rng)
        action, is_drawn = best.copy(), rng.random(len(best)) < self.explore
        action[is_drawn] = drawn[is_drawn]
        is_best = (action == best).reshape(len(best), -1).all(axis=1)
        return action, self.explore * uniform + (1 - self.explore) * is_best

    def log_prob_of_rows(self, log: BanditLog, name: str = "policy") -> np.ndarray:
        return self._join([policy.log_prob_of_rows(log, name) for policy in self.policies])

    def probabilities(self, log: BanditLog, name: str = "policy") -> tuple[np.ndarray, list[tuple[float, np.ndarray]]]:
        parts = [policy.probabilities(log, name) for policy in self.policies]
        components = [
            (weight * share, mean)
            for weight, (_, of_policy) in zip(self.weights, parts, strict=True)
            for share, mean in of_policy
        ]
        return self._join([log_prob for log_prob, _ in parts]), components

    def components(self, X: Features, actions: Actions, purpose: str) -> Iterator[tuple[float, np.ndarray]]:
        for weight, policy in zip(self.weights, self.policies, strict=True):
            for share, mean in policy.components(X, actions, purpose):
                yield weight * share, mean

    def marginals_on(
        self, X: Features, actions: Actions, name: str = "policy", purpose: str = "the support rule"
    ) -> np.ndarray:
        return self._average([policy.marginals_on(X, actions, name, purpose) for policy in self.policies])

    def _unexplored_marginals(self, X: Features, actions: Actions, name: str, purpose: str) -> np.ndarray:
        return self.with_exploration(0.0).marginals_on(X, actions, name, purpose)

    def _average(self, values: Sequence[Any]) -> np.ndarray:
        return np.tensordot(self.weights, np.stack(values), axes=1)

    def _join(self, log_probs: Sequence[np.ndarray]) -> np.ndarray:
        """Return log Σ ω_j e^{l_j} of log-probabilities l_j."""
        return np.minimum(logsumexp(np.stack(log_probs), axis=0, b=self.weights[:, None]), 0)
