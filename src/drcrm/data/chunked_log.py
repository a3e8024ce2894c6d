"""A log as chunks of contexts with their rows, each of which consists of blocks that fit into the processor's cache.

Boundaries depend only on the log's shape, so results do not depend on where the log is stored or on who works on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .executors import Chunks
from .mapped_arrays import Features, scratch_path, write_blocks

LARGE = 2**16  # contexts from which a log has more than one block
MOST_CONTEXTS, LEAST_CONTEXTS = 2**15, 2**10  # of a block, by its features
BLOCK_FEATURES = 2**20  # numbers in the feature matrix of a block
MANY_SCORES = 2**20  # of all contexts, or of a block, from which blocks are smaller
BLOCK_SCORES = 2**17  # 1 MB: temporary arrays then stay in the cache
BLOCKS = 4  # of a chunk
CHUNK_SCORES = 2**22  # of a chunk with small blocks


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive contexts of a log with their rows.

    Attributes
    ----------
    log : BanditLog
        The contexts and their rows.
    context_arrays : tuple of array or None
        Rows of the arrays that have a row for each context or candidate.
    rows : slice or integer array
        Where the rows are in the whole log.
    contexts : slice
        Where the contexts are in the whole log.
    context : integer array or None
        The context of each row in the block; None if each context has one row, in order.
    """

    log: object
    context_arrays: tuple
    rows: slice | np.ndarray
    contexts: slice
    context: np.ndarray | None


class ChunkedLog:
    """The chunks and blocks of a log, and of arrays that have a row for each of its contexts or candidates.

    Parameters
    ----------
    log : BanditLog
    *context_arrays : array or None

    Attributes
    ----------
    blocks : list of Block
    chunks : Chunks of list of Block
    """

    def __init__(self, log, *context_arrays):
        self._log, self._context_arrays = log, context_arrays
        self._block_size, self._blocks_per_chunk = _sizes(log)

    @cached_property
    def blocks(self) -> list[Block]:
        log, m = self._log, self._log.n_contexts
        if m <= self._block_size:
            return [Block(log, self._context_arrays, slice(None), slice(None), log.context)]
        starts = np.append(np.arange(0, m, self._block_size), m)
        context, order = log.context, None
        steps = np.diff(context)
        has_own_rows = len(context) == m and bool((steps == 1).all())
        if (steps < 0).any():
            order = np.argsort(context, kind="stable")
            context = context[order]
        row_ends = np.searchsorted(context, starts)
        self._own_contexts = np.arange(self._block_size) if has_own_rows else None
        blocks = []
        for number in range(len(starts) - 1):
            contexts = slice(int(starts[number]), int(starts[number + 1]))
            rows = slice(int(row_ends[number]), int(row_ends[number + 1]))
            blocks.append(self._block(contexts, rows if order is None else order[rows], has_own_rows))
        return blocks

    def _block(self, contexts: slice, rows: slice | np.ndarray, has_own_rows: bool) -> Block:
        log = self._log
        actions, X, *arrays = log.actions.part(contexts, log.X, *self._context_arrays)
        if not has_own_rows:
            part = log.some(rows, log.context[rows] - contexts.start, X, actions)
            return Block(part, tuple(arrays), rows, contexts, part.context)
        part = log.some(rows, self._own_contexts[: contexts.stop - contexts.start], X, actions)
        part = part.derived(row_map=actions.own_rows(part.Y))
        return Block(part, tuple(arrays), rows, contexts, None)

    @cached_property
    def chunks(self) -> Chunks:
        blocks, step = self.blocks, self._blocks_per_chunk
        return Chunks([blocks[start : start + step] for start in range(0, len(blocks), step)])

    def map_blocks(self, function: Callable[..., object], *arguments) -> Iterator:
        """Yield ``function(block, *arguments)`` of each block, in order."""
        for results in self.chunks.map(_map_blocks, function, arguments):
            yield from results

    def map_rows(self, function: Callable[..., np.ndarray], *arguments) -> np.ndarray:
        """Return the values of all rows, (n,), of a function that returns those of a block's rows."""
        values = np.empty(len(self._log.Y))
        for block, found in zip(self.blocks, self.map_blocks(function, *arguments), strict=True):
            values[block.rows] = found
        return values

    def map_contexts(self, function: Callable[..., Features], *arguments) -> Features:
        """Return the rows of all contexts, or candidates, of a function that returns those of a block.

        They are in a file if the log's features are.
        """
        return write_blocks(scratch_path(self._log.X), self.map_blocks(function, *arguments))

    def split_rows(self, values: np.ndarray | None) -> list[list[np.ndarray | None]]:
        """Return the values of the rows, (n,), of each block of each chunk."""
        return [[None if values is None else values[block.rows] for block in blocks] for blocks in self.chunks]

    def split_contexts(self, values: np.ndarray | None) -> list[list[np.ndarray | None]]:
        """Return the values of the contexts, (m,), of each block of each chunk."""
        return [[None if values is None else values[block.contexts] for block in blocks] for blocks in self.chunks]


def rows_of(blocks: list[Block]) -> slice | np.ndarray:
    """Return where the rows of consecutive blocks are in the whole log."""
    if all(isinstance(block.rows, slice) for block in blocks):
        return slice(blocks[0].rows.start, blocks[-1].rows.stop)
    return np.concatenate([block.rows for block in blocks])


def _map_blocks(blocks: list[Block], function: Callable, arguments: tuple) -> list:
    return [function(block, *arguments) for block in blocks]


def _sizes(log) -> tuple[int, int]:
    """Return the number of contexts of a block, and the number of blocks of a chunk; both are powers of 2."""
    m = log.n_contexts
    scores_of_context = max(log.X.shape[0] * int(np.prod(log.actions.shape)) // m, 1)
    numbers = max(log.X.size // m, 1)
    size = min(max(_power(BLOCK_FEATURES // numbers), LEAST_CONTEXTS), MOST_CONTEXTS)
    if min(m, size) * scores_of_context > MANY_SCORES:
        size = _power(max(BLOCK_SCORES // scores_of_context, 1))
        return size, max(_power(CHUNK_SCORES // (size * scores_of_context)), 1)
    return (size if m >= LARGE else m), BLOCKS


def _power(number: int) -> int:
    """Return the largest power of 2 up to a number of at least 1."""
    return 1 << max(number, 1).bit_length() - 1
