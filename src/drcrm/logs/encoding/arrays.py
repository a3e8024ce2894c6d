"""Features that a file already stores as arrays; their encoding leaves them unchanged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drcrm.actions import split_contexts
from drcrm.actions.action_lists import ActionLists
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.tables import Table
from drcrm.errors import InputError
from drcrm.logs.encoding.base import MATRIX, Contexts, Encoding, ReadableColumn


@dataclass(frozen=True)
class ArrayEncoding(Encoding):
    """Identity: X is used as stored."""

    kind: str
    names: list
    n_features: int

    type_name = "arrays"

    def __post_init__(self) -> None:
        self.check()
        if type(self.n_features) is not int or self.n_features < 1:
            raise ValueError(f"n_features is {self.n_features!r}, expected a positive integer")

    @classmethod
    def fit(
        cls, features: Table, kind: str, names: list, rows: np.ndarray | None = None, starts: np.ndarray | None = None
    ) -> ArrayEncoding:
        """Return the encoding; it needs only the number of features."""
        return cls(kind, names, features.columns[MATRIX].shape[1])

    def encode(self, features: Table) -> Features:
        """Return X; InputError unless it has as many features as the training log."""
        X = features.columns[MATRIX]
        if X.shape[1] != self.n_features:
            raise InputError(f"X has {X.shape[1]} features, expected {self.n_features}")
        return X

    def read(self, data: Features | ActionLists) -> Contexts:
        """Return the contexts of an array (m, d), or of lists of actions."""
        return array_contexts(data)

    @property
    def readable_columns(self) -> list[ReadableColumn]:
        return [ReadableColumn(place, f"feature {place}") for place in range(self.n_features)]


def array_contexts(X: Features | ActionLists) -> Contexts:
    """Return the contexts of an array (m, d), or of lists of actions."""
    features, starts = split_contexts(X)
    return Contexts(Table(features.shape[0], {MATRIX: features}), starts)
