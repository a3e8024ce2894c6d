"""Interfaces of an action space: its policies, the costs that a model predicts for it, and its support rule.

A policy is π(y|x) ∝ e^{s(y)}, where s(y) is linear in scores u(x). An action space computes the log-partition A(u), the
probabilities μ = ∇A(u) and products with ∇²A(u). A logged row i of context k has log π(y_i) = s_k(y_i) − A(u_k). A
modelled cost ĉ(x, y) is linear in effects e(x) as s(y) is in u, so its expectation under π is exact.

=============  ==============================  =================  ==========================
label vectors  y ∈ {0,1}^q, labels factorise   u = xᵀΘ, (m, q)    ĉ(x, y) = e_0 + Σ_l y_l e_l
single choice  one of K actions                u = xᵀΘ, (m, K)    ĉ(x, a) = e_a
listed action  one of the context's own list   u = Ψθ, (N,)       ĉ(x, a) = e_a
=============  ==============================  =================  ==========================

There are n rows and m contexts. Scores and effects have one row for each context. For lists they have one row for each
of the N candidates of all contexts, list after list. Code outside this package should not ask which kind of action a
log has.

Source: sections 2.3 and 4 of the paper (exponential models, multi-label actions).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np
from scipy import sparse

from drcrm.actions.action_lists import ActionLists
from drcrm.arrays.mapped_arrays import Features, slice_rows, take_rows
from drcrm.arrays.validation import check_features
from drcrm.errors import InputError

LARGE_SCORE = 700.0  # up to this u, e^u does not overflow; for much smaller u already, 1 + e^u = e^u in float64


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
    has_context_effects : bool
        Whether a cost model has context effects by default. In measurements they helped for label vectors.
    """

    effect_shape: tuple[int, ...]
    has_context_effects = False

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
    def tilt(self, mean: np.ndarray, effects: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log E_{y∼π} e^{ĉ(x, y)} of each context, (m,), and μ of the tilted policy ∝ π e^ĉ.

        The gradient of the first result in the scores of π is the difference of the two μ, tilted minus original.
        """

    def sum_rows(self, by_score: np.ndarray, by_context: np.ndarray) -> np.ndarray:
        """Return sums over rows in the shape of effects: the adjoint of ``costs_of_rows``.

        The arguments are the two results of ``RowMap.to_contexts``.
        """
        return by_score

    @abstractmethod
    def query_model(self, predict: Callable[[np.ndarray], np.ndarray], m: int) -> np.ndarray:
        """Return the effects of an arbitrary model, from its predictions (m,) for one action of each context."""

    def regression_log(self, log: Any) -> Any:
        """Return the log that a regression of costs on features uses; for lists it has only the chosen candidates."""
        return log

    @abstractmethod
    def block_moments(self, Y: np.ndarray, share: np.ndarray, row_map: RowMap) -> tuple[np.ndarray, np.ndarray]:
        """Return moments (g, c, c) and weights (g, rows of X), which approximate the second moments Σ share z zᵀ.

        Modelled costs are linear in z. The effects form g consecutive groups of c effects. The second moments of a
        group are nearly moments ⊗ Σ weight x xᵀ. Second moments between groups are nearly 0. If c is 1, both are exact.
        """


class SupportRule(ABC):
    """Treatment of actions with little support: π0(a|x) is below τ of the uniform probability.

    See :mod:`drcrm.cost_models.support` for the formulas. ``support`` is τ, ``mean`` is μ of a policy and
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
        """Return which actions have only logged propensities of at least τ/K, and at least one.

        The log refutes support if another action of any row has a propensity above 1 − τ/K, or if a single choice is
        significantly too rare in the contexts in which the estimate ``logging_mean`` is below τ/K.
        Lists of actions have a single value. Label vectors have K = 2^q, and a row for each label value, (2, q).
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
    def mean_weights(
        self,
        Y: np.ndarray,
        context: np.ndarray,
        share: np.ndarray,
        weight: np.ndarray,
        mean: np.ndarray,
        logging_mean: np.ndarray,
    ) -> np.ndarray:
        """Return the mean importance weight of each label or action; its expectation is 1 where π0 has support.

        ``share`` and ``weight`` belong to the logged rows.
        """


class Actions(ModelledCosts, SupportRule):
    """An action space; for a log, also the actions that are available in each of its contexts.

    Attributes
    ----------
    shape : tuple
        Shape of a row of scores: (q,), (K,) or ().
    order : "C" or "F"
        The memory order of scores with which evaluations are fastest.
    has_intercept : bool
        Whether an intercept changes the policy.
    are_shared : bool
        Whether contexts have the same actions, which have no features of their own.
    are_choices : bool
        Whether a context takes exactly one of its actions, so that μ sums to 1.
    are_classes : bool
        Whether an action is one of K, so that a classifier of contexts can predict it.
    """

    shape: tuple[int, ...]
    order: Literal["C", "F"] = "C"
    has_intercept = True
    are_shared = True
    are_choices = True
    are_classes = False

    @property
    def log_options(self) -> dict[str, object]:
        """The keywords of ``BanditLog`` that define the same actions."""
        return {}

    # Contexts and their features

    def of_rows(self, n: int) -> Actions:
        """Return the actions of n contexts with one row of features each."""
        return self

    def bind(self, X: object, eligible: object = None) -> tuple[Features, Actions]:
        """Return the checked features of contexts and their actions; InputError for contexts of another kind."""
        if eligible is not None:
            raise InputError("eligible can be used only if Y is a vector of whole numbers, each one of K actions")
        if isinstance(X, ActionLists):
            raise InputError(f"X is an ActionLists, expected an array of contexts for {self}")
        return check_features(X), self

    def unbind(self, X: Features) -> Features | ActionLists:
        """Return contexts in the form that users pass, from their features: the inverse of ``bind``."""
        return X

    def n_contexts(self, X: np.ndarray | sparse.csr_array) -> int:
        """Return m, the number of contexts, from an array of features, scores or effects."""
        return X.shape[0]

    def select(self, contexts: slice | np.ndarray, *arrays: Any) -> tuple[Any, ...]:
        """Return the actions of a subset of contexts, and the rows of arrays that belong to it.

        Arrays have the rows of features, scores or effects; None stays None. A slice of contexts gives views.
        """
        rows = self._array_rows(contexts)
        take = slice_rows if isinstance(contexts, slice) else take_rows
        return self._restrict(contexts), *(None if array is None else take(array, rows) for array in arrays)

    def feature_rows(self, Y: np.ndarray, context: np.ndarray) -> np.ndarray:
        """Return the row of X that has the features of each logged action, (n,): the row of its context if shared."""
        return context

    def _restrict(self, contexts: slice | np.ndarray) -> Actions:
        return self

    def _array_rows(self, contexts: slice | np.ndarray) -> Any:
        return contexts

    # Logged actions

    @abstractmethod
    def check(self, Y: object, rows: int | None = None, owner: str = "the policy") -> np.ndarray:
        """Return the actions of n rows as an array; InputError if ``owner`` does not have these actions."""

    def check_available(self, Y: np.ndarray, context: np.ndarray) -> None:
        """Raise InputError if an action is not available in its context."""
        return

    def check_not_one_hot(self, Y: np.ndarray) -> None:
        """Raise InputError for label vectors that look like a one-hot encoding of single choices."""
        return

    @abstractmethod
    def row_map(self, Y: np.ndarray, context: np.ndarray | None, n_contexts: int) -> RowMap:
        """Return the map between contexts and rows with actions Y.

        None as ``context`` gives a map that needs less memory, for logs in which row i belongs to context i.
        """

    @abstractmethod
    def is_taken(self, Y: np.ndarray) -> np.ndarray:
        """Return whether each row has each label or action, (n, q) or (n, K); contexts must share their actions."""

    @abstractmethod
    def sort_keys(self, Y: np.ndarray) -> list[np.ndarray]:
        """Return vectors (n,) that are all equal for two rows if and only if their actions are equal."""

    # Names of labels or actions in the log

    def named(self, Y: np.ndarray, names: list) -> np.ndarray:
        """Return actions by their names; labels of 0 and 1 and places in a list are unchanged."""
        return Y

    @abstractmethod
    def name_one(self, y: Any, names: list) -> Any:
        """Return the action of one context by its name: a dict of labels, a name, or the place in the list."""

    def name_columns(self, names: list, action: str) -> list[str]:
        """Return the names of the columns of a table with actions: a single column, or one for each label."""
        return [action]

    # Probabilities

    @abstractmethod
    def log_partition(self, scores: np.ndarray, buffers: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Return A(u), (m,), and μ, in the shape of the scores. For choices of one action, ``scores`` may be shifted.

        ``buffers`` are two arrays of the scores' shape, which avoid new allocations. One of them is returned as μ.
        """

    def broadcast(self, values: np.ndarray) -> np.ndarray:
        """Return values of contexts, (m,), in a shape that multiplies scores."""
        return values[:, None]

    def centre(self, coef: np.ndarray) -> np.ndarray:
        """Return coefficients of the same policy without the part that all actions share."""
        return coef

    @abstractmethod
    def total_probability(self, mean: np.ndarray) -> np.ndarray:
        """Return the sum of μ over the available actions of each context, (m,); always 1 for label vectors."""

    @abstractmethod
    def log_prob(self, mean: np.ndarray, Y: np.ndarray, context: np.ndarray) -> np.ndarray:
        """Return log π(y_i|x_i), (n,), from μ; −∞ for a probability of 0."""

    @abstractmethod
    def fixed_choices(self, mean: np.ndarray) -> np.ndarray:
        """Return probabilities of fixed choices, (m, r), from μ: of each action, each label value, or one candidate.

        A list has only its least probable candidate. An unavailable action has the probability 1.
        """

    @abstractmethod
    def most_probable(self, scores: np.ndarray) -> np.ndarray:
        """Return the most probable action of each context; if several are equally probable, the first of them."""

    @abstractmethod
    def sample(self, mean: np.ndarray, rng: np.random.Generator, explore: float = 0.0) -> np.ndarray:
        """Draw one action for each context, with probability ``explore`` uniformly and else from the policy μ."""

    @abstractmethod
    def draw_one(self, scores: np.ndarray, rng: np.random.Generator, explore: float = 0.0) -> tuple[Any, float]:
        """Draw an action of one context, in which all actions are available; return it and its probability.

        The same generator gives the same action as ``sample``, up to rounding, in a fifth of the time.
        """
