"""A model of the cost: ridge regression on the policy's own joint features, linear in the action.

label vectors    ĉ(x, y) = e_0 + Σ_l y_l e_l, e_l = a_l + x·b_l
single choice    ĉ(x, a) = a_a + x·b_a, a_a where intercepts are fitted
listed actions   ĉ(x, a) = a + ψ_a·b

so that the expectation under a policy is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..errors import InputError, warn
from .actions import Actions, actions_of, features_of, kind_of
from .design import modelled_cost
from .log import BanditLog
from .numerics import constructor_repr
from .policies import LinearPolicy, as_policy, require_same, with_row
from .scales import column, feature_scales, has_constant, spread
from .validation import (
    above_zero,
    check_coefficients,
    check_vector,
    constant_features,
    with_constant,
)

PENALTIES = tuple(10 ** (-k / 2) for k in range(2, 9))
FOLDS = 4
NEARLY = 0.1  # times R², by which the squared error may be above the least, relative
FEW = 500  # coefficients up to which folds are solved by their second moments, if features are dense
CHUNK = 4096  # rows whose joint features are held at once
AFFORDABLE = 5e10  # multiplications for a direct solution: some 3 s, and up to 0.5 GB
STEPS = 2000  # of conjugate gradients
TOLERANCE = 1e-10  # of the normal equations' residual, relative
FOLD_TOLERANCE = 1e-4  # enough to compare penalties; far looser, small ones stop early and seem as good as larger ones


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
    """

    intercept_ = 0.0
    __repr__ = constructor_repr

    def __init__(self, penalty="auto"):
        self.penalty = penalty

    def fit(self, X, Y, cost=None, context=None, count=None, n_actions=None) -> CostModel:
        """Fit to logged actions and costs: arguments as those of the estimators' ``fit``, but which are eligible.

        Labels and actions have intercepts, where X has no constant, nor columns that add up to one.
        """
        if cost is None:
            raise InputError("CostModel.fit needs cost=, one for each logged row")
        features, actions, Y = actions_of(X, Y, n_actions)
        log = BanditLog(actions.unbind(features), Y, np.ones(len(Y)), cost, context, count, **actions.options)
        log.actions.check_varied(log.Y)
        return self.fit_log(log, log.actions.has_intercept and not has_constant(log.X))

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def fit_log(self, log: BanditLog, action_intercepts: bool = False) -> CostModel:
        """Fit to a log; its propensities are not used. InputError where the coefficients are not finite.

        With ``action_intercepts`` those of the labels, or of each action, are fitted too, with a penalty, as those of a
        constant feature; without, what is common to all actions alone.
        The normal equations are solved directly up to some thousand coefficients, beyond by conjugate gradients. Warns
        where these do not converge.
        """
        log = log.recount(log.count)
        if action_intercepts:
            self.fit_log(log.derived(X=with_constant(log.X)))
            self.coef_, self.intercept_ = self.coef_[:-1], self.intercept_ + self.coef_[-1]
            return self
        scales, mean, unit = (
            feature_scales(log.X),
            _finite(log.count @ log.cost / log.size),
            _finite(spread(log.cost, log.count)),
        )
        log = log.derived(X=log.X / scales, cost=(log.cost - mean) / unit)
        penalty = _choose(log) if isinstance(self.penalty, str) and self.penalty == "auto" else self.penalty
        self.penalty_ = above_zero(penalty, "penalty")
        coef = _solution(log, self.penalty_)
        self.coef_, self.intercept_ = coef, np.zeros(coef.shape[1:])
        self.add(mean / unit + log.count @ (log.cost - modelled_cost(log, log.X @ coef)) / log.size, log)
        self.coef_ = _finite(unit * self.coef_ / column(scales, log.actions.effect_shape))
        self.intercept_ = _finite(np.asarray(unit * self.intercept_))
        return self

    def add(self, constant: float, log: BanditLog) -> None:
        """Add a constant to all costs: to coefficients of a feature that is constant in a log, or to the intercept."""
        features = np.flatnonzero(constant_features(log.X))
        if features.size:
            last = features[-1]
            log.actions.add_to_all(self.coef_[last : last + 1], constant / log.X[0, last])
        else:
            log.actions.add_to_all(self.intercept_, constant)

    def predict(self, X, Y) -> np.ndarray:
        """Return ĉ(x_i, y_i), shape (n,), from X (n, d) and actions Y (n, q) or (n,)."""
        effects = self.effects(X)
        _, actions = kind_of(X, Y).of_effects(np.shape(self.coef_)[1:]).bind(X)
        m = actions.n_contexts(effects)
        Y = actions.check(Y, rows=m, owner="the cost model")
        actions.check_offered(Y, np.arange(m))
        return actions.modelled(actions.row_map(Y, np.arange(m), m), effects)

    def expectation(self, X, policy: LinearPolicy, eligible=None) -> np.ndarray:
        """Return E_{y∼π} ĉ(x, y), shape (n,), of a policy or a fitted estimator."""
        effects, policy = self.effects(X), as_policy(policy)
        kind = type(policy.actions).of_effects(np.shape(self.coef_)[1:])
        require_same(policy, len(self.coef_), kind, owner="the cost model")
        _, actions = kind.bind(X, eligible)
        return actions.expected(policy.marginals(X, eligible), effects)

    def effects(self, X) -> np.ndarray:
        """Return X B and the intercepts, (n, …): of label vectors e_1 … e_q, e_0, else the cost of each action."""
        _require_coefficients(self)
        X = features_of(X)
        if X.shape[1] != len(self.coef_):
            raise InputError(f"X has {X.shape[1]} features, the cost model has {len(self.coef_)}")
        return X @ self.coef_ + self.intercept_

    def action_effects(self, X, actions: Actions) -> np.ndarray:
        """Return the effects of a log's X; InputError where the coefficients are of other features or actions."""
        _require_coefficients(self)
        shape, expected = np.shape(self.coef_), (X.shape[1], *actions.effect_shape)
        if shape != expected:
            raise InputError(f"the cost model's coef_ has shape {shape}, expected {expected}")
        check_coefficients(np.reshape(self.coef_, (len(self.coef_), -1)))
        return self.effects(X)


def tilt_coefficients(model, intercept: bool) -> np.ndarray | None:
    """Return B of a cost model, if any; with its intercepts as one more row where a policy has some."""
    coef = getattr(model, "coef_", None)
    if not intercept or np.ndim(coef) != 2:
        return coef
    return with_row(coef, np.broadcast_to(getattr(model, "intercept_", 0.0), np.shape(coef)[1:]))


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

    return actions.asked(predicted, m)


def _require_coefficients(model: CostModel) -> None:
    if not hasattr(model, "coef_"):
        raise InputError("the cost model has no coef_ yet: fit it, or set them")
    shape, allowed = np.shape(model.intercept_), ((), np.shape(model.coef_)[1:])
    if shape not in allowed or not np.isfinite(model.intercept_).all():
        raise InputError(f"the cost model's intercept_ is {model.intercept_!r}, expected finite, of shape {allowed[1]}")


def _choose(log: BanditLog) -> float:
    """The smallest penalty with nearly the least squared error on folds of contexts."""
    fold = np.random.default_rng(0).permutation(log.n_contexts)[log.context] % FOLDS
    size = log.X.shape[1] * int(np.prod(log.actions.effect_shape))
    by_moments = size <= FEW and not sparse.issparse(log.X)
    errors, without = (_errors_by_moments if by_moments else _errors_by_gradients)(log, fold)
    explained = max(1 - errors.min() / without, 0) if without > 0 else 0.0
    near = errors <= errors.min() * (1 + NEARLY * explained)
    return min(penalty for penalty, is_near in zip(PENALTIES, near, strict=True) if is_near)


def _errors_by_gradients(log: BanditLog, fold: np.ndarray) -> tuple[np.ndarray, float]:
    """The squared error on the folds of rows, (n,), of each penalty, and without a model, by conjugate gradients."""
    errors, without = np.zeros(len(PENALTIES)), 0.0
    for held in np.unique(fold):
        rows = fold == held
        if rows.all():
            continue
        equations = _NormalEquations(log, log.count * ~rows)

        def error(missed: np.ndarray, rows: np.ndarray = rows, share: np.ndarray = equations.share) -> float:
            return (log.count * rows) @ (missed - share @ missed) ** 2

        without += error(log.cost)
        for i, coef in enumerate(equations.by_gradients(PENALTIES, FOLD_TOLERANCE)):
            errors[i] += error(log.cost - modelled_cost(log, log.X @ coef))
    return errors, without


def _errors_by_moments(log: BanditLog, fold: np.ndarray) -> tuple[np.ndarray, float]:
    """As ``_errors_by_gradients``, from the second moments of (z, c, 1) in each fold, z the joint features of a row."""
    errors, without = np.zeros(len(PENALTIES)), 0.0
    of_fold = [_second_moments(log, np.flatnonzero(fold == held)) for held in np.unique(fold)]
    if len(of_fold) == 1:
        return errors, without
    together = sum(of_fold)
    for held in of_fold:
        moments = together - held
        means = moments[-1] / moments[-1, -1]
        centred = moments / moments[-1, -1] - np.outer(means, means)
        values, vectors = np.linalg.eigh(centred[:-2, :-2])
        target = vectors.T @ centred[:-2, -2]
        solutions = [np.zeros(len(values)), *(vectors @ (target / (values + penalty)) for penalty in PENALTIES)]
        residuals = [np.append(-coef, [1.0, coef @ means[:-2] - means[-2]]) for coef in solutions]
        first, *others = [each @ held @ each for each in residuals]
        without, errors = without + first, errors + np.maximum(others, 0)
    return errors, without


def _second_moments(log: BanditLog, rows: np.ndarray) -> np.ndarray:
    """Σ count · v vᵀ over some rows, v = (z, c, 1) and z the joint features of action and context."""
    total = 0.0
    for part in np.array_split(rows, -(-len(rows) // CHUNK)):
        joint = log.actions.joint(log.X, log.Y[part], log.context[part])
        joint = np.column_stack([joint, log.cost[part], np.ones(len(part))])
        total = total + joint.T @ (joint * log.count[part][:, None])
    return total


def _solution(log: BanditLog, penalty: float) -> np.ndarray:
    """B of the ridge regression with an intercept."""
    equations = _NormalEquations(log, log.count)
    size = equations.target.size
    if size**2 * (log.X.shape[0] / 2 + size / 3) <= AFFORDABLE:
        with suppress(LinAlgError):  # rounding may swallow a penalty
            return equations.directly(penalty)
    [coef] = equations.by_gradients([penalty], TOLERANCE)
    missed = np.linalg.norm(equations.target - equations.product(coef, penalty))
    if missed > 10 * TOLERANCE * np.linalg.norm(equations.target):
        warn(
            f"the cost model has not converged: after {STEPS} steps of conjugate gradients its normal equations miss "
            f"by {missed / np.linalg.norm(equations.target):.2g}; a larger penalty, or fewer features, would help"
        )
    return coef


class _NormalEquations:
    """Those of the ridge regression with an intercept, (Zᵀ S Z − z̄ z̄ᵀ + λ) B = Zᵀ S (c − c̄).

    A row's z is x for each label that it has, and x once more; or x for its action, or ψ of it. S are the rows' shares,
    and z̄ and c̄ the means by them.
    """

    def __init__(self, log: BanditLog, count: np.ndarray):
        self.log, self.share = log, count / count.sum()
        self.shape = log.X.shape[1], *log.actions.effect_shape
        self.target = _finite(self._sums(self._centred(log.cost)))

    def _centred(self, values: np.ndarray) -> np.ndarray:
        """share (v − v̄) of values v of the rows."""
        return self.share * (values - self.share @ values)

    def _sums(self, values: np.ndarray) -> np.ndarray:
        """Σ v z, as B, of values v of the rows."""
        return (self.log.actions.joined(*self.log.row_map.to_contexts(values)).T @ self.log.X).T

    def product(self, coef: np.ndarray, penalty: float) -> np.ndarray:
        """The left side at B."""
        return self._sums(self._centred(modelled_cost(self.log, self.log.X @ coef))) + penalty * coef

    def by_gradients(self, penalties: Sequence[float], tolerance: float) -> np.ndarray:
        """B for falling penalties by conjugate gradients, (k, d, …), until each residual is relatively so small.

        They are those of the last penalty: the other systems have the same Krylov space, and residuals that are a
        ``part`` of its own. Source: Jegerlehner 1996, on systems that differ by a multiple of the identity.
        """
        above = np.subtract(penalties, penalties[-1])
        residual = direction = self.target
        coef, directions = np.zeros((2, len(above), *self.shape))
        directions += residual
        part = former = np.ones(len(above))
        squared = float(np.vdot(residual, residual))
        enough, last_step, turn = tolerance**2 * squared, 1.0, 0.0
        for _ in range(STEPS):
            if not squared > enough:
                break
            product = self.product(direction, penalties[-1])
            step = squared / np.vdot(direction, product)
            slowed = last_step * former * (1 + step * above) + step * turn * (former - part)
            part, former = part * former * last_step / slowed, part
            residual = residual - step * product
            last_step, last, squared = step, squared, float(np.vdot(residual, residual))
            turn = squared / last
            for i in np.flatnonzero(former > 0):  # those of large penalties end in 0
                ratio = part[i] / former[i]
                coef[i] += (step * ratio) * directions[i]
                directions[i] *= turn * ratio**2
                directions[i] += part[i] * residual
            direction = directions[-1]
        return _finite(coef)

    def directly(self, penalty: float) -> np.ndarray:
        """B by Cholesky's factors; LinAlgError where rounding leaves none."""
        log, mean = self.log, self._sums(self.share).T.ravel()
        gram = log.actions.gram(log.X, log.Y, log.context, self.share)
        gram -= np.outer(mean, mean)
        gram.ravel()[:: len(mean) + 1] += penalty
        factors = cho_factor(gram.T, lower=True, overwrite_a=True, check_finite=False)
        return cho_solve(factors, self.target.T.ravel()).reshape(self.shape[::-1]).T


def _finite(values):
    if not np.isfinite(values).all():
        raise InputError("the cost model is not finite: features or costs this large need another unit")
    return values
