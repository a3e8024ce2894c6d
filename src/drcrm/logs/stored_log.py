"""A log larger than memory: what is learned from, or all that judges, as rows on disk; what is held out in memory.

Of all rows there are vectors, 8 bytes a row each, and never their features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..core.actions import ListedActions
from ..data.listeners import advance
from ..data.mapped_arrays import ArrayWriter
from .chunk_store import ROWS, ChunkStore
from .dependence import MOST_ROWS
from .encoding import Encoding
from .fitting import fitted_categories, fitted_numbers
from .joining import added, counts_of, joined, numbered_groups
from .log import BanditLog, log_of
from .named import kept_columns
from .propensities import imitation
from .recognition import Recognised
from .records import Records
from .row_checks import RowChecks, checked
from .split import held_units
from .tables import Table, TableEncoding

IMITATED = 2**19  # rows to which an imitation is fitted
# The checks of all rows, a function from a seed to held-out rows ↦ the rows that a policy was learned from.
Select = Callable[[RowChecks, Callable[[int], np.ndarray]], Recognised | None]


@dataclass(frozen=True)
class SplitLog:
    """A log whose held-out rows are in memory.

    Attributes
    ----------
    size : int
        n, of all rows.
    train : BanditLog
        X are ``StoredRows``, or in memory where a fit would have them all at once.
    heldout : Records
    propensity : array, optional
        Of the held-out rows, by an imitation of π0.
    encoding : Encoding
        Fitted to the rows that are learned from.
    checks : RowChecks
        Of all rows.
    held : bool array (n,)
        Which rows are held out.
    """

    size: int
    train: BanditLog
    heldout: Records
    propensity: np.ndarray | None
    encoding: Encoding
    checks: RowChecks
    held: np.ndarray


def split_log(store: ChunkStore, seed: int, dtype: str, propensity: np.ndarray | None = None) -> SplitLog:
    """Return a log that was read, split and encoded, as one in memory is.

    Parameters
    ----------
    store : ChunkStore
        Filled.
    seed : int
        Of what is held out.
    dtype : "float64" or "float32"
        Of the rows on disk.
    propensity : array (n,), optional
        Of an imitation of π0.
    """
    log = _Read(store, propensity)
    held = log.held(seed)
    encoding, heldout = log.fitted(~held), []

    def parts() -> Iterator[BanditLog]:
        for each, place in log.parts():
            out = held[place]
            advance(each.size, "rows", store.size)
            if out.any():
                heldout.append(each.take(out))
            if not out.all():
                imitated = None if propensity is None else propensity[place][~out]
                yield log_of(each.take(~out), encoding, imitated)

    train = log.encoded(parts(), ~held, dtype)
    return SplitLog(store.size, train, *log.joined(heldout, held), encoding, log.checks, held)


@dataclass(frozen=True)
class WholeLog:
    """A log of which all rows are kept, or some, X as ``SplitLog.train`` has it.

    Attributes
    ----------
    records : Records
        Without their features.
    log : BanditLog
    unseen : dict of int
        How many rows have what the encoding has not seen, by what they have.
    propensity : array, optional
        Of these rows, by an imitation of π0.
    checks : RowChecks
        Of all rows.
    recognised : Recognised or None
        The rows that a policy was learned from, among all.
    """

    records: Records
    log: BanditLog
    unseen: dict[str, int]
    propensity: np.ndarray | None
    checks: RowChecks
    recognised: Recognised | None


def whole_log(
    store: ChunkStore,
    propensity: np.ndarray | None = None,
    encoding: Encoding | None = None,
    select: Select | None = None,
) -> WholeLog:
    """Return the rows of a log that was read, as :func:`split_log` does, without those that a policy was learned from.

    ``select`` recognises the latter. An encoding is by default fitted to the rows that are returned.
    """
    log = _Read(store, propensity)
    known = None if select is None else select(log.checks, log.held)
    rows = np.ones(store.size, dtype=bool) if known is None else ~known.training
    encoding = log.fitted(rows) if encoding is None else encoding
    records, unseen = [], []

    def parts() -> Iterator[BanditLog]:
        for each, place in log.parts():
            advance(each.size, "rows", store.size)
            if not rows[place].any():
                continue
            some = each if rows[place].all() else each.take(rows[place])
            unseen.append(encoding.unseen(some.data))
            records.append(replace(some, data=some.data.take(slice(0))))
            yield log_of(some, encoding, None if propensity is None else propensity[place][rows[place]])

    encoded = log.encoded(parts(), rows, "float64")
    joined_records, imitated = log.joined(records, rows)
    return WholeLog(joined_records, encoded, added(unseen), imitated, log.checks, known)


def imitated_store(store: ChunkStore) -> np.ndarray:
    """Return an imitation's probability of each logged action, (n,).

    It is fitted to at most 2¹⁹ rows, drawn by contexts or groups; theirs are made without the row's own fold.
    """
    log = _Read(store)
    drawn = _drawn(np.arange(store.size) if log.groups is None else log.groups)
    sample, _ = log.joined([each.take(drawn[place]) for each, place in log.parts() if drawn[place].any()], drawn)
    fit = imitation(sample)
    found = np.empty(store.size)
    found[drawn] = fit.own
    for each, place in log.parts():
        others = ~drawn[place]
        if others.any():
            found[place][others] = fit.of(each.take(others))
    return found


def _drawn(units: np.ndarray) -> np.ndarray:
    """Which rows an imitation is fitted to, of whole units: all, where they are few; of two units at least."""
    sizes = np.bincount(units)
    order = np.random.default_rng(0).permutation(len(sizes)) if len(units) > IMITATED else np.arange(len(sizes))
    drawn = np.zeros(len(sizes), dtype=bool)
    drawn[order[np.cumsum(sizes[order]) <= IMITATED]] = True
    drawn[order[:2]] = True
    return drawn[units]


class _Read:
    """A log that was read, and what is known of all its rows alone: their groups, and how often each counts.

    Parameters
    ----------
    store : ChunkStore
    propensity : array (n,), optional
        Of an imitation of π0: rows that are told more than once are groups only where their propensities are known.
    """

    def __init__(self, store: ChunkStore, propensity: np.ndarray | None = None):
        self._store, self._propensity, self._names = store, propensity, store.names
        weights = store.vector("count")
        self.groups = None if store.mapping.group is None else numbered_groups(store.vector("groups"))
        self._count = None if weights is None else counts_of(weights)
        self.checks = self._checked(store.vector("propensity"))
        self.groups = self.groups if self.checks is None else self.checks.groups

    def _checked(self, logged: np.ndarray | None) -> RowChecks | None:
        """The checks of all rows; None where their propensities are not known yet."""
        propensity, first, rows = logged if self._propensity is None else self._propensity, [], 0
        if propensity is None:
            return None
        for records, place in self.parts():
            first.append(records)
            rows = place.stop
            if rows >= MOST_ROWS:
                break
        found = joined(first, self._names)
        return checked(self._store.path, found, self._store.vector("marks"), logged, propensity, self.groups)

    def parts(self) -> Iterator[tuple[Records, slice]]:
        """Give the rows of each chunk, and where they are among all."""
        end = 0
        for number, size in enumerate(self._store.sizes):
            end += size
            yield replace(self._store[number], groups=None, count=None), slice(end - size, end)

    def held(self, seed: int) -> np.ndarray:
        """Return which rows are held out, a mask (n,)."""
        mapping, time = self._store.mapping, self._store.vector("time")
        if self.groups is None:
            return held_units(np.arange(self._store.size), mapping, seed, "context", time)
        return held_units(self.groups, mapping, seed, "group", time)

    def fitted(self, rows: np.ndarray) -> Encoding:
        """Return the encoding that is fitted to some rows, of which a column, or a chunk, at a time is in memory."""
        store, first = self._store, self._store[0]
        if isinstance(first.data, Table):
            times = first.data.times
            scales, indicators = fitted_numbers((name, store.column(name)[rows]) for name in first.data.numbers)
            values = fitted_categories(((name, store.seen(name, rows)) for name in first.data.codes), times)
            return TableEncoding(first.kind, self._names, scales, values, indicators, times)
        kept = kept_columns(each.data.take(rows[place]) for each, place in self.parts())
        return replace(first.fit(), names=self._names, kept=kept)

    def joined(self, parts: list[Records], rows: np.ndarray) -> tuple[Records, np.ndarray | None]:
        """Return some rows, by a mask (n,), of their parts, which are let go, and their propensity by the imitation."""
        groups, count = (None if each is None else each[rows] for each in (self.groups, self._count))
        found = replace(joined(parts, self._names), groups=groups, count=count, skipped=self._store.skipped)
        found = replace(found, missing=self._store.missing)
        parts.clear()
        return found, None if self._propensity is None else self._propensity[rows]

    def encoded(self, parts: Iterator[BanditLog], rows: np.ndarray, dtype: str) -> BanditLog:
        """Return the log of some rows, of their parts: X on disk; in memory where a fit would have it all at once."""
        n, at, first, sizes = int(rows.sum()), 0, None, []
        vectors = {"count": np.ones(n, dtype=np.intp) if self._count is None else self._count[rows]}
        writer = ArrayWriter(self._store.folder / ROWS)
        if True:
            for part in parts:
                first = part if first is None else first
                for name in ("Y", "propensity", "cost"):
                    values = getattr(part, name)
                    kept = vectors.setdefault(name, np.empty((n, *values.shape[1:]), values.dtype))
                    kept[at : at + len(values)] = values
                if isinstance(part.actions, ListedActions):
                    sizes.append(part.actions.sizes())
                writer.append(part.X)
                at += len(part.Y)
        X = writer.finish()
        actions = ListedActions(np.append(0, np.cumsum(np.concatenate(sizes)))) if sizes else first.actions
        return first.derived(X=X, actions=actions, context=np.arange(n), skipped=self._store.skipped, **vectors)
