"""Policies π_Θ(y|x) ∝ e^{s(y)}, s(y) linear in scores u that are linear in features: see :mod:`drcrm.actions.base`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from drcrm.actions.base import Actions
from drcrm.actions.label_vectors import LabelVectors
from drcrm.actions.listed_actions import ListedActions
from drcrm.actions.single_choice import SingleChoice
from drcrm.arrays.validation import Features, as_float_array, check_context, check_vector
from drcrm.errors import InputError


class LinearPolicy(ABC):
    """What policies of all kinds of action share.

    Parameters
    ----------
    coef : array (d, …)
        Θ. A constant feature of x, where there is one, makes its row the intercepts.
    intercept : array (…), optional
        What is added to the scores; 0 by default.
    features : drcrm.policies.feature_maps.FeatureMap, optional
        X ↦ X', in which the scores are linear; by default X itself.
    """

    def __init__(self, coef: np.ndarray, intercept: np.ndarray | None = None, features: Callable | None = None):
        coef = as_float_array(coef, "coef")
        self.actions = self._actions_of(coef.shape)
        if not np.isfinite(coef).all():
            raise InputError("coef has a NaN or infinite entry, expected finite coefficients")
        self.coef, self.features = coef, features
        self.intercept = np.zeros(coef.shape[1:])
        if intercept is not None:
            given = as_float_array(intercept, "intercept").ravel()
            self.intercept = check_vector(given, self.intercept.size, "intercept").reshape(coef.shape[1:])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.coef.shape[0]} features, {self.actions})"

    @staticmethod
    @abstractmethod
    def _actions_of(shape: tuple[int, ...]) -> Actions:
        """The actions that coefficients of a shape tell apart; InputError where they are none."""

    @property
    def n_features(self) -> int:
        """How many features a context has."""
        return self.features.n_features if self.features else len(self.coef)

    def map_features(self, X: Features) -> Features:
        """Return what the scores are linear in, of the features of contexts."""
        return self.features(X) if self.features else X

    @property
    def coef_with_intercept(self) -> np.ndarray:
        """Θ of contexts with a constant 1 appended, shape (d + 1, …): the intercept is its last row."""
        return append_row(self.coef, self.intercept)

    def decision_function(self, X, eligible=None) -> np.ndarray:
        """Return the scores u = XΘ, and the intercept, shape (n, …)."""
        return self._scores(X, eligible)[0]

    def marginals(self, X, eligible=None) -> np.ndarray:
        """Return μ: P(y_l = 1 | x) of each label, shape (n, q), or P(a | x) of each action, shape (n, K) or (N,)."""
        scores, actions = self._scores(X, eligible)
        return actions.log_partition(scores)[1]

    def greedy(self, X, eligible=None) -> np.ndarray:
        """Return the most probable action: labels y_l = 1[u_l ≥ 0], shape (n, q); or its number, shape (n,)."""
        scores, actions = self._scores(X, eligible)
        return actions.most_probable(scores)

    def log_prob(self, X, Y, context=None, eligible=None) -> np.ndarray:
        """Return log π(y_i | x_{context_i}) ≤ 0, shape (n,); without ``context``, row i of Y belongs to row i of X."""
        scores, actions = self._scores(X, eligible)
        m = actions.n_contexts(scores)
        Y = actions.check(Y, rows=m if context is None else None)
        context = np.arange(m) if context is None else check_context(context, len(Y), m)
        actions.check_available(Y, context)
        log_partition, _ = actions.log_partition(scores)
        log_prob = actions.row_map(Y, context, m).to_rows(scores, log_partition)
        return np.minimum(log_prob, 0, out=log_prob)  # rounding may leave it above

    def sample(self, X, random_state=None, eligible=None) -> np.ndarray:
        """Draw one action for each context, shape (n, q) or (n,); ``random_state`` is a seed or a numpy Generator."""
        scores, actions = self._scores(X, eligible)
        return actions.sample(actions.log_partition(scores)[1], np.random.default_rng(random_state))

    def _scores(self, X, eligible) -> tuple[np.ndarray, Actions]:
        """The scores of contexts, and the actions that they have."""
        X, actions = self.actions.bind(X, eligible)
        if X.shape[1] != self.n_features:
            raise InputError(f"X has {X.shape[1]} features, the policy has {self.n_features}")
        return linear_scores(self.map_features(X), self.coef, self.intercept), actions


class ExponentialPolicy(LinearPolicy):
    """π_Θ(y|x) ∝ exp(xᵀΘy) over the label vectors y ∈ {0,1}^q.

    Parameters
    ----------
    coef : array (d, q)
        Θ: one column per label. A constant feature of x, where there is one, makes its row the intercepts.
    intercept : array (q,), optional
        What is added to the scores of the labels; 0 by default.
    """

    @staticmethod
    def _actions_of(shape):
        if len(shape) != 2:
            raise InputError(f"coef has shape {shape}, expected (features, labels)")
        return LabelVectors(shape[1])


class SoftmaxPolicy(LinearPolicy):
    """π_Θ(a|x) ∝ exp(x·θ_a) over K actions, or ∝ exp(ψ_a·θ) over the list of actions that a context has.

    Of K actions, methods take ``eligible=``, boolean (m, K), those that may be chosen in each context; by default all.
    For lists, X are :class:`drcrm.ActionLists`, and actions are places in a list.

    Parameters
    ----------
    coef : array (d, K), or (D,)
        Θ: one column per action; or θ, one entry per feature of a listed action.
    intercept : array (K,), optional
        What is added to the scores of the actions; 0 by default.
    """

    @staticmethod
    def _actions_of(shape):
        if len(shape) not in (1, 2) or 0 in shape:
            raise InputError(f"coef has shape {shape}, expected (features, actions), or (features,) of listed actions")
        return SingleChoice(shape[1]) if len(shape) == 2 else ListedActions()


POLICIES = {LabelVectors: ExponentialPolicy, SingleChoice: SoftmaxPolicy, ListedActions: SoftmaxPolicy}


def make_policy(
    actions: Actions, coef: np.ndarray, intercept: np.ndarray | None = None, features: Callable | None = None
) -> LinearPolicy:
    """Return the policy over a kind of action."""
    return POLICIES[type(actions)](coef, intercept, features)


def check_compatible(
    policy: LinearPolicy, n_features: int, actions: Actions, name: str = "the policy", owner: str = "the log"
) -> None:
    """Raise InputError for a policy over other actions, or of other features, than its owner has."""
    if type(policy.actions) is not type(actions):
        raise InputError(f"{name} is of {policy.actions}, {owner} of {actions}")
    found, expected = (policy.n_features, *policy.coef.shape[1:]), (n_features, *actions.shape)
    if found != expected:
        raise InputError(f"{name}'s coef has shape {found}, expected {expected}, as {owner} has")


def append_row(coef: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Return coefficients (d, …) with one more row."""
    return np.concatenate([coef, np.asarray(row)[None]])


def linear_scores(X: Features, coef: np.ndarray, intercept: np.ndarray | None = None) -> np.ndarray:
    """Return u = XΘ, and the intercept, shape (m, …); InputError beyond the range of numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        scores = X @ coef if intercept is None else X @ coef + intercept
    if not np.isfinite(scores).all():
        raise InputError("X times coef is beyond the range of floating-point numbers")
    return scores


def as_policy(policy, name: str = "policy") -> LinearPolicy:
    """Return a policy, or that of a fitted estimator; InputError for anything else."""
    own = policy if isinstance(policy, LinearPolicy) else getattr(policy, "policy_", None)
    if not isinstance(own, LinearPolicy):
        raise InputError(
            f"{name} is of type {type(policy).__name__}, expected an ExponentialPolicy or a SoftmaxPolicy, or a fitted "
            "estimator; of a pipeline, its last step, with X as the others make it"
        )
    return own
