"""The kinds of actions: all that tells one kind from another is here, and nothing else asks which kind it is.

A policy is π(y|x) ∝ e^{s(y)}, s(y) linear in a context's scores u; a kind has the log-partition A(u) of its actions,
the mean μ = ∇A(u), by which Σ_y π(y) f(y) is exact for f linear in the same way, products with ∇²A(u), and the map
between contexts and logged rows, log π(y_i) = s_k(y_i) − A(u_k).

Source: sections 2.3 and 4 of the paper (exponential models, multi-label actions).
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..errors import InputError
from .numerics import exp
from .validation import check_actions

LARGE = 700.0  # e^u does not overflow up to here, and 1 + e^u = e^u from far below
MANY = 10  # actions that are not all one-hot by chance

# By measurement, with 6 and 14 labels and 2 to 180 rows a context:
TABLE_LABELS = 5  # labels per table
TABLE_ROWS = 12  # rows a context from which tables are no slower


class LabelVectors:
    """y ∈ {0,1}^q, s(y) = y·u: π(y|x) = Π_l σ(u_l)^{y_l} σ(−u_l)^{1−y_l}, which factorises over the labels.

    Parameters
    ----------
    n_labels : int
        q.
    """

    def __init__(self, n_labels: int):
        self.n_labels = n_labels

    def __str__(self) -> str:
        return f"{self.n_labels} labels"

    def check(self, Y, rows: int | None = None, owner: str = "the policy") -> np.ndarray:
        """Return actions as an array (n, q) of one byte each; InputError where they are not those of ``owner``."""
        Y = check_actions(Y, rows)
        if Y.shape[1] != self.n_labels:
            raise InputError(f"Y has {Y.shape[1]} labels, {owner} has {self.n_labels}")
        return Y

    def log_partition(self, scores: np.ndarray, buffers: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return A(u) = Σ_l log(1 + e^{u_l}), shape (m,), and μ = σ(u), shape (m, q), of scores u, (m, q).

        One exponential for both. ``buffers`` (2, m, q) is written to, and holds μ afterwards: what evaluates many times
        need not allocate.
        """
        mean, total = np.empty((2, *scores.shape)) if buffers is None else buffers
        large = scores.max() > LARGE
        exp(np.minimum(scores, LARGE) if large else scores, out=mean)
        np.add(mean, 1, out=total)
        np.divide(mean, total, out=mean)
        ones = np.ones(scores.shape[1])
        log_partition = np.log(total, out=total) @ ones
        if large:
            log_partition += np.maximum(scores - LARGE, 0) @ ones
        return log_partition, mean

    def times_hessian(self, mean: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return ∇²A(u) v, shape (m, q), of values v, (m, q), which are written over: σ(u) σ(−u) v."""
        values *= 1 - mean
        values *= mean
        return values

    def most_probable(self, scores: np.ndarray) -> np.ndarray:
        """Return the action of the largest probability, y_l = 1[u_l ≥ 0], shape (m, q)."""
        return (scores >= 0).astype(np.int64)

    def draw(self, mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw an action of each context, shape (m, q)."""
        return (rng.random(mean.shape) < mean).astype(np.int64)

    def row_map(self, Y: np.ndarray, context: np.ndarray, n_contexts: int) -> SparseRows | TabledRows:
        """Return the map between contexts and the rows with actions Y, (n, q), by the faster route."""
        kind = TabledRows if len(Y) >= TABLE_ROWS * n_contexts else SparseRows
        return kind(Y, np.asarray(context), n_contexts)

    def sort_keys(self, Y: np.ndarray) -> list[np.ndarray]:
        """Return vectors (n,) that are equal for equal actions, and for no others."""
        return [*np.packbits(Y, axis=1).T]

    def columns(self, Y: np.ndarray) -> np.ndarray:
        """Return what costs are linear in, shape (n, q + 1): each label, and last 1, which every action has."""
        return np.column_stack([Y, np.ones(len(Y))])


def check_not_one_hot(Y: np.ndarray) -> None:
    """Raise InputError where all of at least 10 actions (n, q), q > 2, have exactly one 1, and not all the same.

    Fewer may have so by chance. All the same action are a policy that always does the same.
    """
    n, q = Y.shape
    if q > 2 and n >= MANY and (Y.sum(axis=1) == 1).all() and (Y[0] != Y).any():
        raise InputError(
            f"every row of Y has exactly one 1: that is a single choice among {q} actions, which is not supported; "
            f"expected {q} labels, each of which is 0 or 1 whatever the others are"
        )


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
