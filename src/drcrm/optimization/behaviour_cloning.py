"""Behaviour cloning: the logging policy, estimated from the logged actions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drcrm.data.bandit_log import BanditLog
from drcrm.data.folds import merge_folds, training_parts
from drcrm.data.scaling import has_constant
from drcrm.optimization.lbfgs import LbfgsSettings, minimize_objectives
from drcrm.optimization.objective import Objective
from drcrm.policies.exponential import LinearPolicy, make_policy
from drcrm.policies.prepared_log import PreparedLog
from drcrm.risks import MeanRisk
from drcrm.weights import Likelihood

RIDGE = 1e-4  # λ


def cloned_coefficients(prepared: PreparedLog, tol: float = 1e-6) -> np.ndarray:
    """Return the Θ, (d, …), that maximises the mean of log π_Θ(y_i|x_i) minus (λ/2) ‖Θ‖², with λ = 10⁻⁴.

    In the penalty, each coefficient is multiplied by the scale of its feature, so the policy does not depend on units.
    Costs and propensities of the log are not used. ``tol`` is the tolerance of L-BFGS.
    """
    objective = Objective(prepared, MeanRisk(), Likelihood(), cost=np.full(len(prepared.log.Y), -1.0))
    [fit] = minimize_objectives([objective], np.zeros(prepared.shape), LbfgsSettings(tol=tol), ridges=[RIDGE])
    return fit.coef


def clone_behaviour(log: BanditLog, intercept: bool = False, tol: float = 1e-6) -> LinearPolicy:
    """Return the policy of ``cloned_coefficients``, with a fitted intercept if ``intercept`` is true."""
    coef = cloned_coefficients(PreparedLog(log, intercept=intercept), tol)
    return make_policy(log.actions, coef[:-1], coef[-1]) if intercept else make_policy(log.actions, coef)


def clone_folds(log: BanditLog, fold: np.ndarray, tol: float = 1e-6, most: int | None = None) -> list[LinearPolicy]:
    """Return for each fold the policy that is cloned from the other folds: see :func:`training_parts`."""
    intercept = log.actions.has_intercept and not has_constant(log.X)
    return [clone_behaviour(part, intercept, tol) for part in training_parts(log, fold, most)]


def marginals_of_folds(log: BanditLog, policies: Sequence[LinearPolicy], fold: np.ndarray) -> np.ndarray:
    """Return the probabilities of all actions by the policy of each context's fold, in the shape of scores."""
    return merge_folds(fold, log.actions, lambda number: policies[number].marginals_on(log.X, log.actions))
