"""Terms of a policy's worst case R_κ around the environment: one number for each row, whose mean is the estimate.

With the self-normalised optimum (R_s, γ), E = e^{(c − C)/γ} and W_s = Σ w E/Σ w, the terms are

    z_i = R_s + (γ/W_s) (u_i − W_s)

Here u has the mean W, the estimate of E_π E: u = W + (w/w̄)(E − W) for "snips", and for "dr" the terms of the
self-normalised doubly robust estimate with the model f of :mod:`drcrm.cost_models.cross_fitting`. So the estimate is
R_s + (γ/W_s)(W − W_s), one step from the self-normalised optimum, and z − z̄ is its influence function. Because log is
concave, the step never makes the worst case too small at this γ. Charges for actions that the log lacks are added to W.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.arrays.validation import check_choice, check_positive
from drcrm.cost_models.cross_fitting import FOLDS, smeared_moments
from drcrm.data.bandit_log import BanditLog
from drcrm.data.folds import context_folds
from drcrm.divergences.dual_search import WorstCase
from drcrm.estimates import AUTO, EVALUATIONS, NORMALISED, SelfNormalised
from drcrm.evaluation.terms.policy_on_log import PolicyOnLog
from drcrm.evaluation.terms.policy_terms import Charges, Terms, charge, check_weights, weigh
from drcrm.risks import EnvironmentBall


def check_radius(radius: Any, estimate: Any) -> float:
    """Return κ; InputError unless it is above 0 and the estimate is "auto" or has a self-normalised form."""
    check_choice([AUTO, *NORMALISED], estimate, "estimate with shift=")
    return check_positive(radius, "shift")


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def compute_shifted_terms(
    policy: PolicyOnLog,
    name: str,
    radius: float,
    effects: np.ndarray | None,
    charges: Charges | None,
    extreme: float,
) -> Terms:
    """Return the terms of a policy's worst case by the estimate ``name``; those of a saturated law are NaN."""
    log, kind = policy.log, EVALUATIONS[name].normalised
    assert kind is not None
    weight = check_weights(policy.importance, log, policy.name)
    supported, mass, unsupported = weigh(weight, charges, log)
    counted = factor = supported + mass
    law, refusal = _solve(policy, supported, float(log.count @ mass), extreme, radius)
    gamma, top = (np.nan if refusal else law.gamma), max(log.cost.max(), extreme)
    logged, largest = np.exp((log.cost - top) / gamma), np.exp((extreme - top) / gamma)
    charged = charge(logged, largest, mass, counted)
    estimate: Any = SelfNormalised(charged, log.count)
    unit, moments = gamma / (normalised := estimate.mean(counted)), None
    if kind.uses_model and not refusal:
        assert effects is not None
        of_rows, moments = _moments(policy, effects, gamma, top)
        estimate, factor = kind(logged, log.count, of_rows, log.context), weight
    modelled, residual = estimate.model_and_residual(factor, moments)
    of_moment, value = estimate.terms(factor, moments), law.value
    return Terms(
        float(value if refusal else value + unit * (log.count @ of_moment / log.size - normalised)),
        weight,
        weight if kind.uses_model else supported,
        counted,
        extreme + unit * (charged - largest),
        value + unit * (modelled - normalised),
        factor / (log.count @ factor / log.size),
        unit * residual,
        unsupported=unsupported,
        refusal=refusal,
        gap_terms=extreme + unit * (of_moment - largest),
    )


def _solve(
    policy: PolicyOnLog, weight: np.ndarray, charged: float, extreme: float, radius: float
) -> tuple[WorstCase, str]:
    """Return R_s with γ, and why the law is saturated, so that it has no influence function; otherwise "".

    The law has the weights w of the rows, and the total weight ``charged`` of the cost ``extreme``.
    """
    log, radius = policy.log, check_positive(radius, "shift")
    cost, count, weight = np.append(log.cost, extreme), np.append(log.count, 1), np.append(weight, charged)
    law = EnvironmentBall(radius).solve_weighted(cost, weight, count / count.sum(), count.sum())
    if 0 < law.gamma < np.inf:
        return law, ""
    mass = float((count * weight) @ (cost == cost[weight > 0].max()) / (count @ weight))
    return law, (
        f"shift is {radius:.6g}, expected a radius above 0 and below {-np.log(mass):.4g} for this {policy.name}: "
        f"{mass:.3g} of its traffic has the largest cost, and from there on R_κ is the largest cost"
    )


def _moments(policy: PolicyOnLog, effects: np.ndarray, gamma: float, top: float) -> tuple[np.ndarray, np.ndarray]:
    """Return f(x_i, a_i) of the rows, (n,), and E_π f(x, ·) of the contexts, (m,)."""
    log: BanditLog = policy.log
    fold = context_folds(log, FOLDS)
    of_rows, of_contexts = np.zeros(0), np.zeros(log.n_contexts)
    for share, mean in policy.components("the modelled cost"):
        of_rows, of_component = smeared_moments(log, effects, mean, fold, gamma, top)
        of_contexts += share * of_component
    return of_rows, of_contexts
