"""Doubly robust rewards of all actions in each context of a log, and the policy trees that maximise them."""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.cost_models.base import action_effects
from drcrm.cost_models.cross_fitting import cross_fit
from drcrm.data.bandit_log import BanditLog
from drcrm.logging_policy import SUPPORT, restrict_to_support
from drcrm.policies.exponential import SoftmaxPolicy
from drcrm.policies.prepared_log import modelled_cost
from drcrm.policies.trees.encoded_columns import fit_encoded_tree, readable_columns

MOST_CONTEXTS = 2**20  # for a tree, evenly spaced if there are more


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


def learn_tree_policy(log: BanditLog, depth: int, support: float = SUPPORT) -> SoftmaxPolicy:
    """Return the policy of the best tree of a depth; with depth 0, it takes the best single action.

    Parameters
    ----------
    log : BanditLog
        Log with one of K actions in each row. Trees split the columns of its table.
    depth : int ≥ 0
    support : float
        τ of the support rule.

    Raises
    ------
    InputError
        If the actions are not one of K.
    """
    from drcrm.policies.trees.tree_policy import tree_policy  # imports scikit-learn, which is slow

    log.actions.require_classes("a policy tree")
    log = log.without_empty_rows()
    if log.n_contexts > MOST_CONTEXTS:
        is_used = np.arange(log.n_contexts) % -(-log.n_contexts // MOST_CONTEXTS) == 0
        log = log.recount(log.count * is_used[log.context])
    scores = doubly_robust_scores(log, support=support)
    counts = np.bincount(log.context, log.count, log.n_contexts)
    return tree_policy(fit_encoded_tree(readable_columns(log), log.X, scores, counts, depth), log.X)
