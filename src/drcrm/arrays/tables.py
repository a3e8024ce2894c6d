"""Tables of named columns, and their collection batch by batch, in memory or in memory-mapped files."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from drcrm.arrays.mapped_arrays import ArrayWriter, Features, count_bytes, slice_rows, write_blocks


@dataclass(frozen=True, eq=False)
class Table:
    """Columns with a value in each of n rows.

    Attributes
    ----------
    size : int
        n.
    columns : mapping of array or CSR (n, …)
        Columns by name; those that are None are left out.
    values : mapping of list
        For each column of codes, the values whose places are the codes.
    missing : mapping of int
        Number of missing values by column. A selection of rows does not have it.
    """

    size: int
    columns: Mapping[Any, Features] = field(default_factory=dict)
    values: Mapping[Any, list] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        columns = {name: column for name, column in self.columns.items() if column is not None}
        object.__setattr__(self, "columns", columns)

    def __getitem__(self, rows: slice | np.ndarray) -> Self:
        """Return selected rows: a mask, row numbers, or a slice, which gives views."""
        size = len(np.broadcast_to(True, self.size)[rows])
        columns = {
            name: slice_rows(column, rows) if isinstance(rows, slice) else column[rows]
            for name, column in self.columns.items()
        }
        return replace(self, size=size, columns=columns, missing={})

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.size, len(self.columns)

    @property
    def numbers(self) -> dict[str, np.ndarray]:
        """The columns without codes."""
        return {name: column for name, column in self.columns.items() if name not in self.values}

    @property
    def nbytes(self) -> int:
        return sum(map(count_bytes, self.columns.values()))

    def assign(self, **columns: Any) -> Self:
        """Return the table with other columns of these names; a column that is None is left out."""
        return replace(self, columns={**self.columns, **columns})

    def get(self, name: str) -> Any:
        """Return a column; None if the table does not have it."""
        return self.columns.get(name)

    def texts(self, name: str) -> np.ndarray:
        """Return the values of a column of codes, (n,)."""
        return np.array(self.values[name], dtype=object)[self.columns[name]]


class TableCollector:
    """Join tables with the same columns: call ``append`` for each table, then ``finish``, and finally ``close``.

    Codes become places among the values of all tables, in order of first appearance.

    Parameters
    ----------
    path : Path, optional
        Prefix of the file paths; by default the columns are in memory.

    Attributes
    ----------
    nbytes : int
        Size of all columns.
    """

    def __init__(self, path: Path | None = None):
        self.nbytes, self._path, self._size = 0, path, 0
        self._batches: dict[Hashable, list[Features]] = {}
        self._writers: dict[Hashable, ArrayWriter] = {}
        self._numbers: dict[Hashable, dict[str, int]] = {}
        self._missing: Counter[str] = Counter()

    def append(self, table: Table) -> None:
        """Append the rows of a table."""
        self._size += table.size
        self._missing.update(table.missing)
        for name, column in table.columns.items():
            if name in table.values:
                column = self._renumbered(name, column, table.values[name])
            self.nbytes += count_bytes(column)
            if self._path is None:
                self._batches.setdefault(name, []).append(column)
            else:
                self._write(self._path, name, column)

    def move_to(self, path: Path) -> None:
        """Write the columns in memory, and later batches, to files with this path prefix."""
        self._path = path
        for name in [*self._batches]:
            for values in self._batches.pop(name):
                self._write(path, name, values)

    def finish(self) -> Table:
        """Return the table of all rows; release the batches in memory column by column."""
        try:
            columns = {name: writer.finish() for name, writer in self._writers.items()}
        finally:
            self.close()
        for name in [*self._batches]:
            columns[name] = write_blocks(None, iter(self._batches.pop(name)))
        values = {name: [*numbers] for name, numbers in self._numbers.items()}
        return Table(self._size, columns, values, dict(self._missing))

    def close(self) -> None:
        """Close the files. Columns that are not finished are lost."""
        for writer in self._writers.values():
            writer.close()

    def _renumbered(self, name: Hashable, codes: np.ndarray, values: list) -> np.ndarray:
        numbers = self._numbers.setdefault(name, {})
        places = np.array([numbers.setdefault(str(value), len(numbers)) for value in values], dtype=np.int32)
        if np.array_equal(places, np.arange(len(places))):
            return codes.astype(np.int32, copy=False)
        return places[codes]

    def _write(self, path: Path, name: Hashable, values: Features) -> None:
        if name not in self._writers:
            self._writers[name] = ArrayWriter(path.with_name(f"{path.name}-{len(self._writers)}"))
        self._writers[name].append(values)


def join_tables(tables: Iterable[Table], path: Path | None = None) -> Table:
    """Return the rows of several tables, in files with this path prefix or, if it is None, in memory."""
    with closing(TableCollector(path)) as collector:
        for table in tables:
            collector.append(table)
        return collector.finish()
