"""Logging policies that are functions of a CRF's probabilities, like the policies of simulators."""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.arrays.validation import Features
from drcrm.bench.simulated_policies import checked_probabilities, make_policy
from drcrm.policies.exponential import ExponentialPolicy, LinearPolicy

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
