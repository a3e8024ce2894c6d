"""Interface of the policies that a log can evaluate: exponential ones, and tables of probabilities."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Self

import numpy as np

from drcrm.actions.base import Actions, explored_log_prob, explored_mean, uniform_policy
from drcrm.arrays.mapped_arrays import Features
from drcrm.data.bandit_log import BanditLog
from drcrm.policies.prepared_log import PreparedLog


class Policy(ABC):
    """A policy (1 − ε) π + ε U, where U is the uniform policy. A class needs only ``_unexplored_marginals``.

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
        prepared = PreparedLog(log, effects)
        log = prepared.log
        mean = self._unexplored_marginals(log.X, log.actions, name, "the probability of the logged actions")
        uniform_log_prob, uniform = uniform_policy(log.actions, mean)
        log_prob = log.actions.log_prob(mean, log.Y, log.context)
        log_prob = explored_log_prob(log_prob, uniform_log_prob[log.context], self.explore)
        if effects is None:
            return prepared, log_prob, None
        expected = [log.actions.expected_cost(part, prepared.effects) for part in (mean, uniform)]
        return prepared, log_prob, (1 - self.explore) * expected[0] + self.explore * expected[1]

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
