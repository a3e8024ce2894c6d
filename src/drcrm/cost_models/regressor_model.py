"""Cost model by any regressor of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.actions.base import Actions
from drcrm.arrays.formats import constructor_repr
from drcrm.arrays.mapped_arrays import Features, as_input, take_rows
from drcrm.arrays.validation import check_vector
from drcrm.cost_models.base import BaseCostModel, Predict
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import limit_openmp
from drcrm.errors import InputError

MOST_REPEATED = 10**7  # most rows to which a regressor without sample_weight is fitted


class RegressorModel(BaseCostModel):
    """Cost model with any regressor of scikit-learn.

    It has one regressor for each of K actions, ĉ(x, a) = f_a(x). For lists of actions it has only one, with
    ĉ(x, a) = f(ψ_a).
    An action without rows has the mean cost. An estimator fits the model to its training rows.

    Parameters
    ----------
    regressor : regressor of scikit-learn
        Regressor to clone and fit. Limit its size, for example by ``min_samples_leaf``. If it reproduces its training
        rows, like a forest of deep trees, the residuals of these rows are too small.

    Attributes
    ----------
    regressors_ : list
        Fitted regressor for each action, None for an action without rows.
    mean_ : float
        Mean cost.
    """

    regressors_: list[Any]
    mean_: float
    __repr__ = constructor_repr

    def __init__(self, regressor: Any):
        self.regressor = regressor

    def _fit(self, log: BanditLog, **settings: Any) -> RegressorModel:
        _check_actions(log.actions)
        regressed = log.actions.regression_log(log)
        self.feature_names_in_ = log.feature_names_in_
        self.mean_ = float(log.count @ log.cost / log.size)
        rows = [np.flatnonzero(action == regressed.Y) for action in range(*regressed.actions.shape)]
        self.regressors_ = [self._fit_rows(regressed, of_action) for of_action in rows]
        return self

    def effects(self, X: Features, actions: Actions, predict: Predict | None = None) -> np.ndarray:
        _check_actions(actions)
        if not hasattr(self, "regressors_"):
            raise InputError("the cost model is not fitted: call fit")
        if len(self.regressors_) != int(np.prod(actions.shape)):
            raise InputError(f"the cost model has {len(self.regressors_)} actions, the log has {actions}")
        n, X, predict = X.shape[0], as_input(X, self.regressor), predict or _predict
        columns = [
            np.full(n, self.mean_) if regressor is None else predict(regressor, X) for regressor in self.regressors_
        ]
        return np.column_stack(columns).reshape(n, *actions.shape)

    def _fit_rows(self, log: BanditLog, rows: np.ndarray) -> Any:
        """Return a regressor fitted to selected rows, or None without rows. Their counts are weights or repetitions."""
        from sklearn.base import clone
        from sklearn.utils.validation import has_fit_parameter

        if not len(rows):
            return None
        regressor, count = clone(self.regressor), log.count[rows]
        takes_weights = has_fit_parameter(regressor, "sample_weight")
        options = {"sample_weight": count} if takes_weights and (count != 1).any() else {}  # weights slow trees down
        if not takes_weights:
            if count.sum() > MOST_REPEATED:
                raise InputError(
                    f"{regressor!r} takes no sample_weight, so rows are repeated by their counts; expected at most "
                    f"{MOST_REPEATED:.0e} rows, got {count.sum():.3g}. Use another regressor, or smaller counts."
                )
            rows = np.repeat(rows, count)
        try:
            with limit_openmp():
                X = as_input(take_rows(log.X, log.context[rows]), regressor)
                return regressor.fit(X, log.cost[rows], **options)
        except (TypeError, ValueError) as error:
            raise InputError(f"the cost model cannot be fitted by {regressor!r}: {error}") from None


def _predict(regressor: Any, X: Features) -> np.ndarray:
    return check_vector(regressor.predict(X), X.shape[0], "the prediction of the cost model")


def is_regressor(model: Any) -> bool:
    """Return whether an object is a regressor of scikit-learn, which does not know actions, and not a cost model."""
    if isinstance(model, BaseCostModel) or not (hasattr(model, "fit") and hasattr(model, "get_params")):
        return False
    from sklearn.base import BaseEstimator  # its import takes half a second
    from sklearn.base import is_regressor as is_sklearn_regressor

    return isinstance(model, BaseEstimator) and is_sklearn_regressor(model)


def _check_actions(actions: Actions) -> None:
    if not actions.effects_are_costs:
        raise InputError(f"a regressor cannot model the costs of {actions}, which must be additive; use CostModel")
