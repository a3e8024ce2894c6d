"""Cost model of clusters of actions, for logs with more actions than a model of each action can learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.actions.base import Actions
from drcrm.actions.one_of_many import SingleChoice
from drcrm.arrays.mapped_arrays import Features
from drcrm.cost_models.base import BaseCostModel, Predict
from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.data.scaling import has_constant

CLUSTERS = "clusters"  # name of the model of a simulator's clusters


class ClusterModel(BaseCostModel):
    """The default :class:`drcrm.CostModel` of clusters: all actions of a cluster have the same modelled cost.

    Parameters
    ----------
    clusters : int array (K,)
        Cluster of each action, 0, 1 …
    """

    def __init__(self, clusters: Any):
        self.clusters = np.asarray(clusters)

    def _fit(self, log: BanditLog, **settings: Any) -> ClusterModel:
        log.actions.require_classes("a cost model of clusters")
        of_clusters = log.replace(Y=self.clusters[log.Y], actions=SingleChoice(self.clusters.max() + 1))
        self.model_ = CostModel().fit(of_clusters, action_intercepts=not has_constant(log.X))
        return self

    def effects(self, X: Features, actions: Actions, predict: Predict | None = None) -> np.ndarray:
        return self.model_.effects(X)[:, self.clusters]
