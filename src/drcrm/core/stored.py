"""Rows of numbers that lie on disk and are read where they are asked for: the features of a log larger than memory.

They are read, not mapped into memory, of which a pass so takes no more than a part.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from tempfile import mkstemp
from weakref import finalize

import numpy as np

from ..errors import InputError

BLOCK = 2**22  # bytes that are read at once


class StoredRows:
    """An array (n, d) in a file, row after row: ``rows[start:stop]``, ``rows[numbers]`` and ``rows[mask]`` are arrays.

    ``rows @ coef`` is one too, (n, …); of what is not asked for, nothing is held.

    Parameters
    ----------
    path : Path
    columns : int
        d.
    dtype : "float64" or "float32"
        As which they lie there; what is read is float64, so that sums are.
    """

    ndim = 2

    def __init__(self, path: Path, columns: int, dtype: str = "float64"):
        self.path, self.dtype = Path(path).absolute(), np.dtype(dtype)
        self._first, self._width = 0, columns * self.dtype.itemsize
        self.shape = self.path.stat().st_size // self._width, columns

    def __repr__(self) -> str:
        return f"StoredRows({self.shape[0]} rows, {self.shape[1]} columns, {self.dtype})"

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype=None, copy=None):
        return self._read(0, len(self)).astype(dtype or float, copy=False)

    def __getitem__(self, rows) -> np.ndarray:
        if isinstance(rows, slice) and rows.step in (None, 1):
            start, stop, _ = rows.indices(len(self))
            return self._read(start, max(start, stop))
        if isinstance(rows, tuple):
            return self[rows[0]][..., rows[1]]
        if isinstance(rows, Integral):
            return self[[rows]][0]
        rows = np.arange(len(self))[rows]
        found = np.empty((len(rows), self.shape[1]))
        order = None if (np.diff(rows) >= 0).all() else np.argsort(rows, kind="stable")
        asked = rows if order is None else rows[order]
        for start, stop in self._blocks():
            some = slice(*np.searchsorted(asked, [start, stop]))
            if some.start < some.stop:
                found[some if order is None else order[some]] = self._read(start, stop)[asked[some] - start]
        return found

    def __matmul__(self, coef: np.ndarray) -> np.ndarray:
        return np.concatenate([block @ coef for block in self.blocks()])

    def between(self, rows: slice) -> StoredRows:
        """Return rows that stand one after the other, which stay on disk."""
        other, (start, stop, _) = StoredRows(self.path, self.shape[1], self.dtype.name), rows.indices(len(self))
        other._first, other.shape = self._first + start, (stop - start, self.shape[1])
        return other

    def max(self, axis: int = 0) -> np.ndarray:
        """Return the largest entry of each column."""
        return self._ends[1]

    def min(self, axis: int = 0) -> np.ndarray:
        """Return the least entry of each column."""
        return self._ends[0]

    @cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        low, high = zip(*((block.min(axis=0), block.max(axis=0)) for block in self.blocks()), strict=True)
        return np.min(low, axis=0), np.max(high, axis=0)

    def blocks(self) -> Iterator[np.ndarray]:
        """Give all rows, some at a time, in their order."""
        return (self._read(start, stop) for start, stop in self._blocks())

    def _blocks(self) -> Iterator[tuple[int, int]]:
        step = max(BLOCK // self._width, 1)
        return pairwise([*range(0, len(self), step), len(self)])

    def _read(self, start: int, stop: int) -> np.ndarray:
        found = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        with open(self.path, "rb", buffering=0) as file:
            file.seek((self._first + start) * self._width)
            view = found.reshape(-1).view(np.uint8)
            while len(view):
                if not (many := file.readinto(view)):
                    raise InputError(f"{self.path} is cut off, expected {len(self)} rows")
                view = view[many:]
        return found.astype(float, copy=False)


class RowsWriter:
    """Writes the rows of a :class:`StoredRows`, a block after the other: ``with RowsWriter(path) as rows``.

    Parameters
    ----------
    path : Path
        Of a file that is begun anew.
    dtype : "float64" or "float32"
    """

    def __init__(self, path: Path, dtype: str = "float64"):
        self._path, self._dtype, self._columns = Path(path), np.dtype(dtype), None

    def __enter__(self) -> RowsWriter:
        self._file = open(self._path, "wb", buffering=0)
        return self

    def __exit__(self, *_) -> None:
        self._file.close()

    def append(self, block: np.ndarray) -> None:
        """Write a block (rows, d), at the end; an error of the system names the file."""
        block = np.ascontiguousarray(block, dtype=self._dtype)
        self._columns = block.shape[1]
        view = block.reshape(-1).view(np.uint8)
        try:
            while len(view):
                view = view[self._file.write(view) :]
        except OSError as error:
            error.filename = str(self._path)
            raise

    @property
    def rows(self) -> StoredRows:
        """What was written."""
        return StoredRows(self._path, self._columns, self._dtype.name)


def stored_beside(rows: StoredRows, blocks: Iterable[np.ndarray]) -> StoredRows:
    """Return blocks of rows as a file beside that of others, which goes where it is no longer held."""
    handle, name = mkstemp(prefix="made-", suffix=".rows", dir=rows.path.parent)
    os.close(handle)
    with RowsWriter(Path(name)) as writer:
        for block in blocks:
            writer.append(block)
    found = writer.rows
    finalize(found, Path(name).unlink, missing_ok=True)
    return found
