"""Choices of exactly one action: the base class of single choices and listed actions, and their map to the rows.

The scores are s(a) = u_a, so A(u) = log Σ_a e^{u_a} and μ is the softmax of u. Effects are the costs of the actions.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.special import rel_entr

from drcrm.actions.base import LARGE_SCORE, Actions
from drcrm.actions.modelled_costs import RowMap
from drcrm.arrays.numerics import exp
from drcrm.arrays.validation import as_integer_vector, reject_rows
from drcrm.errors import InputError

if TYPE_CHECKING:
    from drcrm.actions.one_of_many import ActionLists

ROUNDING = 1e-6  # relative error of propensities
ROUNDED = 0.05  # relative error of uniform propensities of two digits, such as 0.33 for 1/3
EXPLORED = 10  # least number of rows of an action that show constant exploration
REFUTED = 1e-4  # significance level of the test that refutes the support of an action
LEAST, MOST = 1e-60, 1e300  # if the sum of e^u is in this range, no significant term was lost


class OneOfMany(Actions):
    """Base class of action spaces whose actions are vectors (n,) of whole numbers from 0."""

    order = "F"

    @abstractmethod
    def count_scores(self, n_contexts: int) -> int:
        """Return the number of scores of all contexts."""

    @abstractmethod
    def score_places(self, Y: np.ndarray, context: np.ndarray, n_contexts: int) -> np.ndarray:
        """Return the place of the score of each row's action, (n,), in the flattened transposed scores."""

    def row_map(self, Y: np.ndarray, context: np.ndarray | None, n_contexts: int) -> RowMap:
        return ChosenRows(self, Y, context, n_contexts)

    @abstractmethod
    def as_lists(self, values: np.ndarray, log: Any) -> tuple[ActionLists, np.ndarray]:
        """Return lists of the available actions, with features (rows of X, J, *shape), and the places of Y, (n,)."""

    @abstractmethod
    def sum_actions(self, values: np.ndarray) -> np.ndarray:
        """Return sums over the actions of each context, (m,)."""

    @abstractmethod
    def max_score(self, scores: np.ndarray) -> np.ndarray:
        """Return the largest score of an available action in each context, (m,)."""

    def fill_unavailable(self, values: np.ndarray, fill: float) -> None:
        """Overwrite the values of unavailable actions."""

    def check(self, Y: object, rows: int | None = None, owner: str = "the policy") -> np.ndarray:
        Y = as_integer_vector(Y, "Y")
        if rows is not None and len(Y) != rows:
            raise InputError(f"Y has {len(Y)} rows, expected {rows}")
        reject_rows(Y < 0, Y, "Y", "the number of an action, 0 or more")
        return Y

    def log_partition(self, scores: np.ndarray, buffers: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Return A(u) and μ_a = e^{u_a − A(u)}.

        If e^u could overflow or underflow, this subtracts the largest score of each context from ``scores`` in place,
        and returns A of the shifted scores. For large u, u − A(u) would lose the digits that distinguish actions.
        """
        mean, spare = (np.empty_like(scores), np.empty_like(scores)) if buffers is None else buffers
        total: Any = np.zeros(1)
        if scores.max() < LARGE_SCORE:
            exp(scores, out=mean)
            self.fill_unavailable(mean, 0)
            total = self.sum_actions(mean)
        if not (total.min() > LEAST and total.max() < MOST):
            scores -= self.broadcast(self.max_score(scores))
            np.copyto(spare, scores)
            self.fill_unavailable(spare, -np.inf)
            total = self.sum_actions(exp(spare, out=mean))
        mean *= self.broadcast(1 / total)
        return np.log(total), mean

    def total_probability(self, mean: np.ndarray) -> np.ndarray:
        available = mean.copy()
        self.fill_unavailable(available, 0)
        return self.sum_actions(available)

    def log_prob(self, mean: np.ndarray, Y: np.ndarray, context: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self.row_map(Y, context, self.n_contexts(mean)).to_rows(mean, None))

    def is_taken(self, Y: np.ndarray) -> np.ndarray:
        return Y[:, None] == np.arange(*self.shape)

    def sort_keys(self, Y: np.ndarray) -> list[np.ndarray]:
        return [Y]

    def codes(self, Y: np.ndarray) -> np.ndarray:
        return Y[:, None]

    def draw_one(self, scores: np.ndarray, rng: np.random.Generator, explore: float = 0.0) -> tuple[int, float]:
        weights = np.exp(scores - scores.max())
        if explore:
            weights = (1 - explore) * weights / weights.sum() + explore / len(weights)
        cumulative = weights.cumsum()
        total = cumulative[-1]
        action = int(cumulative.searchsorted(min(rng.random(), 1 - 1e-15) * total, side="right"))
        return action, float(weights[action] / total)

    # Modelled costs: the effects are the costs of the actions

    def expected_cost(self, mean: np.ndarray, effects: np.ndarray) -> np.ndarray:
        return self.sum_actions(mean * effects)

    def expected_cost_gradient(
        self, mean: np.ndarray, effects: np.ndarray, by_context: np.ndarray, expected: np.ndarray
    ) -> np.ndarray:
        gradient = effects - self.broadcast(expected)
        gradient *= mean
        gradient *= self.broadcast(by_context)
        return gradient

    def add_offsets(self, effects: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        return effects + (offsets if self.shape else self.broadcast(offsets[:, 0]))

    @np.errstate(over="ignore", invalid="ignore")  # ∞ · 0 for an action that is not eligible
    def log_moment(self, mean: np.ndarray, effects: np.ndarray) -> np.ndarray:
        tilted, top = exp(effects, out=np.empty_like(effects)), np.zeros(1)
        tilted *= mean
        total = self.sum_actions(tilted)
        if not (total.min() > LEAST and total.max() < MOST):
            taken = np.where(mean > 0, effects, -np.inf)
            top = self.max_score(taken)
            taken -= self.broadcast(top)
            tilted = mean * exp(taken, out=taken)
            total = self.sum_actions(tilted)
        return top + np.log(total)

    def costs_of_rows(self, row_map: RowMap, effects: np.ndarray) -> np.ndarray:
        return row_map.to_rows(effects, None)

    def loadings(self, Y: np.ndarray) -> sparse.csr_array | None:
        return sparse.csr_array((np.ones(len(Y)), Y, np.arange(len(Y) + 1)), (len(Y), *self.shape))

    def block_moments(self, Y: np.ndarray, share: np.ndarray, row_map: RowMap) -> tuple[np.ndarray, np.ndarray]:
        weights = np.atleast_2d(row_map.to_contexts(share)[0].T)
        return np.ones((len(weights), 1, 1)), weights

    # Support: π0(a|x) is below τ/K_x, where K_x is the number of actions of the context

    def cost_limits(self, cost: np.ndarray, effects: np.ndarray) -> tuple[float, float]:
        return float(cost.min()), float(cost.max())

    def raise_limits(self, limits: tuple[float, float], largest: float) -> tuple[float, float]:
        return limits[0], max(limits[1], largest)

    def find_supported(self, log: Any, logging_mean: np.ndarray, support: float) -> np.ndarray:
        choices, propensity = self.count_row_choices(log.context), log.propensity
        threshold = (1 - ROUNDING) * min(support, self._exploration_rate(log, choices, support)) / choices
        is_rare, is_certain = propensity < threshold, (1 - propensity < threshold) & (choices > 1)
        if not self.shape:
            return ~(is_rare | is_certain).any()
        rare, certain = (np.bincount(log.Y, rows, *self.shape) for rows in (is_rare, is_certain))
        # Uniform propensities show the support of all actions, also of those that few rows lack by chance.
        is_uniform = np.abs(propensity * choices - 1).max() <= ROUNDED
        least = np.full(self.shape, propensity.min() if is_uniform else np.inf)
        np.minimum.at(least, log.Y, propensity)
        return (rare == 0) & (certain == certain.sum()) & self._occurs(log, logging_mean, support, least)

    def _exploration_rate(self, log: Any, choices: np.ndarray, support: float) -> float:
        """Return the constant exploration rate ε that a log shows, or infinity if none.

        ε is the smallest propensity times K, (n,). The log shows it if each row has a propensity of an ε-greedy policy,
        ε/K or 1 − ε (K − 1)/K, with an error of at most 10 % in ε. Each action with smaller propensities than
        ``support``/K, or all listed actions together, must have 10 rows with ε/K.
        """
        relative = log.propensity * choices
        least, explored = relative.min(), relative <= (1 + 2 * ROUNDED) * relative.min()
        is_greedy = np.abs((choices - relative) / np.maximum(choices - 1, 1) - least) <= 2 * ROUNDED * least
        if not (explored | is_greedy | (choices == 1)).all():
            return np.inf
        action = log.Y if self.shape else np.zeros(len(relative), dtype=np.intp)
        rows = np.bincount(action, log.count * explored)
        return float(least) if rows[np.unique(action[relative < support])].min(initial=np.inf) >= EXPLORED else np.inf

    def _occurs(self, log: Any, logging_mean: np.ndarray, support: float, least: np.ndarray) -> np.ndarray:
        """Return which actions are logged often enough in the contexts in which an estimate says that they are rare.

        Their number is binomial with a probability of at least ``least``, (K,), which is ∞ if unknown. The Chernoff
        bound limits the probability of such a small number. The contexts were chosen by the same rows, as one of about
        n^d sets, so the level is 10⁻⁴/n^d for d features.
        """
        is_rare = self._is_unsupported(logging_mean, support)
        offered = np.bincount(log.context, log.count, len(is_rare)) @ is_rare
        taken = np.bincount(log.Y, log.count * is_rare[log.context, log.Y], *self.shape)
        expected = offered * np.minimum(least, 1)
        evidence = rel_entr(taken, expected) + rel_entr(offered - taken, offered - expected)
        is_refuted = (taken < expected) & (evidence > log.X.shape[1] * np.log(log.size) - np.log(REFUTED))
        return (least < np.inf) & ~is_refuted

    def raise_to_support(self, logging_mean: np.ndarray, is_supported: np.ndarray, support: float) -> np.ndarray:
        return np.where(is_supported, np.maximum(logging_mean, self._threshold(support)), logging_mean)

    def replace_unsupported(
        self, effects: np.ndarray, logging_mean: np.ndarray, support: float, limits: tuple[float, float]
    ) -> np.ndarray:
        return np.where(self._is_unsupported(logging_mean, support), limits[1], np.clip(effects, *limits))

    def unsupported_mass(self, mean: np.ndarray, logging_mean: np.ndarray, support: float) -> np.ndarray:
        return mean * self._is_unsupported(logging_mean, support)

    def find_unsupported(
        self, row_map: RowMap, mean: np.ndarray, logging_mean: np.ndarray, support: float
    ) -> tuple[np.ndarray, np.ndarray]:
        unsupported = self._is_unsupported(logging_mean, support).astype(float)
        return self.sum_actions(mean * unsupported), row_map.to_rows(unsupported, None) > 0.5

    def mean_weights(self, log: Any, weight: np.ndarray, mean: np.ndarray, logging_mean: np.ndarray) -> np.ndarray:
        by_action = np.bincount(log.Y, log.count * weight, *self.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            return by_action / (np.bincount(log.context, log.count) @ mean)

    def _is_unsupported(self, logging_mean: np.ndarray, support: float) -> np.ndarray:
        return logging_mean < self._threshold(support)

    def _threshold(self, support: float) -> np.ndarray:
        return self.broadcast(support / self.count_choices())


class ChosenRows:
    """Row map of choices of one action: each row reads one score.

    Parameters
    ----------
    actions : OneOfMany
    Y : integer array (n,)
        Action of each row.
    context : integer array (n,) or None
        Context of each row; None if row i belongs to context i, which stores no places.
    n_contexts : int
        m.
    """

    def __init__(self, actions: Any, Y: np.ndarray, context: np.ndarray | None, n_contexts: int):
        self._actions, self._Y, self._context, self._n_contexts = actions, Y, context, n_contexts
        self._known = None if context is None else actions.score_places(Y, context, n_contexts)

    @property
    def _places(self) -> np.ndarray:
        if self._known is not None:
            return self._known
        return self._actions.score_places(self._Y, np.arange(self._n_contexts), self._n_contexts)

    def to_rows(self, scores: np.ndarray, constant: np.ndarray | None = None) -> np.ndarray:
        if scores.flags.f_contiguous:
            by_row = scores.T.ravel().take(self._places)
        else:
            by_row = scores[np.arange(self._n_contexts) if self._context is None else self._context, self._Y]
        if constant is not None:
            by_row -= constant if self._context is None else constant.take(self._context)
        return by_row

    def to_contexts(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        size = self._actions.count_scores(self._n_contexts)
        by_action = np.bincount(self._places, values, size).reshape(*self._actions.shape, -1).T
        return by_action, self._actions.sum_actions(by_action)
