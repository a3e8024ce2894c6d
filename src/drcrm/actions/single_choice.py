"""Choice of one of K actions. A context may allow only a subset of them, the eligible actions."""

from typing import Any

import numpy as np

from drcrm.actions.action_lists import ActionLists
from drcrm.actions.base import Actions, explored_mean
from drcrm.actions.one_of_many import OneOfMany
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.validation import check_actions, reject_rows
from drcrm.errors import InputError


class SingleChoice(OneOfMany):
    """Actions a ∈ {0 … K − 1} with π(a|x) = e^{u_a} / Σ_b e^{u_b}, where b runs over the eligible actions.

    Parameters
    ----------
    n_actions : int
        K.
    eligible : boolean array (m, K), optional
        The available actions of each context of a log; by default all.
    """

    kind, plural = "single", "single actions"

    def __init__(self, n_actions: int, eligible: np.ndarray | None = None):
        self.shape = self.effect_shape = (n_actions,)
        self.n_classes, self.eligible = n_actions, eligible

    def __str__(self) -> str:
        return f"one of {self.shape[0]} actions"

    def residual_cells(self, Y: np.ndarray) -> tuple[Any, int]:
        return Y, self.n_classes

    def bind(self, X: object, eligible: object = None) -> tuple[Features, Actions]:
        features, _ = super().bind(X)
        return features, SingleChoice(self.shape[0], _check_eligible(eligible, (features.shape[0], self.shape[0])))

    def _restrict(self, contexts: slice | np.ndarray) -> Actions:
        return SingleChoice(self.shape[0], None if self.eligible is None else self.eligible[contexts])

    def as_lists(self, values: np.ndarray, log: Any) -> tuple[ActionLists, np.ndarray]:
        m, _, n_actions = values.shape
        is_listed = np.ones((m, n_actions), dtype=bool) if self.eligible is None else self.eligible
        starts = np.append(0, np.cumsum(is_listed.sum(axis=1)))
        place = (np.cumsum(is_listed, axis=1) - 1)[log.context, log.Y]
        return ActionLists(values.transpose(0, 2, 1)[is_listed], starts), place

    def check(self, Y: object, rows: int | None = None, owner: str = "the policy") -> np.ndarray:
        Y = super().check(Y, rows)
        expected = f"one of {self.shape[0]} actions, numbered from 0 (or pass a larger n_actions)"
        reject_rows(self.shape[0] <= Y, Y, "Y", expected)
        return Y

    def check_available(self, Y: np.ndarray, context: np.ndarray) -> None:
        if self.eligible is not None:
            reject_rows(~self.eligible[context, Y], Y, "Y", "an action that is eligible for its context")

    def count_scores(self, n_contexts: int) -> int:
        return self.shape[0] * n_contexts

    def score_places(self, Y: np.ndarray, context: np.ndarray, n_contexts: int) -> np.ndarray:
        return Y * n_contexts + context

    def named(self, Y: np.ndarray, names: list) -> np.ndarray:
        return np.array(names)[Y]

    def name_one(self, y: Any, names: list) -> Any:
        return names[y]

    def sum_actions(self, values: np.ndarray) -> np.ndarray:
        return values @ np.ones(values.shape[1])

    def max_score(self, scores: np.ndarray) -> np.ndarray:
        return scores.max(axis=1, initial=-np.inf, where=True if self.eligible is None else self.eligible)

    def count_choices(self) -> np.ndarray:
        return np.array([self.shape[0]]) if self.eligible is None else self.eligible.sum(axis=1)

    def fill_unavailable(self, values: np.ndarray, fill: float) -> None:
        if self.eligible is not None:
            np.copyto(values, fill, where=~self.eligible)

    def centre(self, coef: np.ndarray) -> np.ndarray:
        return coef - coef.mean(axis=1, keepdims=True)

    def fixed_choices(self, mean: np.ndarray) -> np.ndarray:
        probability = mean.copy()
        self.fill_unavailable(probability, 1)
        return probability

    def most_probable(self, scores: np.ndarray) -> np.ndarray:
        return (scores if self.eligible is None else np.where(self.eligible, scores, -np.inf)).argmax(axis=1)

    def sample(self, mean: np.ndarray, rng: np.random.Generator, explore: float = 0.0) -> np.ndarray:
        cumulative = np.cumsum(explored_mean(self, mean, explore), axis=1)
        threshold = np.minimum(rng.random(len(mean)), 1 - 1e-15) * cumulative[:, -1]
        return (cumulative > threshold[:, None]).argmax(axis=1)


def _check_eligible(eligible: Any, shape: tuple[int, int]) -> np.ndarray | None:
    """Return the mask of eligible actions, (m, K); None if all are eligible."""
    if eligible is None:
        return None
    eligible = check_actions(eligible, shape[0], "eligible", columns="action").astype(bool)
    if eligible.shape != shape:
        raise InputError(f"eligible has {eligible.shape[1]} columns, expected one for each of {shape[1]} actions")
    is_empty = ~eligible.any(axis=1)
    if is_empty.any():
        raise InputError(f"eligible has no action in row {int(np.argmax(is_empty))}, expected at least one")
    return None if eligible.all() else eligible
