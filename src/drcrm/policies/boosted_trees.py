"""Predictions of many boosted-tree models for a single context, in one pass over the nodes of all trees.

A call of a model of scikit-learn for one row takes a millisecond, nearly all of it to check the arguments. A policy
over learned scores has one model for each fold and action.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class BoostedTrees:
    """The trees of fitted histogram-based boosted models, as arrays of nodes.

    Parameters
    ----------
    models : sequence of HistGradientBoostingRegressor or HistGradientBoostingClassifier
        Models of numeric features.
    """

    def __init__(self, models: Sequence[Any]):
        trees = [tree.nodes for model in models for iteration in model._predictors for tree in iteration]
        sizes = [len(nodes) for nodes in trees]
        self._roots = np.append(0, np.cumsum(sizes))[:-1]
        nodes, first = np.concatenate(trees), np.repeat(self._roots, sizes)
        here, is_leaf = np.arange(len(nodes)), nodes["is_leaf"] != 0
        children = [np.where(is_leaf, here, first + nodes[side]) for side in ("right", "left")]
        self._children = np.concatenate(children)  # a leaf is its own child
        self._feature = np.where(is_leaf, 0, nodes["feature_idx"]).astype(np.intp)
        self._threshold, self._value = nodes["num_threshold"].copy(), nodes["value"].copy()
        self._missing_left, self._is_leaf = nodes["missing_go_to_left"] != 0, is_leaf
        widths = [model.n_trees_per_iteration_ for model in models]
        starts = np.append(0, np.cumsum(widths))
        self._output = np.concatenate(
            [
                start + np.tile(np.arange(width), len(model._predictors))
                for model, start, width in zip(models, starts[:-1], widths, strict=True)
            ]
        )
        self._baseline = np.concatenate([model._baseline_prediction.ravel() for model in models])
        self._models, self._ends = models, starts[1:-1]

    def predict(self, x: np.ndarray) -> list[np.ndarray]:
        """Return the prediction of each model for the features of one context, (d,).

        The prediction of a regressor is an array (1,). A classifier gives the probabilities of its classes, (1, K).
        """
        place, is_missing = self._roots.copy(), np.isnan(x)
        active = np.flatnonzero(~self._is_leaf[place])
        n_nodes = len(self._is_leaf)
        while active.size:
            node = place[active]
            feature = self._feature[node]
            goes_left = x[feature] <= self._threshold[node]
            if is_missing.any():
                goes_left |= is_missing[feature] & self._missing_left[node]
            node = self._children[node + n_nodes * goes_left]
            place[active] = node
            active = active[~self._is_leaf[node]]
        raw = self._baseline + np.bincount(self._output, self._value[place], len(self._baseline))
        return [_link(model, part) for model, part in zip(self._models, np.split(raw, self._ends), strict=True)]


def is_boosted(model: Any) -> bool:
    """Return whether ``BoostedTrees`` supports a fitted model."""
    return hasattr(model, "_predictors") and model.is_categorical_ is None


def _link(model: Any, raw: np.ndarray) -> np.ndarray:
    """Return the prediction of a model from the sum of its trees."""
    if hasattr(model, "classes_"):
        return model._loss.predict_proba(raw if len(raw) == 1 else raw[None, :])
    return model._loss.link.inverse(raw)
