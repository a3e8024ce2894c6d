"""A log as blocks of contexts with their rows, over which the current executor maps functions.

Boundaries depend only on the log's shape, so results do not depend on where the log is stored or on who works on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from drcrm.arrays.mapped_arrays import Features, scratch_path, write_blocks
from drcrm.data.executors import Chunks

LARGE = 2**16  # a log with fewer contexts is one block, unless it has many scores
MOST_CONTEXTS, LEAST_CONTEXTS = 2**15, 2**10  # of a block, by its features
BLOCK_FEATURES = 2**20  # numbers in the feature matrix of a block
MANY_SCORES = 2**20  # if a block (or the log, if smaller) has more scores than this, blocks get smaller
BLOCK_SCORES = 2**17  # 1 MB: temporary arrays then stay in the cache
BLOCKS = 4  # in a group; sums are taken over a whole group at once
GROUP_SCORES = 2**22  # scores in a group, if blocks are small


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
    """The blocks of a log, and of arrays that have a row for each of its contexts or candidates.

    Parameters
    ----------
    log : BanditLog
    *context_arrays : array or None

    Attributes
    ----------
    blocks : Chunks of Block
    """

    def __init__(self, log, *context_arrays):
        self._log, self._context_arrays = log, context_arrays
        self._block_size, self._group = _sizes(log)

    @cached_property
    def blocks(self) -> Chunks:
        log, m = self._log, self._log.n_contexts
        if m <= self._block_size:
            return Chunks([Block(log, self._context_arrays, slice(None), slice(None), log.context)])
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
        return Chunks(blocks, self._group)

    def _block(self, contexts: slice, rows: slice | np.ndarray, has_own_rows: bool) -> Block:
        log = self._log
        actions, X, *arrays = log.actions.select(contexts, log.X, *self._context_arrays)
        if not has_own_rows:
            part = log.subset(rows, log.context[rows] - contexts.start, X, actions)
            return Block(part, tuple(arrays), rows, contexts, part.context)
        part = log.subset(rows, self._own_contexts[: contexts.stop - contexts.start], X, actions)
        part = part.replace(row_map=actions.one_row_map(part.Y))
        return Block(part, tuple(arrays), rows, contexts, None)

    def map_rows(self, function: Callable[..., np.ndarray], *arguments) -> np.ndarray:
        """Apply a function to each block, and return its values for all rows of the log, (n,)."""
        values = np.empty(len(self._log.Y))
        for block, found in zip(self.blocks, self.blocks.map(function, *arguments), strict=True):
            values[block.rows] = found
        return values

    def map_contexts(self, function: Callable[..., Features], *arguments) -> Features:
        """Apply a function to each block, and return its rows for all contexts, or candidates, as one array.

        The array is in a file if the log's features are in one and there is a scratch folder.
        """
        return write_blocks(scratch_path(self._log.X), self.blocks.map(function, *arguments))

    def split_rows(self, values: np.ndarray) -> list[np.ndarray]:
        """Return the values of the rows of each block, from those of all rows, (n,)."""
        return [values[block.rows] for block in self.blocks]


def _sizes(log) -> tuple[int, int]:
    """Return the number of contexts of a block, and the number of blocks of a group; both are powers of 2."""
    m = log.n_contexts
    scores_of_context = max(log.X.shape[0] * int(np.prod(log.actions.shape)) // m, 1)
    numbers = max(log.X.size // m, 1)
    size = min(max(_power(BLOCK_FEATURES // numbers), LEAST_CONTEXTS), MOST_CONTEXTS)
    if min(m, size) * scores_of_context > MANY_SCORES:
        size = _power(max(BLOCK_SCORES // scores_of_context, 1))
        return size, max(_power(GROUP_SCORES // (size * scores_of_context)), 1)
    return (size if m >= LARGE else m), BLOCKS


def _power(number: int) -> int:
    """Return the largest power of 2 up to a number of at least 1."""
    return 1 << max(number, 1).bit_length() - 1
