"""Linear maps from scores of contexts to values of logged rows, and their adjoints; see ``drcrm.actions.base.RowMap``.

``to_rows`` maps scores u and constants a of the contexts to s_k(y_i) − a_k of each row. ``to_contexts`` sums values of
the rows back to scores and contexts. All maps give the same numbers; they differ in speed and memory.
"""

from typing import Any

import numpy as np
from scipy import sparse

TABLE_LABELS = 5  # labels per table; the fastest in measurements with 6 and 14 labels


class ChosenRows:
    """Row map of choices of one action: each row reads one score.

    Parameters
    ----------
    actions : OneOfMany
    Y : integer array (n,)
        Action of each row.
    context : integer array (n,) or None
        Context of each row; None if row i belongs to context i, which stores no places.
    n_contexts : int
        m.
    """

    def __init__(self, actions: Any, Y: np.ndarray, context: np.ndarray | None, n_contexts: int):
        self._actions, self._Y, self._context, self._n_contexts = actions, Y, context, n_contexts
        self._known = None if context is None else actions.score_places(Y, context, n_contexts)

    @property
    def _places(self) -> np.ndarray:
        if self._known is not None:
            return self._known
        return self._actions.score_places(self._Y, np.arange(self._n_contexts), self._n_contexts)

    def to_rows(self, scores: np.ndarray, constant: np.ndarray | None = None) -> np.ndarray:
        if scores.flags.f_contiguous:
            by_row = scores.T.ravel().take(self._places)
        else:
            by_row = scores[np.arange(self._n_contexts) if self._context is None else self._context, self._Y]
        if constant is not None:
            by_row -= constant if self._context is None else constant.take(self._context)
        return by_row

    def to_contexts(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        size = self._actions.count_scores(self._n_contexts)
        by_action = np.bincount(self._places, values, size).reshape(*self._actions.shape, -1).T
        return by_action, self._actions.sum_actions(by_action)


class SparseRows:
    """Row map of label vectors, stored as a sparse matrix (n, m · q): fast for few rows per context.

    Parameters
    ----------
    Y : array (n, q) of 0 and 1
    context : integer array (n,)
        Context of each row.
    n_contexts : int
        m.
    """

    def __init__(self, Y: np.ndarray, context: np.ndarray, n_contexts: int):
        n, q = Y.shape
        row, label = np.nonzero(Y)
        indptr = np.concatenate([[0], np.cumsum(Y.sum(axis=1, dtype=np.intp))])
        columns = context[row] * q + label
        dtype = np.int32 if max(n_contexts * q, len(row)) < 2**31 else np.int64
        shape = (n, n_contexts * q)
        self._ones = sparse.csr_array((np.ones(len(row)), columns.astype(dtype), indptr.astype(dtype)), shape)
        self._ones_transposed = self._ones.T
        self._context, self._shape = context, (n_contexts, q)

    def to_rows(self, scores: np.ndarray, constant: np.ndarray) -> np.ndarray:
        by_row = self._ones @ scores.ravel()
        by_row -= constant[self._context]
        return by_row

    def to_contexts(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by_label = (self._ones_transposed @ values).reshape(self._shape)
        return by_label, np.bincount(self._context, values, len(by_label))


class TabledRows:
    """Row map of label vectors by tables of the scores of all 2^b vectors of b labels: fast for many rows per context.

    Each row looks up its entry in the tables of its context, so scores are added once per context, not once per row.
    Parameters as for ``SparseRows``.
    """

    def __init__(self, Y: np.ndarray, context: np.ndarray, n_contexts: int):
        q = Y.shape[1]
        self._shape = n_contexts, q
        self._tables = []
        for labels in np.array_split(np.arange(q), -(-q // TABLE_LABELS)):
            powers = 1 << np.arange(len(labels))
            vectors = (np.arange(2 ** len(labels)) & powers[:, None] > 0).astype(float)
            position = context * vectors.shape[1] + Y[:, labels].astype(np.intp) @ powers
            self._tables.append((slice(labels[0], labels[-1] + 1), vectors, position))

    def to_rows(self, scores: np.ndarray, constant: np.ndarray) -> np.ndarray:
        by_row: Any = None
        for labels, vectors, position in self._tables:
            table = scores[:, labels] @ vectors
            if by_row is None:
                table -= constant[:, None]
                by_row = table.ravel()[position]
            else:
                by_row += table.ravel()[position]
        return by_row

    def to_contexts(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by_label = np.empty(self._shape)
        for labels, vectors, position in self._tables:
            table = np.bincount(position, values, len(by_label) * vectors.shape[1]).reshape(-1, vectors.shape[1])
            by_label[:, labels] = table @ vectors.T
        return by_label, table @ np.ones(table.shape[1])  # every table sums to the totals of the contexts
