"""What a policy is worth next to policies that people can read: the best single action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from drcrm.evaluation.action_scores import learn_tree_policy
from drcrm.logs.decisions.judgement import EvaluatedPolicy, Judgement
from drcrm.logs.diagnostics.comparison.policy_comparison import compare_with_logging
from drcrm.logs.diagnostics.comparison.reference import Reference
from drcrm.policies.tabular import TabularPolicy
from drcrm.policies.trees.tree_policy import tree_of
from drcrm.selection.successive_halving import is_expensive


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
    trees = [tree for policy in policies if (tree := tree_of(policy.policy)) is not None and not tree.root.children]
    if trees:
        single = next(policy.policy for policy in policies if tree_of(policy.policy) is trees[0])
    else:
        single = learn_tree_policy(train, 0).with_exploration(opened.mapping.explore)
    action = tree_of(single).root.action
    entry: dict[str, object] = {"action": str(opened.evaluated.encoding.names[action])}
    if single is best.policy:
        return entry
    log: Any = opened.evaluated
    mean = single.with_exploration(0.0).marginals_on(log.X, log.actions)
    on_rows = TabularPolicy.for_log(single.evaluate(log)[1], mean, log, single.explore)
    settings = replace(judgement.settings, reference=Reference("the best single action", on_rows))
    comparison = compare_with_logging(best.policy, log, settings, cost_model=best.cost_model)
    return entry | {key: comparison.as_dict()[key] for key in ("difference", "corrected")}
