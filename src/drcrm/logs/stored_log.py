"""A log larger than memory: what is learned from as rows on disk, what is held out in memory.

Of all rows there are vectors, 8 bytes a row each, and never a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from ..core.parts import LARGE
from ..core.stored import RowsWriter
from .chunk_store import ROWS, ChunkStore
from .encoding import Encoding
from .fitting import known, scale
from .log import BanditLog, log_of
from .records import Records
from .rows import repeated
from .split import held_units
from .table_records import joined, names_of, numbered_groups
from .tables import TableEncoding


@dataclass(frozen=True)
class SplitLog:
    """A log whose held-out rows are in memory.

    Attributes
    ----------
    size : int
        n, of all rows.
    train : BanditLog
        X are ``StoredRows``; CSR in memory where they are sparse, and an array where a fit would have them all at once.
    heldout : Records
    encoding : Encoding
        Fitted to the rows that are learned from.
    """

    size: int
    train: BanditLog
    heldout: Records
    encoding: Encoding


def split_log(store: ChunkStore, seed: int, dtype: str, read: Callable[[int], None]) -> SplitLog:
    """Return a log that was read, split and encoded, as one in memory is.

    Parameters
    ----------
    store : ChunkStore
        Filled.
    seed : int
        Of what is held out.
    dtype : "float64" or "float32"
        Of the rows on disk.
    read : callable
        Hears of how many rows were encoded.
    """
    groups, held = _split(store, seed)
    first = store[0]
    names = names_of(first.mapping, store.names, store.size)
    encoding = _fitted(store, ~held, names)
    n = store.size - int(held.sum())
    vectors, heldout, sparse_rows, at = {}, [], [], 0
    with RowsWriter(store.folder / ROWS, dtype) as writer:
        for each, out in _with(store, held):
            read(each.size)
            if out.any():
                heldout.append(each.take(out))
            if out.all():
                continue
            part = log_of(each.take(~out), encoding)
            rows = slice(at, at + len(part.Y))
            for name in ("Y", "propensity", "cost"):
                values = getattr(part, name)
                vectors.setdefault(name, np.empty((n, *values.shape[1:]), values.dtype))[rows] = values
            (sparse_rows.append if sparse.issparse(part.X) else writer.append)(part.X)
            at = rows.stop
    X = sparse.csr_array(sparse.vstack(sparse_rows, format="csr")) if sparse_rows else writer.rows
    if n < LARGE and not sparse_rows:
        X = np.asarray(X)
    log = part.derived(X=X, **vectors, context=np.arange(n), count=np.ones(n, dtype=np.intp))
    found = replace(joined(heldout, names), groups=None if groups is None else groups[held])
    return SplitLog(store.size, log, found, encoding)


def _split(store: ChunkStore, seed: int) -> tuple[np.ndarray | None, np.ndarray]:
    """Numbers of the groups, or of rows that are told more than once, if any; and which rows are held out."""
    mapping = store[0].mapping
    if mapping.group is not None:
        groups = numbered_groups(store.vector("groups"))
    else:
        _, groups = repeated(*store.vector("marks"), store.vector("propensity"))
    if groups is None:
        return None, held_units(np.arange(store.size), mapping, seed, "context")
    return groups, held_units(groups, mapping, seed, "group")


def _fitted(store: ChunkStore, rows: np.ndarray, names: list) -> TableEncoding:
    """The encoding that is fitted to some rows, of which a column at a time is in memory."""
    first = store[0]
    scales = {name: scale(store.column(name)[rows], name) for name in first.mapping.numeric}
    values = {name: known(store.seen(name, rows)) for name in first.mapping.categorical}
    return TableEncoding(first.kind, names, scales, values)


def _with(store: ChunkStore, held: np.ndarray) -> Iterator[tuple[Records, np.ndarray]]:
    """The rows of each chunk, and which of them are held out."""
    ends = np.cumsum(store.sizes)
    for number, end in enumerate(ends):
        yield store[number], held[end - store.sizes[number] : end]
