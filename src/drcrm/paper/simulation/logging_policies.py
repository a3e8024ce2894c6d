"""Logging policies that are functions of a CRF's probabilities, like the policies of simulators."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize

from drcrm.arrays.validation import Features
from drcrm.bench.simulated_policies import checked_probabilities, make_policy
from drcrm.data.bandit_log import BanditLog
from drcrm.data.scaling import as_column, feature_scales
from drcrm.policies.exponential import ExponentialPolicy, LinearPolicy, class_for

RIDGE = 1e-6  # λ of the closest policy, whose coefficients would be infinite if π0 is deterministic
NEVER = -1000.0  # log-probability of an action that is never taken; its exponential is 0


class PolicyScores:
    """Feature map from contexts to the scores of the actions under a policy of simulators.

    The policy gets the contexts without the constant feature, and as scores the probabilities of the actions under the
    CRF. For label vectors, it decides on each label separately: its two actions are the values 0 and 1.

    Parameters
    ----------
    crf : ExponentialPolicy or SoftmaxPolicy
    value : str or dict
        A policy of :func:`drcrm.bench.simulated_policies.make_policy`.
    """

    def __init__(self, crf: LinearPolicy, value: Any):
        self.crf, self.policy, self.n_features = crf, make_policy(value), crf.n_features

    def __call__(self, X: Features) -> np.ndarray:
        """Return the log-probabilities of K actions, (n, K), or the log-odds of q labels, (n, q)."""
        mean, contexts = self.crf.marginals(X), X[:, :-1]
        if not isinstance(self.crf, ExponentialPolicy):
            return self._log_probabilities(contexts, mean)
        labels = [self._log_probabilities(contexts, np.column_stack([1 - p, p])) for p in mean.T]
        return np.column_stack([log_p[:, 1] - log_p[:, 0] for log_p in labels])

    def _log_probabilities(self, contexts: Features, scores: np.ndarray) -> np.ndarray:
        probabilities = checked_probabilities(self.policy, contexts, scores)
        return np.log(probabilities, where=probabilities > 0, out=np.full(probabilities.shape, NEVER))


def function_of_crf(crf: LinearPolicy, value: Any) -> LinearPolicy:
    """Return the policy of simulators that a value describes, over the actions of a CRF."""
    return type(crf)(np.eye(crf.coef.shape[1]), features=PolicyScores(crf, value))


def with_probabilities(log: BanditLog, logging_policy: LinearPolicy) -> BanditLog:
    """Return a log with the probabilities of all actions in its contexts."""
    return log.replace(actions=log.actions.with_logging_mean(logging_policy.marginals(log.X)))


def closest_policy(log: BanditLog) -> LinearPolicy:
    """Return the policy with linear scores that is closest to the known probabilities π0 of a log.

    It minimises the mean of KL(π0(·|x) ‖ π_Θ(·|x)) plus (λ/2) ‖Θ‖², with Θ in units of the features.
    """
    actions, X, mean = log.actions, log.X, log.actions.logging_mean
    share = actions.broadcast(np.bincount(log.context, log.count, log.n_contexts) / log.size)
    shape = X.shape[1], *actions.shape
    scales = as_column(feature_scales(X, log.feature_range), actions.shape)

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        scores = X @ (x.reshape(shape) / scales)
        log_partition, fitted = actions.log_partition(scores)
        cross_entropy = share.ravel() @ log_partition - (share * mean * scores).sum()
        gradient = (X.T @ (share * (fitted - mean))) / scales
        return cross_entropy + RIDGE / 2 * x @ x, gradient.ravel() + RIDGE * x

    options = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-7}
    fit = minimize(loss, np.zeros(np.prod(shape)), jac=True, method="L-BFGS-B", options=options)
    return class_for(actions)(fit.x.reshape(shape) / scales)
