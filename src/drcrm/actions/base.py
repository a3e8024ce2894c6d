"""The kinds of actions: all that tells one kind from another is here, and nothing else asks which kind it is.

A policy is π(y|x) ∝ e^{s(y)}, s(y) linear in scores u; a kind has the log-partition A(u) of its actions, the mean
μ = ∇A(u), by which Σ_y π(y) f(y) is exact for f linear in the same way, products with ∇²A(u), and the map between
contexts and logged rows, log π(y_i) = s_k(y_i) − A(u_k).

label vectors    y ∈ {0,1}^q, each label on its own     u = xᵀΘ, (m, q)     ĉ(x, y) = e_0 + Σ_l y_l e_l
single choice    one of K actions                       u = xᵀΘ, (m, K)     ĉ(x, a) = e_a
listed actions   one of a context's own list            u = Ψθ, (N,)        ĉ(x, a) = e_a

Scores and effects e of m contexts stand in arrays with a row for each context, or of lists for each of the N candidates
of all contexts, one after the other.

Source: sections 2.3 and 4 of the paper (exponential models, multi-label actions).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
from scipy import sparse

from drcrm.actions.row_maps import ChosenRows, OwnChosenRows, OwnRows, SparseRows, TabledRows
from drcrm.arrays.mapped_arrays import rows_between, take_rows
from drcrm.arrays.numerics import exp
from drcrm.arrays.validation import (
    Features,
    as_float,
    check_actions,
    check_features,
    check_integers,
    reject,
    whole_number,
    with_constant,
)
from drcrm.errors import InputError

LARGE = 700.0  # e^u does not overflow up to here, and 1 + e^u = e^u from far below
LEAST, MOST = 1e-60, 1e300  # between which a sum of e^u has lost nothing that counts
USUAL = 0.99  # quantile of what labels add to the cost, up to which they are usual
MANY = 10  # actions that are not all one-hot by chance
MANY_ACTIONS = 1000  # from here on numbers of actions may be identifiers
MOST_ACTIONS = 10_000_000
PROBES = 8  # actions at random, and at least as many of each context, at which a model is asked if it is additive

TABLE_ROWS = 12  # rows a context from which tables are no slower, by measurement, with 6 and 14 labels


class ActionLists:
    """Contexts that each have a list of actions of their own, with features ψ: in place of X, as in ADF.

    ``lists[rows]`` are those of some contexts. Source: Vowpal Wabbit's action-dependent features.

    Parameters
    ----------
    features : array or CSR (N, D)
        ψ of all candidates, list after list.
    starts : integer array (m + 1,)
        Where each list begins, and last N: list k is the rows starts[k] to starts[k + 1] − 1, at least one.

    Raises
    ------
    InputError
        Features that are not finite, starts that do not rise from 0 to N, or an empty list, with its number.
    """

    def __init__(self, features, starts):
        self.features = check_features(features, "features")
        starts = _integers(starts, "starts")
        if len(starts) < 2 or starts[0] != 0 or starts[-1] != self.features.shape[0]:
            raise InputError(f"starts are not from 0 to {self.features.shape[0]}, the number of candidates")
        sizes = np.diff(starts)
        if (sizes < 1).any():
            at = int(np.argmax(sizes < 1))
            raise InputError(f"list {at} {'ends before it begins' if sizes[at] else 'is empty'}, expected actions")
        self.starts = starts

    def __repr__(self) -> str:
        return f"ActionLists({len(self)} lists, {self.features.shape[0]} candidates, {self.features.shape[1]} features)"

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """(m, D)."""
        return len(self), self.features.shape[1]

    def __array__(self, dtype=None, copy=None):
        raise InputError("lists of actions are no array; their features are one, and their starts")

    def __getitem__(self, rows) -> ActionLists:
        rows = rows[0] if isinstance(rows, tuple) else rows  # lists[rows, ...], as scikit-learn has it
        used = np.atleast_1d(np.arange(len(self))[rows])
        if not used.size:
            raise InputError("none of the lists, expected at least one")
        places, starts = _places(self.starts, used)
        return ActionLists(self.features[places], starts)


class Actions(ABC):
    """A kind of action, and of a log the actions that its contexts have.

    Attributes
    ----------
    shape : tuple
        Of a row of scores: (q,), (K,) or ().
    effect_shape : tuple
        Of a row of effects, what a cost model says of a context.
    order : "C" or "F"
        In which order of memory scores are passed over fastest.
    has_intercept : bool
        Whether one would change anything.
    has_context_effects : bool
        Whether a cost model has context effects where none are asked for: by measurement they pay.
    """

    shape: tuple[int, ...]
    order = "C"
    has_intercept = True
    has_context_effects = False

    @property
    def effect_shape(self) -> tuple[int, ...]:
        return self.shape

    @classmethod
    @abstractmethod
    def of_effects(cls, shape: tuple[int, ...]) -> Actions:
        """Return the actions of which a cost model has coefficients (d, *shape)."""

    @property
    def options(self) -> dict[str, object]:
        """What a log of the same actions is told of them, beside its arrays."""
        return {}

    def bind(self, X, eligible=None) -> tuple[Features, Actions]:
        """Return the features of contexts, checked, and their actions; InputError for contexts of another kind."""
        if eligible is not None:
            raise InputError("eligible is for one action of K, a vector of whole numbers")
        if isinstance(X, ActionLists):
            raise InputError(f"X are lists of actions, expected contexts for {self}")
        return check_features(X), self

    def unbind(self, X: Features) -> Features | ActionLists:
        """Return contexts as a user has them, of their features."""
        return X

    def n_contexts(self, X: Features) -> int:
        """m, from the rows of features, scores or effects."""
        return X.shape[0]

    def select(self, used: np.ndarray, *arrays) -> tuple[Actions, ...]:
        """Return the actions of some contexts, and their rows of features or effects."""
        return self, *(take_rows(array, used) for array in arrays)

    def place(self, contexts: slice) -> slice:
        """Return which rows of features, scores or effects contexts have that stand one after the other."""
        return contexts

    def part(self, contexts: slice, *arrays) -> tuple[Actions, ...]:
        """Return the actions of contexts that stand one after the other, and their rows of arrays that are not None."""
        place = self.place(contexts)
        return self, *(None if array is None else rows_between(array, place) for array in arrays)

    @abstractmethod
    def check(self, Y, rows: int | None = None, owner: str = "the policy") -> np.ndarray:
        """Return actions of n rows as an array; InputError where they are not those of ``owner``."""

    def check_offered(self, Y: np.ndarray, context: np.ndarray) -> None:
        """Raise InputError where an action is not among those of its context."""
        return

    def check_varied(self, Y: np.ndarray) -> None:
        """Raise InputError for actions that speak of another kind."""
        return

    @abstractmethod
    def log_partition(self, scores: np.ndarray, buffers: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return A(u), shape (m,), and μ, of the scores' shape.

        One exponential for both. ``buffers``, two of the scores' shape, is written to, and holds μ afterwards: what
        evaluates many times need not allocate.
        """

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return values of the contexts, (m,), as they multiply scores."""
        return values[:, None]

    @abstractmethod
    def expected(self, mean: np.ndarray, effects: np.ndarray, fast: bool = False) -> np.ndarray:
        """Return the expectation of the modelled cost, (m,), from μ; ``fast`` in another order of summing."""

    @abstractmethod
    def expected_slope(
        self, mean: np.ndarray, effects: np.ndarray, by_context: np.ndarray, expected: np.ndarray
    ) -> np.ndarray:
        """Return v ∇²A(u) e, the slope of Σ v_k E ĉ(x_k, y) in the scores; v, (m,), is ``by_context``.

        ``expected`` is what the method ``expected`` returned for the same μ and e.
        """

    @abstractmethod
    def modelled(self, row_map, effects: np.ndarray) -> np.ndarray:
        """Return ĉ of each row, (n,)."""

    @abstractmethod
    def loadings(self, Y: np.ndarray) -> sparse.csr_array | None:
        """Return what modelled costs are linear in, (n, r), ĉ_i = a_i · e_k; None where contexts share no actions."""

    @abstractmethod
    def moving(self, effects: np.ndarray) -> np.ndarray:
        """Return what effects, or a model's coefficients, add to the scores of π e^{−ĉ}: all but what is common."""

    def add_to_all(self, effects: np.ndarray, constant: float) -> None:
        """Add a constant to all costs, of effects or coefficients (…, *effect_shape), which are written to."""
        effects += constant

    def centred(self, coef: np.ndarray) -> np.ndarray:
        """Return coefficients of the same policy, less what is common to all actions."""
        return coef

    @abstractmethod
    def joined(self, by_score: np.ndarray, by_context: np.ndarray) -> np.ndarray:
        """Return sums of rows' values as effects have them: ``moving``'s transpose, with the sums over each context."""

    @abstractmethod
    def asked(self, predict: Callable[[np.ndarray], np.ndarray], m: int) -> np.ndarray:
        """Return the effects of any model, from its predictions (m,) of an action of each context."""

    def regressed(self, log):
        """Return the log as a regression of costs on features sees it: of lists, with the chosen actions alone."""
        return log

    @abstractmethod
    def separated(self, Y: np.ndarray, share: np.ndarray, row_map) -> tuple[np.ndarray, np.ndarray]:
        """Return moments (g, c, c) and weights (g, rows of X) of g groups of c effects, one after the other.

        Σ share z zᵀ, z what modelled costs are linear in, is nearly moments ⊗ Σ weight x xᵀ in each group, and nearly
        0 between groups; exactly where c is 1.
        """

    @abstractmethod
    def cost_limits(self, cost: np.ndarray, effects: np.ndarray) -> tuple[float, float]:
        """Return what ``supported`` takes for the smallest and the largest cost, of a log's costs and its effects."""

    @abstractmethod
    def supported(
        self, effects: np.ndarray, logging_mean: np.ndarray, support: float, limits: tuple[float, float]
    ) -> np.ndarray:
        """Return effects by which actions are dear that π0 hardly takes: see :mod:`drcrm.cost_models.support`."""

    def raised(self, limits: tuple[float, float], largest: float) -> tuple[float, float]:
        """Return limits that count what π0 hardly takes at a cost of at least ``largest``; those of labels stay."""
        return limits

    @abstractmethod
    def unsupported(self, mean: np.ndarray, logging_mean: np.ndarray, support: float) -> np.ndarray:
        """Return the probability that is where π0 hardly goes, of a policy's μ, in the shape of scores."""

    @abstractmethod
    def without_support(
        self, row_map, mean: np.ndarray, logging_mean: np.ndarray, support: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the probability of actions that π0 hardly takes, (m,), and which rows have such an action, (n,).

        Of label vectors they are those with any label as π0 hardly has it.
        """

    @abstractmethod
    def total(self, mean: np.ndarray) -> np.ndarray:
        """Return what μ adds up to over the actions that each context has, (m,), which is 1; of labels always 1."""

    @abstractmethod
    def log_prob_of(self, mean: np.ndarray, Y: np.ndarray, context: np.ndarray) -> np.ndarray:
        """Return log π(y_i|x_i), (n,), from μ, which may be 0 or 1: −∞ for what is never done."""

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
        """Return the mean weight of each label or action, whose expectation is 1 where π0 goes."""

    @abstractmethod
    def most_probable(self, scores: np.ndarray) -> np.ndarray:
        """Return the action of the largest probability of each context."""

    @abstractmethod
    def draw(self, mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw an action of each context."""

    @abstractmethod
    def row_map(self, Y: np.ndarray, context: np.ndarray, n_contexts: int):
        """Return the map between contexts and rows with actions Y."""

    def own_rows(self, Y: np.ndarray):
        """Return the same map where each context has one row, in their order."""
        return self.row_map(Y, np.arange(len(Y)), len(Y))

    @abstractmethod
    def sort_keys(self, Y: np.ndarray) -> list[np.ndarray]:
        """Return vectors (n,) that are equal for equal actions, and for no others."""


class LabelVectors(Actions):
    """y ∈ {0,1}^q, s(y) = y·u: π(y|x) = Π_l σ(u_l)^{y_l} σ(−u_l)^{1−y_l}, which factorises over the labels.

    Actions are arrays (n, q); effects, (m, q + 1), are what each label adds to the cost, and last the cost of none.

    Parameters
    ----------
    n_labels : int
        q.
    """

    has_context_effects = True

    def __init__(self, n_labels: int):
        self.shape = (n_labels,)

    @classmethod
    def of_effects(cls, shape):
        return cls(_only(shape) - 1)

    def __str__(self) -> str:
        return f"{self.shape[0]} labels"

    @property
    def effect_shape(self) -> tuple[int, ...]:
        return (self.shape[0] + 1,)

    def check(self, Y, rows: int | None = None, owner: str = "the policy") -> np.ndarray:
        Y = check_actions(Y, rows)
        if Y.shape[1:] != self.shape:
            raise InputError(f"Y has {Y.shape[1]} labels, {owner} has {self.shape[0]}")
        return Y

    def check_varied(self, Y: np.ndarray) -> None:
        """Raise InputError where all of at least 10 actions, q > 2, have exactly one 1, and not all the same.

        Fewer may have so by chance. All the same action are a policy that always does the same.
        """
        n, q = Y.shape
        if q > 2 and n >= MANY and (Y.sum(axis=1) == 1).all() and (Y[0] != Y).any():
            raise InputError(
                f"every row of Y has exactly one 1: that is a single choice among {q} actions; give it as a vector of "
                f"whole numbers, np.argmax(Y, axis=1), with n_actions={q} (expected {q} labels, each of them 0 or 1 "
                "whatever the others are)"
            )

    def log_partition(self, scores: np.ndarray, buffers: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return A(u) = Σ_l log(1 + e^{u_l}), and μ = σ(u)."""
        mean, total = np.empty((2, *scores.shape)) if buffers is None else buffers
        large = scores.max() > LARGE
        exp(np.minimum(scores, LARGE) if large else scores, out=mean)
        np.add(mean, 1, out=total)
        np.divide(mean, total, out=mean)
        ones = np.ones(scores.shape[1])
        log_partition = np.log(total, out=total) @ ones
        if large:
            log_partition += np.maximum(scores - LARGE, 0) @ ones
        return log_partition, mean

    def expected(self, mean, effects, fast=False):
        moving = effects[:, :-1]
        expected = np.einsum("kl,kl->k", mean, moving) if fast else (mean * moving).sum(axis=1)
        expected += effects[:, -1]
        return expected

    def expected_slope(self, mean, effects, by_context, expected):
        slope = by_context[:, None] * effects[:, :-1]
        slope *= 1 - mean
        slope *= mean
        return slope

    def modelled(self, row_map, effects):
        return row_map.to_rows(np.ascontiguousarray(effects[:, :-1]), -effects[:, -1])

    def loadings(self, Y):
        return with_constant(sparse.csr_array(Y, dtype=float))

    def moving(self, effects):
        return effects[:, :-1]

    def add_to_all(self, effects, constant):
        effects[..., -1] += constant

    def joined(self, by_score, by_context):
        return np.column_stack([by_score, by_context])

    def asked(self, predict, m):
        """Effects by the actions of one label; InputError where the costs of others are not their sums."""
        none = np.zeros((m, *self.shape), dtype=np.int64)
        without = predict(none)
        columns = [predict(none + row) - without for row in np.eye(self.shape[0], dtype=np.int64)]
        effects = np.column_stack([*columns, without])
        close = 1e-6 * np.abs(effects[:, :-1]).sum(axis=1) + 1e-9 * np.abs(without)
        for actions in self._probes(m):
            if (abs((actions * effects[:, :-1]).sum(axis=1) + without - predict(actions)) > close).any():
                raise InputError("the cost model is not additive over labels, which the expectation of its cost needs")
        return effects

    def _probes(self, m: int) -> Iterator[np.ndarray]:
        """Actions (m, q) at which additive costs are to be sums: all labels, every pair of them and some at random.

        Each context has other ones in turn, and each of these actions some context.
        """
        q = self.shape[0]
        pairs = np.array([[label in pair for label in range(q)] for pair in combinations(range(q), 2)])
        drawn = np.random.default_rng(0).random((PROBES, q)) < 0.5
        actions = np.vstack([np.ones((1, q)), pairs.reshape(-1, q), drawn]).astype(np.int64)
        for turn in range(max(PROBES, -(-len(actions) // m))):
            yield actions[(np.arange(m) + turn * m) % len(actions)]

    def separated(self, Y, share, row_map):
        Y, (_, weight) = _with_one(Y), row_map.to_contexts(share)
        return (Y.T @ (Y * share[:, None]))[None], weight[None]

    def cost_limits(self, cost, effects):
        largest = float(np.quantile(np.abs(effects[:, :-1]), USUAL))
        return -largest, largest

    def supported(self, effects, logging_mean, support, limits):
        low, high = limits
        moving = effects[:, :-1]
        moving = np.where(logging_mean < support / 2, np.maximum(moving, high), moving)
        without = np.where(1 - logging_mean < support / 2, np.minimum(moving, low), moving)
        return np.column_stack([without, effects[:, -1] + (moving - without).sum(axis=1)])

    def unsupported(self, mean, logging_mean, support):
        return mean * (logging_mean < support / 2) + (1 - mean) * (1 - logging_mean < support / 2)

    def without_support(self, row_map, mean, logging_mean, support):
        never, always = logging_mean < support / 2, 1 - logging_mean < support / 2
        odd = np.column_stack([never.astype(float) - always, always.sum(axis=1)])  # how many labels are, as effects
        supported = 1 - self.unsupported(mean, logging_mean, support)
        return 1 - supported.prod(axis=1), self.modelled(row_map, odd) > 0.5

    def total(self, mean):
        return np.ones(len(mean))

    def log_prob_of(self, mean, Y, context):
        log_prob = np.zeros(len(Y))
        with np.errstate(divide="ignore"):
            for label, of_label in enumerate(mean.T):
                given = of_label[context]
                log_prob += np.log(np.where(Y[:, label] == 1, given, 1 - given))
        return log_prob

    def mean_weights(self, Y, context, share, weight, mean, logging_mean):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = np.where(Y == 1, (mean / logging_mean)[context], ((1 - mean) / (1 - logging_mean))[context])
        return share @ ratio

    def most_probable(self, scores):
        """y_l = 1[u_l ≥ 0], shape (m, q)."""
        return (scores >= 0).astype(np.int64)

    def draw(self, mean, rng):
        return (rng.random(mean.shape) < mean).astype(np.int64)

    def row_map(self, Y, context, n_contexts) -> SparseRows | TabledRows:
        """By the faster of two routes."""
        kind = TabledRows if len(Y) >= TABLE_ROWS * n_contexts else SparseRows
        return kind(Y, np.asarray(context), n_contexts)

    def own_rows(self, Y):
        return OwnRows(Y)

    def sort_keys(self, Y):
        return [*np.packbits(Y, axis=1).T]


class _OneOfMany(Actions):
    """What choices of one action share: s(a) = u_a, A(u) = log Σ_a e^{u_a}, μ the softmax of u, effects are costs."""

    order = "F"

    def check(self, Y, rows=None, owner="the policy"):
        Y = _integers(Y, "Y")
        if rows is not None and len(Y) != rows:
            raise InputError(f"Y has {len(Y)} rows, expected {rows}")
        reject(Y < 0, Y, "Y", "the number of an action, 0 or more")
        return Y

    @abstractmethod
    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sums over the actions of each context, (m,)."""

    @abstractmethod
    def largest(self, scores: np.ndarray) -> np.ndarray:
        """Return the largest score of an action that each context has, (m,)."""

    @abstractmethod
    def sizes(self) -> np.ndarray:
        """Return how many actions each context has."""

    def leave_out(self, values: np.ndarray, put: float) -> None:
        """Put something in the places of actions that contexts do not have."""

    def log_partition(self, scores, buffers=None):
        """A(u) = log Σ_a e^{u_a}, and μ_a = e^{u_a − A(u)}; the largest score is taken off where it must be."""
        mean, spare = (np.empty_like(scores), np.empty_like(scores)) if buffers is None else buffers
        level = None
        if scores.max() < LARGE:
            exp(scores, out=mean)
            self.leave_out(mean, 0)
            total, level = self.sums(mean), 0.0
        if level is None or not (total.min() > LEAST and total.max() < MOST):
            level = self.largest(scores)
            np.subtract(scores, self.spread(level), out=spare)
            self.leave_out(spare, -np.inf)
            total = self.sums(exp(spare, out=mean))
        mean *= self.spread(1 / total)
        return np.log(total) + level, mean

    def expected(self, mean, effects, fast=False):
        return self.sums(mean * effects)

    def expected_slope(self, mean, effects, by_context, expected):
        slope = effects - self.spread(expected)
        slope *= mean
        slope *= self.spread(by_context)
        return slope

    def modelled(self, row_map, effects):
        return row_map.to_rows(effects)

    def moving(self, effects):
        return effects

    def joined(self, by_score, by_context):
        return by_score

    def cost_limits(self, cost, effects):
        return float(cost.min()), float(cost.max())

    def supported(self, effects, logging_mean, support, limits):
        return np.where(self._is_rare(logging_mean, support), limits[1], np.clip(effects, *limits))

    def raised(self, limits, largest):
        return limits[0], max(limits[1], largest)

    def unsupported(self, mean, logging_mean, support):
        return mean * self._is_rare(logging_mean, support)

    def without_support(self, row_map, mean, logging_mean, support):
        rare = self._is_rare(logging_mean, support).astype(float)
        return self.sums(mean * rare), self.modelled(row_map, rare) > 0.5

    def total(self, mean):
        having = mean.copy()
        self.leave_out(having, 0)
        return self.sums(having)

    def log_prob_of(self, mean, Y, context):
        with np.errstate(divide="ignore"):
            return np.log(self.modelled(self.row_map(Y, context, self.n_contexts(mean)), mean))

    def _is_rare(self, logging_mean: np.ndarray, support: float) -> np.ndarray:
        return logging_mean < self.spread(support / self.sizes())

    def separated(self, Y, share, row_map):
        weights = np.atleast_2d(row_map.to_contexts(share)[0].T)
        return np.ones((len(weights), 1, 1)), weights

    def sort_keys(self, Y):
        return [Y]


class SingleChoice(_OneOfMany):
    """a ∈ {0 … K − 1}, of which each context may have some alone: π(a|x) = e^{u_a} / Σ_b e^{u_b}.

    Actions are vectors (n,); effects, (m, K), are the cost of each action.

    Parameters
    ----------
    n_actions : int
        K.
    eligible : boolean array (m, K), optional
        The actions of each of a log's contexts; by default all.
    """

    def __init__(self, n_actions: int, eligible: np.ndarray | None = None):
        self.shape, self.eligible = (n_actions,), eligible

    @classmethod
    def of_effects(cls, shape):
        return cls(_only(shape))

    def __str__(self) -> str:
        return f"one of {self.shape[0]} actions"

    @property
    def options(self):
        return {"n_actions": self.shape[0]}

    def bind(self, X, eligible=None):
        X, _ = super().bind(X)
        return X, SingleChoice(*self.shape, _check_eligible(eligible, (X.shape[0], *self.shape)))

    def select(self, used, *arrays):
        kept = None if self.eligible is None else self.eligible[used]
        return SingleChoice(*self.shape, kept), *(take_rows(array, used) for array in arrays)

    def part(self, contexts, *arrays):
        _, eligible, *parts = super().part(contexts, self.eligible, *arrays)
        return SingleChoice(*self.shape, eligible), *parts

    def check(self, Y, rows=None, owner="the policy"):
        Y = super().check(Y, rows)
        reject(self.shape[0] <= Y, Y, "Y", f"one of {self.shape[0]} actions, numbered from 0, or a larger n_actions")
        return Y

    def check_offered(self, Y, context):
        if self.eligible is not None:
            reject(~self.eligible[context, Y], Y, "Y", "an action that is eligible for its context")

    def sums(self, values):
        return values @ np.ones(values.shape[1])

    def sizes(self):
        return np.array([self.shape[0]]) if self.eligible is None else self.eligible.sum(axis=1)

    def mean_weights(self, Y, context, share, weight, mean, logging_mean):
        of_action = np.bincount(Y, share * weight, self.shape[0])
        with np.errstate(divide="ignore", invalid="ignore"):
            return of_action / (np.bincount(context, share) @ mean)

    def largest(self, scores):
        return scores.max(axis=1, initial=-np.inf, where=True if self.eligible is None else self.eligible)

    def leave_out(self, values, put):
        if self.eligible is not None:
            np.copyto(values, put, where=~self.eligible)

    def centred(self, coef):
        return coef - coef.mean(axis=1, keepdims=True)

    def asked(self, predict, m):
        return np.column_stack([predict(np.full(m, action)) for action in range(self.shape[0])])

    def loadings(self, Y):
        return sparse.csr_array((np.ones(len(Y)), Y, np.arange(len(Y) + 1)), (len(Y), *self.shape))

    def most_probable(self, scores):
        """argmax_a u_a, shape (m,), the first of equal ones."""
        return (scores if self.eligible is None else np.where(self.eligible, scores, -np.inf)).argmax(axis=1)

    def draw(self, mean, rng):
        passed = np.cumsum(mean, axis=1)
        place = np.minimum(rng.random(len(mean)), 1 - 1e-15) * passed[:, -1]
        return (passed > place[:, None]).argmax(axis=1)

    def row_map(self, Y, context, n_contexts) -> ChosenRows:
        return ChosenRows((context, Y), Y * n_contexts + context, context, (*self.shape, n_contexts), self.sums)

    def own_rows(self, Y):
        return OwnChosenRows(Y, (*self.shape, len(Y)))


class ListedActions(_OneOfMany):
    """a is a place in a context's own list, u_a = ψ_a·θ: π(a|x) = e^{u_a} / Σ_b e^{u_b} over the list.

    Actions are vectors (n,) of places from 0; effects, (N,), are the cost of each candidate. What is common to a list,
    as an intercept would be, changes nothing.

    Parameters
    ----------
    starts : integer array (m + 1,), optional
        Where each context's list begins, as in ``ActionLists``; None for a policy, which is of any lists.
    """

    shape = ()
    has_intercept = False

    def __init__(self, starts: np.ndarray | None = None):
        self.starts = starts

    @classmethod
    def of_effects(cls, shape):
        if shape:
            raise InputError(f"the cost model has {shape[0]} columns of coefficients, expected one number per feature")
        return cls()

    def __str__(self) -> str:
        return "lists of actions"

    def bind(self, X, eligible=None):
        if eligible is not None:
            raise InputError("eligible is for one action of K: a list has the actions that are eligible")
        if not isinstance(X, ActionLists):
            raise InputError(f"X is of type {type(X).__name__}, expected ActionLists, as the policy is of lists")
        if self.starts is not None and not np.array_equal(X.starts, self.starts):
            raise InputError("the lists begin elsewhere than those of the log")
        return X.features, ListedActions(X.starts)

    def unbind(self, X):
        return ActionLists(X, self.starts)

    def n_contexts(self, X):
        return len(self.starts) - 1

    def select(self, used, *arrays):
        places, starts = _places(self.starts, np.arange(len(self.starts) - 1)[used])
        return ListedActions(starts), *(take_rows(array, places) for array in arrays)

    def place(self, contexts):
        return slice(int(self.starts[contexts.start]), int(self.starts[contexts.stop]))

    def part(self, contexts, *arrays):
        _, *parts = super().part(contexts, *arrays)
        starts = self.starts[contexts.start : contexts.stop + 1]
        return ListedActions(starts - starts[0]), *parts

    def check_offered(self, Y, context):
        sizes = np.diff(self.starts)[context]
        if (sizes <= Y).any():
            row = int(np.argmax(sizes <= Y))
            raise InputError(f"Y is {Y[row]} in row {row}, expected a place in its list of {sizes[row]}, from 0")

    def spread(self, values):
        return np.repeat(values, np.diff(self.starts))

    def sums(self, values):
        return np.add.reduceat(values, self.starts[:-1])

    def sizes(self):
        return np.diff(self.starts)

    def mean_weights(self, Y, context, share, weight, mean, logging_mean):
        return np.asarray(share @ weight)

    def largest(self, scores):
        return np.maximum.reduceat(scores, self.starts[:-1])

    def asked(self, predict, m):
        sizes = np.diff(self.starts)
        effects = np.empty(self.starts[-1])
        for place in range(sizes.max()):
            predicted, has = predict(np.minimum(place, sizes - 1)), place < sizes
            effects[self.starts[:-1][has] + place] = predicted[has]
        return effects

    def loadings(self, Y):
        return None

    def regressed(self, log):
        used, context = np.unique(self.starts[log.context] + log.Y, return_inverse=True)
        return log.derived(X=take_rows(log.X, used), actions=SingleChoice(1), Y=np.zeros_like(log.Y), context=context)

    def most_probable(self, scores):
        """The place of the largest score in each list, shape (m,), the first of equal ones."""
        best = np.flatnonzero(scores == self.spread(self.largest(scores)))
        return best[np.searchsorted(best, self.starts[:-1])] - self.starts[:-1]

    def draw(self, mean, rng):
        passed = np.cumsum(mean)
        before = np.append(0, passed)[self.starts]
        place = before[:-1] + rng.random(len(before) - 1) * np.diff(before)
        last = np.searchsorted(passed, before[1:])  # that has a probability
        return np.minimum(np.searchsorted(passed, place, side="right"), last) - self.starts[:-1]

    def row_map(self, Y, context, n_contexts) -> ChosenRows:
        position = self.starts[context] + Y
        return ChosenRows((position,), position, context, (self.starts[-1],), self.sums)

    def own_rows(self, Y):
        return OwnChosenRows(Y, (self.starts[-1],), self.starts[:-1])


def actions_of(X, Y, n_actions: int | None = None, eligible=None) -> tuple[Features, Actions, np.ndarray]:
    """Return the features of contexts, their actions, and those logged; InputError says what is odd in them.

    Lists of actions where X are ``ActionLists``, single choice where Y is a vector, else label vectors. K is
    ``n_actions``, the columns of ``eligible``, or by default the largest of Y and one more.
    """
    kind = kind_of(X, Y)
    if n_actions is not None and kind is not SingleChoice:
        if kind is ListedActions:
            raise InputError("n_actions is for one action of K, X are lists of actions")
        raise InputError(
            f"Y has shape {check_actions(Y).shape}, expected (rows,): each row has one of {n_actions} actions"
        )
    if kind is SingleChoice:
        actions = SingleChoice(_count_actions(Y, n_actions, eligible))
    else:
        actions = ListedActions() if kind is ListedActions else LabelVectors(check_actions(Y).shape[1])
    X, actions = actions.bind(X, eligible)
    return X, actions, actions.check(Y, owner="the log")


def features_of(X) -> Features:
    """Return the features of contexts, checked, or of all candidates of lists of actions."""
    return X.features if isinstance(X, ActionLists) else check_features(X)


def kind_of(X, Y) -> type[Actions]:
    """Return the kind of action that a user's contexts and actions are of."""
    if isinstance(X, ActionLists):
        return ListedActions
    try:
        return SingleChoice if np.ndim(Y) == 1 else LabelVectors
    except ValueError:  # ragged lists, of which there is no array
        return LabelVectors


def _count_actions(Y, n_actions: int | None, eligible) -> int:
    """K."""
    if n_actions is not None:
        if whole_number(n_actions, "n_actions") > MOST_ACTIONS:
            raise InputError(f"n_actions is {n_actions}, expected at most {MOST_ACTIONS}")
        return int(n_actions)
    if eligible is not None:
        return check_actions(eligible, name="eligible", columns="action").shape[1]
    Y = _integers(Y, "Y")
    largest = int(Y.max(initial=0))
    if largest >= MANY_ACTIONS and largest >= MANY * (distinct := len(np.unique(Y))):
        raise InputError(
            f"Y reaches {largest}, with {distinct} different actions: number them from 0, or give n_actions= if there "
            "are so many"
        )
    return largest + 1


def _check_eligible(eligible, shape: tuple[int, int]) -> np.ndarray | None:
    """The mask of eligible actions, (m, K); None where all are."""
    if eligible is None:
        return None
    eligible = check_actions(eligible, shape[0], "eligible", columns="action").astype(bool)
    if eligible.shape != shape:
        raise InputError(f"eligible has {eligible.shape[1]} columns, expected one for each of {shape[1]} actions")
    empty = ~eligible.any(axis=1)
    if empty.any():
        raise InputError(f"eligible has no action in row {int(np.argmax(empty))}, expected at least one")
    return None if eligible.all() else eligible


def _only(shape: tuple[int, ...]) -> int:
    if len(shape) != 1:
        raise InputError("the cost model has one number per feature, as for lists of actions; expected columns")
    return shape[0]


def _integers(values, name: str) -> np.ndarray:
    """A vector of whole numbers, of any length."""
    values = values if isinstance(values, np.ndarray) and values.dtype.kind == "i" else as_float(values, name)
    return check_integers(values, values.shape[0] if values.ndim else 1, name)


def _places(starts: np.ndarray, used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The candidates of some lists, one list after the other, and where each then begins."""
    sizes = np.diff(starts)[used]
    begins = np.append(0, np.cumsum(sizes))
    return np.repeat(starts[used] - begins[:-1], sizes) + np.arange(begins[-1]), begins


def _with_one(Y: np.ndarray) -> np.ndarray:
    """What costs are linear in, shape (n, q + 1): each label, and last 1, which every action has."""
    return np.column_stack([Y, np.ones(len(Y))])
