"""Choices of one action: of K actions, or of a candidate from the context's own list; and contexts with such lists.

A single choice is a number from 0 to K − 1, and a listed action is its place in the list, from 0. Source of the lists:
Vowpal Wabbit's action-dependent features (ADF).
"""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy import sparse

from drcrm.actions.base import Actions, explored_mean
from drcrm.actions.one_of_many_base import OneOfMany
from drcrm.arrays.mapped_arrays import Features, take_rows
from drcrm.arrays.validation import as_integer_vector, check_actions, check_features, reject_rows
from drcrm.errors import InputError


class ActionLists:
    """Contexts with their own lists of candidate actions, in place of a feature matrix X.

    Each of the m contexts has one list. The N candidates of all lists have D features each, written ψ. ``lists[rows]``
    selects contexts.

    Parameters
    ----------
    features : array or CSR (N, D)
        Features ψ of all candidates, list after list.
    starts : int array (m + 1,)
        Row of ``features`` at which each list starts, and N as the last entry. List k consists of the rows starts[k] to
        starts[k + 1] − 1, at least one.

    Raises
    ------
    InputError
        If features are not finite, if starts do not increase from 0 to N, or if a list is empty.

    Examples
    --------
    >>> lists = ActionLists([[1, 0], [0, 1], [1, 1]], starts=[0, 2, 3])  # two candidates, then one
    >>> lists.shape
    (2, 2)
    """

    def __init__(self, features: Any, starts: Any):
        self.features = check_features(features, "features")
        starts = as_integer_vector(starts, "starts")
        if len(starts) < 2 or starts[0] != 0 or starts[-1] != self.features.shape[0]:
            raise InputError(f"starts must begin at 0 and end at {self.features.shape[0]}, the number of candidates")
        sizes = np.diff(starts)
        if (sizes < 1).any():
            number = int(np.argmax(sizes < 1))
            problem = "ends before it begins" if sizes[number] else "is empty"
            raise InputError(f"list {number} {problem}, expected at least one action")
        self.starts = starts

    def __repr__(self) -> str:
        return f"ActionLists({len(self)} lists, {self.features.shape[0]} candidates, {self.features.shape[1]} features)"

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """Number of lists m and number of features D."""
        return len(self), self.features.shape[1]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise InputError("ActionLists is not an array. Use .features and .starts.")

    def __getitem__(self, rows: Any) -> Self:
        rows = rows[0] if isinstance(rows, tuple) else rows  # lists[rows, ...], as scikit-learn indexes
        lists = np.atleast_1d(np.arange(len(self))[rows])
        if not lists.size:
            raise InputError("the selection of lists is empty, expected at least one list")
        return type(self)(self.features[candidates_of_lists(self.starts, lists)], starts_of_lists(self.starts, lists))


def starts_of_lists(starts: np.ndarray, contexts: slice | np.ndarray) -> np.ndarray:
    """Return the starts of a subset of lists, one list after the other."""
    if isinstance(contexts, slice):
        return starts[contexts.start : contexts.stop + 1] - starts[contexts.start]
    return np.append(0, np.cumsum(np.diff(starts)[contexts]))


def candidates_of_lists(starts: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """Return the rows of the candidates of a subset of lists, list after list."""
    new_starts = starts_of_lists(starts, contexts)
    return np.repeat(starts[:-1][contexts] - new_starts[:-1], np.diff(new_starts)) + np.arange(new_starts[-1])


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


class ListedActions(OneOfMany):
    """Places in a context's list. A candidate with features ψ_a has the score u_a = ψ_a·θ.

    The policy is π(a|x) = e^{u_a} / Σ_b e^{u_b}, with the sum over the list. Features that are equal within each list,
    such as a constant, do not change it.

    Parameters
    ----------
    starts : integer array (m + 1,), optional
        The first candidate of each list, as in ``ActionLists``. None for a policy, which can be used with any lists.
    """

    kind, plural = "lists", "lists of actions"
    effect_shape = ()
    has_intercept = are_shared = False

    def __init__(self, starts: np.ndarray | None = None):
        self.starts = starts

    def __str__(self) -> str:
        return "lists of actions"

    @classmethod
    def create(cls, size: Any) -> Self:
        return cls()

    def over(self, starts: np.ndarray | None) -> Actions:
        if starts is None:
            raise InputError("these are contexts, expected lists of actions like in the training log")
        return ListedActions(starts)

    def bind(self, X: object, eligible: object = None) -> tuple[Features, Actions]:
        if eligible is not None:
            raise InputError("eligible cannot be used with lists of actions; leave ineligible actions out of the lists")
        if not isinstance(X, ActionLists):
            raise InputError(f"X is of type {type(X).__name__}, expected ActionLists, because the policy is over lists")
        if self.starts is not None and not np.array_equal(X.starts, self.starts):
            raise InputError("the lists of X must have the same starts as the lists of the log")
        return X.features, ListedActions(X.starts)

    def unbind(self, X: Features) -> Features | ActionLists:
        return ActionLists(X, self.starts)

    def n_contexts(self, X: np.ndarray | sparse.csr_array) -> int:
        return len(self.starts) - 1

    def feature_rows(self, Y: np.ndarray, context: np.ndarray) -> np.ndarray:
        return self.starts[context] + Y

    def _restrict(self, contexts: slice | np.ndarray) -> Actions:
        return ListedActions(starts_of_lists(self.starts, contexts))

    def _array_rows(self, contexts: slice | np.ndarray) -> Any:
        if isinstance(contexts, slice):
            return slice(int(self.starts[contexts.start]), int(self.starts[contexts.stop]))
        return candidates_of_lists(self.starts, contexts)

    def as_lists(self, values: np.ndarray, log: Any) -> tuple[ActionLists, np.ndarray]:
        return ActionLists(values, self.starts), log.Y

    def check_available(self, Y: np.ndarray, context: np.ndarray) -> None:
        sizes = self.count_choices()[context]
        if (sizes <= Y).any():
            row = int(np.argmax(sizes <= Y))
            raise InputError(
                f"Y is {Y[row]} in row {row}, expected a place from 0 to {sizes[row] - 1}, because the list of its "
                f"context has {sizes[row]} actions"
            )

    def count_scores(self, n_contexts: int) -> int:
        return self.starts[-1]

    def score_places(self, Y: np.ndarray, context: np.ndarray, n_contexts: int) -> np.ndarray:
        return self.feature_rows(Y, context)

    def name_one(self, y: Any, names: list) -> Any:
        return int(y)

    def repeat(self, values: np.ndarray) -> np.ndarray:
        return np.repeat(values, self.count_choices())

    broadcast = repeat

    def combine_rows(self, values: np.ndarray, combine: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        return combine(values, self.starts)

    def sum_actions(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, self.starts[:-1])

    def max_score(self, scores: np.ndarray) -> np.ndarray:
        return np.maximum.reduceat(scores, self.starts[:-1])

    def count_choices(self) -> np.ndarray:
        return np.diff(self.starts)

    def fixed_choices(self, mean: np.ndarray) -> np.ndarray:
        return np.minimum.reduceat(mean, self.starts[:-1])[:, None]

    def most_probable(self, scores: np.ndarray) -> np.ndarray:
        best = np.flatnonzero(scores == self.broadcast(self.max_score(scores)))
        return best[np.searchsorted(best, self.starts[:-1])] - self.starts[:-1]

    def sample(self, mean: np.ndarray, rng: np.random.Generator, explore: float = 0.0) -> np.ndarray:
        cumulative = np.cumsum(explored_mean(self, mean, explore))
        before = np.append(0, cumulative)[self.starts]
        threshold = before[:-1] + rng.random(len(before) - 1) * np.diff(before)
        last = np.searchsorted(cumulative, before[1:])  # the last candidate with a positive probability
        return np.minimum(np.searchsorted(cumulative, threshold, side="right"), last) - self.starts[:-1]

    # Modelled costs and support: contexts share no candidates

    def loadings(self, Y: np.ndarray) -> sparse.csr_array | None:
        return None

    def regression_log(self, log: Any) -> Any:
        chosen, context = np.unique(self.feature_rows(log.Y, log.context), return_inverse=True)
        X = take_rows(log.X, chosen)
        return log.replace(X=X, actions=SingleChoice(1), Y=np.zeros_like(log.Y), context=context)

    def mean_weights(self, log: Any, weight: np.ndarray, mean: np.ndarray, logging_mean: np.ndarray) -> np.ndarray:
        return np.asarray(log.count @ weight / log.size)
