"""How passes over a log are made: by how many threads, and who hears of them and of other progress.

Threads share the parts of a log, as numpy releases the lock; what they find comes in the order of the parts.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice

from ..errors import InputError

_POOL: ContextVar[tuple[ThreadPoolExecutor, int] | None] = ContextVar("pool", default=None)
AHEAD = 4  # items for each thread


class Listener:
    """Receiver of reports on the progress of work; this one ignores them."""

    def passed(self, rows: int) -> None:
        """Receive the number of rows of a pass."""

    def advance(self, amount: float, unit: str, total: float | None = None) -> None:
        """Receive an amount of finished work, in a unit such as "rows", and the total if it is known."""


_LISTENER: ContextVar[Listener] = ContextVar("listener", default=Listener())  # noqa: B039  it has no state


def as_jobs(n_jobs: object, name: str = "n_jobs") -> int:
    """Return how many threads are asked for, as scikit-learn has it: None is 1, −1 all cores, −2 all but one."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0:
        raise InputError(f"{name} is {n_jobs!r}, expected a whole number that is not 0, or None")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return n_jobs if n_jobs > 0 else max(cores + 1 + n_jobs, 1)


@contextmanager
def passes(n_jobs: int | None = None, listener: Listener | None = None) -> Iterator[None]:
    """Within, ``n_jobs`` threads make passes, and the listener receives reports."""
    n = as_jobs(n_jobs)
    heard = _LISTENER.set(listener or Listener())
    pool = _POOL.set((ThreadPoolExecutor(n, thread_name_prefix="drcrm"), n) if n > 1 else None)
    try:
        yield
    finally:
        if n > 1:
            _POOL.get()[0].shutdown()
        _POOL.reset(pool)
        _LISTENER.reset(heard)


def mapped(function: Callable, items: Iterable) -> Iterator:
    """Give function(item) of each item, in their order; what waits to be taken is of a few items for each thread."""
    pool = _POOL.get()
    return map(function, items) if pool is None else _ahead(*pool, function, iter(items))


def _ahead(pool: ThreadPoolExecutor, threads: int, function: Callable, items: Iterator) -> Iterator:
    """The same by the threads of a pool."""
    waiting = deque(pool.submit(function, item) for item in islice(items, AHEAD * threads))
    try:
        while waiting:
            found = waiting.popleft().result()
            waiting.extend(pool.submit(function, item) for item in islice(items, 1))
            yield found
    finally:
        for each in waiting:
            each.cancel()


def passed(rows: int) -> None:
    """Report a pass and its number of rows."""
    _LISTENER.get().passed(rows)


def advance(amount: float, unit: str, total: float | None = None) -> None:
    """Report an amount of finished work, in a unit such as "rows", and the total if it is known."""
    _LISTENER.get().advance(amount, unit, total)
