"""A log larger than memory: what is learned from, or all that judges, as rows on disk; what is held out in memory.

Of all rows there are vectors, 8 bytes a row each, and never a table.
"""

from __future__ import annotations

from collections import Counter
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
from .marks import copies_of
from .propensities import imitation
from .records import Records
from .split import held_units
from .table_records import joined, names_of, numbered_groups
from .tables import Table, TableEncoding

IMITATED = 2**19  # rows to which an imitation is fitted


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
    propensity : array, optional
        Of the held-out rows, by an imitation of π0.
    encoding : Encoding
        Fitted to the rows that are learned from.
    """

    size: int
    train: BanditLog
    heldout: Records
    propensity: np.ndarray | None
    encoding: Encoding


def split_log(
    store: ChunkStore, seed: int, dtype: str, read: Callable[[int], None], propensity: np.ndarray | None = None
) -> SplitLog:
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
    propensity : array (n,), optional
        Of an imitation of π0.
    """
    groups, names = _groups(store, propensity), _names(store)
    held = _held(store, groups, seed)
    encoding = _fitted(store, ~held, names)
    heldout = []

    def parts() -> Iterator[BanditLog]:
        for each, out in _with(store, held):
            read(each.size)
            if out.any():
                heldout.append(each.take(out))
            if not out.all():
                imitated = None if propensity is None else propensity[each.rows[~out]]
                yield log_of(each.take(~out), encoding, imitated)

    train = _log_of_parts(parts(), store.size - int(held.sum()), store, dtype)
    records = _joined(heldout, names, groups, held)
    return SplitLog(store.size, train, records, None if propensity is None else propensity[held], encoding)


def heldout_records(
    store: ChunkStore, seed: int, read: Callable[[int], None], propensity: np.ndarray | None = None
) -> tuple[Records, np.ndarray | None]:
    """Return the held-out rows of a log alone, as :func:`split_log` has them, and their propensity by an imitation."""
    groups = _groups(store, propensity)
    held, found = _held(store, groups, seed), []
    for each, out in _with(store, held):
        read(each.size)
        if out.any():
            found.append(each.take(out))
    return _joined(found, _names(store), groups, held), None if propensity is None else propensity[held]


@dataclass(frozen=True)
class WholeLog:
    """A log of which all rows are kept, X as ``SplitLog.train`` has it.

    Attributes
    ----------
    records : Records
        Without their features.
    log : BanditLog
    unseen : dict of int
        How many rows have what the encoding has not seen, by what they have.
    """

    records: Records
    log: BanditLog
    unseen: dict[str, int]


def whole_log(
    store: ChunkStore,
    read: Callable[[int], None],
    propensity: np.ndarray | None = None,
    encoding: Encoding | None = None,
) -> WholeLog:
    """Return all rows of a log that was read, as :func:`split_log` does; an encoding is by default fitted to them."""
    groups, names, every = _groups(store, propensity), _names(store), np.ones(store.size, dtype=bool)
    encoding = _fitted(store, every, names) if encoding is None else encoding
    records, unseen = [], Counter()

    def parts() -> Iterator[BanditLog]:
        for number in range(len(store)):
            each = store[number]
            read(each.size)
            log = log_of(each, encoding, None if propensity is None else propensity[each.rows])
            unseen.update(encoding.unseen(each.data))
            records.append(replace(each, data=Table({}, {}, {}, each.data.rows)))
            yield log

    log = _log_of_parts(parts(), store.size, store, "float64")
    return WholeLog(_joined(records, names, groups, every), log, dict(unseen))


def imitated_store(store: ChunkStore) -> np.ndarray:
    """Return an imitation's probability of each logged action, (n,).

    It is fitted to at most 2¹⁹ rows, drawn by contexts or groups; theirs are made without the row's own fold.
    """
    first, groups = store[0], None
    if first.mapping.group is not None:
        groups = numbered_groups(store.vector("groups"))
    drawn = _drawn(np.arange(store.size) if groups is None else groups)
    sample = joined([each.take(some) for each, some in _with(store, drawn) if some.any()], _names(store))
    fit = imitation(replace(sample, groups=None if groups is None else groups[drawn]))
    found = np.empty(store.size)
    found[drawn] = fit.own
    for each, some in _with(store, drawn):
        if not some.all():
            found[each.rows[~some]] = fit.of(each.take(~some))
    return found


def _drawn(units: np.ndarray) -> np.ndarray:
    """Which rows an imitation is fitted to, of whole units: all, where they are few; of two units at least."""
    sizes = np.bincount(units)
    order = np.random.default_rng(0).permutation(len(sizes)) if len(units) > IMITATED else np.arange(len(sizes))
    drawn = np.zeros(len(sizes), dtype=bool)
    drawn[order[np.cumsum(sizes[order]) <= IMITATED]] = True
    drawn[order[:2]] = True
    return drawn[units]


def _names(store: ChunkStore) -> list:
    return names_of(store.mapping, store.names, store.size)


def _groups(store: ChunkStore, propensity: np.ndarray | None) -> np.ndarray | None:
    """Numbers of the groups, (n,), or of rows that are told more than once, if any."""
    if store.mapping.group is not None:
        return numbered_groups(store.vector("groups"))
    return copies_of(store.vector("marks"), store.vector("propensity") if propensity is None else propensity)


def _held(store: ChunkStore, groups: np.ndarray | None, seed: int) -> np.ndarray:
    """Which rows are held out, a mask (n,)."""
    if groups is None:
        return held_units(np.arange(store.size), store.mapping, seed, "context")
    return held_units(groups, store.mapping, seed, "group")


def _joined(parts: list[Records], names: list, groups: np.ndarray | None, rows: np.ndarray) -> Records:
    """Some rows of a log, by a mask (n,), of their parts, which are let go."""
    found = replace(joined(parts, names), groups=None if groups is None else groups[rows])
    parts.clear()
    return found


def _log_of_parts(parts: Iterator[BanditLog], n: int, store: ChunkStore, dtype: str) -> BanditLog:
    """One log of parts that have n rows: X on disk; in memory if it is sparse, or a fit would have it all at once."""
    first, vectors, sparse_rows, at = None, {}, [], 0
    with RowsWriter(store.folder / ROWS, dtype) as writer:
        for part in parts:
            first = part if first is None else first
            rows = slice(at, at + len(part.Y))
            for name in ("Y", "propensity", "cost"):
                values = getattr(part, name)
                vectors.setdefault(name, np.empty((n, *values.shape[1:]), values.dtype))[rows] = values
            (sparse_rows.append if sparse.issparse(part.X) else writer.append)(part.X)
            at = rows.stop
    X = sparse.csr_array(sparse.vstack(sparse_rows, format="csr")) if sparse_rows else writer.rows
    if n < LARGE and not sparse_rows:
        X = np.asarray(X)
    return first.derived(X=X, **vectors, context=np.arange(n), count=np.ones(n, dtype=np.intp))


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
