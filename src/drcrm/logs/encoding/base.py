"""Interface of the encodings, which turn features that a reader returns into X, and the encodings of matrices.

A matrix has features as stored, or named features in the formats of Vowpal Wabbit, hashed to columns. A reader yields
the features of a context or an action as pairs of a name and a value. A missing value is NaN: its pair is counted and
left out, like a feature that an event does not name. Lists of actions add products of features.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations, product
from math import comb, prod
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from scipy import sparse

from drcrm.actions import ACTIONS, split_contexts
from drcrm.actions.base import Actions
from drcrm.actions.one_of_many import ActionLists
from drcrm.arrays.mapped_arrays import Features, slice_rows
from drcrm.arrays.tables import Table
from drcrm.arrays.validation import append_constant
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


Pairs = list[tuple[str, float]]
N_COLUMNS = 2**18
MAX_SETS = 2**16  # sets of features that are multiplied, of one candidate
BLOCK_ROWS = 2**17  # rows whose entries are examined at once
TIMES = " × "  # between the two names of a product


def hash_contexts(contexts: Iterable[Pairs]) -> Contexts:
    """Return the hashed features of contexts, CSR (m, 2¹⁸)."""
    return Contexts(_hash_rows(contexts))


def hash_lists(contexts: Iterable[Pairs], lists: list[list[Pairs]], interactions: int | None = None) -> Contexts:
    """Return the hashed features of the N actions in the lists of contexts, CSR (N, 2¹⁸).

    They are an action's features, their products with the context's features, and those of :func:`further_factors`.
    """
    missing = Counter[str]()

    def rows() -> Iterator[Pairs]:
        for shared, actions in zip(contexts, lists, strict=True):
            missing.update(name for name, value in shared if value != value)
            for of_action in actions:
                products = [
                    (f"{name}{TIMES}{shared_name}", value * factor)
                    for name, value in of_action
                    for shared_name, factor in shared
                ]
                for factors in further_factors(sorted(of_action), sorted(shared), interactions):
                    names, values = zip(*factors, strict=True)
                    products.append((TIMES.join(names), prod(values)))
                yield of_action + [(name, value) for name, value in products if value == value]

    starts = np.append(0, np.cumsum([len(actions) for actions in lists], dtype=np.intp))
    table = _hash_rows(rows())
    return Contexts(replace(table, missing=Counter(table.missing) + missing), starts)


@dataclass(frozen=True)
class HashedEncoding(Encoding):
    """Map hashed features to X, or to the features ψ of listed actions, by the columns that occurred in training.

    X of single actions ends with a constant 1. Lists need the products, since features that all actions of a list
    share cancel in π(a|x) ∝ exp(ψ_a·θ).

    Parameters
    ----------
    kind : "single" or "lists"
    names : list of int
    kept : list of int
        Hashed columns that occurred in training, in order.
    interactions : int, optional
        See :func:`further_factors`; the hashed features of listed actions contain these products.
    """

    kind: str
    names: list
    kept: list[int]
    interactions: int | None = None

    @property
    def type_name(self) -> str:  # type: ignore[override]
        return "named" if self.actions.are_shared else "lists"

    @property
    def n_features(self) -> int:  # type: ignore[override]
        return len(self.kept) + self.actions.has_intercept

    @classmethod
    def fit(
        cls,
        features: Table,
        kind: str,
        names: list,
        rows: np.ndarray | None = None,
        starts: np.ndarray | None = None,
        *,
        interactions: int | None = None,
    ) -> Self:
        """Return the encoding by the columns that occur in selected rows."""
        return cls(kind, names, columns_in_use(features.columns[MATRIX], rows), interactions)

    def encode(self, features: Table) -> sparse.csr_array:
        """Return X, CSR (m, d), or the features of all candidates."""
        if not self.n_features:
            raise InputError("no action has features, expected features that distinguish the actions of a list")
        hashed: Any = features.columns[MATRIX]
        column = self._place[hashed.indices]
        is_kept = column >= 0
        ends = np.append(hashed.indptr[:1], np.cumsum(is_kept, dtype=hashed.indptr.dtype))[hashed.indptr]
        shape = hashed.shape[0], len(self.kept)
        X = sparse.csr_array((hashed.data[is_kept], column[is_kept], ends), shape)
        return sparse.csr_array(append_constant(X)) if self.actions.has_intercept else X

    def unseen(self, features: Table) -> dict[str, int]:
        """Return the number of contexts, or of listed actions, with features that did not occur in training."""
        hashed: Any = features.columns[MATRIX]
        is_new = self._place[hashed.indices] < 0
        rows = np.unique(np.repeat(np.arange(hashed.shape[0]), np.diff(hashed.indptr))[is_new])
        return {"new features": len(rows)} if len(rows) else {}

    @property
    def _place(self) -> np.ndarray:
        """Place of each hashed column among the kept columns; −1 for other columns."""
        place = np.full(N_COLUMNS, -1, dtype=np.int32)
        place[self.kept] = np.arange(len(self.kept))
        return place


def further_factors(of_action: Sequence, shared: Sequence, interactions: int | None) -> list[tuple]:
    """Return all sets of 2 to ``interactions`` different features that include an action's feature.

    Pairs of an action's and a context's feature are left out, because :func:`hash_lists` always adds them. Raise
    InputError if there are more than 2¹⁶ sets, with these pairs.
    """
    sizes = range(2, (interactions or 1) + 1)
    n, n_shared = len(of_action) + len(shared), len(shared)
    n_sets = sum(comb(n, size) - comb(n_shared, size) for size in sizes)
    if n_sets > MAX_SETS:
        raise InputError(
            f"interactions: {interactions} makes {n_sets} products of the {n} features of a candidate and its context, "
            f"expected at most {MAX_SETS}; name fewer features, lower interactions, or remove it"
        )
    return [
        (*first, *second)
        for size in sizes
        for n_second in range(size)
        if (size, n_second) != (2, 1)
        for first, second in product(combinations(of_action, size - n_second), combinations(shared, n_second))
    ]


def pair_entries(first: sparse.csr_array, second: sparse.csr_array, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of all pairs of an entry of row i of ``first`` and an entry of row ``row[i]`` of ``second``."""
    row_of_entry = np.repeat(row, np.diff(first.indptr))
    n_second = np.diff(second.indptr)[row_of_entry]
    place = np.repeat(np.arange(first.nnz), n_second)
    within = np.arange(len(place)) - np.repeat(np.cumsum(n_second) - n_second, n_second)
    return place, second.indptr[row_of_entry][place] + within


def hash_names(texts: Sequence[str], n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns (n,) and the signs (n,) that scikit-learn's ``FeatureHasher`` assigns to texts."""
    hashed = _hash_pairs([[(text, 1.0)] for text in texts] or [[("", 1.0)]], n_columns)
    return hashed.indices[: len(texts)], hashed.data[: len(texts)]


def columns_in_use(hashed: sparse.csr_array, rows: np.ndarray | None = None) -> list[int]:
    """Return the columns that have entries in selected rows, a mask; by default in all rows."""
    in_use = np.zeros(N_COLUMNS, dtype=bool)
    for start in range(0, hashed.shape[0], BLOCK_ROWS):
        block = slice_rows(hashed, slice(start, start + BLOCK_ROWS))
        entries = slice(None) if rows is None else np.repeat(rows[start : start + BLOCK_ROWS], np.diff(block.indptr))
        in_use[block.indices[entries]] = True
    return np.flatnonzero(in_use).tolist()


def _hash_rows(rows: Iterable[Pairs]) -> Table:
    """Return the hashed features of rows as a table, and how often each name has a missing value."""
    missing = Counter[str]()

    def known() -> Iterator[Pairs]:
        for row in rows:
            missing.update(name for name, value in row if value != value)
            yield [(name, value) for name, value in row if value == value]

    hashed = _hash_pairs(known(), N_COLUMNS)
    return Table(hashed.shape[0], {MATRIX: hashed}, missing=missing)


def _hash_pairs(rows: Iterable[Pairs], n_columns: int) -> sparse.csr_array:
    """Return the sums of the values with the same hash in each row, CSR (rows, n_columns)."""
    from sklearn.feature_extraction import FeatureHasher  # imported here: it takes half a second, and few logs need it

    encoded = ([(name.encode("utf-8", "surrogatepass"), value) for name, value in row] for row in rows)
    return sparse.csr_array(FeatureHasher(n_columns, input_type="pair").transform(encoded))
