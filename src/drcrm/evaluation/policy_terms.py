"""Terms of a policy's estimated cost, one number for each row of a log; and doubly robust scores of all actions.

The mean of the terms is the estimate.

**Charges.** If the logging policy π0 is known, unsupported actions are charged an extreme cost a. An action is
unsupported if π0 hardly takes it: see :mod:`drcrm.logging_policy`. The cost a is the largest cost, or the smallest for
a baseline.

Let S be the unsupported actions of a context x, w the importance weight of a row, and M(x) = π(S|x). For the largest
cost a,

    E_π c ≤ E [w 1[y ∉ S] c + M a] = E w' c',
    w' = w 1[y ∉ S] + M,    c' = (w 1[y ∉ S] c + M a)/w',    E w' = 1

"ips" and "snips" use w' and c' instead of w and c. "dr" uses w, and a cost model that predicts a on S.

**Worst cases.** The worst case R_κ around the environment has terms, too. Let C be the largest cost. With the
self-normalised optimum (R_s, γ), E = e^{(c − C)/γ} and W_s = Σ w E/Σ w, the terms are

    z_i = R_s + (γ/W_s) (u_i − W_s)

Here u has the mean W, the estimate of E_π E: u = W + (w/w̄)(E − W) for "snips", and for "dr" the terms of the
self-normalised doubly robust estimate with the model f of :mod:`drcrm.cost_models.cross_fitting`. So the estimate is
R_s + (γ/W_s)(W − W_s), one step from the self-normalised optimum, and z − z̄ is its influence function. Because log is
concave, the step never makes the worst case too small at this γ. Charges for actions that the log lacks are added to W.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from drcrm.arrays.validation import check_choice, check_positive
from drcrm.cost_models.base import action_effects
from drcrm.cost_models.cross_fitting import FOLDS, cross_fit, smeared_moments
from drcrm.data.bandit_log import BanditLog
from drcrm.data.folds import context_folds
from drcrm.divergences.dual_search import WorstCase
from drcrm.errors import InputError
from drcrm.estimates import Estimate, SelfNormalised
from drcrm.evaluation import AUTO, EVALUATIONS, NORMALISED
from drcrm.evaluation.policy_on_log import PolicyOnLog, clipped_share
from drcrm.logging_policy import SUPPORT, restrict_to_support
from drcrm.policies.prepared_log import modelled_cost
from drcrm.risks import EnvironmentBall, Risk
from drcrm.weights import Weight, as_clip

EQUAL = 1e-13  # relative to the largest term; if all differences are smaller, they are rounding

Charges = tuple[np.ndarray, np.ndarray]  # M(x) of each row, and whether its action is unsupported, both (n,)


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms z = m + w e of one policy on the rows of a log.

    Attributes
    ----------
    value : float
        The estimate.
    importance : array (n,)
        Importance weights π/p.
    weight : array (n,)
        Weights after their limit. For "ips" and "snips" they are 0 on rows with an unsupported action.
    counted, cost : array (n,)
        w' and c'; w and c if the logging policy is unknown.
    modelled, factor, residual : array (n,)
        m, w and e. For estimates without a cost model, w is w'.
    unit : float
        Mean of ``factor`` for a ratio; 1 if ``factor`` is divided by it already, and for other estimates.
    unsupported : float or None
        Mean probability M; None if the logging policy is unknown.
    clipped : float
        Share of the total weight that the limit of the weights removes.
    refusal : str
        Why the estimate has no standard error, or an empty string.
    gap_terms : array (n,), optional
        Terms that ``gap`` compares with the charged terms, if they are not z.
    """

    value: float
    importance: np.ndarray
    weight: np.ndarray
    counted: np.ndarray
    cost: np.ndarray
    modelled: Any
    factor: np.ndarray
    residual: np.ndarray
    unit: float = 1.0
    unsupported: float | None = None
    clipped: float = 0.0
    refusal: str = ""
    gap_terms: np.ndarray | None = None

    @cached_property
    def z(self) -> np.ndarray:
        """The terms, (n,)."""
        return self.modelled + self.factor * self.residual

    @cached_property
    @np.errstate(divide="ignore", invalid="ignore")
    def linear(self) -> np.ndarray:
        """The terms, (n,); those of a ratio are linearised, m + w e/w̄."""
        return self.modelled + self.factor / self.unit * self.residual

    def gap(self, extreme: float) -> np.ndarray:
        """Return the increase of z, (n,), if missing mass is charged the cost a: see the module ``policy_on_log``."""
        z = self.z if self.gap_terms is None else self.gap_terms
        return extreme + self.counted * (self.cost - extreme) - z


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def compute_terms(
    policy: PolicyOnLog,
    kind: type[Estimate],
    weight: Weight,
    risk: Risk,
    effects: Any,
    charges: Charges | None,
    extreme: float,
) -> Terms:
    """Return the terms of a policy, with unsupported actions charged the cost ``extreme``.

    The ``effects`` of the cost model have this cost on unsupported actions already.
    """
    log, importance, expected = policy.log, policy.importance, None
    limited, _ = weight(np.minimum(policy.log_prob, 0), log.log_propensity)
    used, mass, unsupported = weigh(limited, charges, log)
    counted = factor = used + mass
    cost = charge(log.cost, extreme, mass, counted)
    if kind.uses_model:
        estimate, used = kind(log.cost, log.count, modelled_cost(log, effects), log.context), limited
        expected, factor = policy.expected_cost(effects), limited if kind.uses_weights else np.zeros(len(limited))
    else:
        estimate = kind(cost, log.count)
    value = estimate.evaluate(risk, factor, factor, expected, None)[0]
    modelled, residual = estimate.model_and_residual(factor, expected)
    return Terms(
        float(value),
        importance,
        used,
        counted,
        cost,
        modelled,
        factor,
        residual,
        unit=float(log.count @ factor / log.size) if kind.is_ratio else 1.0,
        unsupported=unsupported,
        clipped=clipped_share(importance, limited, log),
    )


def weigh(weight: np.ndarray, charges: Charges | None, log: BanditLog) -> tuple[np.ndarray, Any, float | None]:
    """Return w 1[y ∉ S] and M(x) of each row, and the mean of M, for weights w."""
    if charges is None:
        return weight, np.zeros(len(weight)), None
    mass, is_rare = charges
    return weight * ~is_rare, mass, float(log.count @ mass / log.size)


def charge(cost: np.ndarray, extreme: float, mass: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Return c' = (w 1[y ∉ S] c + M a)/w' of each row, for ``counted`` w' and ``mass`` M."""
    share = np.divide(mass, counted, out=np.zeros_like(mass), where=counted > 0)
    return cost + share * (extreme - cost)


def subtract(values: np.ndarray, reference: Any) -> np.ndarray:
    """Return differences; all are 0 if two policies are equal up to rounding."""
    difference = values - reference
    unit = max(np.abs(values).max(), np.abs(reference).max())
    return np.zeros_like(difference) if np.abs(difference).max() < EQUAL * unit else difference


def check_weights(weight: np.ndarray, log: BanditLog, name: str) -> np.ndarray:
    """Return the weights; InputError if all are 0 or one is not finite."""
    if not weight.any():
        raise InputError(f"every row of the log has weight 0: the log says nothing about this {name}")
    if not np.isfinite(log.count @ weight * (1 + np.abs(log.cost).max())):
        raise InputError(f"the {name}'s weights, or their costs, are beyond the range of floating-point numbers")
    return weight


def choose_limit(estimate: str, clip: Any, log: BanditLog) -> float | None:
    """Return the limit M of an estimate's weights, by default the clipping constant of the log; None without a limit.

    Raise InputError if ``clip`` is given for an estimate that does not clip.
    """
    if EVALUATIONS[estimate].limited is not None:
        return as_clip("auto" if clip is None else clip, log)
    if clip is not None:
        clipping = ", ".join(repr(name) for name, entry in EVALUATIONS.items() if entry.limited)
        raise InputError(
            f"clip is {clip!r}, but the estimate {estimate!r} does not clip weights; use {clipping}, or leave clip out"
        )
    return None


def check_radius(radius: Any, estimate: Any) -> float:
    """Return κ; InputError unless it is above 0 and the estimate is "auto" or has a self-normalised form."""
    check_choice([AUTO, *NORMALISED], estimate, "estimate with shift=")
    return check_positive(radius, "shift")


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def compute_shifted_terms(
    policy: PolicyOnLog,
    name: str,
    radius: float,
    effects: Any,
    charges: Charges | None,
    extreme: float,
) -> Terms:
    """Return the terms of a policy's worst case by the estimate ``name``; those of a saturated law are NaN."""
    log, kind = policy.log, cast(type[Estimate], EVALUATIONS[name].normalised)
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
    _, _, law = EnvironmentBall(radius).solve_weighted(cost, weight, count / count.sum(), count.sum())
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
