"""Behaviour cloning: the logging policy, estimated from the logged actions."""

from __future__ import annotations

import numpy as np

from drcrm.cost_models.support import SupportedModel
from drcrm.data.bandit_log import BanditLog
from drcrm.optimization.lbfgs import LbfgsSettings, minimize_objectives
from drcrm.optimization.objective import Objective
from drcrm.policies.base import Policy
from drcrm.policies.exponential import LinearPolicy, make_policy
from drcrm.policies.linear_predictor import LinearPredictor
from drcrm.risks import MeanRisk
from drcrm.weights import ExploredLikelihood, Likelihood, Weight

RIDGE = 1e-4  # λ
EXPLORED_RIDGE = 1e-9  # λ if propensities take the place of the logged actions, which have less information
FEWEST_TIES, TIE = 0.01, 1e-6  # share of rows that an exploration rate needs, and relative rounding of propensities


def exploration_rate(log: BanditLog) -> float:
    """Return the rate ε of a logging policy (1 − ε) π + ε/K, such as ε-greedy; 0 if the propensities show none.

    The smallest propensity is then ε/K in many rows. The rate is 0 for label vectors and for lists of actions.
    """
    if not log.actions.are_classes:
        return 0.0
    propensity, n_actions = log.propensity, log.actions.shape[0]
    rate = float(propensity.min() * n_actions)
    ties = log.count @ (propensity <= propensity.min() * (1 + TIE)) / log.size
    return rate if ties >= FEWEST_TIES and rate < 1 - TIE else 0.0


def cloned_coefficients(design: LinearPredictor, tol: float = 1e-6, explore: float = 0.0) -> np.ndarray:
    """Return the Θ, (d, …), that maximises the mean of log π_Θ(y_i|x_i) minus (λ/2) ‖Θ‖², with λ = 10⁻⁴.

    In the penalty, each coefficient is multiplied by the scale of its feature, so the policy does not depend on units.
    Costs and propensities of the log are not used. ``tol`` is the tolerance of L-BFGS. With ``explore``, Θ makes the
    probabilities (1 − ε) π_Θ + ε/K of the logged actions similar to their propensities, with λ = 10⁻⁹: see
    :class:`drcrm.weights.ExploredLikelihood`.
    """
    weight: Weight = Likelihood()
    if explore:
        weight = ExploredLikelihood(explore, -np.log(design.log.actions.shape[0]))
    objective = Objective(design, MeanRisk(), weight, cost=np.full(len(design.log.Y), -1.0))
    [fit] = minimize_objectives(
        [objective], np.zeros(design.shape), LbfgsSettings(tol=tol), ridges=[EXPLORED_RIDGE if explore else RIDGE]
    )
    return fit.coef


def clone_behaviour(log: BanditLog, intercept: bool = False, tol: float = 1e-6) -> LinearPolicy:
    """Return the policy of ``cloned_coefficients``, with the exploration that the propensities show.

    The intercept is fitted if ``intercept`` is true.
    """
    explore = exploration_rate(log)
    coef = cloned_coefficients(LinearPredictor(log, intercept=intercept), tol, explore)
    policy = make_policy(log.actions, coef[:-1], coef[-1]) if intercept else make_policy(log.actions, coef)
    return policy.with_exploration(explore)


def restrict_to_support(model: object, log: BanditLog, logging_policy: Policy | None, support: float) -> SupportedModel:
    """Return a cost model that is trusted only where the logging policy has support.

    If ``logging_policy`` is None, the logging policy of the model is used. If it has none, the policy is cloned from
    the log.
    """
    if logging_policy is not None:
        return SupportedModel.of(model, log, logging_policy, support)
    if isinstance(model, SupportedModel):
        return model.with_support(support)
    return SupportedModel.of(model, log, clone_behaviour(log), support).trust_propensities(log)
