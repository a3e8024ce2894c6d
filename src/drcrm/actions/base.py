"""Interface of an action space, and the mixture (1 − ε) π + ε U of a policy with the uniform policy U.

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

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from scipy import sparse

from drcrm.actions.modelled_costs import ModelledCosts, RowMap, SupportRule
from drcrm.arrays.mapped_arrays import Features, slice_rows, take_rows
from drcrm.arrays.validation import check_features
from drcrm.errors import InputError

if TYPE_CHECKING:
    from drcrm.actions.one_of_many import ActionLists

LARGE_SCORE = 700.0  # up to this u, e^u does not overflow; for much smaller u already, 1 + e^u = e^u in float64


class Actions(ModelledCosts, SupportRule):
    """An action space; for a log, also the actions that are available in each of its contexts.

    Attributes
    ----------
    kind, plural, noun : str
        Name of the action space in mappings and files, its actions in messages, and what a name of the log names.
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
    n_classes : int
        K if an action is one of K, so that a classifier of contexts can predict it; otherwise 0.
    starts : integer array (m + 1,) or None
        The first candidate of each context's list; None if contexts share their actions.
    eligible : boolean array (m, K) or None
        The available actions of each context; None if all are.
    logging_mean : array in the shape of scores, or None
        The known probabilities of all actions under the logging policy, in the contexts of a log.
    """

    kind: str
    plural: str
    noun = "action"
    shape: tuple[int, ...] = ()
    order: Literal["C", "F"] = "C"
    has_intercept = True
    are_shared = True
    are_choices = True
    n_classes = 0
    starts: Any = None
    eligible: Any = None
    logging_mean: Any = None

    @classmethod
    def create(cls, size: Any) -> Self:
        """Return the action space of q labels or K actions; lists need no size."""
        return cls(size)  # type: ignore[call-arg]

    def over(self, starts: np.ndarray | None) -> Actions:
        """Return the actions of contexts with lists that begin at ``starts``; without lists, the same actions."""
        if starts is not None:
            raise InputError(f"these are lists of actions, expected contexts for {self}, like in the training log")
        return self

    @property
    def log_options(self) -> dict[str, object]:
        """The keywords of ``BanditLog`` that define the same actions."""
        return {"n_actions": self.n_classes} if self.n_classes else {}

    def is_like(self, other: Actions) -> bool:
        """Return whether another action space is of the same kind, perhaps with another number of actions."""
        return type(self) is type(other)

    def require_classes(self, user: str) -> None:
        """Raise InputError, for ``user``, unless an action is one of K."""
        if not self.n_classes:
            raise InputError(f"{user} needs one action of K per row, got {self}")

    # Contexts and their features

    @abstractmethod
    def count_choices(self) -> np.ndarray:
        """Return the number of available actions in each context, (m,), or (1,) if it is the same in all."""

    def count_row_choices(self, context: np.ndarray) -> np.ndarray:
        """Return the number of available actions of each row, (n,), from the contexts of the rows."""
        counts = self.count_choices()
        return counts[context] if len(counts) > 1 else np.full(len(context), counts[0])

    def bind(self, X: object, eligible: object = None) -> tuple[Features, Actions]:
        """Return the checked features of contexts and their actions; InputError for contexts of another kind."""
        if eligible is not None:
            raise InputError("eligible can be used only if Y is a vector of whole numbers, each one of K actions")
        from drcrm.actions.one_of_many import ActionLists  # imported here: its module imports this one

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
        selected = self._restrict(contexts)
        if self.logging_mean is not None:
            selected = selected.with_logging_mean(take(self.logging_mean, rows))
        return selected, *(None if array is None else take(array, rows) for array in arrays)

    def with_logging_mean(self, mean: np.ndarray | None) -> Self:
        """Return the actions with known probabilities under the logging policy, in the shape of scores."""
        actions = copy(self)
        actions.logging_mean = mean
        return actions

    def feature_rows(self, Y: np.ndarray, context: np.ndarray) -> np.ndarray:
        """Return the row of X that has the features of each logged action, (n,): the row of its context if shared."""
        return context

    def repeat(self, values: np.ndarray) -> np.ndarray:
        """Return values of contexts, (m,), for each row of X."""
        return values

    def combine_rows(self, values: np.ndarray, combine: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """Return values of the rows of X for each context; lists combine theirs by ``combine(values, starts)``."""
        return values

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

    @abstractmethod
    def codes(self, Y: np.ndarray) -> np.ndarray:
        """Return the number of each logged action, (n, 1), or of each label value 2l + y_l, (n, q)."""

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


def uniform_policy(actions: Actions, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log U(y|x) of every available action, (m,), and μ of U, in the shape of the scores."""
    log_partition, mean = actions.log_partition(np.zeros_like(scores))
    return -log_partition, mean


def explored_mean(actions: Actions, mean: np.ndarray, explore: float) -> np.ndarray:
    """Return μ of the mixture, from μ of the policy."""
    if not explore:
        return mean
    return (1 - explore) * mean + explore * uniform_policy(actions, mean)[1]


def explored_log_prob(log_prob: np.ndarray, uniform_log_prob: np.ndarray, explore: float) -> np.ndarray:
    """Return log((1 − ε) π + ε U) of the same actions, from log π and log U."""
    if not explore:
        return log_prob
    with np.errstate(divide="ignore"):  # of ε = 1
        return np.logaddexp(np.log1p(-explore) + log_prob, np.log(explore) + uniform_log_prob)


def largest_probability(actions: Actions, explore: float) -> float:
    """Return an upper bound on the probability of an action under any mixture; 1 without exploration, and for lists."""
    if not explore or not actions.are_shared:
        return 1.0
    log_prob, _ = uniform_policy(actions, np.zeros((1, *actions.shape)))
    return float(1 - explore + explore * np.exp(log_prob[0]))
