"""Executors that run a function on chunks: this thread, a thread pool, or whatever else ``using`` is given.

Functions run on chunks, and results come back in the order of the chunks. Numpy releases the interpreter's lock, so
threads share the work.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice

from ..errors import InputError

PREFETCH = 4  # pending results for each thread


class Chunks(Sequence):
    """A sequence of chunks over which the current executor maps functions.

    Parameters
    ----------
    items : sequence
        Chunks. A cluster needs them, and the functions, to be picklable.
    """

    def __init__(self, items: Sequence):
        self._items = list(items)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, number: int):
        return self._items[number]

    def map(self, function: Callable, *arguments, by_chunk: Sequence | None = None) -> Iterator:
        """Yield ``function(chunk, *arguments)`` of each chunk, in order.

        With ``by_chunk``, a sequence of one value for each chunk, yield ``function(chunk, value, *arguments)``.
        """
        return _EXECUTOR.get().map_chunks(function, self, arguments, by_chunk)


class ChunkExecutor(Executor):
    """Executor of ``concurrent.futures`` that also maps functions over chunks; this one runs them when asked."""

    prefetch = 0

    def submit(self, function: Callable, /, *arguments, **keywords) -> Future:
        future: Future = Future()
        try:
            future.set_result(function(*arguments, **keywords))
        except BaseException as error:
            future.set_exception(error)
        return future

    def map_chunks(
        self, function: Callable, chunks: Chunks, arguments: tuple, by_chunk: Sequence | None = None
    ) -> Iterator:
        """Yield what the function returns for each chunk; see ``Chunks.map``."""
        values = [()] * len(chunks) if by_chunk is None else [(value,) for value in by_chunk]
        calls = ((function, chunk, *value, *arguments) for chunk, value in zip(chunks, values, strict=True))
        waiting = deque(self.submit(*call) for call in islice(calls, self.prefetch))
        try:
            for call in calls:
                waiting.append(self.submit(*call))
                yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


class ThreadExecutor(ThreadPoolExecutor, ChunkExecutor):
    """Thread pool; a few results for each thread wait to be taken."""

    def __init__(self, threads: int):
        super().__init__(threads, thread_name_prefix="drcrm")
        self.prefetch = PREFETCH * threads


_EXECUTOR: ContextVar[ChunkExecutor] = ContextVar("executor", default=ChunkExecutor())  # noqa: B039  it has no state


@contextmanager
def using(executor: ChunkExecutor) -> Iterator[None]:
    """Map functions over chunks by this executor inside the ``with`` block."""
    token = _EXECUTOR.set(executor)
    try:
        with executor:
            yield
    finally:
        _EXECUTOR.reset(token)


@contextmanager
def using_threads(n_jobs: int | None = None) -> Iterator[None]:
    """Map functions over chunks by ``n_jobs`` threads; with one thread, by the executor in use before."""
    threads = as_jobs(n_jobs)
    if threads == 1:
        yield
        return
    with using(ThreadExecutor(threads)):
        yield


def as_jobs(n_jobs: object, name: str = "n_jobs") -> int:
    """Return the number of threads, like scikit-learn: None is 1, −1 all cores, −2 all but one.

    Raises InputError for anything but a whole number other than 0, or None.
    """
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0:
        raise InputError(f"{name} is {n_jobs!r}, expected a whole number that is not 0, or None")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return n_jobs if n_jobs > 0 else max(cores + 1 + n_jobs, 1)
