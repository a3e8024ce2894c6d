"""Features that a file already has as arrays: nothing is fitted to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drcrm.actions.action_lists import ActionLists
from drcrm.arrays.validation import Features, check_features
from drcrm.errors import InputError
from drcrm.logs.records import Data


@dataclass(frozen=True)
class Arrays(Data):
    """Features of m contexts, an array or CSR (m, d), or their lists of actions."""

    X: Features | ActionLists

    def __len__(self) -> int:
        return self.X.shape[0]

    def take(self, rows: np.ndarray | slice) -> Arrays:
        return Arrays(self.X[rows])

    def fit(self, kind: str, names: list, rows: np.ndarray | None = None) -> ArrayEncoding:
        return ArrayEncoding(kind, names, self.X.shape[1])

    def arrays(self) -> dict[object, Features]:
        if isinstance(self.X, ActionLists):
            return {"features": self.X.features, "starts": self.X.starts}
        return {"X": self.X}

    def with_arrays(self, size, arrays, codes, values) -> Arrays:
        return Arrays(arrays["X"] if "X" in arrays else ActionLists(**arrays))


@dataclass(frozen=True)
class ArrayEncoding:
    """X as it is.

    Parameters
    ----------
    kind : "single", "labels" or "lists"
    names : list of str or int
    n_features : int
    """

    kind: str
    names: list
    n_features: int

    def contexts(self, data) -> Features | ActionLists:
        """Return X; InputError where it has another number of features."""
        X = data.X if isinstance(data, Arrays) else data
        if isinstance(X, ActionLists) != (self.kind == "lists"):
            raise InputError(f"X is of type {type(X).__name__}, expected contexts as those that were learned from")
        X = X if self.kind == "lists" else check_features(X)
        if X.shape[1] != self.n_features:
            raise InputError(f"X has {X.shape[1]} features, expected {self.n_features}")
        return X

    def unseen(self, data) -> dict[str, int]:
        return {}

    def as_dict(self) -> dict:
        return {"of": "arrays", "kind": self.kind, "names": self.names, "n_features": self.n_features}

    @classmethod
    def of_dict(cls, given: dict) -> ArrayEncoding:
        return cls(given["kind"], given["names"], int(given["n_features"]))
