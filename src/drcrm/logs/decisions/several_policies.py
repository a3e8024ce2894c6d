"""Several policies on the same rows: which can still be best, and what readable ones and other limits would gain.

**Every look.** Each of K policies has an upper and a lower bound on its cost, each at level δ/K, that hold at every
look. A policy leaves at the first look at which its lower bound is above the smallest upper bound of the others. The
best policy leaves only if its lower bound is false, or the upper bound of another policy. These are K bounds, so it
ever leaves with probability at most δ. Sources: Molitor 2026; Ryu, Kwon, Koppe & Jun 2025.

**Curves** show the gain against the value of a limit or of a guardrail's margin. For each of a few values, the policy
is the best tree within this value on the training rows. The other limits and guardrails of the mapping stay. The held-
out rows choose nothing: they only test all of these trees. Each point has two bounds, one on its gain and one on what
it uses of the limit. With n points, each bound has the error probability δ/(2n), so all bounds of an answer hold
together with confidence 1 − δ. The intervals have this level, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from drcrm.errors import InputError
from drcrm.evaluation.bounds.betting_terms import CostMixture
from drcrm.evaluation.bounds.independent_units import require_single_rows
from drcrm.evaluation.policy_terms import doubly_robust_scores
from drcrm.logs.decisions.judgement import EvaluatedPolicy, Judgement
from drcrm.logs.decisions.opened_log import OpenedLog
from drcrm.logs.decisions.watching import NOTHING, Growth, Watch, watch_costs
from drcrm.logs.diagnostics.comparison.constraints import LimitedLog
from drcrm.logs.diagnostics.comparison.judged_constraints import JudgedConstraint, JudgedGuardrail
from drcrm.logs.diagnostics.comparison.policy_comparison import Comparison, compare
from drcrm.logs.diagnostics.comparison.reference import ComparisonSettings, Reference
from drcrm.mapping.checks import BLOCKS
from drcrm.mapping.log_mapping import LogMapping
from drcrm.policies.tabular import TabularPolicy
from drcrm.policies.trees import DEPTH
from drcrm.policies.trees.tree import ActionTree, Node, tree_of
from drcrm.selection.limits.training_limits import TreeLearner
from drcrm.selection.successive_halving import is_expensive


@dataclass(frozen=True, eq=False)
class WatchedPolicy:
    """A policy with the bets on the upper and on the lower bound on its cost."""

    name: str
    upper: CostMixture
    lower: CostMixture


@dataclass(frozen=True)
class Elimination:
    """The result for K policies on the same rows.

    Attributes
    ----------
    names : sequence of str
    bounds : sequence of (float, float)
        Lower and upper bound on the cost of each policy after all rows.
    left : sequence of int or None
        Number of rows after which each policy left; None if it can still be best.
    """

    names: Sequence[str]
    bounds: Sequence[tuple[float, float]]
    left: Sequence[int | None]

    @property
    def leader(self) -> int:
        """The policy with the smallest upper bound."""
        return int(np.argmin([upper for _, upper in self.bounds]))

    @property
    def sentence(self) -> str:
        """Say which policy the verdict is about, which ones can still be best, and when the others left."""
        pairs = list(zip(self.names, self.left, strict=True))
        remaining = " or ".join(name for name, row in pairs if row is None)
        gone = "".join(f" {name} left after row {row}." for name, row in pairs if row is not None)
        leader = f" Of {len(pairs)} policies, {self.names[self.leader]} has the best bound and is described here."
        return f"{leader} The best policy is {remaining}, with the same confidence.{gone}"

    def as_dict(self) -> list[dict[str, Any]]:
        """Return the name, the bounds on the cost, and the row after which each policy left."""
        parts = zip(self.names, self.bounds, self.left, strict=True)
        return [{"name": name, "low": low, "high": high, "left_after": row} for name, (low, high), row in parts]


def eliminate(policies: Sequence[tuple[str, OpenedLog, Any]], settings: Watch) -> Elimination:
    """Return which policies can still be best on the rows of a log, in the order of time.

    Parameters
    ----------
    policies : sequence of (str, OpenedLog, policy)
        Name, rows and policy. All have the same rows, encoded for each policy.
    settings : Watch
        ``settings.choices`` is K.

    Raises
    ------
    InputError
        If the policies have different rows, or bounds at every look cannot be computed.
    """
    first = policies[0][1]
    for name, opened, _ in policies[1:]:
        if not _have_equal_rows(first, opened):
            raise InputError(
                f"all policies must be compared on the same rows, but {name} and {policies[0][0]} have different ones: "
                "use a log that trained none of them, and the same mapping"
            )
    rows = Growth.of(first, settings).rows
    watched = []
    for name, opened, policy in policies:
        require_single_rows(opened.evaluated)
        costs = watch_costs(opened, policy, settings)
        watched.append(WatchedPolicy(name, *(costs.bet(NOTHING, sign) for sign in (1, -1))))
    steps = steps_until_left(watched, len(rows))
    return Elimination(
        [policy.name for policy in watched],
        [(policy.lower.bound(), policy.upper.bound()) for policy in watched],
        [None if step is None else int(rows[step - 1]) for step in steps],
    )


def steps_until_left(policies: Sequence[WatchedPolicy], size: int) -> list[int | None]:
    """Return the number of steps after which each policy left, by bisection; None if it can still be best.

    Bounds never become wider, so a policy that left stays out.
    """

    @cache
    def bound(bets: CostMixture, steps: int) -> float:
        return float(bets.bounds(np.array([steps]))[0])

    def is_out(policy: WatchedPolicy, steps: int) -> bool:
        least_upper = min(bound(rival.upper, steps) for rival in policies if rival is not policy)
        return bound(policy.lower, steps) > least_upper

    def first_out(policy: WatchedPolicy) -> int | None:
        if not is_out(policy, size):
            return None
        low, high = 0, size
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if is_out(policy, middle) else (middle, high)
        return high

    return [first_out(policy) for policy in policies]


def _have_equal_rows(first: OpenedLog, second: OpenedLog) -> bool:
    """Return whether two logs have the same rows, with the same costs."""
    if first.mapping.cost_range != second.mapping.cost_range:
        return False
    logs = first.evaluated, second.evaluated
    return all(np.array_equal(*(getattr(log, name) for log in logs)) for name in ("cost", "propensity", "count"))


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
