"""Terms of a policy's worst case R_κ around the environment: one number for each row, whose mean is the estimate.

With the self-normalised optimum (R_s, γ), E = e^{(c − C)/γ} and W_s = Σ w E/Σ w, the terms are

    z_i = R_s + (γ/W_s) (u_i − W_s)

Here u has the mean W, the estimate of E_π E: u = W + (w/w̄)(E − W) for "snips", and for "dr" the terms of the
self-normalised doubly robust estimate with the model f of :mod:`drcrm.cost_models.smearing`. So the estimate is R_s +
(γ/W_s)(W − W_s), one step from the self-normalised optimum, and z − z̄ is its influence function. Because log is
concave, the step never makes the worst case too small at this γ. Charges for actions that the log lacks are added to W.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drcrm.arrays.validation import check_choice, check_positive
from drcrm.certificates.terms.evaluation import AUTO
from drcrm.certificates.terms.overlap import worst_case_gaps
from drcrm.certificates.terms.policy_terms import PolicyTerms, TermBuilder, charge, check_weights
from drcrm.cost_models.cross_fitting import context_folds
from drcrm.data.bandit_log import BanditLog
from drcrm.divergences.dual_search import WorstCase
from drcrm.errors import InputError
from drcrm.estimates import SelfNormalised, SelfNormalisedDoublyRobust
from drcrm.optimization.environment_blocks import EnvironmentBlocks
from drcrm.policies.base import Policy
from drcrm.policies.linear_predictor import LinearPredictor, importance_weights
from drcrm.risks import EnvironmentBall
from drcrm.weights import Clipped

ESTIMATES = ("snips", "dr")


def check_shift(shift: Any, estimate: Any) -> float:
    """Return κ; InputError unless it is above 0 and the estimate is "auto", "snips" or "dr"."""
    check_choice([AUTO, *ESTIMATES], estimate, "estimate with shift=")
    return check_positive(shift, "shift")


@dataclass(frozen=True)
class Law:
    """The law of the costs under a policy, as weights on the rows and on an extreme cost.

    Attributes
    ----------
    dual : WorstCase
        Worst case R_s of the law, with γ.
    mass : float
        Share of the largest cost.
    """

    dual: WorstCase
    mass: float

    @classmethod
    def of(cls, log: BanditLog, weight: np.ndarray, radius: float, charged: float = 0.0, extreme: float = 0.0) -> Law:
        """Return the law with weights w of the rows, and the total weight ``charged`` of the cost ``extreme``."""
        cost, count = np.append(log.cost, extreme), np.append(log.count, 1)
        weight = np.append(weight, charged)
        is_largest = cost == cost[weight > 0].max()
        mass = float((count * weight) @ is_largest / (count @ weight))
        return cls(EnvironmentBall(radius).solve_weighted(cost, weight, count / count.sum(), count.sum()), mass)

    @property
    def is_saturated(self) -> bool:
        """Whether the worst case is the largest cost, so that it has no influence function."""
        return not 0 < self.dual.gamma < np.inf

    def mean(self, z: np.ndarray, log: BanditLog) -> float:
        """Return R_κ, the mean of the terms of this law, or the largest cost if the law is saturated."""
        return float(self.dual.value if self.is_saturated else log.count @ z / log.size)

    def require_interior(self, radius: float, name: str) -> None:
        """Raise InputError if the law is saturated."""
        if self.is_saturated:
            raise InputError(
                f"shift is {radius:.6g}, expected a radius above 0 and below {-np.log(self.mass):.4g} for this {name}: "
                f"{self.mass:.3g} of its traffic has the largest cost, and from there on R_κ is the largest cost"
            )


def logging_terms(log: BanditLog, radius: float) -> tuple[Law, np.ndarray]:
    """Return the law of the logged costs, and its terms, (n,); they are NaN if it is saturated."""
    law = Law.of(log, np.ones(len(log.cost)), radius)
    gamma = law.dual.gamma
    if law.is_saturated:
        return law, np.full(len(log.cost), np.nan)
    exponential = np.exp((log.cost - log.cost.max()) / gamma)
    return law, law.dual.value + gamma * (exponential / (log.count @ exponential / log.size) - 1)


def logging_value(log: BanditLog, radius: float) -> tuple[float, np.ndarray]:
    """Return R_κ of the logged costs, and its terms."""
    law, z = logging_terms(log, radius)
    return law.mean(z, log), z


def interior_logging_terms(log: BanditLog, radius: float | None) -> np.ndarray:
    """Return the terms of the logged costs; without a radius, the costs. Raise InputError if the law is saturated."""
    if radius is None:
        return log.cost
    law, z = logging_terms(log, radius)
    law.require_interior(radius, "logging policy")
    return z


@dataclass(frozen=True)
class ShiftedTermBuilder(TermBuilder):
    """Computes the terms of policies around the environment; other parameters as for TermBuilder.

    Parameters
    ----------
    radius : float
        κ.
    groups : array (n,), optional
        Ids of units that a fold of the cross-fitted residuals keeps together.
    """

    radius: float = 0.0
    groups: np.ndarray | None = None

    def terms(self, policy: Policy, name: str, extreme: float, sign: int = 1, clip: float | None = None) -> PolicyTerms:
        law, terms = self.evaluate(policy, name, extreme, sign)
        law.require_interior(self.radius, name)
        return terms

    def evaluate(self, policy: Policy, name: str, extreme: float, sign: int = 1) -> tuple[Law, PolicyTerms]:
        """Return the self-normalised law of a policy, and its terms; z is NaN if the law is saturated."""
        log, has_model = self.log, self.estimate == "dr"
        predictor, log_prob, _ = policy.evaluate(log, self._action_effects(extreme, sign), name)
        weight = check_weights(importance_weights(log_prob, log), log, name)
        supported, mass, unsupported = self.weigh(policy, weight)
        counted = supported + mass
        law = Law.of(log, supported, self.radius, float(log.count @ mass), extreme)
        gamma, top = (np.nan if law.is_saturated else law.dual.gamma), max(log.cost.max(), extreme)
        logged, largest = np.exp((log.cost - top) / gamma), np.exp((extreme - top) / gamma)
        charged = charge(logged, largest, mass, counted)
        estimate: Any = SelfNormalised(charged, log.count)
        normalised = estimate.mean(counted)
        residual, moments, used = charged - normalised, None, counted
        if has_model and not law.is_saturated:
            of_rows, moments = self._moments(policy, predictor, gamma, top)
            estimate, used = SelfNormalisedDoublyRobust(logged, log.count, of_rows, log.context), weight
            residual = logged - of_rows - SelfNormalised(logged - of_rows, log.count).mean(weight)
        unit, of_moment = gamma / normalised, estimate.terms(used, moments)
        return law, PolicyTerms(
            weight if has_model else supported,
            counted,
            extreme + unit * (charged - largest),
            unit * residual,
            law.dual.value + unit * (of_moment - normalised),
            sign * unit * worst_case_gaps(of_moment, counted, charged, largest),
            unsupported,
            0.0,
        )

    def _moments(
        self, policy: Policy, predictor: LinearPredictor, gamma: float, top: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return f(x_i, a_i) of the rows, (n,), and E_π f(x, ·) of the contexts, (m,)."""
        fold = context_folds(self.log, self.groups)
        blocks = EnvironmentBlocks(predictor, fold, Clipped(None), largest=top)
        of_rows, of_contexts = np.zeros(0), np.zeros(self.log.n_contexts)
        for share, mean in policy.components(self.log.X, self.log.actions, purpose="the modelled cost"):
            of_rows, of_component = blocks.moments(gamma, mean)
            of_contexts += share * of_component
        return of_rows, of_contexts
