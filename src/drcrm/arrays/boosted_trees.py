"""Boosted trees of scikit-learn whose stored state has three arrays instead of three for each tree.

Policy files name this module, so it must stay here.
"""

from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

TREES = "_predictors"  # scikit-learn's lists of trees: for each iteration, one tree for each class
ARRAYS = ("nodes", "binned_left_cat_bitsets", "raw_left_cat_bitsets")  # the arrays of a tree


class _JoinedTrees:
    """State without the arrays of single trees: joined arrays are stored in less than a tenth of the time."""

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {**super().__getstate__()}  # type: ignore[dict-item]
        if iterations := state.get(TREES):
            trees = [tree for iteration in iterations for tree in iteration]
            parts = [[getattr(tree, name) for tree in trees] for name in ARRAYS]
            state[TREES] = {
                "per_iteration": len(iterations[0]),
                "sizes": np.array([[len(array) for array in arrays] for arrays in parts]),
                "arrays": [np.concatenate(arrays) for arrays in parts],
            }
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        joined = state.get(TREES)
        if isinstance(joined, dict):
            ends = np.cumsum(joined["sizes"], axis=1)[:, :-1]
            parts = [np.split(array, end) for array, end in zip(joined["arrays"], ends, strict=True)]
            trees = [TreePredictor(*arrays) for arrays in zip(*parts, strict=True)]
            step = joined["per_iteration"]
            state = {**state, TREES: [trees[i : i + step] for i in range(0, len(trees), step)]}
        super().__setstate__(state)  # type: ignore[misc]


class BoostedRegressor(_JoinedTrees, HistGradientBoostingRegressor):
    """HistGradientBoostingRegressor that is stored in few arrays."""


class BoostedClassifier(_JoinedTrees, HistGradientBoostingClassifier):
    """HistGradientBoostingClassifier that is stored in few arrays."""
