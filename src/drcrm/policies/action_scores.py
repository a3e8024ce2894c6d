"""Transformer from features to learned scores of actions, for policies that are exponential in a few scores."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drcrm.actions.base import Actions
from drcrm.arrays.mapped_arrays import Features, as_input
from drcrm.policies.classifier_policy import MappedLogistic
from drcrm.policies.exponential import SoftmaxPolicy
from drcrm.policies.feature_maps import FittedTransformer

LEAST_PROBABILITY = 1e-4  # smaller probabilities are raised to it before their log is taken


class BoostedTrees:
    """The trees of fitted histogram-based boosted models, as arrays of nodes.

    They predict for a single context in one pass over all trees. scikit-learn takes a millisecond to call one model for
    one row, mostly to check the arguments, and a policy over learned scores has dozens of models.

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
        kinds: dict[Any, list[int]] = {}  # models with the same loss and number of outputs share a call of scikit-learn
        for number, model in enumerate(models):
            kinds.setdefault((type(model._loss), widths[number]), []).append(number)
        self._kinds = [
            (models[numbers[0]], numbers, starts[numbers][:, None] + np.arange(width))
            for (_, width), numbers in kinds.items()
        ]

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
        predictions: dict[int, np.ndarray] = {}
        for model, numbers, outputs in self._kinds:
            predictions.update(zip(numbers, _link(model, raw[outputs]), strict=True))
        return [predictions[number] for number in range(len(predictions))]


def is_boosted(model: Any) -> bool:
    """Return whether ``BoostedTrees`` supports a fitted model."""
    return hasattr(model, "_predictors") and model.is_categorical_ is None


def _link(model: Any, raw: np.ndarray) -> np.ndarray:
    """Return the predictions of M models like ``model``, (M, 1) or (M, 1, K), from sums over trees (M, outputs)."""
    if hasattr(model, "classes_"):
        return model._loss.predict_proba(raw if raw.shape[1] > 1 else raw[:, 0])[:, None, :]
    return model._loss.link.inverse(raw)


class ActionScores(FittedTransformer):
    """Transformer X ↦ (m, J K): the first score of all K actions, then the second score, and so on.

    The first score is log π0(a|x). Fitted models give the others, as weighted means over several fits: a cost model
    gives −ĉ(x, a)/σ after the support rule, and a classifier log P(a|x). Probabilities are at least 10⁻⁴. Those of π0
    are at least τ/(2K) if this is less, so that the support rule still finds the actions that π0 hardly takes.

    For lists of actions, X has the features of candidates, without their lists, and the result is (N, J). The first
    score is then log π0 plus a constant per list, and the support rule only clips ĉ to ``limits``.

    Parameters
    ----------
    folds : sequence of sequences of models
        For each fit, to all rows but a fold or to all rows: cost models with ``effects``, and classifiers, or
        tuples of classifiers, whose log P(a|x) are averaged.
    logging : SoftmaxPolicy
        π0, without a feature map.
    deviation : float
        σ, the standard deviation of the costs minus ĉ on rows that the fit of ĉ did not see.
    support : float
        τ of the support rule: see :mod:`drcrm.logging_policy`.
    limits : (float, float)
        Smallest and largest cost of the support rule.
    is_supported : bool array, optional
        Actions that have support whatever π0 says.
    weights : sequence of float, optional
        Weight of each fit; equal by default.
    """

    weights: Sequence[float] | None = None  # policy files of earlier versions have no weights

    def __init__(
        self,
        folds: Sequence[Sequence[Any]],
        logging: SoftmaxPolicy,
        deviation: float,
        support: float,
        limits: tuple[float, float],
        is_supported: np.ndarray | None = None,
        weights: Sequence[float] | None = None,
    ):
        self.folds, self.deviation, self.support, self.limits = folds, deviation, support, limits
        self.logging_coef, self.logging_intercept = logging.coef, logging.intercept
        self.is_supported, self.weights = is_supported, weights

    @property
    def n_features_in_(self) -> int:
        """Number of features of a context."""
        return len(self.logging_coef)

    def transform(self, X: Features) -> np.ndarray:
        return self.scores(X, self.folds, self.weights).reshape(X.shape[0], -1)

    def scores(
        self,
        X: Features,
        folds: Sequence[Sequence[Any]],
        weights: Sequence[float] | None = None,
        predict: Callable[[Any, Features], np.ndarray] | None = None,
    ) -> np.ndarray:
        """Return the scores, (m, J, K) or (N, J), as weighted means over the models of some fits.

        ``predict(model, X)`` replaces the prediction of a model of scikit-learn by one that is known.
        """
        if isinstance(X, np.ndarray):
            X = X.view()
            X.flags.writeable = False  # so that a feature map of several models computes X' once
        logits, actions = X @ self.logging_coef + self.logging_intercept, self._actions_of(X)
        _, mean = actions.log_partition(logits.copy())
        learned = []
        for models in zip(*folds, strict=True):
            scores = [self._score(model, X, predict, mean, actions) for model in models]
            learned.append(np.average(scores, axis=0, weights=weights))
        least = min(LEAST_PROBABILITY, self.support / (2 * mean.shape[-1]))
        return np.stack([_log(mean, least) if actions.are_shared else logits, *learned], axis=1)

    def parts(self) -> list[Any]:
        """Return the regressors and classifiers of scikit-learn, fit by fit, without ridge regressions."""
        return [part for fold in self.folds for model in fold for part in _parts_of(model)]

    @property
    def has_fast_trees(self) -> bool:
        """Whether the models of scikit-learn are boosted trees, so that ``SingleContextScores`` works."""
        parts = self.parts()
        return bool(parts) and all(is_boosted(part) for part in parts)

    def _score(
        self, model: Any, X: Features, predict: Callable[..., np.ndarray] | None, mean: np.ndarray, actions: Actions
    ) -> np.ndarray:
        """Return log P(a|x), or −ĉ/σ after the support rule with π0's probabilities, (m, K) or (N,)."""
        if isinstance(model, tuple):
            return np.mean([self._score(part, X, predict, mean, actions) for part in model], axis=0)
        if isinstance(model, MappedLogistic):
            return _log(model.predict_proba(X))
        if not hasattr(model, "effects"):
            probability = np.zeros((X.shape[0], self.logging_coef.shape[1]))
            probability[:, model.classes_] = predict(model, X) if predict else model.predict_proba(as_input(X, model))
            return _log(probability)
        if self.is_supported is not None:
            mean = actions.raise_to_support(mean, self.is_supported, self.support)
        effects = model.effects(X, actions, predict)
        return -actions.replace_unsupported(effects, mean, self.support, self.limits) / self.deviation

    def _actions_of(self, X: Features) -> Actions:
        actions = SoftmaxPolicy(self.logging_coef).actions
        return actions.over(None if actions.are_shared else np.arange(X.shape[0] + 1))


class SingleContextScores:
    """``ActionScores.transform`` for one context in a tenth of the time, by one pass over all boosted trees.

    Parameters
    ----------
    scores : ActionScores
        Scores whose ``has_fast_trees`` is true.
    """

    def __init__(self, scores: ActionScores):
        self._scores, parts = scores, scores.parts()
        self._trees, self._ids = BoostedTrees(parts), [id(part) for part in parts]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the scores of the features of one context, (d,), as an array (J K,)."""
        predicted, scores = dict(zip(self._ids, self._trees.predict(x), strict=True)), self._scores
        return scores.scores(x[None, :], scores.folds, scores.weights, lambda part, _: predicted[id(part)]).ravel()


def _parts_of(model: Any) -> list[Any]:
    """Return the fitted models of scikit-learn in a cost model, or a classifier."""
    if isinstance(model, tuple):
        return [part for member in model for part in _parts_of(member)]
    if isinstance(model, MappedLogistic):
        return []
    if not hasattr(model, "effects"):
        return [model]
    if hasattr(model, "models"):
        return [part for member in model.models for part in _parts_of(member)]
    return [part for part in getattr(model, "regressors_", []) if part is not None]


def _log(probability: np.ndarray, least: float = LEAST_PROBABILITY) -> np.ndarray:
    return np.log(np.maximum(probability, least))
