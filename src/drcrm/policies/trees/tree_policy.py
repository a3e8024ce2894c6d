"""Policy that takes the action of a tree's leaf, as a softmax policy whose feature map is the tree."""

from __future__ import annotations

import numpy as np

from drcrm.arrays.mapped_arrays import Features
from drcrm.policies.exponential import SoftmaxPolicy
from drcrm.policies.feature_maps import FittedTransformer, policy_of_logits
from drcrm.policies.trees.tree import ActionTree

SHARPNESS = 50.0  # logit of the leaf's action; those of other actions are 0, so their probabilities are below 10⁻²¹


class LeafActions(FittedTransformer):
    """Transformer X ↦ max(0, 1 + log p/s), (m, K), with the probabilities p of the actions in a tree's leaves.

    The tree splits encoded columns, and s is ``SHARPNESS``. A leaf that always takes one action has its one-hot vector.

    Parameters
    ----------
    tree : ActionTree
        Tree whose columns are instances of ``EncodedColumn``.
    """

    def __init__(self, tree: ActionTree):
        self.tree = tree

    def transform(self, X: Features) -> np.ndarray:
        with np.errstate(divide="ignore"):
            logits = 1 + np.log(self.tree.leaf_probabilities) / SHARPNESS
        return np.maximum(logits, 0)[self.tree.apply_encoded(X)]


def tree_policy(tree: ActionTree, X: Features) -> SoftmaxPolicy:
    """Return the policy that takes the actions of a tree; ``X`` are contexts, which scale its features."""
    return policy_of_logits(LeafActions(tree), X, tree.n_actions, SHARPNESS)
