"""A log as blocks of consecutive contexts with their rows, over which the current executor maps functions.

Block boundaries depend only on the log's shape, so results do not depend on where the log is stored or on the number of
threads or workers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from drcrm.arrays.mapped_arrays import Features, scratch_path, write_blocks
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import Chunks

LARGE = 2**16  # a log with fewer contexts is one block, unless it has many scores
BLOCK_FEATURES = 2**20  # number of entries in the feature matrix of a block
MOST_CONTEXTS, LEAST_CONTEXTS = 2**15, 2**10  # limits of the number of contexts in such a block
MANY_SCORES = 2**20  # if a block would have more scores, blocks have BLOCK_SCORES scores instead
BLOCK_SCORES = 2**17  # these take 1 MB, so that temporary arrays stay in the cache


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
