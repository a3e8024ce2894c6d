"""Doubly robust rewards of all actions in each context of a log."""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.cost_models.base import action_effects
from drcrm.cost_models.cross_fitting import cross_fit
from drcrm.data.bandit_log import BanditLog
from drcrm.logging_policy import SUPPORT, restrict_to_support
from drcrm.policies.prepared_log import modelled_cost


def doubly_robust_scores(log: BanditLog, regressor: Any = None, support: float = SUPPORT) -> np.ndarray:
    """Return Γ(a) of each context, (m, K): minus the doubly robust cost of the action a, summed over the rows.

    Γ_i(a) = −ĉ(x_i, a) − 1(y_i = a) (c_i − ĉ(x_i, a))/p_i. The cost model ĉ of a context is fitted to other folds. An
    action without support has only −ĉ, the largest logged cost: see :mod:`drcrm.logging_policy`.

    Parameters
    ----------
    log : BanditLog
        One of K actions per row, no rows of count 0, and contexts of one unit.
    regressor : regressor of scikit-learn, optional
        By default a ridge regression, which takes little time. With logged propensities, the scores of supported
        actions are unbiased for any cost model.
    support : float
        τ.

    Source: Athey & Wager 2021, Zhou, Athey & Wager 2023.
    """
    model = restrict_to_support(cross_fit(log, regressor), log, None, support)
    effects = action_effects(model, log.X, log.actions)
    residual = log.count * (log.cost - modelled_cost(log, effects)) / log.propensity
    correction, _ = log.row_map.to_contexts(residual)
    if support:
        probability = model.logging.probabilities(log.X, log.actions)
        correction = correction * (1 - log.actions.unsupported_mass(np.ones_like(effects), probability, support))
    occurrences = np.bincount(log.context, log.count, log.n_contexts)
    return -(occurrences[:, None] * effects + correction)
