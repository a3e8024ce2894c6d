"""Comparisons with policies that people can read: the best single action, and the best policy tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from drcrm.evaluation.policy_terms import doubly_robust_scores
from drcrm.logs.decisions.judgement import EvaluatedPolicy, Judgement
from drcrm.logs.diagnostics.comparison.policy_comparison import Comparison, compare_with_logging
from drcrm.logs.diagnostics.comparison.reference import Reference
from drcrm.policies.tabular import TabularPolicy
from drcrm.policies.trees.tree import ActionTree, Node, tree_of
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
    comparison = _compare(judgement, best.policy, Reference("the best single action", on_rows))
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
    difference = _compare(judgement, tree.policy, Reference(rival.label, rival.policy)).difference
    return {"tree": tree.label, "other": rival.label, "difference": difference.as_dict()}


def _compare(judgement: Judgement, policy: Any, reference: Reference) -> Comparison:
    """Return the comparison of a policy with a reference on the judged rows, by the judged policy's cost model."""
    settings = replace(judgement.settings, reference=reference)
    log, model = judgement.opened.evaluated, judgement.best.cost_model
    return compare_with_logging(policy, log, settings, cost_model=model)
