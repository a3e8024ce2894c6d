"""Maps between scores of contexts and logged rows: u ↦ s_k(y_i) − a_k of each row, and sums over rows back to contexts.

A kind of action chooses its own: see :mod:`drcrm.actions.base`.
"""

from collections.abc import Callable

import numpy as np
from scipy import sparse

# By measurement, with 6 and 14 labels:
TABLE_LABELS = 5  # labels per table


class ChosenRows:
    """Choices of one action as the place of each row's action among the scores.

    Parameters
    ----------
    place : tuple of integer arrays (n,)
        Where the score of a row's action is.
    position : integer array (n,)
        Where it is in the transposed scores as one vector, by which they are read where they are so in memory.
    context : integer array (n,)
        Which of the m contexts a row belongs to.
    shape : tuple
        Of the transposed scores.
    sums : callable
        Scores ↦ their sums over the actions of each context, (m,).
    """

    def __init__(
        self,
        place: tuple[np.ndarray, ...],
        position: np.ndarray,
        context: np.ndarray,
        shape: tuple[int, ...],
        sums: Callable,
    ):
        self._place, self._position, self._context, self._shape, self._sums = place, position, context, shape, sums
        self._size = int(np.prod(shape))

    def to_rows(self, scores: np.ndarray, constant: np.ndarray | None = None) -> np.ndarray:
        """Return u_a − a_k, shape (n,), from scores u and constants a, (m,), of the contexts, if any."""
        by_row = scores.T.ravel().take(self._position) if scores.flags.f_contiguous else scores[self._place]
        if constant is not None:
            by_row -= constant.take(self._context)
        return by_row

    def to_contexts(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return sums of values (n,) over each action's rows, of the scores' shape, and over each context's, (m,)."""
        by_action = self._placed(values).reshape(self._shape).T
        return by_action, self._sums(by_action)

    def _placed(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self._position, values, self._size)


class OneChosenRow:
    """The same where each context has one row, in their order: the same numbers, without arrays of its own.

    Parameters
    ----------
    Y : integer array (m,)
        The action of each context.
    shape : tuple
        Of the transposed scores.
    starts : integer array (m,), optional
        Where each context's list begins; None for one action of K.
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
        placed = np.zeros(int(np.prod(self._shape)))
        placed[self._position] = values
        return placed.reshape(self._shape).T, values


class DenseRows:
    """Label vectors of which each context has one: the same numbers as ``SparseRows``, without a matrix to be made.

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
    """Label vectors as a sparse matrix of their ones, (n, m · q): for contexts of few rows.

    Parameters
    ----------
    Y : array (n, q) of 0 and 1
    context : integer array (n,)
        Which of the m contexts a row belongs to.
    n_contexts : int
        m.
    """

    def __init__(self, Y: np.ndarray, context: np.ndarray, n_contexts: int):
        n, q = Y.shape
        row, label = np.nonzero(Y)
        indptr = np.concatenate([[0], np.cumsum(Y.sum(axis=1, dtype=np.intp))])
        columns = context[row] * q + label
        narrow = np.int32 if max(n_contexts * q, len(row)) < 2**31 else np.int64
        shape = (n, n_contexts * q)
        self._ones = sparse.csr_array((np.ones(len(row)), columns.astype(narrow), indptr.astype(narrow)), shape)
        self._ones_transposed = self._ones.T
        self._context, self._shape = context, (n_contexts, q)

    def to_rows(self, scores: np.ndarray, constant: np.ndarray) -> np.ndarray:
        """Return y_i · u_k − a_k, shape (n,), from scores u, (m, q), and constants a, (m,), of the contexts."""
        by_row = self._ones @ scores.ravel()
        by_row -= constant[self._context]
        return by_row

    def to_contexts(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ v_i y_i, shape (m, q), and Σ v_i, shape (m,), over each context's rows, of values v, (n,)."""
        by_label = (self._ones_transposed @ values).reshape(self._shape)
        return by_label, np.bincount(self._context, values, len(by_label))


class TabledRows:
    """Label vectors by tables of all actions on a few labels each, which rows look up: for contexts of many rows.

    The same numbers as ``SparseRows``: of the 2^b actions on b labels of its context, a row has one.
    """

    def __init__(self, Y: np.ndarray, context: np.ndarray, n_contexts: int):
        q = Y.shape[1]
        self._shape = n_contexts, q
        self._tables = []
        for labels in np.array_split(np.arange(q), -(-q // TABLE_LABELS)):
            powers = 1 << np.arange(len(labels))
            actions = (np.arange(2 ** len(labels)) & powers[:, None] > 0).astype(float)
            position = context * actions.shape[1] + Y[:, labels].astype(np.intp) @ powers
            self._tables.append((slice(labels[0], labels[-1] + 1), actions, position))

    def to_rows(self, scores: np.ndarray, constant: np.ndarray) -> np.ndarray:
        by_row = None
        for labels, actions, position in self._tables:
            table = scores[:, labels] @ actions
            if by_row is None:
                table -= constant[:, None]
                by_row = table.ravel()[position]
            else:
                by_row += table.ravel()[position]
        return by_row

    def to_contexts(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by_label = np.empty(self._shape)
        for labels, actions, position in self._tables:
            table = np.bincount(position, values, len(by_label) * actions.shape[1]).reshape(-1, actions.shape[1])
            by_label[:, labels] = table @ actions.T
        return by_label, table @ np.ones(table.shape[1])  # each table's rows add up to the contexts' sums
