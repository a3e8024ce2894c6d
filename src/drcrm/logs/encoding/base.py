"""Features that a reader returns, and the interface of the encodings that turn them into X."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from drcrm.actions.action_lists import ActionLists, candidates_of_lists, starts_of_lists
from drcrm.actions.base import Actions
from drcrm.actions.inference import actions_of_kind
from drcrm.arrays.mapped_arrays import Features, count_bytes, slice_rows

MATRIX = "\0X"  # name of an array with a column for each feature; no column of a table has it


@dataclass(frozen=True)
class ContextFeatures:
    """Features of m contexts, not yet encoded. A reader returns them batch by batch.

    Attributes
    ----------
    encoder : callable
        ``encoder(features, kind, names, rows)`` returns the encoding fitted to selected rows of the arrays, a mask;
        None selects all rows.
    size : int
        Number of rows of each array.
    arrays : dict of array or CSR (size, …)
        A row for each context; for lists of actions, a row for each candidate, list after list. Either the columns of
        a table or a matrix, named ``MATRIX``.
    values : dict of list of str
        For each array of codes, the values whose places are the codes.
    starts : integer array (m + 1,), optional
        First row of each list, and the number of rows; None if there are no lists.
    missing : mapping of int
        Number of missing values by column. A selection does not have it.
    """

    encoder: Callable[..., Encoding]
    size: int
    arrays: Mapping[str, Features]
    values: Mapping[str, list[str]] = field(default_factory=dict)
    starts: np.ndarray | None = None
    missing: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.size if self.starts is None else len(self.starts) - 1

    @property
    def matrix(self) -> Features | None:
        """The features as a matrix; None if they are columns of a table."""
        return self.arrays.get(MATRIX)

    @property
    def numbers(self) -> dict[str, np.ndarray]:
        """The arrays without codes: the numeric columns of a table."""
        return {name: values for name, values in self.arrays.items() if name not in self.values}

    @property
    def nbytes(self) -> int:
        return sum(map(count_bytes, self.arrays.values()))

    def take(self, contexts: np.ndarray | slice) -> ContextFeatures:
        """Return the features of selected contexts, which are a mask, row numbers or a slice with a start."""
        rows, starts = contexts, self.starts
        if starts is not None:
            starts = starts_of_lists(starts, contexts)
            if isinstance(contexts, slice):
                rows = slice(self.starts[contexts.start], self.starts[contexts.start] + starts[-1])
            else:
                rows = candidates_of_lists(self.starts, contexts)
        size = len(np.broadcast_to(True, self.size)[rows])
        arrays = {
            name: slice_rows(values, rows) if isinstance(rows, slice) else values[rows]
            for name, values in self.arrays.items()
        }
        return replace(self, size=size, arrays=arrays, starts=starts, missing={})

    def fit(self, kind: str, names: list, contexts: np.ndarray | None = None) -> Encoding:
        """Return the encoding fitted to selected contexts, a mask (m,), by default to all."""
        is_fitted = contexts if contexts is None or self.starts is None else np.repeat(contexts, np.diff(self.starts))
        return self.encoder(self, kind, names, is_fitted)


@dataclass(frozen=True)
class ReadableColumn:
    """A column of X that people can read: a number x = mean + scale X, or whether a feature has a category.

    Attributes
    ----------
    place : int
        Number of the column.
    feature : str
        Name of the feature.
    category : str or None
        The category that the column indicates; None for a number.
    mean, scale : float
    """

    place: int
    feature: str
    category: str | None = None
    mean: float = 0.0
    scale: float = 1.0


def require_distinct(name: str, values: Collection, *types: type) -> None:
    """Raise ValueError unless the values are of the types, no two of them with the same text."""
    if not all(type(value) in types for value in values) or len({*map(str, values)}) < len(values):
        kinds = " or ".join(kind.__name__ for kind in types)
        raise ValueError(f"{name} must be different values of type {kinds}")


class Encoding(ABC):
    """Encoding of features as X, with the names of the actions. A policy file stores it.

    Attributes
    ----------
    kind : "single", "labels" or "lists"
        Kind of the actions.
    names : list of str or int
        Names of the actions or labels; empty for lists.
    n_features : int
        Number of columns of X.
    type_name : str
        Name of this class in a policy file.
    """

    kind: str
    names: list
    n_features: int
    type_name: str

    @property
    def actions(self) -> Actions:
        """The action space of a policy on these features."""
        return actions_of_kind(self.kind, len(self.names))

    @abstractmethod
    def contexts(self, data: Any) -> Features | ActionLists:
        """Return X, array or CSR (m, d), or the lists of actions."""

    def unseen(self, data: Any) -> dict[str, int]:
        """Return the number of rows with an unknown value, by reason, for example a new category."""
        return {}

    @property
    def readable_columns(self) -> list[ReadableColumn]:
        """Return the columns of X that people can read; none by default."""
        return []

    def check(self, *kinds: str) -> None:
        """Raise ValueError unless the actions are of one of these kinds and have different names."""
        if self.kind not in kinds or not isinstance(self.names, list):
            raise ValueError(f"kind is {self.kind!r}, expected {' or '.join(kinds)}, and names must be a list")
        require_distinct("names", self.names, str, int)
        if bool(self.names) == (self.kind == "lists"):
            raise ValueError(f"names has {len(self.names)} entries")

    def as_dict(self) -> dict:
        """Return the content that the header of a policy file stores."""
        content = {field.name: getattr(self, field.name) for field in fields(self) if field.init}  # type: ignore[arg-type]
        return {"of": self.type_name, **content}
