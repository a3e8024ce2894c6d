"""Linear maps from scores of contexts to values of logged rows, and their adjoints; see ``drcrm.actions.base.RowMap``.

``to_rows`` maps scores u and constants a of the contexts to s_k(y_i) − a_k of each row. ``to_contexts`` sums values of
the rows back to scores and contexts. All maps give the same numbers; they differ in speed and memory.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

TABLE_LABELS = 5  # labels per table; the fastest in measurements with 6 and 14 labels


class ChosenRows:
    """Row map of choices of one action: each row reads one score.

    Parameters
    ----------
    place : tuple of integer arrays (n,)
        Index of the chosen action's score.
    position : integer array (n,)
        The same index into the flattened transposed scores, which is faster if these are contiguous.
    context : integer array (n,)
        Context of each row.
    shape : tuple
        Shape of the transposed scores.
    sum_actions : callable
        Function that sums scores over the actions of each context, (m,).
    """

    def __init__(
        self,
        place: tuple[np.ndarray, ...],
        position: np.ndarray,
        context: np.ndarray,
        shape: tuple[int, ...],
        sum_actions: Callable[[np.ndarray], np.ndarray],
    ):
        self._place, self._position, self._context, self._shape = place, position, context, shape
        self._sum_actions, self._size = sum_actions, int(np.prod(shape))

    def to_rows(self, scores: np.ndarray, constant: np.ndarray | None = None) -> np.ndarray:
        by_row = scores.T.ravel().take(self._position) if scores.flags.f_contiguous else scores[self._place]
        if constant is not None:
            by_row -= constant.take(self._context)
        return by_row

    def to_contexts(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by_action = np.bincount(self._position, values, self._size).reshape(self._shape).T
        return by_action, self._sum_actions(by_action)


class OneChosenRow:
    """Row map of choices of one action if row i belongs to context i; it stores no index arrays.

    Parameters
    ----------
    Y : integer array (m,)
        Action of each context.
    shape : tuple
        Shape of the transposed scores.
    starts : integer array (m,), optional
        First candidate of each context's list; None for one of K actions.
    """

    def __init__(self, Y: np.ndarray, shape: tuple[int, ...], starts: np.ndarray | None = None):
        self._Y, self._shape, self._starts = Y, shape, starts

    @property
    def _position(self) -> np.ndarray:
        m = len(self._Y)
        return self._Y * m + np.arange(m) if self._starts is None else self._Y + self._starts

    def to_rows(self, scores: np.ndarray, constant: np.ndarray | None = None) -> np.ndarray:
        by_row = scores.T.ravel().take(self._position)
        if constant is not None:
            by_row -= constant
        return by_row

    def to_contexts(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by_action = np.zeros(int(np.prod(self._shape)))
        by_action[self._position] = values
        return by_action.reshape(self._shape).T, values


class DenseRows:
    """Row map of label vectors if row i belongs to context i.

    Parameters
    ----------
    Y : array (m, q) of 0 and 1
    """

    def __init__(self, Y: np.ndarray):
        self._ones = Y

    def to_rows(self, scores: np.ndarray, constant: np.ndarray) -> np.ndarray:
        by_row = np.einsum("kl,kl->k", self._ones.astype(float), scores)
        if np.isnan(by_row.sum()):  # 0 · ∞
            by_row = np.where(self._ones, scores, 0).sum(axis=1)
        by_row -= constant
        return by_row

    def to_contexts(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if np.isfinite(values.sum()):
            return self._ones * values[:, None], values.copy()
        return np.where(self._ones, values[:, None], 0.0), values.copy()


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
