"""Ridge regression model of the cost, ĉ(x, y), on the policy's own features of context and action.

label vectors    ĉ(x, y) = e_0 + Σ_l y_l e_l, e_l = a_l + x·b_l
single choice    ĉ(x, a) = a_0 + a_a + x·b_a, with a_a only if intercepts are fitted
action lists     ĉ(x, a) = a_0 + ψ_a·b

ĉ is linear in the action, so its expectation under a policy is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.actions import infer_actions, split_contexts
from drcrm.actions.base import Actions
from drcrm.arrays.formats import constructor_repr
from drcrm.arrays.numerics import as_column, cost_deviation, feature_scales, has_constant
from drcrm.arrays.validation import (
    append_constant,
    check_coefficients,
    check_column_names,
    check_positive,
    column_names,
    find_constant_features,
    require_finite,
)
from drcrm.cost_models.base import BaseCostModel, Predict
from drcrm.cost_models.ridge_solvers import FOLDS, TOO_LARGE, make_solver
from drcrm.data.bandit_log import BanditLog
from drcrm.data.folds import row_folds
from drcrm.errors import InputError
from drcrm.policies.prepared_log import append_row


class CostModel(BaseCostModel):
    """Cost model by ridge regression: it predicts the cost ĉ of every action in a context.

    The model is linear in the features x of the context, or ψ_a of a listed action:

    - label vectors: ĉ(x, y) = e_0 + Σ_l y_l e_l, with e_0 = a_0 + x·b_0 and e_l = a_l + x·b_l;
    - one of K actions: ĉ(x, a) = a_0 + a_a + x·b_a;
    - lists of actions: ĉ(x, a) = a_0 + ψ_a·b.

    The intercepts a_l and a_a are 0 unless they are fitted: see ``fit``.

    The b are columns of the coefficients B, which has rows B_j. The fit minimises the mean squared error plus the
    penalty λ Σ_j s_j² ‖B_j‖². The scales s_j = max ``|x_j|`` make the penalty independent of the features' units. The
    common intercept a_0 has no penalty, so adding a constant to all costs changes only a_0. For label vectors b_0 has a
    penalty: with as many features as contexts it would interpolate the costs of the contexts.

    Parameters
    ----------
    penalty : float > 0 or "auto"
        Penalty λ. "auto" compares 10⁻¹, 10⁻¹·⁵ … 10⁻⁴ by their squared error on four fixed folds of contexts. It takes
        the smallest λ whose error is at most (1 + R²/10) times the least. A small penalty is preferred, because noise
        in the modelled costs averages out over contexts and bias does not. Source: Newey, Hsieh & Robins 2004.

    Attributes
    ----------
    coef_ : array (d, q + 1), (d, K) or (D,)
        Coefficients B: columns b_1 … b_q and then b_0 for label vectors, a column for each of K actions, or the vector
        b for lists. You can set it instead of calling ``fit``.
    intercept_ : array (q + 1,), (K,) or (), or 0
        Intercepts in the order of the columns of B; 0 before a fit. If a feature is constant, its coefficients serve as
        intercepts.
    penalty_ : float
        Penalty λ of the fit.
    variances_ : (array (r, r), float), optional
        Covariance Σ and noise σ² of the context effects of the training log, if they are known. A model read from a
        file has them. See :mod:`drcrm.cost_models.context_effects`.
    """

    coef_: np.ndarray
    intercept_: Any = 0.0
    variances_: tuple[np.ndarray, float] | None = None
    feature_names_in_: np.ndarray | None = None
    __repr__ = constructor_repr

    def __init__(self, penalty: float | str = "auto"):
        self.penalty = penalty

    def fit(  # type: ignore[override]
        self,
        X: Any,
        Y: Any = None,
        cost: Any = None,
        context: Any = None,
        count: Any = None,
        n_actions: int | None = None,
        action_intercepts: bool = False,
    ) -> CostModel:
        """Fit the model to a log, or to logged actions and costs.

        Parameters
        ----------
        X : BanditLog, array or CSR (m, d), or ActionLists
            A log, whose propensities are not used, or contexts. Contexts need the arguments ``Y`` and ``cost``.
        Y : array (n, q) or (n,), optional
            Logged actions, in the form of :class:`drcrm.BanditLog`.
        cost : array (n,), optional
            Cost of each row.
        context, count : int array (n,), optional
            Row of X that each logged row belongs to, and how often each row occurred.
        n_actions : int, optional
            Number K of actions.
        action_intercepts : bool
            For a log, whether each label or action has a penalised intercept, like the coefficient of a constant
            feature. If not, only a common intercept is fitted. With contexts, labels and actions get intercepts unless
            X has a constant column, or columns that add up to a constant.

        Returns
        -------
        CostModel
            The fitted model itself.

        Raises
        ------
        InputError
            If an argument is invalid, or if the coefficients are not finite.

        Warns
        -----
        UserWarning
            If conjugate gradients do not converge.
        """
        if isinstance(X, BanditLog):
            return super().fit(X, action_intercepts=action_intercepts)
        if cost is None:
            raise InputError("CostModel.fit needs cost=, one for each logged row")
        features, actions, Y = infer_actions(X, Y, n_actions)
        options: dict[str, Any] = actions.log_options
        log = BanditLog(actions.unbind(features), Y, np.ones(len(Y)), cost, context, count, **options)
        log.actions.check_not_one_hot(log.Y)
        log.feature_names_in_ = column_names(X)
        return super().fit(log, action_intercepts=log.actions.has_intercept and not has_constant(log.X))

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def _fit(self, log: BanditLog, *, action_intercepts: bool) -> CostModel:  # type: ignore[override]
        regressed = log.replace(X=append_constant(log.X)) if action_intercepts else log
        self.variances_, self.feature_names_in_ = None, log.feature_names_in_
        self.coef_, self.intercept_ = self._fit_in_units(regressed)
        if action_intercepts:
            self.coef_, self.intercept_ = self.coef_[:-1], self.intercept_ + self.coef_[-1]
        return self

    def _fit_in_units(self, log: BanditLog) -> tuple[np.ndarray, np.ndarray]:
        """Return B and the intercept, from a fit to standardised costs and scaled features."""
        scales = feature_scales(log.X, log.feature_range)
        mean = require_finite(log.count @ log.cost / log.size, TOO_LARGE)
        unit = require_finite(cost_deviation(log.cost, log.count), TOO_LARGE)
        standardised = log.actions.regression_log(log.replace(cost=(log.cost - mean) / unit))
        solver = make_solver(standardised, scales, row_folds(log, FOLDS))
        is_auto = isinstance(self.penalty, str) and self.penalty == "auto"
        self.penalty_ = check_positive(solver.select_penalty() if is_auto else self.penalty, "penalty")
        coef, common = solver.solve(self.penalty_)
        shape = log.actions.effect_shape
        coef, intercept = coef.reshape(len(coef), *shape), np.zeros(shape)
        _add_constant(coef, intercept, mean / unit + common, log, scales)
        coef = require_finite(unit * coef / as_column(scales, shape), TOO_LARGE)
        return coef, require_finite(np.asarray(unit * intercept), TOO_LARGE)

    def effects(self, X: Any, actions: Actions | None = None, predict: Predict | None = None) -> np.ndarray:
        """Return the effects of contexts, in which the modelled cost is linear.

        Parameters
        ----------
        X : array or CSR (m, d), or ActionLists
            Contexts, or the attribute ``X`` of a log.
        actions : Actions, optional
            Attribute ``actions`` of the log, which must be those of the model.
        predict : function, optional
            Not used.

        Returns
        -------
        array (m, q + 1), (m, K) or (N,)
            For label vectors e_1 … e_q and then e_0, otherwise the modelled cost of each action.
        """
        _require_coefficients(self)
        check_column_names(self, column_names(X), "cost model")
        X, _ = split_contexts(X)
        shape, of_actions = np.shape(self.coef_), "" if actions is None else f" and {actions}"
        expected = (X.shape[1], *(shape[1:] if actions is None else actions.effect_shape))
        if shape != expected:
            raise InputError(
                f"the cost model's coef_ has shape {shape}, expected {expected} for {X.shape[1]} features{of_actions}"
            )
        check_coefficients(np.reshape(self.coef_, (len(self.coef_), -1)))
        return X @ self.coef_ + self.intercept_


def tilt_coefficients(model: object, intercept: bool) -> np.ndarray | None:
    """Return B of a cost model, or None; with ``intercept``, its intercepts are one more row."""
    coef: Any = getattr(model, "coef_", None)
    if not intercept or np.ndim(coef) != 2:
        return coef
    return append_row(coef, np.broadcast_to(getattr(model, "intercept_", 0.0), np.shape(coef)[1:]))


def _add_constant(coef: np.ndarray, intercept: np.ndarray, constant: float, log: BanditLog, scales: np.ndarray) -> None:
    """Add a constant to all costs, through a constant feature of the log or else through the intercept.

    The features of the log are divided by ``scales``, (d,), before B multiplies them.
    """
    features = np.flatnonzero(find_constant_features(log.X, log.feature_range))
    if features.size:
        last = features[-1]
        log.actions.add_constant(coef[last : last + 1], constant / (log.X[0, last] / scales[last]))
    else:
        log.actions.add_constant(intercept, constant)


def _require_coefficients(model: CostModel) -> None:
    if not hasattr(model, "coef_"):
        raise InputError("the cost model has no coef_ yet: fit it, or set coef_")
    shape, allowed = np.shape(model.intercept_), ((), np.shape(model.coef_)[1:])
    if shape not in allowed or not np.isfinite(model.intercept_).all():
        raise InputError(
            f"the cost model's intercept_ is {model.intercept_!r}, expected finite numbers of shape {allowed[1]}"
        )
