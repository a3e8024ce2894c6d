"""Policy that takes the action of a tree's leaf, as a softmax policy whose feature map is the tree."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from drcrm.arrays.mapped_arrays import Features
from drcrm.data.bandit_log import BanditLog
from drcrm.policies.exponential import SoftmaxPolicy
from drcrm.policies.feature_maps import FeatureMap
from drcrm.policies.trees.encoded_columns import readable_columns
from drcrm.policies.trees.tree import ActionTree, TreeSettings, grow_tree

MOST_COLUMNS = 20  # that the search tries in pairs

SHARPNESS = 50.0  # logit of the leaf's action; those of other actions are 0, so their probabilities are below 10⁻²¹


class LeafActions(TransformerMixin, BaseEstimator):
    """Transformer X ↦ one-hot actions of the leaves of a tree on encoded columns, (m, K).

    Parameters
    ----------
    tree : ActionTree
        Tree whose columns are instances of ``EncodedColumn``.
    """

    def __init__(self, tree: ActionTree):
        self.tree = tree

    def __sklearn_clone__(self) -> Self:
        return self  # its tree is fitted before it is made

    def fit(self, X: Features, y: Any = None) -> Self:
        return self

    def apply(self, X: Features) -> np.ndarray:
        """Return the number of the leaf of each context, from left to right, (m,)."""
        used = {node.column for node in self.tree.root.nodes() if node.children}
        return self.tree.apply_to_values({place: self.tree.columns[place].read(X) for place in used}, X.shape[0])

    def transform(self, X: Features) -> np.ndarray:
        actions = np.array([leaf.action for leaf in self.tree.leaves])
        return np.eye(self.tree.n_actions)[actions[self.apply(X)]]


def fit_encoded_tree(log: BanditLog, scores: np.ndarray, counts: np.ndarray, depth: int) -> ActionTree:
    """Return the best tree for scores (m, K) of a log's contexts, which are sums over ``counts``, (m,), occurrences.

    With depth 0, it is the best single action.
    """
    fitted = [column.fit(log.X, scores, counts) for column in readable_columns(log)] if depth else []
    columns, values = [column for column, _ in fitted], [of_column for _, of_column in fitted]
    return grow_tree(columns, values, scores, counts, TreeSettings(depth, most_columns=MOST_COLUMNS))


def tree_policy(tree: ActionTree, X: Features) -> SoftmaxPolicy:
    """Return the policy that takes the actions of a tree; ``X`` are contexts, which scale its features."""
    features = FeatureMap(LeafActions(tree), X)
    coef = features.pad_coefficients(np.zeros((X.shape[1], tree.n_actions)))
    coef[-tree.n_actions :] = SHARPNESS * np.eye(tree.n_actions) / features.scale
    return SoftmaxPolicy(coef, features=features)
