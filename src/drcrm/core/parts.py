"""A log in parts, each of contexts that stand one after the other, with their rows.

Where they begin depends on the number of contexts alone: so sums over them, in their order, are the same numbers
wherever the log is held, and by however many threads they are taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .log import BanditLog
from .passes import mapped
from .stored import StoredRows, stored_beside

LARGE = 2**16  # contexts from which a log has more parts than one
AT_ONCE = 2**13  # contexts of a part, whose arrays then stay in a processor's cache


@dataclass(frozen=True)
class Part:
    """Some contexts of a log, with their rows, as a log; and where they stand in the whole."""

    log: BanditLog
    of_contexts: tuple  # arrays with a row for each context, or candidate, of the part
    rows: slice | np.ndarray
    contexts: slice


class Parts:
    """The parts of a log, and of arrays that have a row for each of its contexts, or candidates, or are None.

    Those of rows that lie on disk are read each time; others are made once.

    Parameters
    ----------
    log : BanditLog
    of_contexts : arrays, or None
    """

    def __init__(self, log: BanditLog, *of_contexts):
        self._log, self._of_contexts = log, of_contexts
        m = log.n_contexts
        self._starts = np.array([0, m]) if m < LARGE else np.append(np.arange(0, m, AT_ONCE), m)
        self.are_stored = len(self) > 1 and isinstance(log.X, StoredRows)
        if len(self) == 1:
            self._kept = {0: Part(log, of_contexts, slice(None), slice(None))}
            return
        self._kept, self._order, context = {}, None, log.context
        steps = np.diff(context)
        self._own = len(context) == m and bool((steps == 1).all())
        if (steps < 0).any():
            self._order = np.argsort(context, kind="stable")
            context = context[self._order]
        self._rows = np.searchsorted(context, self._starts)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, number: int) -> Part:
        if number in self._kept:
            return self._kept[number]
        log, contexts, rows = (
            self._log,
            slice(*(int(at) for at in self._starts[number : number + 2])),
            self.rows(number),
        )
        actions, X, *held = log.actions.part(contexts, log.X, *self._of_contexts)
        some = log.some(rows, log.context[rows] - contexts.start, X, actions)
        if self._own:
            some = some.derived(row_map=actions.own_rows(some.Y))
        part = Part(some, tuple(held), rows, contexts)
        if not self.are_stored:
            self._kept[number] = part
        return part

    def rows(self, number: int) -> slice | np.ndarray:
        """Return where the rows of a part stand in the log."""
        if len(self) == 1:
            return slice(None)
        rows = slice(*(int(at) for at in self._rows[number : number + 2]))
        return rows if self._order is None else self._order[rows]

    def made(self, of_part: Callable[[Part], np.ndarray]) -> np.ndarray | StoredRows:
        """Return what a function makes of the contexts, or candidates, of each part: an array, or rows on disk."""
        found = mapped(lambda number: of_part(self[number]), range(len(self)))
        if not self.are_stored:
            return np.concatenate(list(found))
        return stored_beside(self._log.X, found)
