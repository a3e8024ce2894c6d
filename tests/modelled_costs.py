"""Costs of actions and of policies under a cost model, and the bound on a ratio of terms."""

import numpy as np
from scipy.optimize import brentq

from drcrm import BanditLog
from drcrm.certificates import upper_bound
from drcrm.policies.prepared_log import modelled_cost


def predict(model, X, Y) -> np.ndarray:
    """Return ĉ(x_i, y_i) of row i of X, under a CostModel."""
    n_actions = model.coef_.shape[1] if np.ndim(Y) == 1 and model.coef_.ndim == 2 else None
    log = BanditLog(X, Y, np.ones(len(Y)), np.zeros(len(Y)), n_actions=n_actions)
    return modelled_cost(log, model.effects(log.X, log.actions))


def expectation(model, X, policy) -> np.ndarray:
    """Return Σ_y π(y|x) ĉ(x, y) of each context."""
    features, actions = policy.actions.bind(X)
    return actions.expected_cost(policy.marginals(X), model.effects(features, actions))


def ratio_bound(terms, cost: np.ndarray, **settings) -> float:
    """Return the v at which the upper bound on ``terms(v)`` is 0."""
    return brentq(lambda v: upper_bound(terms(v), **settings), cost.min() - 1, cost.max() + 1, xtol=1e-13)
