"""Curves of the gain against the value of a limit or of a guardrail's margin.

For each of a few values, the policy is the best tree within this value on the training rows. The other limits and
guardrails of the mapping stay. The held-out rows choose nothing: they only test all of these trees. Each point has two
bounds, one on its gain and one on what it uses of the limit. With n points, each bound has the error probability
δ/(2n), so all bounds of an answer hold together with confidence 1 − δ. The intervals have this level, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from drcrm.errors import InputError
from drcrm.logs.decisions.judgement import Judgement
from drcrm.logs.diagnostics.comparison.constraints.judged import JudgedConstraint, JudgedGuardrail
from drcrm.logs.diagnostics.comparison.constraints.limits import LimitedLog
from drcrm.logs.diagnostics.comparison.policy_comparison import Comparison, ComparisonSettings, compare
from drcrm.mapping.checks import BLOCKS
from drcrm.mapping.log_mapping import LogMapping
from drcrm.policies.trees import DEPTH
from drcrm.selection.limits.tree_learning import TreeLearner


@dataclass(frozen=True)
class LimitCurve:
    """The gain and the use of trees within several values of a limit.

    Attributes
    ----------
    judged : sequence of JudgedConstraint
        The use of each tree, and the value, as the limit or margin.
    comparisons : sequence of Comparison
        Each tree compared with the reference.
    policies : sequence of Policy
        The trees, with the share of uniform actions.
    own : float
        Value in the mapping.
    confidence : float
        1 − δ, for the bounds of all points of an answer together.
    """

    judged: Sequence[JudgedConstraint]
    comparisons: Sequence[Comparison]
    policies: Sequence[Any]
    own: float
    confidence: float

    @property
    def is_guardrail(self) -> bool:
        """Whether the values are margins of a guardrail."""
        return isinstance(self.judged[0], JudgedGuardrail)

    @property
    def name(self) -> str:
        """The name of the limit or of the guardrail."""
        return str(self.judged[0].constraint.name)

    @property
    def values(self) -> list[float]:
        """The limits or margins."""
        return [use.constraint.margin if self.is_guardrail else use.allowed for use in self.judged]

    def as_dict(self) -> dict[str, Any]:
        """Return the points as JSON values."""
        key = "guardrail" if self.is_guardrail else "limit"
        points = [
            {
                "difference": comparison.as_dict()["difference"],
                "refused": comparison.refusal or None,
                key: use.as_dict(),
            }
            for comparison, use in zip(self.comparisons, self.judged, strict=True)
        ]
        return {key: self.name, "own": self.own, "confidence": self.confidence, "points": points}


def require_curves(mapping: LogMapping) -> None:
    """Raise InputError unless the mapping has a limit, a budget or a guardrail, and held-out rows."""
    if not mapping.constraints:
        raise InputError(
            "--curve needs a limit, a budget or a guardrail in the mapping, such as limits: {ACTION: 20 %}, "
            "budget: {column: price, at_most: 0.4} or guardrails: {NAME: {cost: COLUMN, at_most: 1 %}}"
        )
    if mapping.validation == BLOCKS:
        raise InputError("--curve needs held-out rows: use --validation holdout, because each block tests other trees")


def draw_curves(judgement: Judgement) -> list[LimitCurve]:
    """Return the curve of each limit and guardrail that policies are learned within."""
    opened, mapping, confidence = judgement.opened, judgement.opened.mapping, judgement.settings.confidence
    learner = TreeLearner.of(opened.train, DEPTH, explore=mapping.explore)
    if learner.limits is None:
        raise InputError("--curve needs a guardrail that policies are learned within, but the log has too many actions")
    along = [[*learner.learn_along(number)] for number in range(len(learner.limits.costs))]
    n_bounds = 2 * sum(map(len, along))
    settings = replace(
        judgement.settings,
        confidence=1 - (1 - confidence) / n_bounds,
        choices=1,
        effective_choices=None,
        guardrail_choices={},
    )
    outcomes = opened.guarded_outcomes(judgement.evidence.comparison.difference.estimate)
    outcomes, limited = outcomes.with_support(judgement.best.cost_model), LimitedLog.of(opened.evaluated)
    curves = []
    for number, points in enumerate(along):
        place, judged = learner.limits.places[number], []
        policies = [tree.with_exploration(mapping.explore) for _, tree in points]
        for (value, _), policy in zip(points, policies, strict=True):
            varied: Any = limited.with_limit(number, value) if place < 0 else outcomes.with_margin(place, value)
            judged += varied.judge(policy, settings)
        comparisons = [_compare(judgement, settings, policy) for policy in policies]
        curves.append(LimitCurve(judged, comparisons, policies, learner.limits.at_most[number], confidence))
    return curves


def _compare(judgement: Judgement, settings: ComparisonSettings, policy: Any) -> Comparison:
    log, model = judgement.opened.evaluated, judgement.best.cost_model
    return compare(settings.reference.evaluation(policy, log, cost_model=model), settings, certifies_cost=False)
