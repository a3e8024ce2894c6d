"""Features that have names, as Vowpal Wabbit's formats have them: hashed, alone or as products of an action's and the
context's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from drcrm.actions.action_lists import ActionLists
from drcrm.arrays.mapped_arrays import slice_rows
from drcrm.arrays.validation import append_constant
from drcrm.errors import InputError
from drcrm.logs.records import Data

Pairs = list[tuple[str, float]]
HASHED = 2**18
AT_ONCE = 2**17  # rows whose entries are looked at together
PARTED = " × "  # the names of a product


@dataclass(frozen=True)
class Named(Data):
    """Contexts with named features, of single actions.

    Attributes
    ----------
    hashed : CSR (m, 2¹⁸)
        The features in the columns that their names are hashed to.
    """

    hashed: sparse.csr_array

    @classmethod
    def of(cls, rows: Iterable[Pairs]) -> Named:
        matrix, names = _named(rows)
        column, sign = _hash(names)
        row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        return cls(_summed(row, column[matrix.indices], sign[matrix.indices] * matrix.data, matrix.shape[0]))

    def __len__(self) -> int:
        return self.hashed.shape[0]

    def take(self, rows: np.ndarray | slice) -> Named:
        return Named(slice_rows(self.hashed, rows) if isinstance(rows, slice) else self.hashed[rows])

    def fit(self, kind: str, names: list, rows: np.ndarray | None = None) -> NamedEncoding:
        return NamedEncoding(kind, names, kept_columns(self.hashed, rows))

    def arrays(self) -> dict[object, sparse.csr_array]:
        return {"hashed": self.hashed}

    def with_arrays(self, size, arrays, codes, values) -> Named:
        return Named(**arrays)


@dataclass(frozen=True)
class Lists(Data):
    """Contexts with lists of actions.

    Attributes
    ----------
    hashed : CSR (N, 2¹⁸)
        ψ of all actions, list after list, in hashed columns: their own features, and products with their contexts'.
    starts : integer array (m + 1,)
        Where each list begins.
    """

    hashed: sparse.csr_array
    starts: np.ndarray

    @classmethod
    def of(cls, contexts: Iterable[Pairs], lists: list[list[Pairs]]) -> Lists:
        """Return lists of the features of contexts, and of their actions."""
        starts = np.append(0, np.cumsum([len(each) for each in lists], dtype=np.intp))
        shared, shared_names = _named(contexts)
        own, own_names = _named(pairs for each in lists for pairs in each)
        candidate = np.repeat(np.arange(own.shape[0]), np.diff(own.indptr))
        context = np.repeat(np.arange(len(lists)), np.diff(starts))[candidate]
        many = np.diff(shared.indptr)[context]
        first = np.repeat(np.arange(own.nnz), many)
        within = np.arange(len(first)) - np.repeat(np.cumsum(many) - many, many)
        second = shared.indptr[context][first] + within
        width = shared.shape[1]
        pairs, pair = np.unique(
            own.indices[first].astype(np.int64) * width + shared.indices[second], return_inverse=True
        )
        names = [f"{own_names[at // width]}{PARTED}{shared_names[at % width]}" for at in pairs]
        (column, sign), (own_column, own_sign) = _hash(names), _hash(own_names)
        with np.errstate(over="ignore"):
            products = sign[pair] * own.data[first] * shared.data[second]
        hashed = _summed(
            np.concatenate([candidate, candidate[first]]),
            np.concatenate([own_column[own.indices], column[pair]]),
            np.concatenate([own_sign[own.indices] * own.data, products]),
            own.shape[0],
        )
        return cls(hashed, starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, rows: np.ndarray | slice) -> Lists:
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            starts = self.starts[start : stop + 1]
            return Lists(slice_rows(self.hashed, slice(starts[0], starts[-1])), starts - starts[0])
        sizes = np.diff(self.starts)[rows]
        starts = np.append(0, np.cumsum(sizes))
        places = np.repeat(self.starts[:-1][rows] - starts[:-1], sizes) + np.arange(starts[-1])
        return Lists(self.hashed[places], starts)

    def fit(self, kind: str, names: list, rows: np.ndarray | None = None) -> ListEncoding:
        candidates = None if rows is None else np.repeat(rows, np.diff(self.starts))
        return ListEncoding(kind, names, kept_columns(self.hashed, candidates))

    def arrays(self) -> dict[object, np.ndarray | sparse.csr_array]:
        return {"hashed": self.hashed, "sizes": np.diff(self.starts)}

    def with_arrays(self, size, arrays, codes, values) -> Lists:
        return Lists(arrays["hashed"], np.append(0, np.cumsum(arrays["sizes"])))


@dataclass(frozen=True)
class _Hashed:
    """What encodings of named features share.

    Parameters
    ----------
    kind : "single" or "lists"
    names : list of str or int
        Of the actions.
    kept : list of int
        The hashed columns that were seen, in order.
    """

    kind: str
    names: list
    kept: list[int]

    of = ""

    def unseen(self, data: Named | Lists) -> dict[str, int]:
        """Return how many contexts, or listed actions, have features that were not among those fitted."""
        hashed = data.hashed
        is_new = self._place[hashed.indices] < 0
        rows = np.unique(np.repeat(np.arange(hashed.shape[0]), np.diff(hashed.indptr))[is_new])
        return {"new features": len(rows)} if len(rows) else {}

    def as_dict(self) -> dict:
        return {"of": self.of, "kind": self.kind, "names": self.names, "kept": self.kept}

    @classmethod
    def of_dict(cls, given: dict):
        kept = [int(at) for at in given["kept"]]
        if not all(0 <= at < HASHED for at in kept):
            raise ValueError(f"columns beyond {HASHED}")
        return cls(given["kind"], given["names"], kept)

    def _columns(self, data: Named | Lists) -> sparse.csr_array:
        """The features in the columns kept."""
        hashed = data.hashed
        column = self._place[hashed.indices]
        is_kept = column >= 0
        at = np.append(hashed.indptr[:1], np.cumsum(is_kept, dtype=hashed.indptr.dtype))[hashed.indptr]
        return sparse.csr_array((hashed.data[is_kept], column[is_kept], at), (hashed.shape[0], len(self.kept)))

    @property
    def _place(self) -> np.ndarray:
        place = np.full(HASHED, -1, dtype=np.int32)
        place[self.kept] = np.arange(len(self.kept))
        return place


class NamedEncoding(_Hashed):
    """Named features of contexts ↦ X: their names hashed, of which those seen are kept, and last a constant 1."""

    of = "named"

    @property
    def n_features(self) -> int:
        return len(self.kept) + 1

    def contexts(self, data: Named) -> sparse.csr_array:
        """Return X, CSR (m, d)."""
        if not isinstance(data, Named):
            raise InputError("the contexts are lists of actions, expected lines with features of the context alone")
        return sparse.csr_array(append_constant(self._columns(data)))


class ListEncoding(_Hashed):
    """Lists of actions ↦ ψ: an action's own features and their products with the context's, hashed, those seen kept.

    Without the products the context's features would cancel: π(a|x) ∝ exp(ψ_a·θ).
    """

    of = "lists"

    @property
    def n_features(self) -> int:
        return len(self.kept)

    def contexts(self, data: Lists) -> ActionLists:
        """Return the lists."""
        if not isinstance(data, Lists):
            raise InputError("the contexts are no lists of actions, as those that were learned from")
        if not self.kept:
            raise InputError("no action has features of its own, expected some that tell the actions of a list apart")
        return ActionLists(self._columns(data), data.starts)


def kept_columns(hashed: sparse.csr_array, rows: np.ndarray | None = None) -> list[int]:
    """Return the hashed columns that have entries in some rows, by a mask, by default in all."""
    is_kept = np.zeros(HASHED, dtype=bool)
    for start in range(0, hashed.shape[0], AT_ONCE):
        block = slice_rows(hashed, slice(start, start + AT_ONCE))
        entries = slice(None) if rows is None else np.repeat(rows[start : start + AT_ONCE], np.diff(block.indptr))
        is_kept[block.indices[entries]] = True
    return np.flatnonzero(is_kept).tolist()


def _named(rows: Iterable[Pairs]) -> tuple[sparse.csr_array, list[str]]:
    """Rows of named features as a matrix, (rows, names), and the names."""
    place, at, values, starts = {}, [], [], [0]
    for row in rows:
        at += [place.setdefault(name, len(place)) for name, _ in row]
        values += [value for _, value in row]
        starts.append(len(at))
    shape = (len(starts) - 1, max(len(place), 1))
    matrix = sparse.csr_array((np.array(values, dtype=float), np.array(at, dtype=np.int64), starts), shape)
    return matrix, list(place)


def _hash(names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """The column and the sign of each name."""
    from sklearn.feature_extraction import FeatureHasher  # takes half a second, and most logs do without

    found = FeatureHasher(HASHED, input_type="string").transform(
        [[name.encode("utf-8", "surrogatepass")] for name in names] or [[b""]]
    )
    return found.indices[: len(names)], found.data[: len(names)]


def _summed(rows: np.ndarray, columns: np.ndarray, values: np.ndarray, many: int) -> sparse.csr_array:
    places = rows.astype(np.int32), columns.astype(np.int32)
    return sparse.csr_array(sparse.coo_array((values, places), (many, HASHED)))
