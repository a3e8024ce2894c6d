"""Support: a cost model is believed where the log could have shown that it is wrong.

τ is in units of the uniform policy's probability: that policy has support everywhere, over any number of actions.

single choice, lists   where π0(a|x) < τ/K_x, K_x the number of actions of the context, ĉ(x, a) is the largest logged
                       cost, and elsewhere it lies between the smallest and the largest
label vectors          R is the 0.99 quantile of |e_l| over contexts and labels; where π0(y_l = 1|x) < τ/2,
                       e_l ← max(e_l, R); where π0(y_l = 0|x) < τ/2, e_l ← min(e_l, −R), and e_0 grows by as much as e_l
                       falls, so that y_l = 0 alone becomes dearer
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from drcrm.actions.base import Actions
from drcrm.arrays.validation import zero_to_one
from drcrm.cost_models.ridge_model import action_effects
from drcrm.data.bandit_log import BanditLog, as_log
from drcrm.optimization.starts import imitated
from drcrm.policies.exponential import LinearPolicy, as_policy, linear_scores, require_same
from drcrm.policies.linear_predictor import importance_weights, judged, judged_mean
from drcrm.policies.tabular import as_judged

SUPPORT = 0.05  # τ


@dataclass(frozen=True)
class SupportedModel:
    """A cost model with π0, believed where that has support; it stands wherever a cost model does.

    Parameters
    ----------
    model : CostModel, or any with ``predict`` and ``expectation``
    logging_policy : ExponentialPolicy or SoftmaxPolicy
        π0, or an imitation of it.
    support : float in [0, 1]
        τ; with 0 the model is believed everywhere.
    limits : (float, float)
        The smallest and the largest cost, or −R and R: see ``Actions.cost_limits``.
    features : drcrm.policies.feature_maps.FeatureMap, optional
        X ↦ X', which the model and π0 take; by default X itself.
    is_imitated : bool
        Whether π0 is an imitation of the log: it may give support where the log has none, and so vouches for nothing.
    """

    model: object
    logging_policy: LinearPolicy
    support: float
    limits: tuple[float, float]
    features: Callable | None = None
    is_imitated: bool = False

    @classmethod
    def of(cls, model, log: BanditLog, logging_policy: LinearPolicy | None, support: float) -> SupportedModel:
        """Return a model with the limits of a log; without π0, an imitation of the log takes its place."""
        if isinstance(model, SupportedModel):
            return replace(model, support=support) if logging_policy is None else model.known(logging_policy, support)
        limits = log.actions.cost_limits(log.cost, action_effects(model, log.X, log.actions))
        known = logging_policy is not None
        return cls(model, logging_policy if known else imitated(log), support, limits, is_imitated=not known)

    def known(self, logging_policy: LinearPolicy, support: float) -> SupportedModel:
        """Return it with a π0 that is known, over X, and τ."""
        padded = self.features.padded(logging_policy) if self.features else logging_policy
        return replace(self, logging_policy=padded, support=support, is_imitated=False)

    def at(self, support: float) -> SupportedModel:
        """Return it with another τ."""
        return replace(self, support=support)

    def action_effects(self, X, actions: Actions) -> np.ndarray:
        """Return the effects of contexts, a log's X and actions, as they are believed."""
        X = self.features(X) if self.features else X
        return self.believed(action_effects(self.model, X, actions), X, actions)

    def believed(self, effects: np.ndarray, X, actions: Actions) -> np.ndarray:
        """Return effects that are the model's, as they are believed, of the X or X' that it takes."""
        if not self.support:
            return effects
        return actions.supported(effects, logging_mean(self.logging_policy, X, actions), self.support, self.limits)

    def counted(self, X, actions: Actions, extreme: float, sign: int) -> np.ndarray:
        """Return the effects of a log's X with what has no support at an extreme cost: the largest, or the least.

        Of these the ``sign`` is 1 and −1. What has support stays as it is believed. Of label vectors it is R of each
        label that counts, whatever the extreme is.
        """
        X = self.features(X) if self.features else X
        known, (low, high) = logging_mean(self.logging_policy, X, actions), self.limits
        limits = (low, high) if sign > 0 else (-high, -low)
        effects = sign * action_effects(self.model, X, actions)
        for each in (limits, actions.raised(limits, sign * extreme)):
            effects = actions.supported(effects, known, self.support, each)
        return sign * effects

    def predict(self, X, Y, eligible=None) -> np.ndarray:
        """Return ĉ(x_i, y_i), shape (n,), from X (n, d) and actions Y (n, q) or (n,)."""
        features, actions = self.logging_policy.actions.bind(X, eligible)
        m = actions.n_contexts(features)
        Y = actions.check(Y, rows=m, owner="the cost model")
        return actions.modelled(actions.row_map(Y, np.arange(m), m), self.action_effects(features, actions))

    def expectation(self, X, policy, eligible=None) -> np.ndarray:
        """Return E_{y∼π} ĉ(x, y), shape (n,), of a policy or a fitted estimator."""
        features, actions = self.logging_policy.actions.bind(X, eligible)
        return actions.expected(as_policy(policy).marginals(X, eligible), self.action_effects(features, actions))


def logging_mean(policy: LinearPolicy, X, actions: Actions) -> np.ndarray:
    """Return μ of π0 on contexts, a log's X and actions; InputError where it is a policy over others."""
    require_same(policy, X.shape[1], actions, "the logging policy")
    return actions.log_partition(linear_scores(policy.mapped(X), policy.coef, policy.intercept))[1]


def without_support(
    policy, log: BanditLog, logging_policy: LinearPolicy, support: float, features: Callable | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return a policy's probability of actions that π0 hardly takes, (m,), and which rows have such an action, (n,).

    ``features`` is the map to what π0 takes, if there is one.
    """
    actions, X = log.actions, features(log.X) if features else log.X
    known, mean = logging_mean(logging_policy, X, actions), judged_mean(policy, log, "its mass without support")
    return actions.without_support(log.row_map, mean, known, support)


@dataclass(frozen=True)
class PolicySupport:
    """What a log can show of a policy.

    Attributes
    ----------
    mass : float
        The policy's mean probability where π0 has no support, summed over labels or actions: of at most q, or 1.
    mass_by_action : array (q,), (K,) or ()
        The same for each label or action.
    mean_weight : float
        The mean of w = π/p, whose expectation is 1 where there is support.
    mean_weight_by_action : array (q,), (K,) or ()
        Of each label that of π(y_l|x)/π0(y_l|x); of each action Σ w 1[a] over the policy's mean probability of a.
    """

    mass: float
    mass_by_action: np.ndarray
    mean_weight: float
    mean_weight_by_action: np.ndarray


def policy_support(policy, log: BanditLog, logging_policy=None, support: float = SUPPORT) -> PolicySupport:
    """Return how much of a policy lies where the log could not have shown what it costs.

    Parameters
    ----------
    policy : any, as :func:`off_policy_value` takes them
        Of arrays one with the probabilities of all actions.
    log : BanditLog
    logging_policy : ExponentialPolicy or SoftmaxPolicy, optional
        π0; by default an imitation of the log.
    support : float in [0, 1]
        τ, in units of the uniform policy's probability.

    Raises
    ------
    InputError
        A policy over other actions or features than the log has, or a τ out of range.
    """
    log, support = as_log(log), zero_to_one(support, "support")
    policy, log = as_judged(policy, log), log.recount(log.count)
    actions, (_, log_prob, _) = log.actions, judged(policy, log)
    known = logging_mean(logging_policy or imitated(log), log.X, actions)
    mean = judged_mean(policy, log, "the support of a policy")
    share, weight = log.count / log.size, importance_weights(log_prob, log)
    of_context = actions.spread(np.bincount(log.context, share))
    missing = (of_context * actions.unsupported(mean, known, support)).sum(axis=0)
    by_action = actions.mean_weights(log.Y, log.context, share, weight, mean, known)
    return PolicySupport(float(missing.sum()), missing, float(share @ weight), by_action)
