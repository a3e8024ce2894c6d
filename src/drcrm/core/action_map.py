"""Logged actions as a map between contexts and logged rows: label scores → log-probabilities of the rows, and back.

A row i with context k = context_i and action y_i ∈ {0,1}^q has log π = y_i · u_k − Σ_l log(1 + e^{u_kl}). Two routes to
the same numbers: a sparse matrix where a context has few rows; where it has many, tables of all actions on a few labels
each, which rows look up.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

# By measurement, with 6 and 14 labels and 2 to 180 rows a context:
TABLE_LABELS = 5  # labels per table
TABLE_ROWS = 12  # rows a context from which tables are no slower


class SparseActions:
    """The map as a sparse matrix of the actions' ones, (n, m · q).

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

    def log_prob(self, scores: np.ndarray, log_partition: np.ndarray) -> np.ndarray:
        """Return y_i · u_k − log_partition_k, shape (n,), from the scores u, (m, q), and log_partition, (m,)."""
        found = self._ones @ scores.ravel()
        found -= log_partition[self._context]
        return found

    def sums_by_context(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ v_i y_i, shape (m, q), and Σ v_i, shape (m,), over each context's rows, of values v, (n,)."""
        by_label = (self._ones_transposed @ values).reshape(self._shape)
        return by_label, np.bincount(self._context, values, len(by_label))


class TabledActions:
    """The map by tables: of the 2^b actions on b labels of its context, a row has one. As ``SparseActions``."""

    def __init__(self, Y: np.ndarray, context: np.ndarray, n_contexts: int):
        q = Y.shape[1]
        self._shape = n_contexts, q
        self._tables = []
        for labels in np.array_split(np.arange(q), -(-q // TABLE_LABELS)):
            powers = 1 << np.arange(len(labels))
            actions = (np.arange(2 ** len(labels)) & powers[:, None] > 0).astype(float)
            position = context * actions.shape[1] + Y[:, labels].astype(np.intp) @ powers
            self._tables.append((slice(labels[0], labels[-1] + 1), actions, position))

    def log_prob(self, scores: np.ndarray, log_partition: np.ndarray) -> np.ndarray:
        """See ``SparseActions.log_prob``."""
        found = None
        for labels, actions, position in self._tables:
            table = scores[:, labels] @ actions
            if found is None:
                table -= log_partition[:, None]
                found = table.ravel()[position]
            else:
                found += table.ravel()[position]
        return found

    def sums_by_context(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See ``SparseActions.sums_by_context``."""
        by_label = np.empty(self._shape)
        for labels, actions, position in self._tables:
            table = np.bincount(position, values, len(by_label) * actions.shape[1]).reshape(-1, actions.shape[1])
            by_label[:, labels] = table @ actions.T
        return by_label, table @ np.ones(table.shape[1])  # each table's rows add up to the contexts' sums


def action_map(Y: np.ndarray, context: np.ndarray, n_contexts: int) -> SparseActions | TabledActions:
    """Return the map of the actions Y, (n, q), by the faster route."""
    kind = TabledActions if len(Y) >= TABLE_ROWS * n_contexts else SparseActions
    return kind(Y, np.asarray(context), n_contexts)
