"""Logged actions as a linear map: scores of (context, label) pairs → scores of the logged rows, and back.

A row i with context k = context_i and action y_i ∈ {0,1}^q has the score y_i · u_k. Two routes to the same numbers: a
sparse matrix where a context has few rows; where it has many, tables of the scores of all actions on a few labels
each, which rows look up.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

TABLE_LABELS = 5  # labels per table: by measurement, fastest with 14 labels and 50 to 180 rows a context


class SparseActions:
    """The map as a sparse matrix (n, m · q) of the actions' ones."""

    def __init__(self, Y: np.ndarray, context: np.ndarray, n_contexts: int):
        n, q = Y.shape
        row, label = np.nonzero(Y)
        indptr = np.concatenate([[0], np.cumsum(Y.sum(axis=1, dtype=np.intp))])
        columns = context[row] * q + label
        narrow = np.int32 if max(n_contexts * q, len(row)) < 2**31 else np.int64
        shape = (n, n_contexts * q)
        self._by_label = sparse.csr_array((np.ones(len(row)), columns.astype(narrow), indptr.astype(narrow)), shape)
        self._by_context = sparse.csr_array((np.ones(n), (context, np.arange(n))), shape=(n_contexts, n))
        self._context, self._labels = context, q

    def scores(self, u: np.ndarray, offset: np.ndarray) -> np.ndarray:
        """Return y_i · u_k − offset_k, shape (n,), for u of shape (m, q) and offset of shape (m,)."""
        found = self._by_label @ u.ravel()
        found -= offset[self._context]
        return found

    def sums(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return, of values (n,), the sums Σ v_i y_i over each context's rows, shape (m, q), and Σ v_i, shape (m,)."""
        return (self._by_label.T @ values).reshape(-1, self._labels), self._by_context @ values


class TabledActions:
    """The map by tables: of a context's 2^b scores for the actions on b labels, a row needs one."""

    def __init__(self, Y: np.ndarray, context: np.ndarray, n_contexts: int):
        q = Y.shape[1]
        self._tables = []
        for labels in np.array_split(np.arange(q), -(-q // TABLE_LABELS)):
            powers = 1 << np.arange(len(labels))
            actions = (np.arange(2 ** len(labels)) & powers[:, None] > 0).astype(float)
            entry = context * actions.shape[1] + Y[:, labels].astype(np.intp) @ powers
            self._tables.append((slice(labels[0], labels[-1] + 1), actions, entry))
        self._shape = n_contexts, q
        self._buffer = np.empty(len(Y))

    def scores(self, u: np.ndarray, offset: np.ndarray) -> np.ndarray:
        found = None
        for labels, actions, entry in self._tables:
            table = u[:, labels] @ actions
            if found is None:
                table -= offset[:, None]
                found = table.ravel()[entry]
            else:
                found += np.take(table.ravel(), entry, out=self._buffer, mode="clip")
        return found

    def sums(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by_label = np.empty(self._shape)
        for labels, actions, entry in self._tables:
            table = np.bincount(entry, values, len(by_label) * actions.shape[1]).reshape(-1, actions.shape[1])
            by_label[:, labels] = table @ actions.T
        return by_label, table @ np.ones(table.shape[1])


def action_map(Y: np.ndarray, context: np.ndarray, n_contexts: int) -> SparseActions | TabledActions:
    """Return the map of the logged actions Y (n, q) of the rows' contexts by the faster route."""
    kind = TabledActions if len(Y) >= 2**TABLE_LABELS * n_contexts else SparseActions
    return kind(Y, np.asarray(context), n_contexts)
