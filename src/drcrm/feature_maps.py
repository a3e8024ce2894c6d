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

from .core.actions import Actions
from .core.cost_model import action_effects
from .core.policies import LinearPolicy
from .core.validation import Features, check_features, whole_number
from .errors import InputError

SAMPLE = 1000  # contexts of which the median distance is taken
DEPTH = 5  # of random trees


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


MAPS = {
    "nystroem": MedianNystroem,
    "random_trees": lambda trees: RandomTreesEmbedding(trees, max_depth=DEPTH, random_state=0),
}


def as_transformer(features: object, name: str = "features"):
    """Return a transformer, of the name of a kind and its size: ``{"nystroem": 300}``, ``{"random_trees": 30}``."""
    if not isinstance(features, Mapping):
        return features
    if len(features) != 1 or set(features) - set(MAPS):
        raise InputError(f"{name} is {dict(features)!r}, expected one of {', '.join(MAPS)}, with its size")
    [(kind, size)] = features.items()
    return MAPS[kind](whole_number(size, f"{name}.{kind}"))


def _mean_square(X: Features) -> float:
    return float((X.multiply(X) if sparse.issparse(X) else X * X).sum() / X.shape[0])
