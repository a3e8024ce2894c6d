"""A log in parts, each of contexts that stand one after the other, with their rows.

Where they begin depends on the shape of the log alone: so sums over them, in their order, are the same numbers wherever
the log is held, and by however many threads they are taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .log import BanditLog
from .passes import mapped
from .stored import StoredRows, stored_beside
from .validation import Features

LARGE = 2**16  # contexts from which a log has more parts than one
MOST, LEAST = 2**15, 2**10  # contexts of a part: with fewer, threads wait for each other, by measurement
AT_ONCE = 2**20  # numbers of their features, of many of which there are fewer contexts


@dataclass(frozen=True)
class Part:
    """Some contexts of a log, with their rows, as a log; and where they stand in the whole.

    ``place`` is where its rows stand among those of all parts, one after the other. ``context`` leads from its rows to
    its contexts; None where each context has one row, in their order.
    """

    log: BanditLog
    of_contexts: tuple  # arrays with a row for each context, or candidate, of the part
    rows: slice | np.ndarray
    place: slice
    contexts: slice
    context: np.ndarray | None


class Parts:
    """The parts of a log, and of arrays that have a row for each of its contexts, or candidates, or are None.

    Those of rows that lie on disk are read each time; others are made once.

    Parameters
    ----------
    log : BanditLog
    of_contexts : arrays, or None
    starts : integer array, optional
        Where they begin, and where the last one ends; by default as the shape of the log has it.

    Attributes
    ----------
    are_stored : bool
    order : integer array (n,), or None
        The rows, part after part; None where that is how they stand.
    """

    def __init__(self, log: BanditLog, *of_contexts, starts: np.ndarray | None = None):
        self._log, self._of_contexts, self.order = log, of_contexts, None
        m = log.n_contexts
        if starts is None:
            starts = np.array([0, m]) if m < LARGE else np.append(np.arange(0, m, _at_once(log.X, m)), m)
        self._starts, self.are_stored = starts, isinstance(log.X, StoredRows)
        if len(self) == 1 and not self.are_stored:
            self._places = np.array([0, len(log.Y)])
            self._kept = {0: Part(log, of_contexts, slice(None), slice(None), slice(None), log.context)}
            return
        self._kept, context = {}, log.context
        steps = np.diff(context)
        self._own = len(context) == m and bool((steps == 1).all())
        if (steps < 0).any():
            self.order = np.argsort(context, kind="stable")
            context = context[self.order]
        self._places = np.searchsorted(context, self._starts)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, number: int) -> Part:
        if number in self._kept:
            return self._kept[number]
        log, place = self._log, self.places(number, number + 1)
        contexts, rows = self.between(number, number + 1)
        actions, X, *held = log.actions.part(contexts, log.X, *self._of_contexts)
        some = log.some(rows, log.context[rows] - contexts.start, X, actions)
        if self._own:
            some = some.derived(row_map=actions.own_rows(some.Y))
        part = Part(some, tuple(held), rows, place, contexts, None if self._own else some.context)
        if not self.are_stored:
            self._kept[number] = part
        return part

    def between(self, first: int, last: int) -> tuple[slice, slice | np.ndarray]:
        """Return the contexts, and the rows, of the parts from ``first`` to before ``last``."""
        contexts, place = slice(int(self._starts[first]), int(self._starts[last])), self.places(first, last)
        return contexts, place if self.order is None else self.order[place]

    def starts(self, first: int, last: int) -> np.ndarray:
        """Return where the contexts of these parts begin, and where they end, counted from the first of them."""
        return self._starts[first : last + 1] - self._starts[first]

    def places(self, first: int, last: int) -> slice:
        """Return where the rows of these parts stand among those of all, one part after the other."""
        return slice(int(self._places[first]), int(self._places[min(last, len(self))]))

    def made(self, of_part: Callable[[Part], np.ndarray]) -> np.ndarray | StoredRows:
        """Return what a function makes of the contexts, or candidates, of each part: an array, or rows on disk."""
        found = mapped(lambda number: of_part(self[number]), range(len(self)))
        if not self.are_stored:
            return np.concatenate(list(found))
        return stored_beside(self._log.X, found)


def _at_once(X: Features, contexts: int) -> int:
    """How many contexts a part has: a power of 2."""
    numbers = max(X.size // contexts, 1)
    return min(max(1 << (AT_ONCE // numbers).bit_length() - 1, LEAST), MOST)
