"""Logged bandit feedback: the log itself, and its clipping constant."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..errors import InputError
from .action_map import SparseActions, TabledActions, action_map
from .validation import (
    WHOLE,
    check_actions,
    check_context,
    check_costs,
    check_features,
    check_integers,
    check_vector,
    reject,
)


class BanditLog:
    """n logged quadruplets (x, y, p, c), each distinct context stored once.

    Parameters
    ----------
    X : array or CSR (m, d)
        The contexts' features.
    Y : array (n, q)
        The logged actions, 0 or 1 for each label.
    propensity : array (n,)
        p = π0(y|x) of the logged action, in (0, 1].
    cost : array (n,)
        c, in the units of the loss; the lower the better.
    context : integer array (n,), optional
        Row of X that each logged row belongs to; by default row i belongs to context i.
    count : integer array (n,), optional
        How often each row occurs (its multiplicity), 0 or more; by default once.

    Raises
    ------
    InputError
        A shape that does not fit, a value out of range (with its row), or no row that occurs at all.
    """

    def __init__(self, X, Y, propensity, cost, context=None, count=None):
        self.X = check_features(X)
        m = self.X.shape[0]
        self.Y = check_actions(Y, rows=m if context is None else None)
        n = len(self.Y)
        self.propensity = check_vector(propensity, n, "propensity")
        reject((self.propensity <= 0) | (self.propensity > 1), self.propensity, "propensity", "a value in (0, 1]")
        self.cost = check_costs(cost, n)
        self.context = np.arange(n) if context is None else check_context(context, n, m)
        self.count = np.ones(n, dtype=np.intp) if count is None else check_integers(count, n, "count")
        reject(self.count < 0, self.count, "count", "0 or more")
        if not self.count.any():
            raise InputError(f"the log is empty: {n} rows, none of which occurs")
        if self.count.sum(dtype=float) >= WHOLE:
            raise InputError(f"count adds up to {self.count.sum(dtype=float):.6g}, expected less than {WHOLE:g}")

    def __repr__(self) -> str:
        (m, d), (n, q) = self.X.shape, self.Y.shape
        return f"BanditLog({n} rows, {m} contexts, {d} features, {q} labels)"

    @property
    def size(self) -> int:
        """n, every row counted as often as it occurs."""
        return int(self.count.sum())

    @cached_property
    def log_propensity(self) -> np.ndarray:
        return np.log(self.propensity)

    @cached_property
    def action_map(self) -> SparseActions | TabledActions:
        """The map between scores of the contexts and values of the rows: see :mod:`drcrm.core.action_map`."""
        return action_map(self.Y, self.context, self.X.shape[0])

    def recount(self, count) -> BanditLog:
        """Return the log with other multiplicities, without the rows that never occur and contexts without rows."""
        count = check_integers(count, len(self.Y), "count")
        keep = count != 0
        used, context = np.unique(self.context[keep], return_inverse=True)
        X = self.X if len(used) == self.X.shape[0] or not len(used) else self.X[used]
        return BanditLog(X, self.Y[keep], self.propensity[keep], self.cost[keep], context, count[keep])

    def with_contexts(self, X) -> BanditLog:
        """Return the log with other features of the same contexts."""
        return BanditLog(X, self.Y, self.propensity, self.cost, self.context, self.count)

    def with_cost(self, cost) -> BanditLog:
        """Return the log with other costs of the same rows."""
        return BanditLog(self.X, self.Y, self.propensity, cost, self.context, self.count)

    def merged(self) -> tuple[BanditLog, np.ndarray]:
        """Return the log with rows equal in context, action, propensity and cost stored once, their counts added up.

        The new rows are ordered by context; the second result says which of them each old row went to.
        """
        packed = np.packbits(self.Y, axis=1)
        keys = [self.cost, self.propensity, *packed.T, self.context]
        order = np.lexsort(keys)
        new = np.zeros(len(order), dtype=bool)
        new[0] = True
        for key in keys:
            new[1:] |= np.diff(key[order]) != 0
        group = np.empty(len(order), dtype=np.intp)
        group[order] = np.cumsum(new) - 1
        first = order[new]
        count = np.bincount(group, self.count).astype(np.intp)
        rows = self.Y[first], self.propensity[first], self.cost[first], self.context[first], count
        return BanditLog(self.X, *rows), group


def as_log(log) -> BanditLog:
    """Return a log; InputError for anything else."""
    if not isinstance(log, BanditLog):
        raise InputError(f"log is of type {type(log).__name__}, expected a BanditLog")
    return log


def clipping_constant(log: BanditLog) -> float:
    """Return M, the 90th over the 10th percentile of the logged propensities, never below e.

    Percentiles are observed values, the 90th rounded down and the 10th up, as in the public POEM code. Where their
    ratio is beyond the range of floating-point numbers, M is infinite: nothing is clipped.
    """
    order = np.argsort(log.log_propensity)
    last = np.cumsum(log.count[order])
    steps = log.size - 1
    low, high = log.log_propensity[order[np.searchsorted(last, [-(-steps // 10), 9 * steps // 10], side="right")]]
    with np.errstate(over="ignore"):
        return float(np.exp(max(high - low, 1)))
