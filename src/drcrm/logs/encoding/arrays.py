"""Features that a file already stores as arrays; their encoding leaves them unchanged."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from drcrm.actions.action_lists import ActionLists
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.validation import check_features
from drcrm.errors import InputError
from drcrm.logs.encoding.base import MATRIX, ContextFeatures, Encoding, ReadableColumn


def array_features(X: Features | ActionLists) -> ContextFeatures:
    """Return the features of m contexts, an array or CSR (m, d), or of their lists of actions."""
    if isinstance(X, ActionLists):
        return replace(array_features(X.features), starts=X.starts)
    return ContextFeatures(ArrayEncoding.fit, X.shape[0], {MATRIX: X})


@dataclass(frozen=True)
class ArrayEncoding(Encoding):
    """Identity: X is used as stored."""

    kind: str
    names: list
    n_features: int

    type_name = "arrays"

    def __post_init__(self) -> None:
        self.check("single", "labels", "lists")
        if type(self.n_features) is not int or self.n_features < 1:
            raise ValueError(f"n_features is {self.n_features!r}, expected a positive integer")

    @classmethod
    def fit(cls, features: ContextFeatures, kind: str, names: list, rows: np.ndarray | None = None) -> ArrayEncoding:
        """Return the encoding; it needs only the number of features."""
        return cls(kind, names, features.arrays[MATRIX].shape[1])

    def contexts(self, data: ContextFeatures | Features | ActionLists) -> Features | ActionLists:
        """Return X; InputError unless it has the kind and the number of features of the training log."""
        X = data
        if isinstance(data, ContextFeatures):
            X = data.matrix if data.starts is None else ActionLists(data.matrix, data.starts)
        if isinstance(X, ActionLists) != (self.kind == "lists"):
            raise InputError(f"X is of type {type(X).__name__}, expected contexts like those of the training log")
        X = X if self.kind == "lists" else check_features(X)
        if X.shape[1] != self.n_features:
            raise InputError(f"X has {X.shape[1]} features, expected {self.n_features}")
        return X

    @property
    def readable_columns(self) -> list[ReadableColumn]:
        return [ReadableColumn(place, f"feature {place}") for place in range(self.n_features)]
