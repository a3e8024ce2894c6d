"""Policies of simulations: functions of contexts X (n, d) and scores (n, K) that return probabilities (n, K)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import softmax

from drcrm.arrays.formats import constructor_repr
from drcrm.arrays.validation import check_choice, check_fraction
from drcrm.errors import InputError
from drcrm.selection.fit_settings import make_object

PolicyFunction = Callable[[np.ndarray, np.ndarray], np.ndarray]


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
    """Probabilities in proportion to e^{η score}; a negative sharpness η prefers bad actions.

    A ``temperature`` T sets η = 1/T.
    """

    def __init__(self, sharpness: float = 1.0, unsupported: float = 0.0, temperature: float | None = None):
        super().__init__(unsupported)
        if temperature == 0:
            raise InputError("temperature must not be 0; epsilon_greedy with epsilon 0 takes the best action")
        self.temperature = temperature
        self.sharpness = 1 / temperature if temperature else sharpness

    def _shares(self, scores: np.ndarray) -> np.ndarray:
        is_supported = np.isfinite(scores)
        return softmax(np.where(is_supported, self.sharpness * np.where(is_supported, scores, 0), -np.inf), axis=1)


POLICIES = {"uniform": Uniform, "epsilon_greedy": EpsilonGreedy, "softmax": Softmax}


def make_policy(value: Any) -> PolicyFunction:
    """Return a policy from a name of ``POLICIES``, a name with parameters, or a user's ``module:Class``."""
    return make_named(value, POLICIES, "policy", "__call__")


def make_named(value: Any, classes: Mapping[str, type], key: str, method: str) -> Any:
    """Return an object of a named class, of a name with parameters, or of a user's ``module:Class``."""
    name, parameters = next(iter(value.items())) if isinstance(value, Mapping) and len(value) == 1 else (value, None)
    if isinstance(name, str) and ":" in name:
        return make_object(value, key, method)
    known = classes[check_choice(tuple(classes), name, key)]
    return make_object({f"{known.__module__}:{known.__qualname__}": parameters}, key, method)


def checked_probabilities(policy: PolicyFunction, X: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the probabilities of a policy; InputError unless they are distributions over the K actions."""
    values = np.asarray(policy(X, scores), dtype=float)
    if values.shape != scores.shape or (values < 0).any() or not np.allclose(values.sum(axis=1), 1):
        raise InputError(
            f"a policy must return probabilities of shape {scores.shape} that add up to 1 in each row, got shape "
            f"{values.shape} from {policy!r}"
        )
    return values
