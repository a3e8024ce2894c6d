"""Arrays in memory-mapped files: written batch by batch, then read as ordinary numpy arrays or CSR.

A mapped array occupies no memory of the process, because its pages belong to the system's page cache. Code that only
slices and multiplies arrays works the same whether or not they are mapped.
"""

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from mmap import ALLOCATIONGRANULARITY
from pathlib import Path
from typing import Any, Literal, TypeAlias
from uuid import uuid4

import numpy as np
from scipy import sparse

Features: TypeAlias = Any  # np.ndarray | sparse.csr_array; scipy has no types

BLOCK_BYTES = 2**23  # size of the blocks of rows that are transformed one after the other
_SCRATCH: ContextVar[Path | None] = ContextVar("scratch", default=None)


class ArrayWriter:
    """Write an array batch by batch to a file, or a CSR array to three files.

    Parameters
    ----------
    path : Path
        Path of the file to create; for CSR, the beginning of the paths.
    """

    def __init__(self, path: Path):
        self._path, self._n_columns = Path(path), None
        self._files: dict[str, tuple] = {}
        self._row_ends = [np.zeros(1, dtype=np.int64)]

    def append(self, batch: Features) -> None:
        """Write a batch (rows, …), dense or CSR like the first batch; an OSError names the file."""
        if not sparse.issparse(batch):
            self._write("", batch)
            return
        batch = batch.tocsr()
        self._n_columns = batch.shape[1]
        self._row_ends.append(self._row_ends[-1][-1] + batch.indptr[1:].astype(np.int64))
        self._write(".data", batch.data)
        self._write(".indices", batch.indices.astype(np.int32))

    def finish(self) -> Features:
        """Close the files and return the array, mapped read-only."""
        if self._n_columns is not None:
            row_ends = np.concatenate(self._row_ends)
            self._write(".indptr", row_ends if row_ends[-1] >= 2**31 else row_ends.astype(np.int32))
        self.close()
        arrays = [_open_mapped(file.name, dtype, 0, shape) for file, dtype, shape in self._files.values()]
        if self._n_columns is None:
            return arrays[0]
        return sparse.csr_array(tuple(arrays), shape=(len(arrays[2]) - 1, self._n_columns), copy=False)

    def close(self) -> None:
        """Close the files."""
        for file, *_ in self._files.values():
            file.close()

    def _write(self, suffix: str, values: np.ndarray) -> None:
        if suffix not in self._files:
            path = self._path.with_name(f"{self._path.name}{suffix}")
            self._files[suffix] = path.open("wb", buffering=0), values.dtype, (0, *values.shape[1:])
        file, dtype, (rows, *columns) = self._files[suffix]
        array: Any = np.ascontiguousarray(values, dtype=dtype).reshape(-1).view(np.uint8)
        view = memoryview(array)
        try:
            while len(view):
                view = view[file.write(view) :]
        except OSError as error:
            error.filename = file.name
            raise
        self._files[suffix] = file, dtype, (rows + len(values), *columns)


@contextmanager
def scratch_folder(folder: Path | None) -> Iterator[None]:
    """Write arrays that are derived from mapped arrays to files in this folder, inside the ``with`` block.

    The caller removes the folder. Without a folder, derived arrays are in memory.
    """
    token = _SCRATCH.set(folder)
    try:
        yield
    finally:
        _SCRATCH.reset(token)


def scratch_path(X: Features) -> Path | None:
    """Return the path of a file for an array that is derived from X; None if the array should stay in memory."""
    folder = _SCRATCH.get()
    if folder is None or _backing(X.data if sparse.issparse(X) else X) is None:
        return None
    return folder / f"derived-{uuid4().hex}"


def write_blocks(path: Path | None, blocks: Iterator[Features]) -> Features:
    """Concatenate blocks of rows to one array, in files at ``path`` or, if it is None, in memory."""
    if path is None:
        arrays = list(blocks)
        if len(arrays) == 1:
            return arrays[0]
        if sparse.issparse(arrays[0]):
            return sparse.csr_array(sparse.vstack(arrays, format="csr"))
        return np.concatenate(arrays)
    writer = ArrayWriter(path)
    try:
        for block in blocks:
            writer.append(block)
        return writer.finish()
    finally:
        writer.close()


def map_rows(X: Features, function: Callable[[Features], Features]) -> Features:
    """Return ``function(X)`` for a function that acts on each row independently.

    If X is mapped and there is a scratch folder, the function runs block by block and the result is in a file.
    """
    path = scratch_path(X)
    if path is None:
        return function(X)
    step = _rows_per_block(X)
    blocks = (slice_rows(X, slice(start, start + step)) for start in range(0, X.shape[0], step))
    return write_blocks(path, map(function, blocks))


def take_rows(X: Features, rows: np.ndarray) -> Features:
    """Return ``X[rows]``, in a file if X is mapped."""
    path = scratch_path(X)
    if path is None:
        return X[rows]
    rows = np.arange(X.shape[0])[rows]
    step = _rows_per_block(X)
    return write_blocks(path, (X[rows[start : start + step]] for start in range(0, max(len(rows), 1), step)))


def as_mapped(values: Any, origin: np.ndarray) -> Any:
    """Return an array that was computed from another one, in a file if that one is mapped; None stays None."""
    path = None if values is None or _backing(values) is not None else scratch_path(origin)
    return values if path is None else write_blocks(path, iter([values]))


def as_memory_order(array: np.ndarray, order: Literal["C", "F"]) -> np.ndarray:
    """Return an array in memory order "C" or "F"; a mapped array keeps the order of its file."""
    return array if _backing(array) is not None else np.asarray(array, order=order)


def slice_rows(X: Features, rows: slice) -> Features:
    """Return consecutive rows as a view, also for CSR."""
    if not sparse.issparse(X):
        return X[rows]
    start, stop, _ = rows.indices(X.shape[0])
    first, last = int(X.indptr[start]), int(X.indptr[stop])
    indptr = X.indptr[start : stop + 1] - X.indptr[start]
    return sparse.csr_array((X.data[first:last], X.indices[first:last], indptr), (stop - start, X.shape[1]), copy=False)


def first_equal_rows(X: Features) -> np.ndarray:
    """Return for each row the number of the first row with the same values, (n,)."""
    if sparse.issparse(X):
        ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        keys = (X.indices[start:end].tobytes() + X.data[start:end].tobytes() for start, end in ends)
    else:
        keys = (row.tobytes() for row in X)
    first: dict[bytes, int] = {}
    return np.array([first.setdefault(key, number) for number, key in enumerate(keys)])


def _rows_per_block(X: Features) -> int:
    return max(BLOCK_BYTES * X.shape[0] // max(count_bytes(X), 1), 1)


def count_bytes(X: Features) -> int:
    """Return the size of the values; for CSR including the column indices."""
    return X.data.nbytes + X.indices.nbytes if sparse.issparse(X) else X.nbytes


class MappedPickler(pickle.Pickler):
    """Pickle mapped arrays, and views of them, as the path of their file. Unpickling maps the file again."""

    def reducer_override(self, value: object) -> Any:
        if type(value) is np.ndarray and value.flags.c_contiguous and (mapped := _backing(value)) is not None:
            start = np.frombuffer(mapped._mmap, dtype=np.uint8).ctypes.data
            offset = value.ctypes.data - start + mapped.offset - mapped.offset % ALLOCATIONGRANULARITY
            return _open_mapped, (str(mapped.filename), value.dtype, offset, value.shape)
        return NotImplemented


def _open_mapped(path: str, dtype: np.dtype, offset: int, shape: tuple[int, ...]) -> np.ndarray:
    if not np.prod(shape):
        return np.empty(shape, dtype)
    return np.asarray(np.memmap(path, dtype, "r", offset, shape))


def _backing(value: Any) -> Any:
    """Return the memory map that an array is a view of; None if it is in memory."""
    while isinstance(value, np.ndarray):
        if (
            isinstance(value, np.memmap)
            and getattr(value, "_mmap", None) is not None
            and not isinstance(value.base, np.ndarray)
        ):
            return value
        value = value.base
    return None


def as_input(X: Features, model: Any) -> Features:
    """Return features in a form that a model of scikit-learn takes: dense if it takes no sparse ones."""
    if not sparse.issparse(X):
        return X
    from sklearn.utils import get_tags

    return X if get_tags(model).input_tags.sparse else X.toarray()


def read_only(X: Features) -> Features:
    """Return X if its values are read-only, otherwise a read-only view, so that a feature map may remember their X'.

    The view cannot change the values, but the owner of X can, and must not while the view is in use.
    """
    values = X.data if sparse.issparse(X) else X
    if not values.flags.writeable:
        return X
    values = values.view()
    values.flags.writeable = False
    if not sparse.issparse(X):
        return values
    view = copy(X)
    view.data = values
    return view
