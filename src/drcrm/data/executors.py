"""Executors that run functions on chunks of a log: the current thread, a thread pool, or one set by ``use_executor``.

Results are in the order of the chunks. Threads share the work because numpy releases the interpreter's lock.

Long-running work also sends progress reports, which the current listener receives.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from numbers import Integral
from typing import Any, TypeAlias

from threadpoolctl import threadpool_limits

from drcrm.errors import InputError

PREFETCH = 4  # number of calls submitted ahead, for each thread except the first
TASKS = 64  # approximate number of tasks for each thread; smaller tasks would take longer to submit than to run

Task: TypeAlias = Callable[[Sequence, Sequence[tuple]], list]  # maps consecutive chunks, and a tuple of values for each


class Chunks(Sequence):
    """A sequence of chunks, mapped by the current executor.

    Parameters
    ----------
    items : sequence
        Chunks. A cluster needs picklable chunks and functions.
    """

    def __init__(self, items: Iterable):
        self._items = list(items)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, number: Any) -> Any:
        return self._items[number]

    def map(self, function: Callable, *arguments: Any, by_chunk: Iterable | None = None) -> Iterator:
        """Yield ``function(chunk, *arguments)`` for each chunk, in order.

        ``by_chunk`` has one value for each chunk; then yield ``function(chunk, value, *arguments)``.
        """
        values = [()] * len(self) if by_chunk is None else [(value,) for value in by_chunk]
        return _EXECUTOR.get().map_chunks(self, partial(_run_chunks, function, arguments), values)

    def transform(self, function: Callable, *arguments: Any) -> "Chunks":
        """Return the chunks ``function(chunk, *arguments)``. A cluster keeps them where it keeps these."""
        return _EXECUTOR.get().transform_chunks(self, partial(_run_chunks, function, arguments))


def _run_chunks(function: Callable, arguments: tuple, chunks: Sequence, values: Sequence[tuple]) -> list:
    return [function(chunk, *value, *arguments) for chunk, value in zip(chunks, values, strict=True)]


class ChunkExecutor(Executor):
    """A ``concurrent.futures`` executor that also maps functions over chunks; this class uses the current thread."""

    threads = 1

    def map_chunks(self, chunks: Chunks, task: Task, values: Sequence[tuple]) -> Iterator:
        """Yield the results of a task for each chunk, in order."""
        step = max(len(chunks) // (TASKS * self.threads), 1)
        parts = (slice(start, start + step) for start in range(0, len(chunks), step))
        for results in self.run(partial(task, chunks[part], values[part]) for part in parts):
            yield from results

    def transform_chunks(self, chunks: Chunks, task: Task) -> Chunks:
        """Return the results of a task as chunks."""
        return Chunks(self.map_chunks(chunks, task, [()] * len(chunks)))

    def run(self, calls: Iterable[Callable[[], object]]) -> Iterator:
        """Run calls on this machine, and yield their results in order."""
        return (call() for call in calls)


class ThreadExecutor(ThreadPoolExecutor, ChunkExecutor):
    """Thread pool; only a few calls are submitted ahead."""

    def __init__(self, threads: int):
        super().__init__(threads, thread_name_prefix="drcrm")
        self.threads = threads

    def run(self, calls: Iterable[Callable[[], object]]) -> Iterator:
        calls = iter(calls)
        first = zip(range(PREFETCH * (self.threads - 1)), calls, strict=False)  # islice does not accept large numbers
        waiting = deque(self.submit(call) for _, call in first)
        try:
            for call in calls:
                waiting.append(self.submit(call))
                yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


_EXECUTOR: ContextVar[ChunkExecutor] = ContextVar("executor", default=ChunkExecutor())  # noqa: B039  it has no state


def current_executor() -> ChunkExecutor:
    """Return the executor in use."""
    return _EXECUTOR.get()


def limit_openmp() -> threadpool_limits:
    """Return a context in which scikit-learn's OpenMP loops take the threads of the current executor.

    By default they take all cores. Boosted trees are then several times slower on a machine that is busy.
    """
    return threadpool_limits(_EXECUTOR.get().threads, "openmp")


def run_in_order(calls: Iterable[Callable[[], object]]) -> Iterator:
    """Run calls on this machine with the threads of the current executor, and yield their results in order."""
    return _EXECUTOR.get().run(calls)


@contextmanager
def use_executor(executor: ChunkExecutor) -> Iterator[None]:
    """Map functions over chunks with this executor inside the ``with`` block."""
    token = _EXECUTOR.set(executor)
    try:
        with executor:
            yield
    finally:
        _EXECUTOR.reset(token)


@contextmanager
def use_threads(n_jobs: int | None = None) -> Iterator[None]:
    """Map functions over chunks with ``n_jobs`` threads inside the ``with`` block; 1 keeps the current executor."""
    threads = count_threads(n_jobs)
    if threads == 1:
        yield
        return
    with use_executor(ThreadExecutor(threads)):
        yield


def count_threads(n_jobs: object, name: str = "n_jobs") -> int:
    """Return the number of threads as scikit-learn counts them: None is 1, −1 all cores, −2 all but one.

    Raises InputError unless ``n_jobs`` is None or a whole number other than 0.
    """
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise InputError(f"{name} is {n_jobs!r}, expected a whole number that is not 0, or None")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    n_jobs = int(n_jobs)
    return n_jobs if n_jobs > 0 else max(cores + 1 + n_jobs, 1)


class Listener:
    """Receiver of progress reports; this base class ignores them."""

    def receive_pass(self, rows: int) -> None:
        """Receive the number of rows of a pass over a log."""

    def receive_progress(self, amount: float, unit: str, total: float | None = None) -> None:
        """Receive an amount of finished work in a unit such as "rows", and the total amount if it is known."""


_LISTENER: ContextVar[Listener] = ContextVar("listener", default=Listener())  # noqa: B039  it has no state


@contextmanager
def use_listener(listener: Listener) -> Iterator[None]:
    """Send all reports to ``listener`` inside the ``with`` block."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def report_pass(rows: int) -> None:
    """Report a pass over a log with this number of rows."""
    _LISTENER.get().receive_pass(rows)


def report_progress(amount: float, unit: str, total: float | None = None) -> None:
    """Report an amount of finished work in a unit such as "rows", and the total amount if it is known."""
    _LISTENER.get().receive_progress(amount, unit, total)
