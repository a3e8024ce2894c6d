"""A model of the cost: ridge regression on the policy's own joint features, linear in the action.

ĉ(x, y) = x·b_0 + Σ_l y_l x·b_l,  so that the expectation under a policy, x·b_0 + Σ_l σ(u_l) x·b_l, is exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from ..errors import InputError
from .log import BanditLog
from .numerics import shown
from .policies import ExponentialPolicy
from .validation import above_zero, check_actions, check_coefficients, check_features, check_vector

PENALTIES = tuple(10 ** (-k / 2) for k in range(2, 9))
FOLDS = 4
TOLERANCE = 1e-8  # of the normal equations, relative
FOLD_TOLERANCE = 1e-5  # enough to compare penalties; far looser, small ones stop early and seem as good as larger ones


class CostModel:
    """Ridge regression of the logged costs: minimises the mean squared error + λ ‖B‖².

    Parameters
    ----------
    penalty : float > 0 or "auto"
        λ; by default the one of 10⁻¹, 10⁻¹·⁵ … 10⁻⁴ with the least squared error on four fixed folds of contexts.

    Attributes
    ----------
    coef_ : array (d, q + 1)
        B: the q label columns, then b_0. May be set by hand, in place of ``fit``.
    penalty_ : float
    """

    __repr__ = shown

    def __init__(self, penalty="auto"):
        self.penalty = penalty

    def fit(self, X, Y, cost=None, context=None, count=None) -> CostModel:
        """Fit to logged actions and costs: arguments as those of the estimators' ``fit``."""
        if cost is None:
            raise InputError("CostModel.fit needs cost=, one for each logged row")
        Y = check_actions(Y)
        return self.fit_log(BanditLog(X, Y, np.ones(len(Y)), cost, context, count))

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def fit_log(self, log: BanditLog) -> CostModel:
        """Fit to a log; its propensities are not used. InputError where the coefficients are not finite."""
        log = log.recount(log.count)
        penalty = _choose(log) if isinstance(self.penalty, str) and self.penalty == "auto" else self.penalty
        self.penalty_ = above_zero(penalty, "penalty")
        self.coef_ = _ridge(log, log.count, [self.penalty_], TOLERANCE)[0]
        return self

    def predict(self, X, Y) -> np.ndarray:
        """Return ĉ(x_i, y_i), shape (n,), from X (n, d) and Y (n, q)."""
        effects = self.effects(X)
        Y = check_actions(Y, rows=len(effects))
        if Y.shape[1] != effects.shape[1] - 1:
            raise InputError(f"Y has {Y.shape[1]} labels, the cost model has {effects.shape[1] - 1}")
        return (Y * effects[:, :-1]).sum(axis=1) + effects[:, -1]

    def expectation(self, X, policy: ExponentialPolicy) -> np.ndarray:
        """Return E_{y∼π} ĉ(x, y), shape (n,)."""
        effects = self.effects(X)
        return (policy.marginals(X) * effects[:, :-1]).sum(axis=1) + effects[:, -1]

    def effects(self, X) -> np.ndarray:
        """Return x·B, shape (n, q + 1): what each label adds to the cost, and last the cost without any."""
        _require_coefficients(self)
        X = check_features(X)
        if X.shape[1] != len(self.coef_):
            raise InputError(f"X has {X.shape[1]} features, the cost model has {len(self.coef_)}")
        return X @ self.coef_


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

    def predicted(row: np.ndarray) -> np.ndarray:
        return check_vector(model.predict(X, np.tile(row, (m, 1))), m, "the prediction of the cost model")

    without = predicted(np.zeros(n_labels, dtype=np.uint8))
    columns = [predicted(row) - without for row in np.eye(n_labels, dtype=np.uint8)]
    effects = np.column_stack([*columns, without])
    whole = predicted(np.ones(n_labels, dtype=np.uint8))
    if not np.allclose(effects.sum(axis=1), whole, rtol=1e-6, atol=1e-9):
        raise InputError("the cost model is not additive over labels, which the expectation of its cost needs")
    return effects


def _require_coefficients(model: CostModel) -> None:
    if not hasattr(model, "coef_"):
        raise InputError("the cost model has no coef_ yet: fit it, or set them")


def _choose(log: BanditLog) -> float:
    """The penalty with the least squared error on folds of contexts."""
    m = log.X.shape[0]
    fold = np.random.default_rng(0).permutation(m)[log.context] % FOLDS
    errors = np.zeros(len(PENALTIES))
    for held in range(min(FOLDS, m)):
        rows = fold == held
        if rows.all():
            continue
        for i, coef in enumerate(_ridge(log, log.count * ~rows, PENALTIES, FOLD_TOLERANCE)):
            errors[i] += (log.count * rows) @ (log.cost - modelled_cost(log, log.X @ coef)) ** 2
    return PENALTIES[int(np.argmin(errors))]


def _ridge(log: BanditLog, count: np.ndarray, penalties: Sequence[float], tolerance: float) -> list[np.ndarray]:
    """Solve the normal equations for falling penalties by conjugate gradients, each from the last solution."""
    share = count / count.sum()
    shape = log.X.shape[1], log.Y.shape[1] + 1

    def gather(values: np.ndarray) -> np.ndarray:
        by_label, by_context = log.action_map.sums_by_context(share * values)
        return (np.column_stack([by_label, by_context]).T @ log.X).T.ravel()

    coef, target, solutions = np.zeros(shape[0] * shape[1]), gather(log.cost), []
    for penalty in penalties:
        product = LinearOperator(
            (len(coef), len(coef)),
            lambda b, penalty=penalty: gather(modelled_cost(log, log.X @ b.reshape(shape))) + penalty * b,
            dtype=float,
        )
        coef, _ = cg(product, target, x0=coef, rtol=tolerance, maxiter=2000)
        if not np.isfinite(coef).all():
            raise InputError("the cost model is not finite: features or costs this large need another unit")
        solutions.append(coef.reshape(shape))
    return solutions


def modelled_cost(log: BanditLog, effects: np.ndarray) -> np.ndarray:
    """Return ĉ(x_i, y_i) of each row, (n,), from what labels add to it in each context, (m, q + 1)."""
    return log.action_map.log_prob(np.ascontiguousarray(effects[:, :-1]), -effects[:, -1])
