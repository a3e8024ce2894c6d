"""Policies of simulations: functions of contexts X (n, d) and scores (n, K) that return probabilities (n, K)."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from drcrm.arrays.numerics import constructor_repr
from drcrm.arrays.validation import check_fraction
from drcrm.errors import InputError


class Uniform:
    """Uniform policy.

    Parameters
    ----------
    unsupported : float in [0, 1)
        Share of the actions, rounded down, that the policy never takes. They are the same in all contexts.
    """

    __repr__ = constructor_repr

    def __init__(self, unsupported: float = 0.0):
        self.unsupported = check_fraction(unsupported, "unsupported")
        if unsupported == 1:
            raise InputError("unsupported must be below 1, because a policy takes some action")

    def __call__(self, X: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the probabilities of all actions, (n, K)."""
        order = np.random.default_rng(0).permutation(scores.shape[1])
        is_missing = np.isin(np.arange(scores.shape[1]), order[: int(self.unsupported * len(order))])
        return self._shares(np.where(is_missing, -np.inf, scores))

    def _shares(self, scores: np.ndarray) -> np.ndarray:
        is_supported = np.isfinite(scores)
        return is_supported / is_supported.sum(axis=1, keepdims=True)


class EpsilonGreedy(Uniform):
    """The action with the largest score with probability 1 − ε, and otherwise a uniform one."""

    def __init__(self, epsilon: float = 0.1, unsupported: float = 0.0):
        super().__init__(unsupported)
        self.epsilon = check_fraction(epsilon, "epsilon")

    def _shares(self, scores: np.ndarray) -> np.ndarray:
        best = np.eye(scores.shape[1])[scores.argmax(axis=1)]
        return (1 - self.epsilon) * best + self.epsilon * super()._shares(scores)


class Softmax(Uniform):
    """Probabilities in proportion to e^{η score}; a negative sharpness η prefers bad actions."""

    def __init__(self, sharpness: float = 1.0, unsupported: float = 0.0):
        super().__init__(unsupported)
        self.sharpness = sharpness

    def _shares(self, scores: np.ndarray) -> np.ndarray:
        is_supported = np.isfinite(scores)
        return softmax(np.where(is_supported, self.sharpness * np.where(is_supported, scores, 0), -np.inf), axis=1)
