"""Feature maps X ↦ X' = [X, s φ(X)] with a scikit-learn transformer φ, for policies that are linear in X'.

The factor s gives both parts the same mean squared norm, so that a ridge penalty treats them alike.
"""

from collections.abc import Mapping
from copy import copy
from functools import partial
from typing import Any, Self
from weakref import ref

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from drcrm.arrays.mapped_arrays import Features, map_rows
from drcrm.arrays.validation import check_features
from drcrm.errors import InputError
from drcrm.policies import parse_feature_map
from drcrm.policies.exponential import SoftmaxPolicy

DISTANCE_SAMPLE = 1000  # number of contexts from which the median distance is computed
LEAST_EIGENVALUE = 1e-8  # relative to the largest; in smaller directions the kernel's rounding would become features
MOST_FITTED = 2**17  # largest number of contexts to fit a map to, evenly spaced if there are more


class MedianNystroem(TransformerMixin, BaseEstimator):
    """Nyström approximation of the kernel exp(−‖x − x'‖²/m) of standardised features, with m the median of ‖x − x'‖².

    Parameters
    ----------
    n_components : int
        Number of components; fewer if there are fewer contexts.
    """

    def __init__(self, n_components: int = 300):
        self.n_components = n_components

    def fit(self, X: Features, y: Any = None) -> Self:
        self.scaler_ = StandardScaler(with_mean=not sparse.issparse(X)).fit(X)
        X = self.scaler_.transform(X)
        sample = np.random.default_rng(0).permutation(X.shape[0])[:DISTANCE_SAMPLE]
        squared = euclidean_distances(X[sample], squared=True)[np.triu_indices(len(sample), 1)]
        median = float(np.median(squared)) if squared.size else 0.0
        components = min(self.n_components, X.shape[0])
        self.kernel_ = Nystroem(gamma=1 / median if median else 1.0, n_components=components, random_state=0).fit(X)
        kernel = rbf_kernel(self.kernel_.components_, gamma=self.kernel_.gamma)
        values, vectors = np.linalg.eigh(kernel)
        kept = values > LEAST_EIGENVALUE * values[-1]
        self.kernel_.normalization_ = vectors[:, kept] / np.sqrt(values[kept]) @ vectors[:, kept].T
        return self

    def transform(self, X: Features) -> np.ndarray:
        """Return φ(X), (m, n_components), without scikit-learn's checks, which dominate the time for one context."""
        scaler, nystroem = self.scaler_, self.kernel_
        if scaler.with_mean:
            X = (X.toarray() if sparse.issparse(X) else X) - scaler.mean_
        X = X @ sparse.diags_array(1 / scaler.scale_) if sparse.issparse(X) else X / scaler.scale_
        norms, of_components = (row_norms(rows, squared=True) for rows in (X, nystroem.components_))
        products = safe_sparse_dot(X, nystroem.components_.T, dense_output=True)
        squared = np.maximum(norms[:, None] + of_components - 2 * products, 0)
        return np.exp(-nystroem.gamma * squared) @ nystroem.normalization_.T


class FeatureMap:
    """X ↦ [X, s φ(X)], fitted to contexts.

    Parameters
    ----------
    transformer : transformer
        φ, with scikit-learn's interface; it is cloned.
    X : array or CSR (m, d)
        Contexts that φ and s are fitted to.
    names : list of str, optional
        Names of the features. A φ that cannot be fitted to an array gets data frames with these columns.

    Raises
    ------
    InputError
        An object that is not a transformer, or whose output is not one finite row for each context.
    """

    names: list[str] | None = None  # also of maps in older policy files
    _last: tuple[Any, Any, Any] = None, None, None  # references to an array X and its values, and its X'

    def __init__(self, transformer: Any, X: Features, names: list[str] | None = None):
        if not (hasattr(transformer, "fit") and hasattr(transformer, "transform")):
            raise InputError(f"features is {transformer!r}, expected a transformer such as Nystroem()")
        X = X[:: -(-X.shape[0] // MOST_FITTED)] if X.shape[0] > MOST_FITTED else X
        self.n_features, self.scale = X.shape[1], 1.0
        try:
            transformed = self._fit(transformer, X)
        except (ValueError, TypeError, LookupError, AttributeError):
            if names is None:
                raise
            self.names = names
            transformed = self._fit(transformer, X)
        self.n_mapped = transformed.shape[1]
        square_of_map, square_of_x = _mean_square(transformed), _mean_square(X)
        if square_of_map > 0 and square_of_x > 0:
            self.scale = float(np.sqrt(square_of_x / square_of_map))

    def __repr__(self) -> str:
        return f"FeatureMap({self.transformer!r})"

    def __call__(self, X: Features) -> Features:
        """Return X', which is sparse if X is. The map remembers X' of the last read-only array as long as it exists."""
        if X.shape[1] != self.n_features:
            raise InputError(f"X has {X.shape[1]} features, expected {self.n_features}")
        values = X.data if sparse.issparse(X) else np.asarray(X)
        last, last_values, mapped = self._last
        if last is not None and last() is X and last_values() is values:
            return mapped
        mapped = map_rows(X, self._extend)
        if not values.flags.writeable:
            self._last = ref(X, partial(_forget, ref(self))), ref(values), mapped
        return mapped

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to store, without the remembered X'."""
        return {name: value for name, value in vars(self).items() if name != "_last"}

    def _extend(self, X: Features) -> Features:
        transformed = self.scale * self._transform(X)
        if sparse.issparse(X):
            return sparse.csr_array(sparse.hstack([X, transformed], format="csr"))
        return np.hstack([X, transformed.toarray() if sparse.issparse(transformed) else transformed])

    def unmap(self, mapped: Features) -> Features:
        """Return X from X'."""
        return mapped[:, : self.n_features]

    def pull_back(self, policy: Any) -> Any:
        """Return a policy over X' as a policy over X, which maps its features."""
        policy = copy(policy)
        policy.features = self
        return policy

    def pad_policy(self, policy: Any) -> Any:
        """Return a policy over X as a policy over X' that ignores φ(X); any other policy, or None, is unchanged."""
        if len(getattr(policy, "coef", ())) != self.n_features:
            return policy
        padded = type(policy)(self.pad_coefficients(policy.coef), policy.intercept, policy.features)
        return padded.with_exploration(policy.explore)

    def pad_coefficients(self, coef: np.ndarray) -> np.ndarray:
        """Return coefficients of X' that are 0 for φ(X)."""
        return np.concatenate([coef, np.zeros((self.n_mapped, *coef.shape[1:]))])

    def _fit(self, transformer: Any, X: Features) -> Features:
        """Fit a clone of a transformer, and return φ(X)."""
        with config_context(transform_output="default"):
            self.transformer = clone(transformer).fit(self._named(X))
        return self._transform(X)

    def _transform(self, X: Features) -> Features:
        with config_context(transform_output="default"):  # data frames have no sparse features
            transformed = check_features(self.transformer.transform(self._named(X)), "features' transform")
        if transformed.shape[0] != X.shape[0]:
            raise InputError(f"features' transform has {transformed.shape[0]} rows, expected {X.shape[0]}")
        return transformed

    def _named(self, X: Features) -> Any:
        """Return X as a data frame if the features have names."""
        return X if self.names is None else pd.DataFrame(X, columns=self.names)


def _forget(feature_map: ref[FeatureMap], _: Any) -> None:
    """Delete the remembered X' of a map, because its array X is gone."""
    if (owner := feature_map()) is not None:
        vars(owner).pop("_last", None)


class FittedTransformer(TransformerMixin, BaseEstimator):
    """Base class of transformers whose models are fitted before they are made."""

    def __sklearn_clone__(self) -> Self:
        return self

    def fit(self, X: Features, y: Any = None) -> Self:
        return self


def policy_of_logits(transformer: FittedTransformer, X: Features, n_actions: int, factor: float = 1.0) -> SoftmaxPolicy:
    """Return the policy whose K logits are a transformer's output times a factor; contexts X scale the feature map."""
    features = FeatureMap(transformer, X)
    coef = features.pad_coefficients(np.zeros((X.shape[1], n_actions)))
    coef[-n_actions:] = factor * np.eye(n_actions) / features.scale
    return SoftmaxPolicy(coef, features=features)


def as_transformer(features: object) -> Any:
    """Return a transformer from a name and a size, ``{"nystroem": 300}``; any other object is returned unchanged."""
    if not isinstance(features, Mapping):
        return features
    return MedianNystroem(parse_feature_map(features))


def _mean_square(X: Features) -> float:
    return float((X.multiply(X) if sparse.issparse(X) else X * X).sum() / X.shape[0])
