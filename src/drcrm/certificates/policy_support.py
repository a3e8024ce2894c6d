"""Overlap between a policy and the logging policy: unsupported probability mass and mean importance weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drcrm.arrays.validation import check_fraction
from drcrm.cost_models.support import SUPPORT, logging_mean
from drcrm.data.bandit_log import BanditLog, as_log
from drcrm.optimization.behaviour_cloning import clone_behaviour
from drcrm.policies.exponential import LinearPolicy
from drcrm.policies.linear_predictor import forward_policy, importance_weights, policy_marginals
from drcrm.policies.tabular import policy_for_log


@dataclass(frozen=True)
class PolicySupport:
    """How far a log covers the actions of a policy.

    Attributes
    ----------
    mass : float
        The policy's mean probability of unsupported actions, at most 1. For label vectors it is the
        sum over labels, at most q.
    mass_by_action : array (q,), (K,) or ()
        The same for each label or action.
    mean_weight : float
        The mean of w = π/p; its expectation is 1 if the policy has support everywhere.
    mean_weight_by_action : array (q,), (K,) or ()
        For each label, the mean of π(y_l|x)/π0(y_l|x). For each action, Σ w 1[a] over the policy's mean probability
        of a.
    """

    mass: float
    mass_by_action: np.ndarray
    mean_weight: float
    mean_weight_by_action: np.ndarray


def policy_support(
    policy: object, log: BanditLog, logging_policy: LinearPolicy | None = None, support: float = SUPPORT
) -> PolicySupport:
    """Return how much of a policy's probability is on actions that the logging policy hardly takes.

    Parameters
    ----------
    policy : any policy that :func:`off_policy_value` accepts
        An array must have the probabilities of all actions.
    log : BanditLog
    logging_policy : ExponentialPolicy or SoftmaxPolicy, optional
        π0; by default the policy cloned from the log.
    support : float in [0, 1]
        τ, in units of the uniform policy's probability.

    Raises
    ------
    InputError
        If the policy has other actions or features than the log, or τ is outside [0, 1].
    """
    log, support = as_log(log), check_fraction(support, "support")
    policy, log = policy_for_log(policy, log), log.recount(log.count)
    actions, (_, log_prob, _) = log.actions, forward_policy(policy, log)
    known = logging_mean(logging_policy or clone_behaviour(log), log.X, actions)
    mean = policy_marginals(policy, log, "the support of a policy")
    share, weight = log.count / log.size, importance_weights(log_prob, log)
    of_context = actions.broadcast(np.bincount(log.context, share))
    missing = (of_context * actions.support_rule.unsupported_mass(mean, known, support)).sum(axis=0)
    by_action = actions.support_rule.mean_weights(log.Y, log.context, share, weight, mean, known)
    return PolicySupport(float(missing.sum()), missing, float(share @ weight), by_action)
