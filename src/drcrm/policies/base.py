"""Interface of the policies that a log can evaluate: exponential ones, and tables of probabilities."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from drcrm.actions.base import Actions, explored_mean, uniform_policy
from drcrm.arrays.mapped_arrays import Features
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.policies.prepared_log import PreparedLog


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
    def evaluate(
        self, log: BanditLog, effects: np.ndarray | None = None, name: str = "policy"
    ) -> tuple[PreparedLog, np.ndarray, np.ndarray | None]:
        """Return log π of the rows of a log, and the expected modelled costs of its contexts.

        Parameters
        ----------
        log : BanditLog
            Log; rows of count 0, and contexts without other rows, are left out.
        effects : array, optional
            Effects of a cost model in the contexts of the log.
        name : str
            Role of the policy, for messages.

        Returns
        -------
        prepared : PreparedLog
            The log without the rows of count 0.
        log_prob : array (n,)
            Values of log π(y_i|x_i).
        expected : array (m,) or None
            Expected modelled costs; None without effects.

        Raises
        ------
        InputError
            If the log has other features or actions than the policy.
        """

    @abstractmethod
    def probabilities(self, log: BanditLog, name: str = "policy") -> tuple[np.ndarray, list[tuple[float, np.ndarray]]]:
        """Return log π of the rows, (n,), and the ``components``, in one pass over a log without rows of count 0.

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
