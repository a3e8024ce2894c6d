"""Interfaces of the features that a reader returns, and of the encodings that turn them into X."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import fields
from typing import Any

import numpy as np

from drcrm.actions.action_lists import ActionLists
from drcrm.arrays.mapped_arrays import Features, count_bytes


class ContextFeatures(ABC):
    """Features of m contexts, not yet encoded.

    A reader returns them batch by batch. To join batches, concatenate the ``arrays()`` of the same name, renumber the
    coded ones, and pass the results to ``rebuild``.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, rows: np.ndarray | slice) -> ContextFeatures:
        """Return the features of selected contexts; ``rows`` is a mask, row numbers or a slice."""

    @abstractmethod
    def fit(self, kind: str, names: list, rows: np.ndarray | None = None) -> Encoding:
        """Return the encoding fitted to selected contexts, a mask or row numbers; by default to all."""

    @abstractmethod
    def arrays(self) -> dict[str, Features]:
        """Return all arrays by name."""

    @abstractmethod
    def rebuild(self, size: int, arrays: dict[str, Features], values: dict[str, list[str]]) -> ContextFeatures:
        """Return the features of ``size`` contexts with these arrays, and these values of the coded arrays."""

    def coded_values(self) -> dict[str, list[str]]:
        """Return a list of values for each coded array, whose entries are places in this list."""
        return {}

    def missing(self) -> dict[str, int]:
        """Return the number of missing values by column."""
        return {}

    @property
    def nbytes(self) -> int:
        return sum(map(count_bytes, self.arrays().values()))


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

    @abstractmethod
    def contexts(self, data: Any) -> Features | ActionLists:
        """Return X, array or CSR (m, d), or the lists of actions."""

    def unseen(self, data: Any) -> dict[str, int]:
        """Return the number of rows with an unknown value, by reason, for example a new category."""
        return {}

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
