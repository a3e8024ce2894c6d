"""A log as blocks of consecutive contexts with their rows, and the executors that run functions on such chunks.

Block boundaries depend only on the log's shape, so results do not depend on where the log is stored or on the number of
threads or workers. An executor uses the current thread, a thread pool, or the workers of a cluster. Results are in the
order of the chunks. Threads share the work because numpy releases the interpreter's lock.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from threadpoolctl import ThreadpoolController

from drcrm.arrays.mapped_arrays import Features, scratch_path, write_blocks
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError

PREFETCH = 4  # number of calls submitted ahead, for each thread except the first
TASKS = 64  # approximate number of tasks for each thread; smaller tasks would take longer to submit than to run

Task: TypeAlias = Callable[[Sequence, Sequence[tuple]], list]  # maps consecutive chunks, and a tuple of values for each
LARGE = 2**16  # a log with fewer contexts is one block, unless it has many scores
BLOCK_FEATURES = 2**20  # number of entries in the feature matrix of a block
MOST_CONTEXTS, LEAST_CONTEXTS = 2**15, 2**10  # limits of the number of contexts in such a block
MANY_SCORES = 2**20  # if a block would have more scores, blocks have BLOCK_SCORES scores instead
BLOCK_SCORES = 2**17  # these take 1 MB, so that temporary arrays stay in the cache


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


@lru_cache(maxsize=1)
def _thread_controller(n_modules: int) -> ThreadpoolController:
    """Return the controller of the loaded libraries, which takes milliseconds to find them. Imports load others."""
    return ThreadpoolController()


def limit_threads(threads: int, interface: str) -> Any:
    """Return a context in which the libraries of an interface, "blas" or "openmp", take this many threads."""
    return _thread_controller(len(sys.modules)).limit(limits=threads, user_api=interface)


def limit_openmp() -> Any:
    """Return a context in which scikit-learn's OpenMP loops take the threads of the current executor.

    By default they take all cores. Boosted trees are then several times slower on a machine that is busy.
    """
    return limit_threads(_EXECUTOR.get().threads, "openmp")


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


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive contexts of a log with their rows.

    Attributes
    ----------
    log : BanditLog
        The contexts and their rows.
    context_arrays : tuple of array or None
        This block's rows of the arrays that belong to contexts or candidates.
    rows : slice or integer array
        Positions of the rows in the whole log.
    contexts : slice
        Positions of the contexts in the whole log.
    context : integer array or None
        Context of each row within the block; None if row i belongs to context i.
    """

    log: BanditLog
    context_arrays: tuple
    rows: slice | np.ndarray
    contexts: slice
    context: np.ndarray | None


class ChunkedLog:
    """The blocks of a log, and of arrays that have a row for each of its contexts or candidates.

    Parameters
    ----------
    log : BanditLog
    *context_arrays : array or None
    """

    def __init__(self, log: BanditLog, *context_arrays: Any):
        self._log, self._context_arrays = log, context_arrays
        self._block_size = _contexts_of_block(log)

    @cached_property
    def blocks(self) -> Chunks:
        """Blocks in the order of their contexts."""
        log, m = self._log, self._log.n_contexts
        if m <= self._block_size:
            return Chunks([Block(log, self._context_arrays, slice(None), slice(None), log.context)])
        starts = np.append(np.arange(0, m, self._block_size), m)
        context, order = log.context, None
        steps = np.diff(context)
        is_paired = len(context) == m and bool((steps == 1).all())
        if (steps < 0).any():
            order = np.argsort(context, kind="stable")
            context = context[order]
        row_ends = np.searchsorted(context, starts)
        paired_context = np.arange(self._block_size) if is_paired else None
        blocks = []
        for number in range(len(starts) - 1):
            contexts = slice(int(starts[number]), int(starts[number + 1]))
            rows = slice(int(row_ends[number]), int(row_ends[number + 1]))
            blocks.append(self._block(contexts, rows if order is None else order[rows], paired_context))
        return Chunks(blocks)

    def _block(self, contexts: slice, rows: slice | np.ndarray, paired_context: np.ndarray | None) -> Block:
        """Return a block. ``paired_context`` is 0, 1, 2 … if row i belongs to context i, else None."""
        log = self._log
        actions, X, *arrays = log.actions.select(contexts, log.X, *self._context_arrays)
        if paired_context is None:
            part = log.subset(rows, log.context[rows] - contexts.start, X, actions)
            return Block(part, tuple(arrays), rows, contexts, part.context)
        part = log.subset(rows, paired_context[: contexts.stop - contexts.start], X, actions)
        part = part.replace(row_map=actions.row_map(part.Y, None, len(part.Y)))
        return Block(part, tuple(arrays), rows, contexts, None)

    def map_rows(self, function: Callable[..., np.ndarray], *arguments: Any) -> np.ndarray:
        """Apply a function to each block, and return the values for all rows of the log, (n,)."""
        values = np.empty(len(self._log.Y))
        for block, block_values in zip(self.blocks, self.blocks.map(function, *arguments), strict=True):
            values[block.rows] = block_values
        return values

    def map_contexts(self, function: Callable[..., Features], *arguments: Any) -> Features:
        """Apply a function to each block, and join the arrays that it returns into one array.

        The array has a row for each context or, for lists of actions, each candidate. It is in a file if the log's
        features are in a file and there is a scratch folder.
        """
        return write_blocks(scratch_path(self._log.X), self.blocks.map(function, *arguments))

    def split_rows(self, values: np.ndarray) -> list[np.ndarray]:
        """Return the values of the rows of each block, from the values of all rows, (n,)."""
        return [values[block.rows] for block in self.blocks]


def _contexts_of_block(log: BanditLog) -> int:
    """Return the number of contexts in a block: a power of 2, or all contexts."""
    m = log.n_contexts
    scores_per_context = max(log.X.shape[0] * int(np.prod(log.actions.shape)) // m, 1)
    features_per_context = max(log.X.size // m, 1)
    size = min(max(_round_to_power(BLOCK_FEATURES // features_per_context), LEAST_CONTEXTS), MOST_CONTEXTS)
    if min(m, size) * scores_per_context > MANY_SCORES:
        return _round_to_power(BLOCK_SCORES // scores_per_context)
    return size if m >= LARGE else m


def _round_to_power(number: int) -> int:
    """Return the largest power of 2 up to a number, at least 1."""
    return 1 << max(number, 1).bit_length() - 1
