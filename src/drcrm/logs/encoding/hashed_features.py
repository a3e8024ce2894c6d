"""Named features of Vowpal Wabbit's formats, hashed to columns. Lists of actions add products of features.

A reader yields the features of a context or an action as pairs of a name and a value. A missing value is NaN: its pair
is counted and left out, like a feature that an event does not name.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import comb, prod
from typing import Any, Self

import numpy as np
from scipy import sparse

from drcrm.arrays.mapped_arrays import slice_rows
from drcrm.arrays.tables import Table
from drcrm.arrays.validation import append_constant
from drcrm.errors import InputError
from drcrm.logs.encoding.base import MATRIX, Contexts, Encoding

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
