"""Small logs of label vectors with repeated contexts, and objectives on them."""

import numpy as np
from scipy import sparse

from drcrm import CostModel
from drcrm.cost_models.base import action_effects
from drcrm.data.bandit_log import BanditLog
from drcrm.optimization.objective import Objective
from drcrm.policies.prepared_log import PreparedLog
from drcrm.risks import Risk
from drcrm.weights import Weight

CONTEXTS, FEATURES, LABELS, ROWS = 12, 5, 3, 50


def make_log(seed: int = 0, dense: bool = True) -> BanditLog:
    """Return rows with multiplicities, some of them 0; the last feature is constant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(CONTEXTS, FEATURES)) * (rng.random((CONTEXTS, FEATURES)) < 0.6)
    X[:, -1] = 1
    rows = rng.integers(0, 2, (ROWS, LABELS)), rng.uniform(0.05, 1, ROWS), -rng.exponential(2, ROWS)
    context, count = rng.integers(0, CONTEXTS, ROWS), rng.integers(0, 4, ROWS)
    return BanditLog(X if dense else sparse.csr_array(X), *rows, context, count)


def make_model(seed: int = 1) -> CostModel:
    model = CostModel()
    model.coef_ = np.random.default_rng(seed).normal(size=(FEATURES, LABELS + 1))
    return model


def make_coef(seed: int, scale: float = 1.0) -> np.ndarray:
    return scale * np.random.default_rng(seed).normal(size=(FEATURES, LABELS))


def make_objective(log: BanditLog, risk: Risk, weight: Weight | None = None, estimate: str = "ips") -> Objective:
    """Return the objective of a fit, with the cost model of ``make_model`` if the estimate needs one."""
    effects = action_effects(make_model(), log.X, log.actions) if estimate in ("dr", "dm") else None
    return Objective(PreparedLog(log, effects), risk, weight, estimate)


def expand(log: BanditLog) -> BanditLog:
    """Return the log row by row: each row has its own context and occurs once."""
    rows = np.repeat(np.arange(len(log.Y)), log.count)
    return BanditLog(log.X[log.context[rows]], log.Y[rows], log.propensity[rows], log.cost[rows])


def numeric_gradient(objective: Objective, coef: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Return central differences at flat coefficients."""
    steps = step * np.eye(coef.size)
    return np.array([objective(coef + e)[0] - objective(coef - e)[0] for e in steps]) / (2 * step)
