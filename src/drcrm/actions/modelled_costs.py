"""Parts of an action space's interface: modelled costs, maps from scores to rows, and the rule for little support.

A modelled cost ĉ(x, y) is linear in effects e(x) as the score s(y) is in u, so its expectation under a policy is exact.
"""

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
from scipy import sparse


class RowMap(Protocol):
    """Linear map from scores of contexts to values of the logged rows, with its adjoint."""

    def to_rows(self, scores: np.ndarray, constant: Any) -> np.ndarray:
        """Return s_k(y_i) − a_k of each row, (n,), from scores u and constants a, (m,), of the contexts."""

    def to_contexts(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient of Σ v_i s_k(y_i) in the scores, and the sums of v over the rows of each context."""


class ModelledCosts(ABC):
    """Modelled costs ĉ(x, y), which are linear in the effects e(x) that a cost model predicts for each context.

    Attributes
    ----------
    effect_shape : tuple
        Shape of the effects of one context.
    effects_are_costs : bool
        Whether the effects are the costs of the actions, so that a regression can predict each of them.
    prefers_context_effects : bool
        Whether a cost model has context effects by default. In measurements they helped for label vectors.
    """

    effect_shape: tuple[int, ...]
    effects_are_costs = True
    prefers_context_effects = False

    @abstractmethod
    def expected_cost(self, mean: np.ndarray, effects: np.ndarray) -> np.ndarray:
        """Return Σ_y π(y) ĉ(x, y) of each context, (m,), from μ."""

    @abstractmethod
    def expected_cost_gradient(
        self, mean: np.ndarray, effects: np.ndarray, by_context: np.ndarray, expected: np.ndarray
    ) -> np.ndarray:
        """Return v ∇²A(u) e, the gradient of Σ_k v_k E ĉ(x_k, y) in the scores, for v = ``by_context``, (m,).

        ``expected`` is the result of ``expected_cost`` for the same μ and effects.
        """

    @abstractmethod
    def costs_of_rows(self, row_map: RowMap, effects: np.ndarray) -> np.ndarray:
        """Return ĉ(x_i, y_i) of each logged row, (n,)."""

    @abstractmethod
    def loadings(self, Y: np.ndarray) -> sparse.csr_array | None:
        """Return a, (n, r), such that row i of context k has ĉ = a_i · e_k; None if contexts share no actions."""

    def score_part(self, effects: np.ndarray) -> np.ndarray:
        """Return the part of effects, or of a model's coefficients, that differs between actions.

        The policy ∝ π e^{−ĉ} has this part subtracted from its scores.
        """
        return effects

    def add_constant(self, effects: np.ndarray, constant: float) -> None:
        """Add a constant to the cost of every action, in place; ``effects`` or coefficients have shape (…, *shape)."""
        effects += constant

    @abstractmethod
    def add_offsets(self, effects: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return effects of contexts with added costs, (m, 1), or (m, K) for one of K actions."""

    @abstractmethod
    def log_moment(self, mean: np.ndarray, effects: np.ndarray) -> np.ndarray:
        """Return log E_{y∼π} e^{ĉ(x, y)} of each context, (m,)."""

    def sum_rows(self, by_score: np.ndarray, by_context: np.ndarray) -> np.ndarray:
        """Return sums over rows in the shape of effects: the adjoint of ``costs_of_rows``.

        The arguments are the two results of ``RowMap.to_contexts``.
        """
        return by_score

    def regression_log(self, log: Any) -> Any:
        """Return the log that a regression of costs on features uses; for lists it has only the chosen candidates."""
        return log

    @abstractmethod
    def block_moments(self, Y: np.ndarray, share: np.ndarray, row_map: RowMap) -> tuple[np.ndarray, np.ndarray]:
        """Return moments (b, c, c) and weights (b, rows of X), which approximate the second moments Σ share z zᵀ.

        Modelled costs are linear in z. The effects form b consecutive blocks of c effects. The second moments of a
        block are nearly moments ⊗ Σ weight x xᵀ. Second moments between blocks are nearly 0. If c is 1, both are exact.
        """


class SupportRule(ABC):
    """Treatment of actions with little support: π0(a|x) is below τ of the uniform probability.

    See :mod:`drcrm.logging_policy` for the formulas. ``support`` is τ, ``mean`` is μ of a policy and
    ``logging_mean`` is μ of the logging policy, in the shape of scores.
    """

    @abstractmethod
    def cost_limits(self, cost: np.ndarray, effects: np.ndarray) -> tuple[float, float]:
        """Return the smallest and the largest plausible cost, from the costs of a log and its effects."""

    def raise_limits(self, limits: tuple[float, float], largest: float) -> tuple[float, float]:
        """Return limits whose upper end is at least ``largest``; the limits of label effects stay unchanged."""
        return limits

    @abstractmethod
    def find_supported(self, log: Any, logging_mean: np.ndarray, support: float) -> np.ndarray:
        """Return which actions the log contains, always with propensities of at least τ/K, or ε/K if π0 explores at ε.

        If all propensities are uniform, actions that never occur are supported too.

        The log refutes support if another action of any row has a propensity above 1 − τ/K, or if a single choice is
        significantly too rare in the contexts in which the estimate ``logging_mean`` is below τ/K.
        Lists get a single value. Label vectors, with K = 2^q, get one row for each label value, (2, q).
        """

    @abstractmethod
    def raise_to_support(self, logging_mean: np.ndarray, is_supported: np.ndarray, support: float) -> np.ndarray:
        """Return an estimate of ``logging_mean`` under which the actions of :meth:`find_supported` have support."""

    @abstractmethod
    def replace_unsupported(
        self, effects: np.ndarray, logging_mean: np.ndarray, support: float, limits: tuple[float, float]
    ) -> np.ndarray:
        """Return effects that charge unsupported actions the largest plausible cost."""

    @abstractmethod
    def unsupported_mass(self, mean: np.ndarray, logging_mean: np.ndarray, support: float) -> np.ndarray:
        """Return the policy's probability of unsupported actions or label values, in the shape of scores."""

    @abstractmethod
    def find_unsupported(
        self, row_map: RowMap, mean: np.ndarray, logging_mean: np.ndarray, support: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the probability of unsupported actions, (m,), and which rows have an unsupported action, (n,).

        A label vector is unsupported if any of its label values is.
        """

    @abstractmethod
    def mean_weights(self, log: Any, weight: np.ndarray, mean: np.ndarray, logging_mean: np.ndarray) -> np.ndarray:
        """Return the mean importance weight of each label or action; its expectation is 1 where π0 has support."""
