"""Estimators of a policy's cost by name, with parameters, or of a user's class.

An estimator has the method ``terms(log, policy, model)``, which returns one number for each row. Their mean is the
estimate, and their standard deviation gives its standard error. ``log`` is a :class:`drcrm.BanditLog` without rows of
count 0. ``policy`` has the probabilities of all actions in the contexts of the log, and ``model`` their modelled costs:
(m, K), or (N,) for lists. The attribute ``uses_model`` says whether it needs the model, by default yes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from drcrm.actions.base import Actions
from drcrm.actions.one_of_many import SingleChoice
from drcrm.arrays.formats import constructor_repr
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.numerics import has_constant
from drcrm.arrays.validation import check_choice
from drcrm.cost_models.base import BaseCostModel, Predict
from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.data.folds import context_folds
from drcrm.errors import InputError
from drcrm.evaluation import EVALUATIONS
from drcrm.evaluation.evaluation import Evaluation
from drcrm.evaluation.policy_on_log import PolicyOnLog
from drcrm.policies.tabular import policy_for_log
from drcrm.risks.closed_forms import LogSmoothingRisk
from drcrm.selection.fit_settings import make_object
from drcrm.weights import Implicit, Shrunk, Subgaussian, Weight

WEIGHTS: dict[str, type[Weight]] = {"implicit": Implicit, "subgaussian": Subgaussian, "dros": Shrunk}
CLASSES = {  # further estimators
    "log_smoothing": "drcrm.bench.estimators:LogarithmicSmoothing",
    "mips": "drcrm.bench.estimators:MarginalWeights",
    "cluster_dr": "drcrm.bench.estimators:ClusterDoublyRobust",
    "mrdr": "drcrm.bench.estimators:WeightedModel",
    "slope": "drcrm.bench.selectors:Slope",
    "ocv": "drcrm.bench.selectors:CrossValidation",
}
OF_CLUSTERS = "mips", "cluster_dr"  # estimators with clusters of actions and the logging policy
NAMES = (*EVALUATIONS, *CLASSES)
CLUSTERS = "clusters"  # name of the model of a simulator's clusters


class Weighted:
    """Estimate by name, with its default weight or another one.

    Parameters
    ----------
    estimate : str
        Name of an estimate of :func:`drcrm.off_policy_value`.
    weight : Weight, optional
        Weight for an estimate that does not clip.
    clip : float ≥ 1, optional
        Limit of the weights for an estimate that clips; by default the clipping constant of the log.
    """

    __repr__ = constructor_repr

    def __init__(self, estimate: str, weight: Weight | None = None, clip: float | None = None):
        self.estimate, self.weight, self.clip = estimate, weight, clip
        self.uses_model = EVALUATIONS[estimate].kind.uses_model

    def terms(self, log: BanditLog, policy: Any, model: Any = None) -> np.ndarray:
        """Return one term for each row, (n,), whose mean is the estimate; those of a ratio are linearised."""
        evaluation = Evaluation.of(policy, log, cost_model=model if self.uses_model else None)
        return evaluation.by(self.estimate, weight=self.weight, clip=self.clip).terms.linear


class LogarithmicSmoothing:
    """Logarithmic smoothing z = −log(1 − λ w c)/λ, for costs of at most 0.

    Its bias is towards 0, and below λ E (w c)². Source: Sakhi, Aouali, Alquier & Chopin 2024.

    Parameters
    ----------
    smoothing : float > 0, optional
        Strength λ, by default 1/√n, which vanishes as n grows.
    """

    uses_model = False
    __repr__ = constructor_repr

    def __init__(self, smoothing: float | None = None):
        self.smoothing = smoothing

    def terms(self, log: BanditLog, policy: Any, model: Any = None) -> np.ndarray:
        """Return one term for each row, (n,); InputError if a weighted cost is 1/λ or more."""
        risk = LogSmoothingRisk(log.size**-0.5 if self.smoothing is None else self.smoothing)
        return risk.smooth(Weighted("ips").terms(log, policy))


class MarginalWeights:
    """Marginalised inverse propensity scoring (MIPS): the mean of w c with the weights of clusters of actions.

    The weight is w = π(e|x)/π0(e|x), where e is the cluster of the logged action. π(e|x) is the probability that the
    policy draws any action of the cluster. The estimate is unbiased if the cost depends on the action only through its
    cluster, even if π0 never takes some actions of a cluster. Otherwise it is biased by the differences within
    clusters. It needs one of K actions. Source: Saito & Joachims 2022.

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


class WeightedModel:
    """More robust doubly robust estimation (MRDR): "dr" with a cost model whose rows have weights.

    The model is one regression of the costs for each action, in which rows have the weights π (1 − p)/p². For a
    deterministic policy, the weighted squared error of the model is the part of the variance of "dr" that depends on
    the model. For other policies it only resembles this part. The regressions are cross-fitted. An action without rows
    in the other folds is modelled by the mean cost of these folds. It needs one of K actions. Source: Farajtabar, Chow
    & Ghavamzadeh 2018.

    Parameters
    ----------
    regressor : regressor of scikit-learn with ``sample_weight``, optional
        By default ``Ridge()``.
    folds : int
        Number of folds.
    """

    uses_model = False
    __repr__ = constructor_repr

    def __init__(self, regressor: Any = None, folds: int = 5):
        self.regressor, self.folds = regressor, folds

    def terms(self, log: BanditLog, policy: Any, model: Any = None) -> np.ndarray:
        """Return one term for each row, (n,)."""
        if len(log.actions.shape) != 1 or log.Y.ndim != 1:
            raise InputError(f"MRDR needs one of K actions, the log has {log.actions}")
        weight = Evaluation.of(policy, log).policy.importance * (1 / log.propensity - 1) * log.count
        fold = context_folds(log, self.folds)
        effects = np.empty((log.n_contexts, *log.actions.shape))
        for number in np.unique(fold):
            is_tested = fold == number
            trains = ~is_tested[log.context] if len(np.unique(fold)) > 1 else np.ones(len(log.Y), dtype=bool)
            effects[is_tested] = self._fit_and_predict(log, trains, weight, log.X[is_tested])
        return Weighted("dr").terms(log, policy, effects)

    def _fit_and_predict(self, log: BanditLog, trains: np.ndarray, weight: np.ndarray, X: Any) -> np.ndarray:
        """Return the predicted costs of all actions in the contexts X from the training rows."""
        from sklearn.base import clone  # imported here: it takes half a second
        from sklearn.linear_model import Ridge

        mean = np.average(log.cost[trains], weights=log.count[trains])
        effects = np.full((X.shape[0], *log.actions.shape), mean)
        for action in range(effects.shape[1]):
            rows = np.flatnonzero(trains & (action == log.Y) & (weight > 0))
            if len(rows):
                regressor = Ridge() if self.regressor is None else clone(self.regressor)
                regressor.fit(log.X[log.context[rows]], log.cost[rows], sample_weight=weight[rows])
                effects[:, action] = regressor.predict(X)
        return effects


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


def make_estimator(value: Any) -> Any:
    """Return an estimator.

    Parameters
    ----------
    value : str, mapping or estimator
        A name such as ``"dros"``, a name with parameters such as ``{"dros": {"shrinkage": 5}}``, a user's class as
        ``"module:Class"`` or ``{"module:Class": {parameter: value}}``, or an object with a method ``terms``.

    Raises
    ------
    InputError
        If there is no such name, class or parameter.
    """
    if hasattr(value, "terms"):
        return value
    name, parameters = next(iter(value.items())) if isinstance(value, Mapping) and len(value) == 1 else (value, None)
    if isinstance(name, str) and ":" in name:
        return make_object(value, "estimator", "terms")
    if check_choice(NAMES, name, "estimator") in CLASSES:
        return make_object({CLASSES[name]: parameters}, "estimator", "terms")
    try:
        if name in WEIGHTS:
            return Weighted(name, WEIGHTS[name](**parameters) if parameters else None)
        return Weighted(name, **(parameters or {}))
    except TypeError as error:
        raise InputError(f"estimator {name}: {error}") from None
