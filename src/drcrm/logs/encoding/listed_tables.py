"""Lists of actions from a table with a row for each candidate or a list of objects in each row, and their encoding.

The features of a context are the columns that never differ within a list. In π(a|x) ∝ exp(ψ_a·θ), they matter only as
products with the features of the candidates.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import sparse

from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.tables import Table
from drcrm.errors import InputError, import_extra
from drcrm.logs.encoding.base import Contexts, Encoding, further_factors, pair_entries
from drcrm.logs.encoding.columns import id_marks, numbers, reject_values
from drcrm.logs.encoding.tables import MISSING_INDICATOR, SPARSE, TableEncoding, select_columns

PANDAS_OPTIONS = {"integer_object_nulls": True, "split_blocks": True}  # whole numbers stay whole next to missing values


def nested_fields(header: list[str], names: Sequence[str], list_id: str | None) -> list[str]:
    """Return the names such as ``items.price`` that are fields of the objects in the lists of the column ``items``."""
    is_nested = list_id in header
    return [name for name in names if is_nested and name.startswith(f"{list_id}.") and name not in header]


def explode_lists(
    tables: Iterable[Any], list_id: str, fields: Callable[[], list[str]], positions: Sequence[str | None]
) -> Iterator[Any]:
    """Yield Arrow tables with a row for each object in the lists of a column, if its objects have ``fields``.

    The column becomes the number of the list. A column of ``positions``, from 0, becomes 1 in the row of this position,
    and 0 in the others, unless it is a field itself.
    """
    arrow, first = import_extra("pyarrow"), 0
    for table in tables:
        if not (names := fields()):
            yield table
            continue
        objects, sizes = objects_of_lists(table[list_id].combine_chunks(), list_id, first)
        if absent := [name for name in names if name not in objects.column_names]:
            available = ", ".join(objects.column_names)
            raise InputError(f"the objects in {list_id!r} have no field for {absent[0]!r}, expected one of {available}")
        rows, starts = np.repeat(np.arange(len(table)), sizes), np.append(0, np.cumsum(sizes))
        result = table.drop_columns(list_id).take(rows).append_column(list_id, arrow.array(first + rows))
        for name in names:
            result = result.append_column(name, objects[name])
        for name in {*positions} & {*table.column_names}:
            label, expected = f"position {name!r}", "a position in the list, from 0 to its number of objects minus 1"
            places = numbers(table[name].to_pandas(**PANDAS_OPTIONS), label, expected)
            is_bad = (places != np.round(places)) | (places < 0) | (places >= sizes)
            reject_values(is_bad, places, label, expected, np.arange(first, first + len(table)))
            is_chosen = np.zeros(len(rows), dtype=np.int8)
            is_chosen[starts[:-1] + places.astype(int)] = 1
            result = result.set_column(result.column_names.index(name), name, arrow.array(is_chosen))
        first += len(table)
        yield result


def objects_of_lists(lists: Any, name: str, first: int) -> tuple[Any, np.ndarray]:
    """Return the fields of the objects in lists as an Arrow table, and the number of objects in each list, (m,)."""
    arrow = import_extra("pyarrow")
    if not (arrow.types.is_list(lists.type) or arrow.types.is_large_list(lists.type)):
        raise InputError(f"list {name!r} must be a column of lists of objects, because its fields are used")
    sizes = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    if not sizes.all():
        raise InputError(f"row {first + int(np.argmin(sizes))} has no object in {name!r}, expected at least one")
    objects = lists.flatten()
    if not arrow.types.is_struct(objects.type):  # texts of objects, from JSON
        cells = [json.loads(text) if text and text.startswith("{") else None for text in objects.to_pylist()]
        if None in cells:
            raise InputError(f'the lists in {name!r} must have objects such as {{"price": 2.5}}')
        keys = dict.fromkeys(key for cell in cells for key in cell)
        columns = {f"{name}.{key}": arrow.array([cell.get(key) for cell in cells], arrow.string()) for key in keys}
        return arrow.table(columns), sizes
    return flatten_objects(arrow.table({name: objects})), sizes


def flatten_objects(table: Any) -> Any:
    """Return an Arrow table with a column such as ``user.age`` for each field of nested objects.

    A field is left out if the table has another column of this name.
    """
    is_nested = import_extra("pyarrow").types.is_struct
    while any(map(is_nested, kinds := table.schema.types)):
        columns = set(table.column_names)
        are_fields = [is_nested(kind) for kind in kinds for _ in range(kind.num_fields if is_nested(kind) else 1)]
        table = table.flatten()
        flat = enumerate(zip(table.column_names, are_fields, strict=True))
        table = table.select([place for place, (name, is_field) in flat if not (is_field and name in columns)])
    return table


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
        See :func:`drcrm.logs.encoding.base.further_factors`; ψ also has these products.
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
