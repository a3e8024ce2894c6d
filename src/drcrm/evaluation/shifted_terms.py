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
from drcrm.cost_models.cross_fitting import FOLDS
from drcrm.cost_models.smearing import smeared_moments
from drcrm.data.folds import context_folds
from drcrm.divergences.dual_search import WorstCase
from drcrm.estimates import EVALUATIONS, NORMALISED, SelfNormalised
from drcrm.evaluation.inputs import AUTO, EvaluationInputs
from drcrm.evaluation.overlap import worst_case_gaps
from drcrm.evaluation.terms import PolicyTerms, TermBuilder, charge, check_weights
from drcrm.policies.base import Policy
from drcrm.policies.prepared_log import PreparedLog, importance_weights
from drcrm.risks import EnvironmentBall


def check_shift(shift: Any, estimate: Any) -> float:
    """Return κ; InputError unless it is above 0 and the estimate is "auto" or has a self-normalised form."""
    check_choice([AUTO, *NORMALISED], estimate, "estimate with shift=")
    return check_positive(shift, "shift")


@dataclass(frozen=True)
class ShiftedTermBuilder(TermBuilder):
    """Computes the terms of policies around the environment. The terms of a saturated law are NaN."""

    def terms(self, policy: Policy, name: str = "policy", extreme: float | None = None, sign: int = 1) -> PolicyTerms:
        log, kind = self.log, EVALUATIONS[self.estimate].normalised
        assert kind is not None
        extreme = float(log.cost.max()) if extreme is None else extreme
        prepared, log_prob, _ = policy.evaluate(log, self._effects(extreme, sign), name)
        weight = check_weights(importance_weights(log_prob, log), log, name)
        supported, mass, unsupported = self.weigh(policy, weight)
        counted = factor = supported + mass
        law, refusal = self._solve(supported, float(log.count @ mass), extreme, name)
        gamma, top = (np.nan if refusal else law.gamma), max(log.cost.max(), extreme)
        logged, largest = np.exp((log.cost - top) / gamma), np.exp((extreme - top) / gamma)
        charged = charge(logged, largest, mass, counted)
        estimate: Any = SelfNormalised(charged, log.count)
        unit, moments = gamma / (normalised := estimate.mean(counted)), None
        if kind.uses_model and not refusal:
            of_rows, moments = self._moments(policy, prepared, gamma, top)
            estimate, factor = kind(logged, log.count, of_rows, log.context), weight
        modelled, residual = estimate.model_and_residual(factor, moments)
        of_moment, value = estimate.terms(factor, moments), law.value
        return PolicyTerms(
            float(value if refusal else value + unit * (log.count @ of_moment / log.size - normalised)),
            weight,
            weight if kind.uses_model else supported,
            counted,
            extreme + unit * (charged - largest),
            value + unit * (modelled - normalised),
            factor / (log.count @ factor / log.size),
            unit * residual,
            sign * unit * worst_case_gaps(of_moment, counted, charged, largest),
            unsupported=unsupported,
            refusal=refusal,
        )

    def _solve(self, weight: np.ndarray, charged: float, extreme: float, name: str) -> tuple[WorstCase, str]:
        """Return R_s with γ, and why the law is saturated, so that it has no influence function; otherwise "".

        The law has the weights w of the rows, and the total weight ``charged`` of the cost ``extreme``.
        """
        log, radius = self.log, check_positive(self.radius, "shift")
        cost, count, weight = np.append(log.cost, extreme), np.append(log.count, 1), np.append(weight, charged)
        law = EnvironmentBall(radius).solve_weighted(cost, weight, count / count.sum(), count.sum())
        if 0 < law.gamma < np.inf:
            return law, ""
        mass = float((count * weight) @ (cost == cost[weight > 0].max()) / (count @ weight))
        return law, (
            f"shift is {radius:.6g}, expected a radius above 0 and below {-np.log(mass):.4g} for this {name}: "
            f"{mass:.3g} of its traffic has the largest cost, and from there on R_κ is the largest cost"
        )

    def _moments(
        self, policy: Policy, prepared: PreparedLog, gamma: float, top: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return f(x_i, a_i) of the rows, (n,), and E_π f(x, ·) of the contexts, (m,)."""
        fold, effects = context_folds(self.log, self.inputs.groups, FOLDS), prepared.effects
        of_rows, of_contexts = np.zeros(0), np.zeros(self.log.n_contexts)
        for share, mean in policy.components(self.log.X, self.log.actions, purpose="the modelled cost"):
            of_rows, of_component = smeared_moments(prepared.log, effects, mean, fold, gamma, top)
            of_contexts += share * of_component
        return of_rows, of_contexts


def make_builder(inputs: EvaluationInputs, estimate: str, radius: float | None, **options: Any) -> TermBuilder:
    """Return the builder of an estimate's terms, around the environment if there is a radius κ."""
    kind = TermBuilder if radius is None else ShiftedTermBuilder
    return kind(inputs, estimate, radius=radius, **options)
