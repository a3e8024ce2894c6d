"""Judge the guardrails of a mapping: outcomes that a better policy must not worsen by more than a margin.

For each guardrail, let d be the policy's mean cost minus that of the reference, and m its margin. The reference is the
logging policy, or a baseline. The guardrail holds if the upper bound on d is below m. All guardrails must hold for the
verdict *better*, so the verdict is false only if one bound is false: the bounds need no correction for the number of
guardrails. With several candidates, each bound has the level δ/k, where k is the effective number of candidates for its
outcome: see :mod:`drcrm.selection.multiplicity`. If the margin is a share q of the reference's mean cost v0, the
guardrail holds if the upper bound on d − q v0 is below 0. This bound comes from the terms z − (1 + q) c of the rows,
with the terms of a baseline in place of c, so it also covers the error of v0.

The estimate is that of the verdict. Each outcome has its own cost model, which is cross-fitted on the same rows. It is
trusted for the same actions as the cost model of the main outcome; others have the largest logged cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drcrm.cost_models.base import TabularModel, action_effects
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.evaluation.bounds.independent_units import unit_values
from drcrm.evaluation.evaluation import Evaluation
from drcrm.logging_policy import SupportedModel
from drcrm.logs.diagnostics.comparison.constraints.judged import JudgedGuardrail
from drcrm.logs.diagnostics.comparison.policy_comparison import ComparisonSettings, compare
from drcrm.logs.diagnostics.comparison.reference import Reference
from drcrm.logs.diagnostics.comparison.verdict import ROUNDING
from drcrm.logs.estimated_propensities import FORECASTS
from drcrm.mapping.entries import Guardrail
from drcrm.policies.tabular import policy_for_log


@dataclass(frozen=True, eq=False)
class GuardedOutcomes:
    """The guardrails of a log, each with the log of its outcome and a cost model of it.

    Attributes
    ----------
    guardrails : sequence of Guardrail
    evaluations : list of Evaluation
        One for each guardrail. Their policy is a placeholder.
    estimate : str
    """

    guardrails: Sequence[Guardrail]
    evaluations: list[Evaluation]
    estimate: str

    @classmethod
    def of(cls, log: BanditLog, estimate: str, reference: Reference | None = None) -> GuardedOutcomes:
        """Return the outcomes of the guardrails in the mapping of a log.

        Parameters
        ----------
        log : BanditLog
            Rows that did not train the policies. A log that no file describes has no guardrails.
        estimate : "dr", "snips" or "ips"
            The estimate of the verdict.
        reference : Reference, optional
            Reference of the comparison; by default the logging policy.
        """
        guardrails = () if log.description is None else log.description.mapping.guardrails
        make = (reference or Reference()).evaluation
        logs = [_with_outcome(log, place) for place in range(len(guardrails))]
        return cls(guardrails, [make(log.propensity, part).by(estimate) for part in logs], estimate)

    def __iter__(self) -> Iterator[tuple[Guardrail, Evaluation]]:
        return zip(self.guardrails, self.evaluations, strict=True)

    def with_support(self, model: Any) -> GuardedOutcomes:
        """Return the outcomes with cost models that obey the support rule of ``model``, a cost model of a policy."""
        if not isinstance(model, SupportedModel) or any(part.cost_model is None for part in self.evaluations):
            return self
        return replace(self, evaluations=[_restrict_model(part, model) for part in self.evaluations])

    def with_margin(self, number: int, margin: float) -> GuardedOutcomes:
        """Return one of the guardrails, with another margin."""
        guardrail = replace(self.guardrails[number], margin=margin)
        return replace(self, guardrails=[guardrail], evaluations=[self.evaluations[number]])

    def unit_terms(self, policy: Any) -> dict[str, Any]:
        """Return the terms whose means the bounds of guardrails are on, by independent units, and their counts."""
        return {
            rail.key: unit_values(part.log, part.of_policy(policy).terms.z - rail.baseline_factor * part.reference.z)
            for rail, part in self
        }

    def judge(self, policy: Any, settings: ComparisonSettings) -> list[JudgedGuardrail]:
        """Return the result of each guardrail for a policy; ``settings`` are those of the main outcome."""
        settings = replace(settings, estimate=self.estimate)
        return [_judge(guardrail, evaluation, policy, settings) for guardrail, evaluation in self]


def require_ranges(log: BanditLog) -> None:
    """Raise InputError if the outcome of a guardrail is outside of its range."""
    for place, guardrail in enumerate(log.description.mapping.guardrails):
        outcome = guardrail.sign * np.asarray(log.column("guardrails")[:, place]) + 0.0
        low, high = guardrail.as_dict().get("range", (-np.inf, np.inf))
        if not low <= outcome.min() <= outcome.max() <= high:
            raise InputError(
                f"{guardrail.label} must be in its range, [{low:g}, {high:g}]; its values are from "
                f"{outcome.min():g} to {outcome.max():g}"
            )


def _with_outcome(log: BanditLog, place: int) -> BanditLog:
    """Return the log with the costs of a guardrail, and their forecasts, which come after those of the main outcome."""
    log, forecasts = log.with_cost(np.array(log.column("guardrails")[:, place])), log.column(FORECASTS)
    if forecasts is None or log.rows is None:
        return log
    return log.replace(rows=log.rows.assign(**{FORECASTS: forecasts[:, [place + 1]]}))


def _judge(guardrail: Guardrail, evaluation: Evaluation, policy: Any, settings: ComparisonSettings) -> JudgedGuardrail:
    """Return the result of the comparison of a guardrail's outcome."""
    choices = settings.guardrail_choices.get(guardrail.name, settings.choices)
    settings = replace(
        settings,
        cost_range=guardrail.cost_range,
        reference=Reference(factor=guardrail.baseline_factor),
        effective_choices=choices,
    )
    judged = evaluation.of_policy(policy_for_log(policy, evaluation.log))
    comparison = compare(judged, settings, certifies_cost=False)
    try:
        margin = guardrail.margin_of(comparison.reference)
    except InputError as error:
        return JudgedGuardrail(guardrail, comparison.difference, np.nan, refusal=str(error), effective_choices=choices)
    rounding = ROUNDING * float(np.abs(evaluation.log.cost).max())
    lower, upper = comparison.bounds
    return JudgedGuardrail(
        guardrail, comparison.difference, margin, upper + rounding, lower - rounding, comparison.refusal, choices
    )


def _restrict_model(evaluation: Evaluation, model: SupportedModel) -> Evaluation:
    log, fitted = evaluation.log, evaluation.cost_model
    limits = log.actions.cost_limits(log.cost, action_effects(fitted, log.X, log.actions))
    effects = replace(model, model=fitted, limits=limits).effects(log.X, log.actions)
    return replace(evaluation, cost_model=TabularModel(effects))
