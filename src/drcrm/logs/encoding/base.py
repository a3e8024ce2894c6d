"""Interface of the encodings, which turn features that a reader returns into X, and the encoding of arrays."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from drcrm.actions import ACTIONS, split_contexts
from drcrm.actions.action_lists import ActionLists
from drcrm.actions.base import Actions
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.tables import Table
from drcrm.errors import InputError
from drcrm.policies.trees.encoded_columns import EncodedColumn, number_columns

MATRIX = "\0X"  # name of a column that has all features as a matrix; no column of a file has it


class Contexts(NamedTuple):
    """Features of m contexts, not yet encoded.

    Attributes
    ----------
    features : Table
        A row for each context; for lists of actions, a row for each candidate, list after list. Either the columns of
        a table or a matrix, named ``MATRIX``.
    starts : integer array (m + 1,), optional
        First row of each list, and the number of rows; None if there are no lists.
    """

    features: Table
    starts: np.ndarray | None = None


def number_rows(data: Any) -> Any:
    """Return a frame with the numbers of its rows as index; other data unchanged."""
    return data.set_axis(range(len(data))) if isinstance(data, pd.DataFrame) else data


class Encoding(ABC):
    """Encoding of features as X, with the names of the actions. A policy file stores it.

    Each class has a ``fit(features, kind, names, rows, starts)``, which returns the encoding of selected rows, a mask,
    of a table of features. ``starts`` are those of the lists. By default, all rows are selected.

    Attributes
    ----------
    kind : "single", "labels" or "lists"
        Kind of the actions.
    names : list of str or int
        Names of the actions or labels; empty for lists.
    n_features : int
        Number of columns of X.
    interactions : int or None
        Largest number of features of listed actions that are multiplied; None if only the products of a feature of the
        candidate and one of the context are features.
    type_name : str
        Name of this class in a policy file.
    """

    kind: str
    names: list
    n_features: int
    interactions: int | None = None
    type_name: str

    @property
    def actions(self) -> Actions:
        """The action space of a policy on these features."""
        return ACTIONS[self.kind].create(len(self.names))

    @abstractmethod
    def encode(self, features: Table) -> Features:
        """Return X, array or CSR: a row for each row of the table."""

    def read(self, data: Any) -> Contexts:
        """Return the contexts in the form that users pass; InputError if the class accepts only ``Contexts``."""
        raise InputError(f"expected Contexts, got {type(data).__name__}")

    def contexts(self, data: Any) -> Features | ActionLists:
        """Return X, array or CSR (m, d), or the lists of actions."""
        features, starts = data if isinstance(data, Contexts) else self.read(number_rows(data))
        actions = self.actions.over(starts)
        return actions.unbind(self.encode(features))

    def unseen(self, features: Table) -> dict[str, int]:
        """Return the number of rows with an unknown value, by reason, for example a new category."""
        return {}

    @property
    def readable_columns(self) -> list[EncodedColumn]:
        """The columns of the table that a policy tree can split."""
        return []

    def as_dict(self) -> dict:
        """Return the content that the header of a policy file stores."""
        content = {field.name: getattr(self, field.name) for field in fields(self) if field.init}  # type: ignore[arg-type]
        return {"of": self.type_name, **content}


@dataclass(frozen=True)
class ArrayEncoding(Encoding):
    """Identity: X is used as stored."""

    kind: str
    names: list
    n_features: int

    type_name = "arrays"

    @classmethod
    def fit(
        cls, features: Table, kind: str, names: list, rows: np.ndarray | None = None, starts: np.ndarray | None = None
    ) -> Self:
        """Return the encoding; it needs only the number of features."""
        return cls(kind, names, features.columns[MATRIX].shape[1])

    def encode(self, features: Table) -> Features:
        """Return X; InputError unless it has as many features as the training log."""
        X = features.columns[MATRIX]
        if X.shape[1] != self.n_features:
            raise InputError(f"X has {X.shape[1]} features, expected {self.n_features}")
        return X

    @property
    def readable_columns(self) -> list[EncodedColumn]:
        return number_columns(self.n_features)

    def read(self, data: Features | ActionLists) -> Contexts:
        """Return the contexts of an array (m, d), or of lists of actions."""
        return array_contexts(data)


def array_contexts(X: Features | ActionLists) -> Contexts:
    """Return the contexts of an array (m, d), or of lists of actions."""
    features, starts = split_contexts(X)
    return Contexts(Table(features.shape[0], {MATRIX: features}), starts)
