"""Marginalised inverse propensity scoring (MIPS): weights of clusters of actions in place of weights of actions."""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.arrays.numerics import constructor_repr
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.evaluation.terms.policy_on_log import PolicyOnLog
from drcrm.policies.tabular import policy_for_log


class MarginalWeights:
    """Mean of w c with w = π(e|x)/π0(e|x), where e is the cluster of the logged action.

    π(e|x) is the probability that the policy draws any action of the cluster. The estimate is unbiased if the cost
    depends on the action only through its cluster, also if π0 never takes some actions of a cluster. Otherwise it is
    biased by the differences within clusters. It needs one of K actions. Source: Saito & Joachims 2022.

    Parameters
    ----------
    embedding : array (K,) or (K, k)
        Cluster of each action, or its discrete features. Actions with equal features are in one cluster.
    logging_policy : any policy of :func:`drcrm.off_policy_value`
        Logging policy π0, with the probabilities of all actions.
    """

    uses_model = False
    __repr__ = constructor_repr

    def __init__(self, embedding: Any, logging_policy: Any):
        self.embedding, self.logging_policy = embedding, logging_policy

    def terms(self, log: BanditLog, policy: Any, model: Any = None) -> np.ndarray:
        """Return one term for each row, (n,)."""
        return self._weights(log, policy)[0] * log.cost

    def _weights(self, log: BanditLog, policy: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the weight of each row, (n,), and the policy's probabilities of all actions, (m, K)."""
        embedding = np.asarray(self.embedding)
        if len(log.actions.shape) != 1 or log.Y.ndim != 1 or embedding.shape[:1] != log.actions.shape:
            raise InputError(
                f"embedding has shape {embedding.shape}, and the log has {log.actions}. MIPS needs one of K actions, "
                "and for each action its cluster or a row of features"
            )
        _, cluster = np.unique(embedding, axis=0, return_inverse=True)
        sides = {"policy": policy, "logging_policy": self.logging_policy}
        new, old = (
            PolicyOnLog(policy_for_log(side, log, role), log, role).mean("MIPS") for role, side in sides.items()
        )
        in_cluster = cluster.ravel()[:, None] == np.arange(cluster.max() + 1)
        rows = log.context, cluster.ravel()[log.Y]
        return (new @ in_cluster)[rows] / (old @ in_cluster)[rows], new


class ClusterDoublyRobust(MarginalWeights):
    """Mean of m(x) + w (c − ĉ(x, a)) with the weights w of clusters of :class:`MarginalWeights`.

    Their logarithm is the difference of the log-sum-exp of log π and log π0 over the cluster. The estimate is unbiased
    if the model has the right differences between the actions of a cluster; its errors that all actions of a cluster
    share do not matter. Parameters are those of :class:`MarginalWeights`. Source: Saito, Ren & Joachims 2023.
    """

    uses_model = True

    def terms(self, log: BanditLog, policy: Any, model: Any = None) -> np.ndarray:
        """Return one term for each row, (n,)."""
        weight, new = self._weights(log, policy)
        effects = np.asarray(model)
        return (new * effects).sum(axis=1)[log.context] + weight * (log.cost - effects[log.context, log.Y])
