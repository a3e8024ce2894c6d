"""Features that a file already stores as arrays; their encoding leaves them unchanged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drcrm.actions.action_lists import ActionLists
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.validation import check_features
from drcrm.errors import InputError
from drcrm.logs.encoding.base import ContextFeatures, Encoding


@dataclass(frozen=True)
class Arrays(ContextFeatures):
    """Features of m contexts, an array or CSR (m, d), or their lists of actions."""

    X: Features | ActionLists

    def __len__(self) -> int:
        return self.X.shape[0]

    def take(self, rows: np.ndarray | slice) -> Arrays:
        return Arrays(self.X[rows])

    def fit(self, kind: str, names: list, rows: np.ndarray | None = None) -> ArrayEncoding:
        return ArrayEncoding(kind, names, self.X.shape[1])

    def arrays(self) -> dict[str, Features]:
        if isinstance(self.X, ActionLists):
            return {"features": self.X.features, "starts": self.X.starts}
        return {"X": self.X}

    def rebuild(self, size: int, arrays: dict[str, Features], values: dict[str, list[str]]) -> Arrays:
        return Arrays(arrays["X"] if "X" in arrays else ActionLists(**arrays))


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

    def contexts(self, data: Arrays | Features | ActionLists) -> Features | ActionLists:
        """Return X; InputError unless it has the kind and the number of features of the training log."""
        X = data.X if isinstance(data, Arrays) else data
        if isinstance(X, ActionLists) != (self.kind == "lists"):
            raise InputError(f"X is of type {type(X).__name__}, expected contexts like those of the training log")
        X = X if self.kind == "lists" else check_features(X)
        if X.shape[1] != self.n_features:
            raise InputError(f"X has {X.shape[1]} features, expected {self.n_features}")
        return X
