"""Other policies to compare with: the best single action, the best readable policy, and trees within other limits.

Curves show the gain against the value of a limit or of a guardrail's margin. For each of a few values, the policy is
the best tree within this value on the training rows. The other limits and guardrails of the mapping stay. The held-out
rows choose nothing: they only test these trees. Each point has two bounds, one on its gain and one on what it uses
of the limit. With n points, each bound has the error probability δ/(2n), so all bounds of an answer hold together with
confidence 1 − δ. The intervals have this level, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drcrm.errors import InputError
from drcrm.evaluation.policy_terms import doubly_robust_scores
from drcrm.logs.decisions.judgement import EvaluatedPolicy, Judgement
from drcrm.logs.diagnostics.comparison.constraints import LimitedLog
from drcrm.logs.diagnostics.comparison.judged_constraints import JudgedConstraint, JudgedGuardrail
from drcrm.logs.diagnostics.comparison.policy_comparison import Comparison, compare
from drcrm.logs.diagnostics.comparison.reference import ComparisonSettings, Reference
from drcrm.logs.successive_halving import is_expensive
from drcrm.logs.training_limits import TreeLearner
from drcrm.mapping.checks import BLOCKS
from drcrm.mapping.log_mapping import LogMapping
from drcrm.policies.tabular import TabularPolicy
from drcrm.policies.trees import DEPTH
from drcrm.policies.trees.tree import ActionTree, Node, tree_of


def compare_with_single_action(judgement: Judgement, policies: Sequence[EvaluatedPolicy]) -> dict[str, object] | None:
    """Return the best single action and the difference of the judged policy from it, as JSON values.

    The action is chosen on the training rows, or on the rows before the first block, and has the same share of uniform
    actions as the policy. Differences are paired, and corrected like those from the logging policy.

    Returns
    -------
    dict or None
        ``action``, ``difference`` and ``corrected``; without the differences if the judged policy takes this action.
        None if evaluations are expensive.
    """
    opened, best = judgement.opened, judgement.best
    train: Any = opened.train
    if is_expensive(train):
        return None
    log: Any = opened.evaluated
    trees = [tree_of(policy.policy) for policy in (best, *policies)]
    single = next((tree for tree in trees if tree is not None and not tree.root.children), None)
    if single is None:
        action = int(doubly_robust_scores(train).sum(axis=0).argmax())
        single = ActionTree(Node(action, 1.0), [], log.actions.shape[0])
    entry: dict[str, object] = {"action": single.root.describe(log.encoding.names)}
    if trees[0] is not None and not trees[0].root.children:
        return entry
    [of_actions] = single.leaf_probabilities
    mean = np.broadcast_to(of_actions, (log.n_contexts, *log.actions.shape))
    explore, n_actions = opened.mapping.explore, log.actions.shape[0]
    probability = explore / n_actions + (1 - explore) * of_actions[log.Y]
    with np.errstate(divide="ignore"):
        on_rows = TabularPolicy.for_log(np.log(probability), mean, log, explore)
    settings = replace(judgement.settings, reference=Reference("the best single action", on_rows))
    comparison = _compare(judgement, settings, best.policy)
    return entry | {key: comparison.as_dict()[key] for key in ("difference", "corrected")}


def price_readability(judgement: Judgement) -> dict[str, object] | None:
    """Return the difference of the best policy tree from the best other candidate, as JSON values.

    One of the two is the judged policy. The other one is the candidate of its kind with the smallest upper bound on its
    cost. The interval is from paired differences of these two policies. It is not adjusted for their choice.

    Returns
    -------
    dict or None
        ``tree`` and ``other``, the labels of the policies, and ``difference``. None if all candidates are trees, if no
        tree has a split, or if the judged policy is a single action.
    """
    best, first = judgement.best, {}
    pairs = [*zip(judgement.policies, judgement.comparisons, strict=True)]
    pairs.sort(key=lambda pair: (pair[0] is not best, pair[1].bounds[1], float(pair[1].difference)))
    for policy, _ in pairs:
        candidate = tree_of(policy.policy)
        if candidate is None or candidate.root.children:
            first.setdefault("other" if candidate is None else "tree", policy)
    if len(first) < 2 or best not in first.values():
        return None
    tree, rival = first["tree"], first["other"]
    settings = replace(judgement.settings, reference=Reference(rival.label, rival.policy))
    difference = _compare(judgement, settings, tree.policy).difference
    return {"tree": tree.label, "other": rival.label, "difference": difference.as_dict()}


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
    """Return the comparison of a policy with the reference of the settings, by the judged policy's cost model."""
    log, model = judgement.opened.evaluated, judgement.best.cost_model
    return compare(settings.reference.evaluation(policy, log, cost_model=model), settings, certifies_cost=False)
