"""More robust doubly robust estimation (MRDR): the cost model has the weights that limit the variance of "dr"."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import Ridge

from drcrm.arrays.numerics import constructor_repr
from drcrm.bench.weighted import Weighted
from drcrm.data.bandit_log import BanditLog
from drcrm.data.folds import context_folds
from drcrm.errors import InputError
from drcrm.evaluation.evaluation import Evaluation


class WeightedModel:
    """Doubly robust estimate with one regression of the costs for each action; rows have the weights π (1 − p)/p².

    For a deterministic policy, the weighted squared error of the model is the part of the variance of "dr" that
    depends on the model. For other policies it only resembles this part. The regressions are cross-fitted, and actions
    without rows in the other folds cost their mean. It needs one of K actions.
    Source: Farajtabar, Chow & Ghavamzadeh 2018.

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
        mean = np.average(log.cost[trains], weights=log.count[trains])
        effects = np.full((X.shape[0], *log.actions.shape), mean)
        for action in range(effects.shape[1]):
            rows = np.flatnonzero(trains & (action == log.Y) & (weight > 0))
            if len(rows):
                regressor = Ridge() if self.regressor is None else clone(self.regressor)
                regressor.fit(log.X[log.context[rows]], log.cost[rows], sample_weight=weight[rows])
                effects[:, action] = regressor.predict(X)
        return effects
