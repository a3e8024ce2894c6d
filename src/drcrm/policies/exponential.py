"""Exponential policies π_Θ(a|x) ∝ e^{s(a)}, with s linear in scores u = xᵀΘ; see :mod:`drcrm.actions.base`.

ExponentialPolicy is over label vectors, SoftmaxPolicy over K actions or over lists of actions.
"""

from collections.abc import Callable
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np

from drcrm.actions import ACTIONS
from drcrm.actions.base import Actions, explored_log_prob, explored_mean, uniform_policy
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.validation import (
    as_float_array,
    check_column_names,
    check_context,
    check_fraction,
    check_vector,
    column_names,
    require_finite,
)
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.policies.base import Policy, check_compatible
from drcrm.policies.prepared_log import PreparedLog, append_row, score_probabilities, uniform_log_prob

OVERFLOW = "X times coef is beyond the range of floating-point numbers"


class LinearPolicy(Policy):
    """Base class of policies whose scores are linear in features.

    Parameters
    ----------
    coef : array (d, …)
        Coefficients Θ. The row of a constant feature holds the intercepts.
    intercept : array (…), optional
        Constant that is added to the scores; 0 by default.
    features : drcrm.policies.feature_maps.FeatureMap, optional
        Map from X to the features X' that Θ multiplies; by default Θ multiplies X.

    Attributes
    ----------
    explore : float in [0, 1]
        Share ε of the uniform policy U: the policy is (1 − ε) π + ε U. It is 0 unless :meth:`with_exploration` sets it.
    KINDS : dict of str
        Kind of the actions, by the number of dimensions of ``coef``.
    SHAPES : str
        The shapes of ``coef``, for messages.
    """

    feature_names_in_: np.ndarray | None = None  # of the policy of an estimator that was fitted to a DataFrame
    KINDS: ClassVar[dict[int, str]]
    SHAPES: ClassVar[str]

    def __init__(self, coef: Any, intercept: Any = None, features: Any = None):
        coef = as_float_array(coef, "coef")
        if coef.ndim not in self.KINDS or 0 in coef.shape:
            raise InputError(f"coef has shape {coef.shape}, expected {self.SHAPES}")
        self.actions = ACTIONS[self.KINDS[coef.ndim]].create(coef.shape[-1])
        if not np.isfinite(coef).all():
            raise InputError("coef has a NaN or infinite entry, expected finite coefficients")
        self.coef, self.features = coef, features
        self.intercept = np.zeros(coef.shape[1:])
        if intercept is not None:
            flat = as_float_array(intercept, "intercept").ravel()
            self.intercept = check_vector(flat, self.intercept.size, "intercept").reshape(coef.shape[1:])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.coef.shape[0]} features, {self.actions})"

    @property
    def n_features(self) -> int:
        """Number of features of a context."""
        return self.features.n_features if self.features else len(self.coef)

    def map_features(self, X: Features) -> Features:
        """Return the features X' that the coefficients multiply.

        Parameters
        ----------
        X : array or CSR (m, d)
            Features of contexts.

        Returns
        -------
        array or CSR (m, d')
            X itself if the policy has no feature map.
        """
        return self.features(X) if self.features else X

    @property
    def coef_with_intercept(self) -> np.ndarray:
        """Coefficients Θ with the intercept as an additional last row, (d + 1, …)."""
        return append_row(self.coef, self.intercept)

    def with_exploration(self, explore: float) -> Self:
        """Return the policy with another share ε of the uniform policy.

        Parameters
        ----------
        explore : float in [0, 1]
            ε. The new policy is (1 − ε) π(y|x) + ε/K for the K actions of a context. For q labels, K is 2^q.

        Returns
        -------
        policy of the same class
            Policy with the same scores.
        """
        policy = copy(self)
        policy.explore = check_fraction(explore, "explore")
        return policy

    def decision_function(self, X: Any, eligible: Any = None) -> np.ndarray:
        """Return the scores XΘ + intercept, which determine the probabilities of π.

        Parameters
        ----------
        X : array or CSR (m, d), or ActionLists
            Contexts.
        eligible : bool array (m, K), optional
            Which of the K actions each context has; by default all.

        Returns
        -------
        array (m, q), (m, K) or (N,)
            Score of each label, of each action, or of each of the N listed candidates.
        """
        return self._scores(X, eligible)[0]

    def marginals(self, X: Any, eligible: Any = None) -> np.ndarray:
        """Return the probability of each label or action.

        Parameters
        ----------
        X : array or CSR (m, d), or ActionLists
            Contexts.
        eligible : bool array (m, K), optional
            Which of the K actions each context has; by default all.

        Returns
        -------
        array (m, q), (m, K) or (N,)
            P(y_l = 1 | x) of each label, or P(a | x) of each action or of each of the N listed candidates.
        """
        scores, actions = self._scores(X, eligible)
        return explored_mean(actions, actions.log_partition(scores)[1], self.explore)

    def greedy(self, X: Any, eligible: Any = None) -> np.ndarray:
        """Return the most probable action of each context.

        Parameters
        ----------
        X : array or CSR (m, d), or ActionLists
            Contexts.
        eligible : bool array (m, K), optional
            Which of the K actions each context has; by default all.

        Returns
        -------
        array (m, q) or (m,)
            Labels of 0 and 1, the number of the action, or its place in the list. A label is 1 if its score is ≥ 0.
        """
        scores, actions = self._scores(X, eligible)
        return actions.most_probable(scores)

    def log_prob(self, X: Any, Y: Any, context: Any = None, eligible: Any = None) -> np.ndarray:
        """Return the log-probabilities of given actions.

        Parameters
        ----------
        X : array or CSR (m, d), or ActionLists
            Contexts.
        Y : array (n, q) or (n,)
            Actions, in the form of :class:`drcrm.BanditLog`.
        context : int array (n,), optional
            Row of X for each action; by default action i belongs to row i.
        eligible : bool array (m, K), optional
            Which of the K actions each context has; by default all.

        Returns
        -------
        array (n,)
            Values of log π(y_i|x), at most 0.
        """
        scores, actions = self._scores(X, eligible)
        m = actions.n_contexts(scores)
        Y = actions.check(Y, rows=m if context is None else None)
        context = np.arange(m) if context is None else check_context(context, len(Y), m)
        actions.check_available(Y, context)
        log_partition, _ = actions.log_partition(scores)
        log_prob = actions.row_map(Y, context, m).to_rows(scores, log_partition)
        if self.explore:
            log_prob = explored_log_prob(log_prob, uniform_policy(actions, scores)[0][context], self.explore)
        return np.minimum(log_prob, 0, out=log_prob)  # rounding errors may make it positive

    def sample(self, X: Any, random_state: Any = None, eligible: Any = None) -> np.ndarray:
        """Draw one action for each context.

        Parameters
        ----------
        X : array or CSR (m, d), or ActionLists
            Contexts.
        random_state : int, Generator or None
            Seed. By default each call draws anew.
        eligible : bool array (m, K), optional
            Which of the K actions each context has; by default all.

        Returns
        -------
        array (m, q) or (m,)
            Labels of 0 and 1, the number of the action, or its place in the list.
        """
        scores, actions = self._scores(X, eligible)
        return actions.sample(actions.log_partition(scores)[1], np.random.default_rng(random_state), self.explore)

    def draw(self, X: Any, random_state: Any = None, greedy: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Draw one action for each context, and return it with its probability.

        Parameters
        ----------
        X : array or CSR (m, d), or ActionLists
            Contexts.
        random_state : int, Generator or None
            Seed. By default each call draws anew.
        greedy : bool
            Whether the most probable action replaces π: its probability is 1 − ε + ε U.

        Returns
        -------
        action : array (m, q) or (m,)
            Actions in the form of ``sample``.
        probability : array (m,)
            Probability of the drawn action, or of the whole label vector.
        """
        scores, actions = self._scores(X, None)
        mean = actions.log_partition(scores)[1]
        context = np.arange(actions.n_contexts(scores))
        if greedy:
            best = actions.row_map(actions.most_probable(scores), context, len(context))
            mean, _ = best.to_contexts(np.ones(len(context)))
        Y = actions.sample(mean, np.random.default_rng(random_state), self.explore)
        log_prob = actions.log_prob(mean, Y, context)
        if self.explore:
            log_prob = explored_log_prob(log_prob, uniform_policy(actions, mean)[0], self.explore)
        return Y, np.exp(log_prob)

    @np.errstate(over="ignore", invalid="ignore")
    def log_prob_of_rows(self, log: BanditLog, name: str = "policy") -> np.ndarray:
        check_compatible(self, log.X.shape[1], log.actions, f"the {name}")
        prepared = PreparedLog(log.replace(X=self.map_features(log.X)), intercept=True)
        log_prob, _ = prepared.forward(self.coef_with_intercept)
        if self.explore:
            log_prob = explored_log_prob(log_prob, prepared.chunked.map_rows(uniform_log_prob), self.explore)
        return require_finite(log_prob, OVERFLOW)

    def probabilities(self, log: BanditLog, name: str = "policy") -> tuple[np.ndarray, list[tuple[float, np.ndarray]]]:
        check_compatible(self, log.X.shape[1], log.actions, f"the {name}")
        log_prob, mean = score_probabilities(log.replace(X=self.map_features(log.X)), self.coef_with_intercept)
        components = [(1 - self.explore, mean)]
        if self.explore:
            uniform_log_prob, uniform = uniform_policy(log.actions, mean)
            log_prob = explored_log_prob(log_prob, uniform_log_prob[log.context], self.explore)
            components.append((self.explore, uniform))
        return require_finite(log_prob, OVERFLOW), components

    def _unexplored_marginals(self, X: Features, actions: Actions, name: str, purpose: str) -> np.ndarray:
        check_compatible(self, X.shape[1], actions, f"the {name}")
        return actions.log_partition(self._linear_scores(X))[1]

    def _scores(self, X: Any, eligible: Any) -> tuple[np.ndarray, Actions]:
        """Return the scores of contexts and their available actions."""
        check_column_names(self, column_names(X), "policy")
        X, actions = self.actions.bind(X, eligible)
        if X.shape[1] != self.n_features:
            raise InputError(f"X has {X.shape[1]} features, the policy has {self.n_features}")
        return self._linear_scores(X), actions

    @np.errstate(over="ignore", invalid="ignore")
    def _linear_scores(self, X: Features) -> np.ndarray:
        return require_finite(self.map_features(X) @ self.coef + self.intercept, OVERFLOW)


class ExponentialPolicy(LinearPolicy):
    """Policy over label vectors y ∈ {0, 1}^q: π(y|x) ∝ exp(xᵀΘy).

    The labels are independent given x. With the scores u = xᵀΘ + intercept, label l is 1 with probability
    1/(1 + e^{−u_l}).

    Parameters
    ----------
    coef : array (d, q)
        Coefficients Θ, one column per label. The row of a constant feature holds the intercepts.
    intercept : array (q,), optional
        Constant that is added to the scores; 0 by default.
    features : drcrm.policies.feature_maps.FeatureMap, optional
        Map from X to the features X' that Θ multiplies; by default Θ multiplies X.
    """

    KINDS: ClassVar = {2: "labels"}
    SHAPES = "(features, labels)"


class SoftmaxPolicy(LinearPolicy):
    """Policy over K actions, π(a|x) ∝ exp(x·θ_a), or over each context's own list of actions, π(a|x) ∝ exp(ψ_a·θ).

    ψ_a is the feature vector of a listed action. For lists, X is a :class:`drcrm.ActionLists`, and an action is its
    place in the list, from 0. For K actions, the methods take ``eligible=``, the actions that each context has.

    Parameters
    ----------
    coef : array (d, K) or (D,)
        Coefficients: for K actions one column θ_a per action, for lists the vector θ.
    intercept : array (K,), optional
        Constant that is added to the scores of the actions; 0 by default.
    features : drcrm.policies.feature_maps.FeatureMap, optional
        Map from X to the features X' that the coefficients multiply; by default they multiply X.
    """

    KINDS: ClassVar = {2: "single", 1: "lists"}
    SHAPES = "(features, actions), or (features,) for action lists"


POLICIES = {kind: policy for policy in (ExponentialPolicy, SoftmaxPolicy) for kind in policy.KINDS.values()}


def make_policy(
    actions: Actions, coef: np.ndarray, intercept: np.ndarray | None = None, features: Callable | None = None
) -> LinearPolicy:
    """Return the policy with these coefficients over a kind of action."""
    return class_for(actions)(coef, intercept, features)


def class_for(actions: Actions) -> type[LinearPolicy]:
    """Return the class of exponential policies over a kind of action."""
    return POLICIES[actions.kind]


def as_policy(policy: object, name: str = "policy") -> LinearPolicy:
    """Return a policy, or the policy of a fitted estimator; InputError for anything else."""
    fitted = policy if isinstance(policy, LinearPolicy) else getattr(policy, "policy_", None)
    if not isinstance(fitted, LinearPolicy):
        raise InputError(
            f"{name} is of type {type(policy).__name__}, expected an ExponentialPolicy or a SoftmaxPolicy, or a "
            "fitted estimator. For a pipeline, pass its last step and the transformed X."
        )
    return fitted
