"""A model of the cost: ridge regression on the policy's own joint features, linear in the action.

ĉ(x, y) = e_0 + Σ_l y_l e_l, e_l = a_l + x·b_l, so that the expectation under a policy, e_0 + Σ_l σ(u_l) e_l, is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import combinations, combinations_with_replacement

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..errors import InputError, warn
from .actions import LabelVectors, check_not_one_hot
from .design import modelled_cost
from .log import BanditLog
from .numerics import constructor_repr
from .policies import ExponentialPolicy, as_policy
from .scales import feature_scales, spread
from .validation import (
    above_zero,
    check_actions,
    check_coefficients,
    check_features,
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
PROBES = 8  # actions at random, and at least as many of each context, at which a model is asked if it is additive


class CostModel:
    """Ridge regression of the logged costs: minimises the mean squared error + λ Σ_j s_j² ‖B_j‖², s_j = max |x_j|.

    The units of the features so do not matter. The penalty leaves the intercept a_0 alone: a constant added to the
    costs is added to a_0, and to nothing else. It does not leave all of b_0 alone, which with as many features as
    contexts would interpolate their costs.

    Parameters
    ----------
    penalty : float > 0 or "auto"
        λ; by default the smallest of 10⁻¹, 10⁻¹·⁵ … 10⁻⁴ whose squared error on four fixed folds of contexts is at most
        a tenth of R² above the least, relative, R² there: noise in what labels add averages out over contexts, what a
        penalty takes from it does not. Source: Newey, Hsieh & Robins 2004.

    Attributes
    ----------
    coef_ : array (d, q + 1)
        B: the q label columns, then b_0. May be set by hand, in place of ``fit``.
    intercept_ : array (q + 1,), or 0
        a: those of the labels, then a_0. A fit finds a_0 alone, 0 where a feature is constant, whose b_0 then holds it;
        0 until a fit: set it with ``coef_``.
    penalty_ : float
    """

    intercept_ = 0.0
    __repr__ = constructor_repr

    def __init__(self, penalty="auto"):
        self.penalty = penalty

    def fit(self, X, Y, cost=None, context=None, count=None) -> CostModel:
        """Fit to logged actions and costs: arguments as those of the estimators' ``fit``."""
        if cost is None:
            raise InputError("CostModel.fit needs cost=, one for each logged row")
        Y = check_actions(Y)
        check_not_one_hot(Y)
        return self.fit_log(BanditLog(X, Y, np.ones(len(Y)), cost, context, count))

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def fit_log(self, log: BanditLog, label_intercepts: bool = False) -> CostModel:
        """Fit to a log; its propensities are not used. InputError where the coefficients are not finite.

        With ``label_intercepts`` those of the labels are fitted too, with a penalty, as those of a constant feature.
        The normal equations are solved directly up to some thousand coefficients, beyond by conjugate gradients. Warns
        where these do not converge.
        """
        log = log.recount(log.count)
        if label_intercepts:
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
        self.coef_, self.intercept_ = coef, np.zeros(coef.shape[1])
        self.add(mean / unit + log.count @ (log.cost - modelled_cost(log, log.X @ coef)) / log.size, log.X)
        self.coef_, self.intercept_ = _finite(unit * self.coef_ / scales[:, None]), _finite(unit * self.intercept_)
        return self

    def add(self, constant: float, X) -> None:
        """Add a constant to all costs: to b_0 of a feature that is constant in X, (m, d), or to the intercept."""
        features = np.flatnonzero(constant_features(X))
        if features.size:
            self.coef_[features[-1], -1] += constant / X[0, features[-1]]
        else:
            self.intercept_[-1] += constant

    def predict(self, X, Y) -> np.ndarray:
        """Return ĉ(x_i, y_i), shape (n,), from X (n, d) and Y (n, q)."""
        effects = self.effects(X)
        Y = LabelVectors(effects.shape[1] - 1).check(Y, rows=len(effects), owner="the cost model")
        return (Y * effects[:, :-1]).sum(axis=1) + effects[:, -1]

    def expectation(self, X, policy: ExponentialPolicy) -> np.ndarray:
        """Return E_{y∼π} ĉ(x, y), shape (n,), of an exponential policy or a fitted estimator."""
        effects, policy = self.effects(X), as_policy(policy)
        expected = len(self.coef_), effects.shape[1] - 1
        if policy.coef.shape != expected:
            raise InputError(
                f"the policy's coef has shape {policy.coef.shape}, expected {expected}, as the cost model has"
            )
        return (policy.marginals(X) * effects[:, :-1]).sum(axis=1) + effects[:, -1]

    def effects(self, X) -> np.ndarray:
        """Return what each label adds to the cost, and last the cost of none: e_1 … e_q, e_0, shape (n, q + 1)."""
        _require_coefficients(self)
        X = check_features(X)
        if X.shape[1] != len(self.coef_):
            raise InputError(f"X has {X.shape[1]} features, the cost model has {len(self.coef_)}")
        return X @ self.coef_ + self.intercept_


def tilt_coefficients(model, intercept: bool) -> np.ndarray | None:
    """Return B of a cost model, (d, q + 1), if any; with its intercepts as one more row where a policy has some."""
    coef = getattr(model, "coef_", None)
    if not intercept or np.ndim(coef) != 2:
        return coef
    return np.vstack([coef, np.broadcast_to(getattr(model, "intercept_", 0.0), np.shape(coef)[1])])


def label_effects(model, X, n_labels: int) -> np.ndarray:
    """Return what each label adds to the modelled cost of each context, and last the cost without any, (m, q + 1).

    Any model with ``predict`` and ``expectation`` will do whose cost is additive over labels, as that of CostModel.
    """
    if isinstance(model, CostModel):
        _require_coefficients(model)
        shape = np.shape(model.coef_)
        if shape != (X.shape[1], n_labels + 1):
            raise InputError(f"the cost model's coef_ has shape {shape}, expected {(X.shape[1], n_labels + 1)}")
        check_coefficients(model.coef_)
        return model.effects(X)
    if not (hasattr(model, "predict") and hasattr(model, "expectation")):
        raise InputError(f"cost_model is of type {type(model).__name__}, expected one with predict and expectation")
    m = X.shape[0]

    def predicted(actions: np.ndarray) -> np.ndarray:
        return check_vector(model.predict(X, actions), m, "the prediction of the cost model")

    none = np.zeros((m, n_labels), dtype=np.int64)
    without = predicted(none)
    columns = [predicted(none + row) - without for row in np.eye(n_labels, dtype=np.int64)]
    effects = np.column_stack([*columns, without])
    close = 1e-6 * np.abs(effects[:, :-1]).sum(axis=1) + 1e-9 * np.abs(without)
    for actions in _probes(m, n_labels):
        if (abs((actions * effects[:, :-1]).sum(axis=1) + without - predicted(actions)) > close).any():
            raise InputError("the cost model is not additive over labels, which the expectation of its cost needs")
    return effects


def _probes(m: int, n_labels: int) -> Iterator[np.ndarray]:
    """Actions (m, q) at which additive costs are to be sums: all labels, every pair of them and some at random.

    Each context has other ones in turn, and each of these actions some context.
    """
    pairs = np.array([[label in pair for label in range(n_labels)] for pair in combinations(range(n_labels), 2)])
    drawn = np.random.default_rng(0).random((PROBES, n_labels)) < 0.5
    actions = np.vstack([np.ones((1, n_labels)), pairs.reshape(-1, n_labels), drawn]).astype(np.int64)
    for turn in range(max(PROBES, -(-len(actions) // m))):
        yield actions[(np.arange(m) + turn * m) % len(actions)]


def _require_coefficients(model: CostModel) -> None:
    if not hasattr(model, "coef_"):
        raise InputError("the cost model has no coef_ yet: fit it, or set them")
    shape, allowed = np.shape(model.intercept_), ((), np.shape(model.coef_)[1:])
    if shape not in allowed or not np.isfinite(model.intercept_).all():
        raise InputError(f"the cost model's intercept_ is {model.intercept_!r}, expected finite, of shape {allowed[1]}")


def _choose(log: BanditLog) -> float:
    """The smallest penalty with nearly the least squared error on folds of contexts."""
    m, d = log.X.shape
    fold = np.random.default_rng(0).permutation(m)[log.context] % FOLDS
    by_moments = d * (log.Y.shape[1] + 1) <= FEW and not sparse.issparse(log.X)
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
        columns = log.actions.columns(log.Y[part])
        joint = np.einsum("ij,ik->ijk", columns, log.X[log.context[part]]).reshape(len(part), -1)
        joint = np.column_stack([joint, log.cost[part], np.ones(len(part))])
        total = total + joint.T @ (joint * log.count[part][:, None])
    return total


def _solution(log: BanditLog, penalty: float) -> np.ndarray:
    """B of the ridge regression with an intercept, (d, q + 1)."""
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

    A row's z is x for each label that it has, and x once more; S are the rows' shares, and z̄ and c̄ the means by them.
    """

    def __init__(self, log: BanditLog, count: np.ndarray):
        self.log, self.share = log, count / count.sum()
        self.shape = log.X.shape[1], log.Y.shape[1] + 1
        self.target = _finite(self._sums(self._centred(log.cost)))

    def _centred(self, values: np.ndarray) -> np.ndarray:
        """share (v − v̄) of values v of the rows."""
        return self.share * (values - self.share @ values)

    def _sums(self, values: np.ndarray) -> np.ndarray:
        """Σ v z, (d, q + 1), of values v of the rows."""
        by_label, by_context = self.log.row_map.to_contexts(values)
        return (np.column_stack([by_label, by_context]).T @ self.log.X).T

    def product(self, coef: np.ndarray, penalty: float) -> np.ndarray:
        """The left side at B, (d, q + 1)."""
        return self._sums(self._centred(modelled_cost(self.log, self.log.X @ coef))) + penalty * coef

    def by_gradients(self, penalties: Sequence[float], tolerance: float) -> np.ndarray:
        """B for falling penalties by conjugate gradients, (k, d, q + 1), until each residual is relatively so small.

        They are those of the last penalty: the other systems have the same Krylov space, and residuals that are a
        ``part`` of its own. Source: Jegerlehner 1996, on systems that differ by a multiple of the identity.
        """
        above = np.subtract(penalties, penalties[-1])
        residual = direction = self.target
        coef, directions = np.zeros((len(above), *self.shape)), np.tile(residual, (len(above), 1, 1))
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
        log, (d, columns) = self.log, self.shape
        Y = log.actions.columns(log.Y)
        gram = np.empty((columns, d, columns, d))
        for one, other in combinations_with_replacement(range(columns), 2):
            weight = np.bincount(log.context, self.share * Y[:, one] * Y[:, other], log.X.shape[0])
            block = log.X.T @ (log.X * weight[:, None])
            gram[one, :, other] = gram[other, :, one] = block.toarray() if sparse.issparse(block) else block
        mean = self._sums(self.share).T.ravel()
        gram = gram.reshape(2 * (len(mean),))
        gram -= np.outer(mean, mean)
        gram.ravel()[:: len(mean) + 1] += penalty
        factors = cho_factor(gram.T, lower=True, overwrite_a=True, check_finite=False)
        return cho_solve(factors, self.target.T.ravel()).reshape(columns, d).T


def _finite(values):
    if not np.isfinite(values).all():
        raise InputError("the cost model is not finite: features or costs this large need another unit")
    return values
