"""The logging policy π0, which actions it supports, and cost models that are trusted only for these.

An action has support if π0 takes it often enough to test a cost model. The threshold τ is in units of the uniform
policy's probability, so the uniform policy has support everywhere. If a log has the probabilities of all actions, they
are π0, and no policy replaces them. ``thompson_propensities`` estimates π0 of Thompson sampling from its draws.

single choice, lists   If π0(a|x) < τ/K_x, with K_x actions in the context, ĉ(x, a) is the largest logged cost.
                       Elsewhere ĉ(x, a) is clipped to the range of the logged costs.
label vectors          R is the 0.99 quantile of |e_l| over contexts and labels. If π0(y_l = 1|x) < τ/2, e_l becomes
                       max(e_l, R). If π0(y_l = 0|x) < τ/2, e_l becomes min(e_l, −R), and e_0 grows by the difference:
                       only y_l = 0 becomes more expensive.

An estimated π0 can be wrong, above all with few rows or many features. If every logged propensity of an action is at
least τ/K, the action is therefore supported, whatever the estimate is. The log refutes this if a row with another
action has a propensity above 1 − τ/K, or if the action is significantly too rare where the estimate is below τ/K. For
label vectors, this holds for each value of a label, with K = 2^q vectors. Estimated propensities do not count. A policy
that explores at a constant rate ε < τ takes every action with a probability of at least ε/K. For single choices and
lists, this paragraph then holds with ε in place of τ, if all rows have one of the two propensities of an ε-greedy
policy, ε/K and 1 − ε (K − 1)/K, and each rare action has at least 10 rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drcrm.actions.base import Actions
from drcrm.arrays.validation import as_float_array
from drcrm.cost_models.base import action_effects
from drcrm.cost_models.blended_model import MappedModel
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.optimization.starts import clone_behaviour
from drcrm.policies.base import Policy

SUPPORT = 0.05  # τ
ROUNDED = 0.02  # relative error of propensities of two digits, such as 0.17 for 1/6


@dataclass(frozen=True, eq=False)
class LoggingPolicy:
    """The logging policy π0, and the actions that it supports.

    Parameters
    ----------
    policy : Policy
        π0, or the policy cloned from the log.
    support : float in [0, 1]
        τ.
    is_supported : bool array, optional
        Actions that have support whatever π0 says, if it is an estimate.
    is_approximate : bool
        Whether π0 was cloned from the log, or approximates the probabilities of all actions that the log has. It may
        then have support where the log has none, so it cannot show which actions are unsupported.
    """

    policy: Policy
    support: float = SUPPORT
    is_supported: np.ndarray | None = None
    is_approximate: bool = False

    @classmethod
    def of(cls, policy: Policy, log: BanditLog) -> LoggingPolicy:
        """Return a known π0. If the log has the probabilities of all actions, they are π0, and it approximates them."""
        return cls(policy, is_approximate=log.actions.logging_mean is not None)

    @classmethod
    def clone(cls, log: BanditLog, support: float = SUPPORT) -> LoggingPolicy:
        """Return the policy that is cloned from a log, with the support that its propensities show."""
        return cls(clone_behaviour(log), support).with_logged_support(log)

    def with_logged_support(self, log: BanditLog, mean: np.ndarray | None = None) -> LoggingPolicy:
        """Return π0 as an estimate: it has the support that the propensities of its log show.

        ``mean`` are its probabilities of all actions, if they are known.
        """
        mean = self.policy.marginals_on(log.X, log.actions, "logging policy") if mean is None else mean
        return replace(self, is_approximate=True, is_supported=_find_supported(log, mean, self.support))

    def probabilities(self, X: Any, actions: Actions, purpose: str = "the support rule") -> np.ndarray:
        """Return the probabilities of all actions, in the shape of scores.

        They are those of the log, if it has them. Otherwise actions that are supported have at least τ/K.
        """
        if actions.logging_mean is not None:
            return actions.logging_mean
        mean = self.policy.marginals_on(X, actions, "logging policy", purpose)
        return mean if self.is_supported is None else actions.raise_to_support(mean, self.is_supported, self.support)

    def find_unsupported(
        self, log: BanditLog, components: Iterable[tuple[float, np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a policy's probability of unsupported actions, (m,), and which rows have such an action, (n,).

        ``components`` are those of the policy: see :meth:`drcrm.policies.base.Policy.components`.
        """
        logging_mean = self.probabilities(log.X, log.actions)
        mass, is_rare = np.zeros(log.n_contexts), np.zeros(len(log.Y), dtype=bool)
        for share, mean in components:
            of_component, is_rare = log.actions.find_unsupported(log.row_map, mean, logging_mean, self.support)
            mass += share * of_component
        return mass, is_rare


@dataclass(frozen=True)
class SupportedModel:
    """A cost model that is trusted only where the logging policy has support. It can replace any cost model.

    Parameters
    ----------
    model : CostModel or another cost model
    logging : LoggingPolicy
        π0 and its τ; with τ = 0 the model is trusted everywhere. If π0 is a TabularPolicy, the model can be used only
        on its log.
    limits : (float, float)
        The smallest and the largest cost, or −R and R for label vectors: see ``Actions.cost_limits``.
    """

    model: Any
    logging: LoggingPolicy
    limits: tuple[float, float]

    @property
    def feature_names_in_(self) -> np.ndarray | None:
        """Names of the columns to which the model was fitted."""
        return getattr(self.model, "feature_names_in_", None)

    def with_support(self, support: float) -> SupportedModel:
        """Return the model with another τ."""
        return replace(self, logging=replace(self.logging, support=support))

    def with_features(self, features: Any) -> SupportedModel:
        """Return a model over X, if this one and its π0 are over X' = features(X)."""
        logging = replace(self.logging, policy=features.pull_back(self.logging.policy))
        return replace(self, model=MappedModel(features, self.model), logging=logging)

    def effects(self, X: Any, actions: Actions) -> np.ndarray:
        """Return the effects of the contexts of a log, after the support rule."""
        return self.apply_support(action_effects(self.model, X, actions), X, actions)

    def apply_support(self, effects: np.ndarray, X: Any, actions: Actions) -> np.ndarray:
        """Return effects of the model in contexts X after the support rule."""
        support = self.logging.support
        if not support:
            return effects
        return actions.replace_unsupported(effects, self.logging.probabilities(X, actions), support, self.limits)

    def effects_at_extreme(self, X: Any, actions: Actions, extreme: float, sign: int) -> np.ndarray:
        """Return the effects with unsupported actions at an extreme cost: the largest (sign 1) or the smallest (−1).

        Supported actions keep their cost after the support rule. Unsupported labels keep R, whatever the extreme is.
        """
        mean, (low, high) = self.logging.probabilities(X, actions), self.limits
        limits = (low, high) if sign > 0 else (-high, -low)
        effects = sign * action_effects(self.model, X, actions)
        for bounds in (limits, actions.raise_limits(limits, sign * extreme)):
            effects = actions.replace_unsupported(effects, mean, self.logging.support, bounds)
        return sign * effects


def thompson_propensities(draws: Any) -> np.ndarray:
    """Return the probabilities with which Thompson sampling takes each action: how often it is the best of the draws.

    Parameters
    ----------
    draws : array (S, K) or (n, S, K)
        Rewards of K actions in S samples of the posterior, for one context or for n contexts. Draw them from the
        posterior that made the decision. The error of a probability p is about √(p (1 − p)/S).

    Returns
    -------
    array (K,) or (n, K)
        Shares of the samples. Actions that are equally good share a sample.

    Raises
    ------
    InputError
        If the shape is wrong, or a number is not finite.
    """
    draws = as_float_array(draws, "draws")
    if draws.ndim not in (2, 3) or not draws.size:
        raise InputError(f"draws has shape {draws.shape}, expected (S, K) or (n, S, K): samples of K actions")
    if not np.isfinite(draws).all():
        raise InputError(f"draws has {(~np.isfinite(draws)).sum()} values that are not finite numbers")
    is_best = draws == draws.max(axis=-1, keepdims=True)
    return (is_best / is_best.sum(axis=-1, keepdims=True)).mean(axis=-2)


def supporting_policy(model: object) -> LoggingPolicy | None:
    """Return π0 of a cost model's support rule; None if the model has no such rule."""
    return model.logging if isinstance(model, SupportedModel) and model.logging.support else None


def has_propensities(policy: Policy, log: BanditLog) -> bool:
    """Return whether a policy's probabilities of the logged actions are the propensities of a log, up to rounding.

    A policy with other propensities says neither which actions the log lacks, nor the mean of a control variate.
    """
    log_prob = policy.log_prob_of_rows(log, "logging policy")
    with np.errstate(over="ignore"):
        return not np.abs(np.expm1(log_prob - log.log_propensity)).max() > ROUNDED


def raise_to_support(mean: np.ndarray, log: BanditLog, support: float) -> np.ndarray:
    """Return an estimate of π0, in the shape of scores, in which actions have the support that the log shows."""
    is_supported = _find_supported(log, mean, support)
    return mean if is_supported is None else log.actions.raise_to_support(mean, is_supported, support)


def _find_supported(log: BanditLog, mean: np.ndarray, support: float) -> np.ndarray | None:
    """Return which actions are supported in every context; None if the propensities are estimates."""
    return None if log.imitated_propensities else log.actions.find_supported(log, mean, support)


def restrict_to_support(model: object, log: BanditLog, logging_policy: Policy | None, support: float) -> SupportedModel:
    """Return a cost model that is trusted only where the logging policy has support.

    If ``logging_policy`` is None, the logging policy of the model is used. If it has none, the policy is cloned from
    the log. A model that already has cost limits keeps them, others get those of the log.
    """
    if logging_policy is not None:
        logging = LoggingPolicy(logging_policy, support)
    elif isinstance(model, SupportedModel):
        logging = replace(model.logging, support=support)
    else:
        logging = LoggingPolicy.clone(log, support)
    if isinstance(model, SupportedModel):
        return replace(model, logging=logging)
    limits = log.actions.cost_limits(log.cost, action_effects(model, log.X, log.actions))
    return SupportedModel(model, logging, limits)
