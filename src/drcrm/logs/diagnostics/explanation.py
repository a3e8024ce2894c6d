"""Explanation of a policy by one tree: its own, or a tree of depth 2 that is close to its probabilities.

The tree T maximises Σ_i π(T(x_i)|x_i) over the contexts of half of the rows. Its fidelity is the share of the other
rows in which T(x) is the policy's most likely action. The search sees no costs, so it does not bias the gains by leaf.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from drcrm.data.bandit_log import BanditLog
from drcrm.data.folds import context_folds
from drcrm.logs.diagnostics.comparison.segments import Part
from drcrm.logs.diagnostics.log_columns import action_names
from drcrm.policies.trees import DEPTH
from drcrm.policies.trees.encoded_columns import readable_columns
from drcrm.policies.trees.search import fit_encoded_tree
from drcrm.policies.trees.tree import ActionTree, tree_of

MOST_FITTED, MOST_ACTIONS = 2**15, 20  # contexts, evenly spaced if there are more; actions, those taken most often
TIE = 1e-9  # a most likely action may have a probability that much below the largest one


class Explanation(NamedTuple):
    """A tree that explains a policy on a log.

    Attributes
    ----------
    tree : ActionTree
    actions : sequence of str
        Name of each action of the tree.
    leaf : int array (n,)
        The leaf of each row.
    fidelity : float
        Share of the tested rows in which the tree's action is the policy's most likely one.
    rows : int
        Number of tested rows. The tree was fitted to other rows.
    is_policy : bool
        Whether it is the policy's own tree.
    """

    tree: ActionTree
    actions: Sequence[str]
    leaf: np.ndarray
    fidelity: float
    rows: int
    is_policy: bool

    @property
    def leaves(self) -> list[Part]:
        """The rows of each leaf that has some; none if the tree has no split."""
        if not self.tree.root.children:
            return []
        parts = [Part("leaf", "", name, self.leaf == at) for at, name in enumerate(self.tree.leaf_conditions())]
        return [part for part in parts if part.rows.any()]

    def as_dict(self) -> dict[str, Any]:
        """Return the fidelity and the nodes of the tree, each before its children, as JSON values."""
        nodes = []
        for node, depth, parent, condition, path in self.tree.placed_nodes():
            entry: dict[str, Any] = {"depth": depth, "parent": parent if depth else None, "if": condition}
            leaf = {"leaf": " and ".join(path.values()), "action": node.describe(self.actions)}
            nodes.append(entry if node.children else entry | leaf)
        return {"fidelity": self.fidelity, "rows": self.rows, "is_policy": self.is_policy, "nodes": nodes}


def explain(policy: Any, log: BanditLog, mean: np.ndarray | None) -> Explanation | None:
    """Return the tree that explains a policy.

    Parameters
    ----------
    policy : Policy
    log : BanditLog
        Log without rows of count 0.
    mean : array (m, K) or None
        The policy's probabilities of all actions.

    Returns
    -------
    Explanation or None
        None if the actions are not one of K, if probabilities are unknown, or if no column is readable.
    """
    columns, tree = readable_columns(log), tree_of(policy)
    if mean is None or not log.actions.n_classes or not columns:
        return None
    fold, actions = context_folds(log, 2), np.arange(mean.shape[1])
    counts, tested = np.bincount(log.context, log.count, log.n_contexts), fold >= 0
    is_policy = tree is not None
    if tree is None:
        fitted, tested = np.flatnonzero(fold == 0), fold == 1
        if not tested.any():
            return None
        fitted = fitted[:: -(-len(fitted) // MOST_FITTED)]
        actions = np.sort(np.argsort(-(counts @ mean), kind="stable")[:MOST_ACTIONS])
        scores = counts[fitted, None] * mean[np.ix_(fitted, actions)]
        tree = fit_encoded_tree(columns, log.X[fitted], scores, counts[fitted], DEPTH)
    leaf = tree.apply_encoded(log.X)
    taken = actions[[of_leaf.action for of_leaf in tree.leaves]][leaf]
    is_likely = mean[np.arange(len(taken)), taken] >= mean.max(axis=1) - TIE
    names, rows = action_names(log), counts[tested].sum()
    fidelity = float(counts[tested] @ is_likely[tested] / rows)
    return Explanation(
        tree, [str(names[action]) for action in actions], leaf[log.context], fidelity, int(rows), is_policy
    )
