"""Feature maps: policies that are not linear in X, of X' = [X, s φ(X)], φ any transformer of scikit-learn's.

s is such that both parts have the same mean squared norm, so that neither a ridge nor a tilt prefers one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import StandardScaler

from drcrm.actions.base import Actions
from drcrm.arrays.mapped_arrays import map_rows
from drcrm.arrays.validation import Features, check_choice, check_features
from drcrm.cost_models.ridge_model import action_effects
from drcrm.errors import InputError
from drcrm.policies.exponential import LinearPolicy
from drcrm.selection.algorithms import FEATURE_MAPS, named_feature_map

SAMPLE = 1000  # contexts of which the median distance is taken
DEPTH = 5  # of random trees
MOST_FITTED = 2**17  # contexts that a map is fitted to: of more, every so many-th


class FeatureMap:
    """X ↦ [X, s φ(X)], fitted to contexts.

    Parameters
    ----------
    transformer : transformer
        φ, of scikit-learn's interface; it is cloned.
    X : array or CSR (m, d)
        The contexts that φ and s are fitted to.

    Raises
    ------
    InputError
        A transformer that is none, or whose output is not one finite row for each context.
    """

    def __init__(self, transformer, X: Features):
        if not (hasattr(transformer, "fit") and hasattr(transformer, "transform")):
            raise InputError(f"features is {transformer!r}, expected a transformer such as Nystroem()")
        X = X[:: -(-X.shape[0] // MOST_FITTED)] if X.shape[0] > MOST_FITTED else X
        self.transformer, self.n_features, self.scale = clone(transformer).fit(X), X.shape[1], 1.0
        mapped = self._mapped(X)
        self.n_mapped = mapped.shape[1]
        squared, own = _mean_square(mapped), _mean_square(X)
        if squared > 0 < own:
            self.scale = float(np.sqrt(own / squared))

    def __repr__(self) -> str:
        return f"FeatureMap({self.transformer!r})"

    def __call__(self, X: Features) -> Features:
        """Return X' of contexts, as dense or sparse as X."""
        if X.shape[1] != self.n_features:
            raise InputError(f"X has {X.shape[1]} features, expected {self.n_features}")
        return map_rows(X, self._widened)

    def _widened(self, X: Features) -> Features:
        mapped = self.scale * self._mapped(X)
        if sparse.issparse(X):
            return sparse.csr_array(sparse.hstack([X, mapped], format="csr"))
        return np.hstack([X, mapped.toarray() if sparse.issparse(mapped) else mapped])

    def padded(self, policy: LinearPolicy | None) -> LinearPolicy | None:
        """Return a policy over X as one over X', of which it uses X alone."""
        if policy is None or len(policy.coef) != self.n_features:
            return policy  # which is refused where it is used
        added = np.zeros((self.n_mapped, *policy.coef.shape[1:]))
        return type(policy)(np.concatenate([policy.coef, added]), policy.intercept, policy.features)

    def widened(self, model):
        """Return a cost model over X as one over X', of which it uses X alone."""
        return None if model is None else _OfX(model, self.n_features, self.n_mapped)

    def stored(self) -> dict[str, np.ndarray]:
        """Return the map as arrays, which ``restored`` takes; InputError where φ is none of ``MAPS``."""
        kind = next((name for name, each in MAPS.items() if isinstance(self.transformer, each)), None)
        if kind is None:
            raise InputError(f"features is {self.transformer!r}; a file can keep {' and '.join(MAPS)} alone")
        own = {"kind": np.array(kind), "n_features": np.array(self.n_features), "scale": np.array(self.scale)}
        return own | self.transformer.stored()

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray]) -> FeatureMap:
        """Return the map that was stored as arrays."""
        made, kind = cls.__new__(cls), MAPS[check_choice(MAPS, str(arrays["kind"]), "the feature map")]
        made.n_features, made.scale = int(arrays["n_features"]), float(arrays["scale"])
        made.transformer = kind.restored(arrays)
        made.n_mapped = made._mapped(np.zeros((1, made.n_features))).shape[1]
        return made

    def _mapped(self, X: Features) -> Features:
        mapped = check_features(self.transformer.transform(X), "features' transform")
        if mapped.shape[0] != X.shape[0]:
            raise InputError(f"features' transform has {mapped.shape[0]} rows, expected {X.shape[0]}")
        return mapped


@dataclass(frozen=True)
class _OfX:
    """A cost model over the first features alone."""

    model: object
    n_features: int
    n_mapped: int

    def action_effects(self, X: Features, actions: Actions) -> np.ndarray:
        return action_effects(self.model, X[:, : self.n_features], actions)

    @property
    def coef_(self) -> np.ndarray:
        coef = np.asarray(self.model.coef_)
        return np.concatenate([coef, np.zeros((self.n_mapped, *coef.shape[1:]))])

    @property
    def intercept_(self):
        return self.model.intercept_


class MedianNystroem(TransformerMixin, BaseEstimator):
    """Nystroem's approximation of the kernel e^{−‖x − x'‖²/m} of standardised features, m the median of ‖x − x'‖².

    Parameters
    ----------
    n_components : int
        At most; there are no more than contexts.
    """

    def __init__(self, n_components: int = 300):
        self.n_components = n_components

    def fit(self, X, y=None) -> MedianNystroem:
        self.scaler_ = StandardScaler(with_mean=not sparse.issparse(X)).fit(X)
        X = self.scaler_.transform(X)
        few = np.random.default_rng(0).permutation(X.shape[0])[:SAMPLE]
        squared = euclidean_distances(X[few], squared=True)[np.triu_indices(len(few), 1)]
        median = float(np.median(squared)) if squared.size else 0.0
        components = min(self.n_components, X.shape[0])
        self.kernel_ = Nystroem(gamma=1 / median if median else 1.0, n_components=components, random_state=0).fit(X)
        return self

    def transform(self, X) -> np.ndarray:
        return self.kernel_.transform(self.scaler_.transform(X))

    def stored(self) -> dict[str, np.ndarray]:
        scaler, kernel = self.scaler_, self.kernel_
        known = {"deviation": scaler.scale_} | ({"mean": scaler.mean_} if scaler.with_mean else {})
        components = kernel.components_
        components = components.toarray() if sparse.issparse(components) else components
        return known | {"gamma": np.array(kernel.gamma), "components": components, "normalise": kernel.normalization_}

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray]) -> MedianNystroem:
        made, components = cls(len(arrays["components"])), arrays["components"]
        made.scaler_ = StandardScaler(with_mean="mean" in arrays)
        made.scaler_.scale_, made.scaler_.mean_ = arrays["deviation"], arrays.get("mean")
        made.scaler_.n_features_in_ = components.shape[1]
        made.kernel_ = Nystroem(gamma=float(arrays["gamma"]), n_components=len(components))
        made.kernel_.components_, made.kernel_.normalization_ = components, arrays["normalise"]
        made.kernel_.n_features_in_ = components.shape[1]
        return made


class RandomTrees(TransformerMixin, BaseEstimator):
    """The leaves of random trees that contexts fall into, one column for each leaf.

    Parameters
    ----------
    n_trees : int
        Each of depth 5.
    """

    _ARRAYS = "roots", "feature", "threshold", "children"

    def __init__(self, n_trees: int = 30):
        self.n_trees = n_trees

    def fit(self, X, y=None) -> RandomTrees:
        embedding = RandomTreesEmbedding(self.n_trees, max_depth=DEPTH, random_state=0).fit(X)
        trees = [each.tree_ for each in embedding.estimators_]
        self.roots_ = np.cumsum([0, *(tree.node_count for tree in trees[:-1])])
        self.feature_, self.threshold_ = (
            np.concatenate([getattr(tree, name) for tree in trees]) for name in ("feature", "threshold")
        )
        children = [
            np.stack([tree.children_left, tree.children_right]) + root
            for tree, root in zip(trees, self.roots_, strict=True)
        ]
        self.children_ = np.concatenate(children, axis=1)
        return self

    def transform(self, X) -> sparse.csr_array:
        X = X.toarray() if sparse.issparse(X) else np.asarray(X)
        X, rows = X.astype(np.float32), np.arange(len(X))[:, None]
        node = np.tile(self.roots_, (len(X), 1))
        for _ in range(DEPTH):
            feature = self.feature_[node]
            right = X[rows, np.maximum(feature, 0)] > self.threshold_[node]
            node = np.where(feature < 0, node, self.children_[right.astype(int), node])
        leaves = np.cumsum(self.feature_ < 0) - 1
        column, starts = leaves[node].ravel(), np.arange(0, node.size + 1, node.shape[1])
        return sparse.csr_array((np.ones(node.size), column, starts), (len(X), leaves[-1] + 1))

    def stored(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, f"{name}_") for name in self._ARRAYS}

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray]) -> RandomTrees:
        made = cls(len(arrays["roots"]))
        for name in cls._ARRAYS:
            setattr(made, f"{name}_", arrays[name])
        return made


MAPS = dict(zip(FEATURE_MAPS, (MedianNystroem, RandomTrees), strict=True))


def as_transformer(features: object, name: str = "features"):
    """Return a transformer, of the name of a kind and its size: ``{"nystroem": 300}``, ``{"random_trees": 30}``."""
    if not isinstance(features, Mapping):
        return features
    kind, size = named_feature_map(features, name)
    return MAPS[kind](size)


def _mean_square(X: Features) -> float:
    return float((X.multiply(X) if sparse.issparse(X) else X * X).sum() / X.shape[0])
