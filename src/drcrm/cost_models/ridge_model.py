"""A model of the cost: ridge regression on the policy's own joint features, linear in the action.

label vectors    ĉ(x, y) = e_0 + Σ_l y_l e_l, e_l = a_l + x·b_l
single choice    ĉ(x, a) = a_a + x·b_a, a_a where intercepts are fitted
listed actions   ĉ(x, a) = a + ψ_a·b

so that the expectation under a policy is exact.
"""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np

from drcrm.actions.base import Actions
from drcrm.actions.inference import check_context_features, infer_actions, infer_kind
from drcrm.arrays.numerics import constructor_repr
from drcrm.arrays.validation import (
    append_constant,
    check_coefficients,
    check_positive,
    check_vector,
    find_constant_features,
)
from drcrm.cost_models.normal_equations import NormalEquations, Preconditioner, preconditioner
from drcrm.cost_models.second_moments import Moments, moments_by_fold
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import Block, ChunkedLog
from drcrm.data.scaling import as_column, cost_deviation, divide_columns, feature_scales, has_constant
from drcrm.errors import InputError, warn
from drcrm.policies.exponential import LinearPolicy, append_row, as_policy, check_compatible
from drcrm.policies.linear_predictor import LinearPredictor

PENALTIES = tuple(10 ** (-k / 2) for k in range(2, 9))
FOLDS = 4
NEARLY = 0.1  # times R², by which the squared error may be above the least, relative
STEPS = 2000  # of conjugate gradients
TOLERANCE = 1e-12  # of the solution's error, relative
LARGE_TOLERANCE = 1e-6  # the same where a step takes long, and noise is more than that
FOLD_TOLERANCES = 2e-3, 1e-5  # the same on folds: squared errors near the least miss by less; the second if in doubt
DOUBT = 2  # times the tolerance: squared errors as near to the most that there may be, relative, are in doubt
NOTABLE = 1e3  # times the tolerance: what the normal equations may miss by, relative


class CostModel:
    """Ridge regression of the logged costs: minimises the mean squared error + λ Σ_j s_j² ‖B_j‖², s_j = max |x_j|.

    The units of the features so do not matter. The penalty leaves the intercept a_0 alone: a constant added to the
    costs is added to a_0, and to nothing else. Of label vectors it does not leave all of b_0 alone, which with as many
    features as contexts would interpolate their costs.

    Parameters
    ----------
    penalty : float > 0 or "auto"
        λ; by default the smallest of 10⁻¹, 10⁻¹·⁵ … 10⁻⁴ whose squared error on four fixed folds of contexts is at most
        a tenth of R² above the least, relative, R² there: noise in what actions cost averages out over contexts, what a
        penalty takes from them does not. Source: Newey, Hsieh & Robins 2004.

    Attributes
    ----------
    coef_ : array (d, q + 1), (d, K) or (D,)
        B: of label vectors the q label columns, then b_0; else a column for each action; or b. May be set by hand, in
        place of ``fit``.
    intercept_ : array (q + 1,), (K,) or (), or 0
        a: of label vectors those of the labels, then a_0. 0 until a fit: set it with ``coef_``. Where a feature is
        constant, its coefficients hold the intercepts.
    penalty_ : float
    variances_ : (array (r, r), float), optional
        Σ and σ² of the context effects of the log that it was fitted to, where they are known, as those of a file are:
        see :mod:`drcrm.cost_models.context_effects`.
    """

    intercept_ = 0.0
    variances_ = None
    __repr__ = constructor_repr

    def __init__(self, penalty="auto"):
        self.penalty = penalty

    def fit(self, X, Y, cost=None, context=None, count=None, n_actions=None) -> CostModel:
        """Fit to logged actions and costs: arguments as those of the estimators' ``fit``, but which are eligible.

        Labels and actions have intercepts, where X has no constant, nor columns that add up to one.
        """
        if cost is None:
            raise InputError("CostModel.fit needs cost=, one for each logged row")
        features, actions, Y = infer_actions(X, Y, n_actions)
        log = BanditLog(actions.unbind(features), Y, np.ones(len(Y)), cost, context, count, **actions.log_options)
        log.actions.check_not_one_hot(log.Y)
        return self.fit_log(log, log.actions.has_intercept and not has_constant(log.X))

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def fit_log(self, log: BanditLog, action_intercepts: bool = False) -> CostModel:
        """Fit to a log; its propensities are not used. InputError where the coefficients are not finite.

        With ``action_intercepts`` those of the labels, or of each action, are fitted too, with a penalty, as those of a
        constant feature; without, what is common to all actions alone.
        The normal equations are solved by conjugate gradients. Warns where these do not converge.
        """
        log, self.variances_ = log.recount(log.count), None
        if action_intercepts:
            self.fit_log(log.replace(X=append_constant(log.X)))
            self.coef_, self.intercept_ = self.coef_[:-1], self.intercept_ + self.coef_[-1]
            return self
        scales, mean, unit = (
            feature_scales(log.X, log.feature_range),
            _finite(log.count @ log.cost / log.size),
            _finite(cost_deviation(log.cost, log.count)),
        )
        is_auto = isinstance(self.penalty, str) and self.penalty == "auto"
        regressed, fold = (
            log.actions.effect_space.regression_log(log.replace(cost=(log.cost - mean) / unit)),
            _folds(log)[log.context],
        )
        moments = moments_by_fold(regressed, scales, fold)
        if moments is not None:
            whole = reduce(add, moments)
            self.penalty_ = check_positive(_choose_by(moments, whole) if is_auto else self.penalty, "penalty")
            [coef] = whole.solutions([self.penalty_])
            lacking = whole.mean_cost - np.vdot(whole.mean, coef)
        else:
            scaled = regressed.replace(X=divide_columns(regressed.X, scales))
            samples = LinearPredictor(scaled).samples
            some, rows = (samples[0][0].log, samples[0][1]) if samples else (scaled.replace(X=scaled.X[:]), slice(None))
            precondition = preconditioner(some)
            self.penalty_ = check_positive(
                _choose(some, fold[rows], precondition) if is_auto else self.penalty, "penalty"
            )
            coef = _solution(scaled, self.penalty_, precondition, LARGE_TOLERANCE if samples else TOLERANCE)
            lacking = log.count @ (scaled.cost - _modelled(scaled, coef)) / log.size
        self.coef_ = coef.reshape(len(coef), *log.actions.effect_space.shape)
        self.intercept_ = np.zeros(log.actions.effect_space.shape)
        self.add(mean / unit + lacking, log, scales)
        self.coef_ = _finite(unit * self.coef_ / as_column(scales, log.actions.effect_space.shape))
        self.intercept_ = _finite(np.asarray(unit * self.intercept_))
        return self

    def add(self, constant: float, log: BanditLog, scales: np.ndarray | None = None) -> None:
        """Add a constant to all costs: to coefficients of a feature that is constant in a log, or to the intercept.

        The coefficients are of features over ``scales``, (d,), where these are given.
        """
        features = np.flatnonzero(find_constant_features(log.X, log.feature_range))
        if features.size:
            last = features[-1]
            value = log.X[0, last] if scales is None else log.X[0, last] / scales[last]
            log.actions.effect_space.add_constant(self.coef_[last : last + 1], constant / value)
        else:
            log.actions.effect_space.add_constant(self.intercept_, constant)

    def predict(self, X, Y) -> np.ndarray:
        """Return ĉ(x_i, y_i), shape (n,), from X (n, d) and actions Y (n, q) or (n,)."""
        effects = self.effects(X)
        _, actions = infer_kind(X, Y).from_effect_shape(np.shape(self.coef_)[1:]).bind(X)
        m = actions.n_contexts(effects)
        Y = actions.check(Y, rows=m, owner="the cost model")
        actions.check_available(Y, np.arange(m))
        return actions.effect_space.costs_of_rows(actions.row_map(Y, np.arange(m), m), effects)

    def expectation(self, X, policy: LinearPolicy, eligible=None) -> np.ndarray:
        """Return E_{y∼π} ĉ(x, y), shape (n,), of a policy or a fitted estimator."""
        effects, policy = self.effects(X), as_policy(policy)
        kind = type(policy.actions).from_effect_shape(np.shape(self.coef_)[1:])
        check_compatible(policy, len(self.coef_), kind, owner="the cost model")
        _, actions = kind.bind(X, eligible)
        return actions.effect_space.expected_cost(policy.marginals(X, eligible), effects)

    def effects(self, X) -> np.ndarray:
        """Return X B and the intercepts, (n, …): of label vectors e_1 … e_q, e_0, else the cost of each action."""
        _require_coefficients(self)
        X = check_context_features(X)
        if X.shape[1] != len(self.coef_):
            raise InputError(f"X has {X.shape[1]} features, the cost model has {len(self.coef_)}")
        return X @ self.coef_ + self.intercept_

    def action_effects(self, X, actions: Actions) -> np.ndarray:
        """Return the effects of a log's X; InputError where the coefficients are of other features or actions."""
        _require_coefficients(self)
        shape, expected = np.shape(self.coef_), (X.shape[1], *actions.effect_space.shape)
        if shape != expected:
            raise InputError(f"the cost model's coef_ has shape {shape}, expected {expected}")
        check_coefficients(np.reshape(self.coef_, (len(self.coef_), -1)))
        return self.effects(X)


def tilt_coefficients(model, intercept: bool) -> np.ndarray | None:
    """Return B of a cost model, if any; with its intercepts as one more row where a policy has some."""
    coef = getattr(model, "coef_", None)
    if not intercept or np.ndim(coef) != 2:
        return coef
    return append_row(coef, np.broadcast_to(getattr(model, "intercept_", 0.0), np.shape(coef)[1:]))


def action_effects(model, X, actions: Actions) -> np.ndarray:
    """Return the effects of contexts, a log's X and actions: what the kind of action has the modelled costs from.

    Any model with ``predict`` and ``expectation`` will do; of label vectors one whose cost is additive over labels, as
    that of CostModel.
    """
    if hasattr(model, "action_effects"):
        return model.action_effects(X, actions)
    if not (hasattr(model, "predict") and hasattr(model, "expectation")):
        raise InputError(f"cost_model is of type {type(model).__name__}, expected one with predict and expectation")
    m, contexts = actions.n_contexts(X), actions.unbind(X)

    def predicted(chosen: np.ndarray) -> np.ndarray:
        return check_vector(model.predict(contexts, chosen), m, "the prediction of the cost model")

    return actions.effect_space.query_model(predicted, m)


def _require_coefficients(model: CostModel) -> None:
    if not hasattr(model, "coef_"):
        raise InputError("the cost model has no coef_ yet: fit it, or set them")
    shape, allowed = np.shape(model.intercept_), ((), np.shape(model.coef_)[1:])
    if shape not in allowed or not np.isfinite(model.intercept_).all():
        raise InputError(f"the cost model's intercept_ is {model.intercept_!r}, expected finite, of shape {allowed[1]}")


def _modelled(log: BanditLog, coef: np.ndarray) -> np.ndarray:
    """ĉ of each row, (n,), of B."""
    return ChunkedLog(log).map_rows(_modelled_rows, coef)


def _modelled_rows(block: Block, coef: np.ndarray) -> np.ndarray:
    return block.log.actions.effect_space.costs_of_rows(block.log.row_map, block.log.X @ coef)


def _choose(log: BanditLog, fold: np.ndarray, precondition: Preconditioner) -> float:
    """The smallest penalty with nearly the least squared error on folds of contexts.

    They are compared once more where it may be another by what squared errors miss by.
    """
    penalties = np.array(PENALTIES)
    for tolerance in FOLD_TOLERANCES:
        errors, without = _errors_on_folds(log, fold, penalties, precondition, tolerance)
        explained = max(1 - errors.min() / without, 0) if without > 0 else 0.0
        most, doubt = errors.min() * (1 + NEARLY * explained), DOUBT * tolerance
        is_least = errors <= errors.min() * (1 + doubt)
        is_near = (errors <= most * (1 - doubt)) | (is_least & (is_least.sum() == 1))
        smallest = penalties[is_near].min(initial=np.inf)
        is_doubtful = (penalties < smallest) & (errors <= most * (1 + doubt))
        if not is_doubtful.any():
            return float(smallest)
        compared = is_least | is_doubtful | (penalties == smallest)
        penalties, errors = penalties[compared], errors[compared]
    return float(penalties[errors <= most].min())


def _choose_by(moments: list[Moments], whole: Moments) -> float:
    """The same penalty, by the moments of the folds, with nothing in doubt."""
    errors, without = np.zeros(len(PENALTIES)), 0.0
    for held in moments:
        rest = whole - held
        without += held.squared_error(np.zeros_like(rest.mean), rest.mean_cost)
        for i, coef in enumerate(rest.solutions(PENALTIES)):
            errors[i] += held.squared_error(coef, rest.mean_cost - np.vdot(rest.mean, coef))
    explained = max(1 - errors.min() / without, 0) if without > 0 else 0.0
    return min(np.array(PENALTIES)[errors <= errors.min() * (1 + NEARLY * explained)])


def _folds(log: BanditLog) -> np.ndarray:
    """The fold of each context, (m,)."""
    return (np.random.default_rng(0).permutation(log.n_contexts) % FOLDS).astype(np.int16)


def _errors_on_folds(
    log: BanditLog, fold: np.ndarray, penalties: np.ndarray, precondition: Preconditioner, tolerance: float
) -> tuple[np.ndarray, float]:
    """The squared error of each penalty on contexts held out, and without a model; 0 where there are too few."""
    errors, without = np.zeros(len(penalties)), 0.0
    for held in np.unique(fold):
        rows = fold == held
        if rows.all():
            continue
        rest, part = (log.recount(log.count * of) for of in (~rows, rows))
        equations = NormalEquations(rest)
        without += part.count @ (part.cost - equations.mean_cost) ** 2
        for i, coef in enumerate(equations.solutions(penalties, precondition, tolerance, STEPS)):
            missed = part.cost - _modelled(part, coef) - equations.intercept(coef)
            errors[i] += part.count @ missed**2
    return errors, without


def _solution(log: BanditLog, penalty: float, precondition: Preconditioner, tolerance: float) -> np.ndarray:
    """B of the ridge regression with an intercept."""
    equations = NormalEquations(log)
    [coef] = equations.solutions([penalty], precondition, tolerance, STEPS)
    missed = equations.missed(_finite(coef), penalty)
    if missed > NOTABLE * tolerance:
        warn(
            f"the cost model has not converged: after {STEPS} steps of conjugate gradients its normal equations miss "
            f"by {missed:.2g}; a larger penalty, or fewer features, would help"
        )
    return coef


def _finite(values):
    if not np.isfinite(values).all():
        raise InputError("the cost model is not finite: features or costs this large need another unit")
    return values
