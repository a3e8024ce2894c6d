"""Rows of numbers that lie on disk and are read where they are asked for: the features of a log larger than memory.

They are read, not mapped into memory, of which a pass so takes no more than a part.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from copy import copy
from io import RawIOBase
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from tempfile import mkstemp
from weakref import finalize

import numpy as np
from scipy import sparse

from ..errors import InputError

BLOCK = 2**22  # bytes that are read at once
COLUMN = np.dtype(np.int32)  # of the columns of entries on disk


class StoredRows(ABC):
    """An array (n, d) in files, row after row: ``rows[start:stop]``, ``rows[numbers]`` and ``rows[mask]`` are arrays.

    ``rows @ coef`` is one too, (n, …); of what is not asked for, nothing is held.

    Attributes
    ----------
    path : Path
    dtype : dtype
        As which the numbers lie there; what is read is float64, so that sums are.
    shape : tuple
    """

    def __init__(self, path: Path, dtype: str, shape: tuple[int, ...]):
        self.path, self.dtype, self.shape = Path(path).absolute(), np.dtype(dtype), shape
        self._first, self._extremes = 0, None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({' × '.join(map(str, self.shape))}, {self.dtype})"

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, rows):
        if isinstance(rows, slice) and rows.step in (None, 1):
            start, stop, _ = rows.indices(len(self))
            return self._read(start, max(start, stop))
        if isinstance(rows, tuple):
            return self[rows[0]][..., rows[1]]
        if isinstance(rows, Integral):
            return self[[rows]][0]
        return self._taken(np.arange(len(self))[rows])

    def __matmul__(self, coef: np.ndarray) -> np.ndarray:
        return np.concatenate([block @ coef for block in self.blocks()])

    def between(self, rows: slice) -> StoredRows:
        """Return rows that stand one after the other, which stay on disk."""
        other, (start, stop, _) = copy(self), rows.indices(len(self))
        other._first, other._extremes = self._first + start, None
        other.shape = (stop - start, *self.shape[1:])
        return other

    def max(self, axis: int = 0) -> np.ndarray:
        """Return the largest entry of each column."""
        return self._ends()[1]

    def min(self, axis: int = 0) -> np.ndarray:
        """Return the least entry of each column."""
        return self._ends()[0]

    def blocks(self) -> Iterator:
        """Give all rows, some at a time, in their order."""
        return (self._read(start, stop) for start, stop in self._blocks())

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers are stored."""

    @abstractmethod
    def _read(self, start: int, stop: int):
        """Rows that stand one after the other."""

    @abstractmethod
    def _taken(self, rows: np.ndarray):
        """Rows by their numbers, in any order."""

    @abstractmethod
    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Where to begin and where to end, so that some bytes are read at once."""

    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        if self._extremes is None:
            low, high = zip(
                *((_dense(block.min(axis=0)), _dense(block.max(axis=0))) for block in self.blocks()), strict=True
            )
            self._extremes = np.min(low, axis=0), np.max(high, axis=0)
        return self._extremes

    def in_order(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray | slice, object]]:
        """Give, for each block that has some of the rows asked for, which of them they are, and the rows."""
        order = None if (np.diff(rows) >= 0).all() else np.argsort(rows, kind="stable")
        asked = rows if order is None else rows[order]
        for start, stop in self._blocks():
            some = slice(*np.searchsorted(asked, [start, stop]))
            if some.start < some.stop:
                yield some if order is None else order[some], self._read(start, stop)[asked[some] - start]

    def _numbers(self, path: Path, dtype: np.dtype, first: int, shape: tuple[int, ...]) -> np.ndarray:
        """Numbers of a file, from the one with this place on."""
        found = np.empty(shape, dtype=dtype)
        with open(path, "rb", buffering=0) as file:
            file.seek(first * dtype.itemsize)
            view = found.reshape(-1).view(np.uint8)
            while len(view):
                if not (many := file.readinto(view)):
                    raise InputError(f"{path} is cut off, expected {len(self)} rows")
                view = view[many:]
        return found


class StoredArray(StoredRows):
    """Rows of which every number is stored; with ``columns`` None an array (n,).

    Parameters
    ----------
    path : Path
    columns : int or None
        d.
    dtype : "float64" or "float32"
    """

    def __init__(self, path: Path, columns: int | None, dtype: str = "float64"):
        of_row = () if columns is None else (columns,)
        self._width = 1 if columns is None else columns
        super().__init__(path, dtype, (Path(path).stat().st_size // (self._width * np.dtype(dtype).itemsize), *of_row))

    def __array__(self, dtype=None, copy=None):
        return self[:].astype(dtype or float, copy=False)

    @property
    def size(self) -> int:
        return len(self) * self._width

    def _read(self, start, stop):
        shape, first = (stop - start, *self.shape[1:]), (self._first + start) * self._width
        return self._numbers(self.path, self.dtype, first, shape).astype(float, copy=False)

    def _taken(self, rows):
        found = np.empty((len(rows), *self.shape[1:]))
        for some, block in self.in_order(rows):
            found[some] = block
        return found

    def _blocks(self):
        step = max(BLOCK // (self._width * self.dtype.itemsize), 1)
        return pairwise([*range(0, len(self), step), len(self)])


class StoredSparse(StoredRows):
    """Rows of which the entries that are not 0 are stored, their columns in a file beside them; CSR where read.

    Parameters
    ----------
    path : Path
    columns : int
        d.
    starts : integer array (n + 1,)
        Where the entries of each row begin, and last how many there are.
    dtype : "float64" or "float32"
    """

    def __init__(self, path: Path, columns: int, starts: np.ndarray, dtype: str = "float64"):
        super().__init__(path, dtype, (len(starts) - 1, columns))
        self._starts = starts

    @property
    def size(self) -> int:
        return int(self._starts[-1] - self._starts[0])

    def between(self, rows):
        other = super().between(rows)
        other._starts, other._first = self._starts[other._first :][: len(other) + 1], 0
        return other

    def _read(self, start, stop):
        starts = self._starts[start : stop + 1]
        first, many = int(starts[0]), int(starts[-1] - starts[0])
        values = self._numbers(self.path, self.dtype, first, (many,)).astype(float, copy=False)
        columns = self._numbers(columns_of(self.path), COLUMN, first, (many,))
        narrow = COLUMN if many < 2**31 else np.int64
        return sparse.csr_array((values, columns, (starts - first).astype(narrow)), shape=(stop - start, self.shape[1]))

    def _taken(self, rows):
        if not len(rows):
            return self._read(0, 0)
        places, found = zip(*self.in_order(rows), strict=True)
        found = sparse.csr_array(sparse.vstack(found, format="csr"))
        if isinstance(places[0], slice):
            return found
        back = np.empty(len(rows), dtype=np.intp)
        back[np.concatenate(places)] = np.arange(len(rows))
        return found[back]

    def _blocks(self):
        step = max(BLOCK // (self.dtype.itemsize + COLUMN.itemsize), 1)
        inner = np.searchsorted(self._starts, np.arange(self._starts[0] + step, self._starts[-1], step))
        return pairwise(np.unique([0, *inner.tolist(), len(self)]).tolist())


class RowsWriter:
    """Writes rows, a block after the other: ``with RowsWriter(path) as writer``, then ``writer.rows``.

    Parameters
    ----------
    path : Path
        Of a file that is begun anew.
    dtype : "float64" or "float32"
    """

    def __init__(self, path: Path, dtype: str = "float64"):
        self._path, self._dtype, self._columns, self._starts = Path(path), np.dtype(dtype), None, None

    def __enter__(self) -> RowsWriter:
        self._open = ExitStack()
        self._file = self._begun(self._path)
        return self

    def __exit__(self, *_) -> None:
        self._open.close()

    def append(self, block) -> None:
        """Write a block (rows, d), dense or CSR as the others are, or (rows,).

        An error of the system names the file.
        """
        self._columns = block.shape[1] if block.ndim == 2 else None
        if not sparse.issparse(block):
            _write(self._file, np.ascontiguousarray(block, dtype=self._dtype), self._path)
            return
        if self._starts is None:
            self._columns_file = self._begun(columns_of(self._path))
            self._starts = [np.zeros(1, np.int64)]
        block = block.tocsr()
        self._starts.append(self._starts[-1][-1] + block.indptr[1:].astype(np.int64))
        _write(self._file, block.data.astype(self._dtype), self._path)
        _write(self._columns_file, block.indices.astype(COLUMN), columns_of(self._path))

    def _begun(self, path: Path) -> RawIOBase:
        return self._open.enter_context(path.open("wb", buffering=0))

    @property
    def rows(self) -> StoredRows:
        """What was written."""
        if self._starts is None:
            return StoredArray(self._path, self._columns, self._dtype.name)
        return StoredSparse(self._path, self._columns, np.concatenate(self._starts), self._dtype.name)


def columns_of(path: Path) -> Path:
    """Return the file with the columns of what is not 0 in another."""
    return path.with_suffix(".columns")


def stored_beside(rows: StoredRows, blocks: Iterable) -> StoredRows:
    """Return blocks of rows as files beside those of others, which go where they are no longer held."""
    handle, name = mkstemp(prefix="made-", suffix=".rows", dir=rows.path.parent)
    os.close(handle)
    with RowsWriter(Path(name)) as writer:
        for block in blocks:
            writer.append(block)
    found = writer.rows
    finalize(found, _remove, found.path)
    return found


def taken(X, rows: np.ndarray):
    """Return rows of features by rising numbers; of those that lie on disk, beside them."""
    if not isinstance(X, StoredRows):
        return X[rows]
    return stored_beside(X, (block for _, block in X.in_order(rows)))


def _remove(path: Path) -> None:
    for each in (path, columns_of(path)):
        each.unlink(missing_ok=True)


def _write(file, values: np.ndarray, path: Path) -> None:
    view = values.reshape(-1).view(np.uint8)
    try:
        while len(view):
            view = view[file.write(view) :]
    except OSError as error:
        error.filename = str(path)
        raise


def _dense(row) -> np.ndarray:
    return row.toarray().ravel() if sparse.issparse(row) else row
