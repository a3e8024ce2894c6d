"""A policy's probabilities on one log, which are computed at most once."""

from __future__ import annotations

from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np

from drcrm.arrays.mapped_arrays import as_memory_order
from drcrm.data.bandit_log import BanditLog
from drcrm.policies.base import Policy
from drcrm.policies.prepared_log import importance_weights


class PolicyOnLog:
    """A policy on the rows of one log.

    Parameters
    ----------
    policy : Policy
    log : BanditLog
        Log without rows of count 0.
    name : str
        Role of the policy, for messages.
    needs_all : bool
        Whether the probabilities of all actions will be needed. The same pass then computes them and log π.
    """

    def __init__(self, policy: Policy, log: BanditLog, name: str = "policy", needs_all: bool = True):
        self.policy, self.log, self.name = policy, log, name
        self.knows_all_actions = policy.knows_all_actions
        self._needs_all = needs_all or not policy.knows_all_actions
        self._last: Any = None, None

    @cached_property
    def _probabilities(self) -> tuple[np.ndarray, list[tuple[float, np.ndarray]]]:
        return self.policy.probabilities(self.log, self.name)

    @cached_property
    def log_prob(self) -> np.ndarray:
        """Values of log π of the rows, (n,)."""
        return self._probabilities[0] if self._needs_all else self.policy.evaluate(self.log, name=self.name)[1]

    @property
    def importance(self) -> np.ndarray:
        """Importance weights π/p, (n,)."""
        return importance_weights(self.log_prob, self.log)

    def components(self, purpose: str) -> list[tuple[float, np.ndarray]]:
        """Return the shares and μ of π and of the uniform policy; InputError if only logged actions are known.

        Labels are independent within each of them, but not in the mixture. ``purpose`` is for the message.
        """
        if not self.knows_all_actions:
            return [*self.policy.components(self.log.X, self.log.actions, purpose)]
        return self._probabilities[1]

    def mean(self, purpose: str = "the support rule") -> np.ndarray:
        """Return the probabilities of all actions, in the shape of scores."""
        components = self.components(purpose)
        if len(components) == 1:
            return components[0][1]
        return reduce(add, (share * mean for share, mean in components))

    def expected_cost(self, effects: np.ndarray) -> np.ndarray:
        """Return the expected modelled cost of each context, (m,), from the effects of a cost model."""
        if self._last[0] is not effects:
            components, actions = self.components("the expectation of the modelled cost"), self.log.actions
            ordered = as_memory_order(effects, actions.order)
            self._last = effects, sum(share * actions.expected_cost(mean, ordered) for share, mean in components)
        return self._last[1]
