"""Feature maps: policies that are linear in X' = [X, s φ(X)] for a scikit-learn transformer φ.

The factor s gives both parts the same mean squared norm, so that a ridge or a tilt treats them alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import StandardScaler

from drcrm.arrays.mapped_arrays import Features, map_rows
from drcrm.arrays.validation import check_choice, check_features
from drcrm.errors import InputError
from drcrm.policies.exponential import LinearPolicy
from drcrm.policies.feature_map_names import FEATURE_MAPS, parse_feature_map

DISTANCE_SAMPLE = 1000  # contexts for the median distance
DEPTH = 5  # of random trees
MOST_FITTED = 2**17  # contexts that a map is fitted to, evenly spaced if there are more

Arrays = dict[str, np.ndarray]


class MedianNystroem(TransformerMixin, BaseEstimator):
    """Nyström approximation of the kernel exp(−‖x − x'‖²/m) of standardised features, with m the median of ‖x − x'‖².

    Parameters
    ----------
    n_components : int
        Number of components; fewer if there are fewer contexts.
    """

    def __init__(self, n_components: int = 300):
        self.n_components = n_components

    def fit(self, X: Features, y: Any = None) -> MedianNystroem:
        self.scaler_ = StandardScaler(with_mean=not sparse.issparse(X)).fit(X)
        X = self.scaler_.transform(X)
        sample = np.random.default_rng(0).permutation(X.shape[0])[:DISTANCE_SAMPLE]
        squared = euclidean_distances(X[sample], squared=True)[np.triu_indices(len(sample), 1)]
        median = float(np.median(squared)) if squared.size else 0.0
        components = min(self.n_components, X.shape[0])
        self.kernel_ = Nystroem(gamma=1 / median if median else 1.0, n_components=components, random_state=0).fit(X)
        return self

    def transform(self, X: Features) -> np.ndarray:
        return self.kernel_.transform(self.scaler_.transform(X))

    def to_arrays(self) -> Arrays:
        scaler, kernel = self.scaler_, self.kernel_
        scaling = {"deviation": scaler.scale_} | ({"mean": scaler.mean_} if scaler.with_mean else {})
        components = kernel.components_
        components = components.toarray() if sparse.issparse(components) else components
        return scaling | {"gamma": np.array(kernel.gamma), "components": components, "normalise": kernel.normalization_}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> MedianNystroem:
        components = arrays["components"]
        fitted = cls(len(components))
        fitted.scaler_ = StandardScaler(with_mean="mean" in arrays)
        fitted.scaler_.scale_, fitted.scaler_.mean_ = arrays["deviation"], arrays.get("mean")
        fitted.kernel_ = Nystroem(gamma=float(arrays["gamma"]), n_components=len(components))
        fitted.kernel_.components_, fitted.kernel_.normalization_ = components, arrays["normalise"]
        fitted.scaler_.n_features_in_ = fitted.kernel_.n_features_in_ = components.shape[1]
        return fitted


class RandomTrees(TransformerMixin, BaseEstimator):
    """Indicators of the leaves of random trees, one column per leaf, as in scikit-learn's RandomTreesEmbedding.

    Unlike the latter, the trees are plain arrays, which a policy file can store without pickle.

    Parameters
    ----------
    n_trees : int
        Number of trees of depth 5.
    """

    _ARRAYS = "roots", "feature", "threshold", "children"

    def __init__(self, n_trees: int = 30):
        self.n_trees = n_trees

    def fit(self, X: Features, y: Any = None) -> RandomTrees:
        embedding = RandomTreesEmbedding(self.n_trees, max_depth=DEPTH, random_state=0).fit(X)
        trees = [estimator.tree_ for estimator in embedding.estimators_]
        self.roots_ = np.cumsum([0, *(tree.node_count for tree in trees[:-1])])
        self.feature_ = np.concatenate([tree.feature for tree in trees])
        self.threshold_ = np.concatenate([tree.threshold for tree in trees])
        children = [
            np.stack([tree.children_left, tree.children_right]) + root
            for tree, root in zip(trees, self.roots_, strict=True)
        ]
        self.children_ = np.concatenate(children, axis=1)
        return self

    def transform(self, X: Features) -> sparse.csr_array:
        X = X.toarray() if sparse.issparse(X) else np.asarray(X)
        X, rows = X.astype(np.float32), np.arange(len(X))[:, None]
        node = np.tile(self.roots_, (len(X), 1))
        for _ in range(DEPTH):
            feature = self.feature_[node]
            is_right = X[rows, np.maximum(feature, 0)] > self.threshold_[node]
            node = np.where(feature < 0, node, self.children_[is_right.astype(int), node])
        leaves = np.cumsum(self.feature_ < 0) - 1
        column, starts = leaves[node].ravel(), np.arange(0, node.size + 1, node.shape[1])
        return sparse.csr_array((np.ones(node.size), column, starts), (len(X), leaves[-1] + 1))

    def to_arrays(self) -> Arrays:
        return {name: getattr(self, f"{name}_") for name in self._ARRAYS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> RandomTrees:
        fitted = cls(len(arrays["roots"]))
        for name in cls._ARRAYS:
            setattr(fitted, f"{name}_", arrays[name])
        return fitted


TRANSFORMERS: dict[str, Any] = dict(zip(FEATURE_MAPS, (MedianNystroem, RandomTrees), strict=True))


class FeatureMap:
    """X ↦ [X, s φ(X)], fitted to contexts.

    Parameters
    ----------
    transformer : transformer
        φ, with scikit-learn's interface; it is cloned.
    X : array or CSR (m, d)
        Contexts that φ and s are fitted to.

    Raises
    ------
    InputError
        An object that is not a transformer, or whose output is not one finite row for each context.
    """

    def __init__(self, transformer: Any, X: Features):
        if not (hasattr(transformer, "fit") and hasattr(transformer, "transform")):
            raise InputError(f"features is {transformer!r}, expected a transformer such as Nystroem()")
        X = X[:: -(-X.shape[0] // MOST_FITTED)] if X.shape[0] > MOST_FITTED else X
        self.transformer, self.n_features, self.scale = clone(transformer).fit(X), X.shape[1], 1.0
        transformed = self._transform(X)
        self.n_mapped = transformed.shape[1]
        square_of_map, square_of_x = _mean_square(transformed), _mean_square(X)
        if square_of_map > 0 and square_of_x > 0:
            self.scale = float(np.sqrt(square_of_x / square_of_map))

    def __repr__(self) -> str:
        return f"FeatureMap({self.transformer!r})"

    def __call__(self, X: Features) -> Features:
        """Return X' of contexts; it is dense or sparse as X is."""
        if X.shape[1] != self.n_features:
            raise InputError(f"X has {X.shape[1]} features, expected {self.n_features}")
        return map_rows(X, self._extend)

    def _extend(self, X: Features) -> Features:
        transformed = self.scale * self._transform(X)
        if sparse.issparse(X):
            return sparse.csr_array(sparse.hstack([X, transformed], format="csr"))
        return np.hstack([X, transformed.toarray() if sparse.issparse(transformed) else transformed])

    def pad_policy(self, policy: LinearPolicy | None) -> LinearPolicy | None:
        """Return a policy over X as a policy over X' that ignores φ(X); a policy over other features is unchanged."""
        if policy is None or len(policy.coef) != self.n_features:
            return policy
        return type(policy)(self.pad_coefficients(policy.coef), policy.intercept, policy.features)

    def pad_coefficients(self, coef: np.ndarray) -> np.ndarray:
        """Return coefficients of X' that are 0 for φ(X)."""
        return np.concatenate([coef, np.zeros((self.n_mapped, *coef.shape[1:]))])

    def to_arrays(self) -> Arrays:
        """Return the map as arrays for ``from_arrays``; InputError unless φ is one of ``TRANSFORMERS``."""
        kind = next((name for name, cls in TRANSFORMERS.items() if isinstance(self.transformer, cls)), None)
        if kind is None:
            raise InputError(f"features is {self.transformer!r}; a file can only store {' and '.join(TRANSFORMERS)}")
        header = {"kind": np.array(kind), "n_features": np.array(self.n_features), "scale": np.array(self.scale)}
        return header | self.transformer.to_arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> FeatureMap:
        """Return the map that ``to_arrays`` stored."""
        kind = check_choice(TRANSFORMERS, str(arrays["kind"]), "the feature map")
        feature_map = cls.__new__(cls)
        feature_map.n_features, feature_map.scale = int(arrays["n_features"]), float(arrays["scale"])
        feature_map.transformer = TRANSFORMERS[kind].from_arrays(arrays)
        feature_map.n_mapped = feature_map._transform(np.zeros((1, feature_map.n_features))).shape[1]
        return feature_map

    def _transform(self, X: Features) -> Features:
        transformed = check_features(self.transformer.transform(X), "features' transform")
        if transformed.shape[0] != X.shape[0]:
            raise InputError(f"features' transform has {transformed.shape[0]} rows, expected {X.shape[0]}")
        return transformed


def as_transformer(features: object, name: str = "features") -> Any:
    """Return a transformer from a name and a size, ``{"nystroem": 300}``; any other object is returned unchanged."""
    if not isinstance(features, Mapping):
        return features
    kind, size = parse_feature_map(features, name)
    return TRANSFORMERS[kind](size)


def _mean_square(X: Features) -> float:
    return float((X.multiply(X) if sparse.issparse(X) else X * X).sum() / X.shape[0])
