"""Lists of actions from a table with a row for each candidate, and their encoding: candidates, and their products.

The features of a context are the columns that never differ within a list. In π(a|x) ∝ exp(ψ_a·θ), they matter only as
products with the features of the candidates.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import sparse

from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.tables import Table
from drcrm.errors import InputError
from drcrm.logs.encoding.base import Contexts, Encoding
from drcrm.logs.encoding.columns import id_marks
from drcrm.logs.encoding.hashed_features import further_factors, pair_entries
from drcrm.logs.encoding.tables import MISSING_INDICATOR, SPARSE, TableEncoding, select_columns

MAX_PRODUCTS = 2**22


class ListIds:
    """Find the lists in the column of their ids; the rows of a list must be consecutive.

    Call ``starts_of`` for each part of the column, which must end with the last row of a list, and then ``finish``.
    """

    def __init__(self, name: str):
        self._name = name
        self._marks: list[np.ndarray] = []
        self._rows: list[np.ndarray] = []

    def starts_of(self, column: pd.Series) -> np.ndarray:
        """Return the first row of each list and the number of rows, (m + 1,).

        Raise InputError for a missing id, or if the rows of a list are not consecutive. The column's index has their
        numbers in the file.
        """
        marks = id_marks(column, f"list {self._name!r}")
        is_first = np.ones(len(marks), dtype=bool)
        is_first[1:] = marks[1:] != marks[:-1]
        starts = np.append(np.flatnonzero(is_first), len(marks))
        self._marks.append(marks[starts[:-1]])
        self._rows.append(column.index.to_numpy()[starts[:-1]])
        self._require_once(self._marks[-1], self._rows[-1])
        return starts

    def finish(self) -> None:
        """Raise InputError if the rows of a list are not consecutive."""
        if len(self._marks) > 1:
            self._require_once(np.concatenate(self._marks), np.concatenate(self._rows))

    def _require_once(self, marks: np.ndarray, rows: np.ndarray) -> None:
        again = pd.Series(marks).duplicated().to_numpy()
        if again.any():
            at = int(np.argmax(again))
            first = rows[int(np.argmax(marks == marks[at]))]
            raise InputError(
                f"rows {first} and {rows[at]} have the same {self._name}, but rows between them have another one; sort "
                f"the rows by {self._name}"
            )


def _differs(values: np.ndarray, is_pair: np.ndarray) -> bool:
    """Return whether any two consecutive rows of a list have different values."""
    first, second = values[:-1][is_pair], values[1:][is_pair]
    return bool(((first != second) & ((first == first) | (second == second))).any())


@dataclass(frozen=True)
class ListedTableEncoding(Encoding):
    """Candidates in the rows of a table ↦ ψ: their encoded features, and the products of these with the context's.

    Parameters
    ----------
    kind : "lists"
    names : list
        Empty.
    table : TableEncoding
        Encoding of all features.
    shared : list of str
        Features that are equal for all candidates of a list: those of the context.
    list_id : str
        Column of the lists' ids.
    interactions : int, optional
        See :func:`drcrm.logs.encoding.hashed_features.further_factors`; ψ also has these products.
    """

    kind: str
    names: list
    table: TableEncoding
    shared: list[str]
    list_id: str
    interactions: int | None = None

    type_name = "listed table"

    def __post_init__(self) -> None:  # JSON has a map in place of the encoding
        if isinstance(self.table, Mapping):
            table = {key: value for key, value in self.table.items() if key != "of"}
            object.__setattr__(self, "table", TableEncoding(**table))

    @classmethod
    def fit(
        cls,
        features: Table,
        kind: str,
        names: list,
        rows: np.ndarray | None = None,
        starts: np.ndarray | None = None,
        *,
        list_id: str,
        interactions: int | None = None,
        **options: Any,
    ) -> Self:
        """Return the encoding fitted to selected candidates; ``options`` are those of the encoding of a table."""
        table, firsts = TableEncoding.fit(features, kind, names, rows, **options), np.asarray(starts)[1:-1]
        is_pair = np.ones(features.size - 1, dtype=bool) if rows is None else rows[1:].copy()
        is_pair[firsts - 1] = False  # a row and the row before it are of two lists
        columns = {name: values for name, values in features.columns.items() if name in table.columns}
        shared = [name for name, values in columns.items() if not _differs(values, is_pair)]
        encoding = cls(kind, names, table, shared, list_id, interactions)
        if len(shared) == len(columns):
            raise InputError("no feature differs among the candidates of a list, expected at least one that does")
        if encoding.n_features > MAX_PRODUCTS:
            raise InputError(
                f"the features of candidates and contexts have {encoding.n_features} products, expected at most "
                f"{MAX_PRODUCTS}; remove categorical columns with many values from features, or the key interactions"
            )
        return encoding

    @property
    def n_features(self) -> int:  # type: ignore[override]
        of_candidate, shared = self._columns()
        widths = {name: len(columns) for name, columns in self._columns_by_feature().items()}
        further = sum(prod(widths[name] for name in names) for names in self._further_products())
        return len(of_candidate) * len(shared) + further

    @property
    def scales(self) -> dict[str, list[float]]:
        """Return the mean and the scale of each numeric column."""
        return self.table.scales

    @property
    def inputs(self) -> list[str]:
        """Return the columns of a table that are features, and the column of the lists' ids."""
        return list(dict.fromkeys([self.list_id, *self.table.inputs]))

    def read(self, data: pd.DataFrame, lists: ListIds | None = None) -> Contexts:
        """Return the contexts of a frame, whose index has the row numbers in messages; ``lists`` are those before."""
        starts = (lists or ListIds(self.list_id)).starts_of(select_columns(data, [self.list_id])[self.list_id])
        return Contexts(self.table.read(data).features, starts)

    def as_dict(self) -> dict:
        return super().as_dict() | {"table": self.table.as_dict()}

    def encode(self, features: Table) -> Features:
        """Return the features of all candidates, CSR if few of them differ from 0."""
        encoded = sparse.csr_array(self.table.encode(features))
        blocks = [_multiply_rows(*(encoded[:, columns] for columns in self._columns()))]
        further, n_shared = self._further_products(), len(self.shared)
        if further:
            by_feature = {name: encoded[:, columns] for name, columns in self._columns_by_feature().items()}
            blocks += [reduce(_multiply_rows, map(by_feature.__getitem__, names)) for names in further]
        X = sparse.csr_array(sparse.hstack(blocks, format="csr"))
        n_nonzero = (len(self.table.scales) + len(self.table.known) - n_shared) * (n_shared + 1) + len(further)
        return X if n_nonzero < SPARSE * self.n_features else X.toarray()

    def unseen(self, features: Table) -> dict[str, int]:
        """Return the number of candidates with an unknown value, by reason."""
        return self.table.unseen(features)

    def _columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns of an encoded table with features of candidates, and those of contexts and a constant."""
        is_shared = np.zeros(self.table.n_features, dtype=bool)
        is_shared[-1] = True
        for name, columns in self._columns_by_feature().items():
            is_shared[columns] = name in self.shared
        return np.flatnonzero(~is_shared), np.flatnonzero(is_shared)

    def _columns_by_feature(self) -> dict[str, np.ndarray]:
        """Return the columns of an encoded table of each feature, with the indicator of its missing values."""
        columns, place = self.table.columns, np.arange(self.table.n_features)
        indicators = {name: place[columns[f"{MISSING_INDICATOR}{name}"]] for name in self.table.indicators}
        features = (*self.table.scales, *self.table.known)
        return {name: np.append(place[columns[name]], indicators.get(name, [])).astype(int) for name in features}

    def _further_products(self) -> list[tuple[str, ...]]:
        """Return the features of each product that ``interactions`` adds."""
        of_candidate = [name for name in (*self.table.scales, *self.table.known) if name not in self.shared]
        return further_factors(of_candidate, self.shared, self.interactions)


def _multiply_rows(first: sparse.csr_array, second: sparse.csr_array) -> sparse.csr_array:
    """Return the products of all pairs of columns, CSR (n, columns of ``first`` times columns of ``second``)."""
    of_first, of_second = pair_entries(first, second, np.arange(first.shape[0]))
    columns = first.indices[of_first] * second.shape[1] + second.indices[of_second]
    ends = np.append(0, np.cumsum(np.diff(first.indptr) * np.diff(second.indptr)))
    products = first.data[of_first] * second.data[of_second]
    return sparse.csr_array((products, columns, ends), (first.shape[0], first.shape[1] * second.shape[1]))
