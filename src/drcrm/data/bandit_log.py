"""Logged bandit feedback: the log itself, and its clipping constant."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import cached_property
from importlib import import_module
from types import MappingProxyType

import numpy as np

from drcrm.actions.inference import infer_actions
from drcrm.arrays.validation import (
    WHOLE,
    check_context,
    check_costs,
    check_integers,
    check_vector,
    column_range,
    reject_rows,
    to_float,
)
from drcrm.errors import InputError


class BanditLog:
    """n logged quadruplets (x, y, p, c), each distinct context stored once.

    Parameters
    ----------
    X : array or CSR (m, d), or ActionLists
        The contexts' features; or their lists of actions with features, whose N rows ``log.X`` then has.
    Y : array (n, q), or (n,)
        The logged actions: 0 or 1 for each label; or one action of K, 0 to K − 1; or its place in the context's list.
    propensity : array (n,)
        p = π0(y|x) of the logged action, in (0, 1].
    cost : array (n,)
        c, in the units of the loss; the lower the better.
    context : integer array (n,), optional
        Row of X that each logged row belongs to; by default row i belongs to context i.
    count : integer array (n,), optional
        How often each row occurs (its multiplicity), 0 or more; by default once.
    n_actions : int, optional
        K, of one action of K; by default the largest of Y and one more.
    eligible : boolean array (m, K), optional
        The actions that may be chosen for each context; by default all.

    Raises
    ------
    InputError
        A shape that does not fit, a value out of range (with its row), or no row that occurs at all.

    Attributes
    ----------
    encoding : Encoding or None
        Encoding that made X from the columns of a file or frame.
    skipped : mapping of int
        Number of rows that the reader of a file skipped, by reason.
    imitated_propensities : bool
        Whether the propensities are estimated, not logged.
    """

    encoding = None
    skipped: Mapping[str, int] = MappingProxyType({})
    imitated_propensities = False

    @classmethod
    def from_frame(cls, frame, mapping) -> BanditLog:
        """Return the log of a table's rows.

        Parameters
        ----------
        frame : pandas.DataFrame
        mapping : dict, path of YAML or JSON, or LogMapping
            Meaning of the columns: ``{"action": "item", "propensity": "p", "reward": "click", "features": {"numeric":
            ["age"], "categorical": ["city"]}}``. The cost is the negated reward.

        Raises
        ------
        InputError
            A missing column, or an invalid value, with its row, from 0.
        """
        return import_module("drcrm.logs.encoded_log").log_of_frame(frame, mapping)

    @classmethod
    def from_obp(cls, feedback) -> BanditLog:
        """Return the log of the Open Bandit Pipeline's dictionary of logged feedback.

        Parameters
        ----------
        feedback : mapping
            ``action`` (n,), ``reward`` (n,), ``pscore`` (n,) and ``context`` (n, d), to which a constant 1 is appended;
            optionally ``position``, ``n_actions`` and ``n_rounds``.

        Raises
        ------
        InputError
            A missing key, or an invalid array, with its row.
        """
        return import_module("drcrm.logs.encoded_log").log_of_feedback(feedback)

    def __init__(self, X, Y, propensity, cost, context=None, count=None, n_actions=None, eligible=None):
        self.X, self.actions, self.Y = infer_actions(X, Y, n_actions, eligible)
        m, n = self.n_contexts, len(self.Y)
        if context is None and n != m:
            raise InputError(f"Y has {n} rows, expected {m}")
        self.propensity = check_vector(propensity, n, "propensity")
        reject_rows((self.propensity <= 0) | (self.propensity > 1), self.propensity, "propensity", "a value in (0, 1]")
        self.cost = check_costs(cost, n)
        self.context = np.arange(n) if context is None else check_context(context, n, m)
        self.actions.check_available(self.Y, self.context)
        self.count = _check_count(np.broadcast_to(np.intp(1), n) if count is None else count, n)

    def __repr__(self) -> str:
        return f"BanditLog({len(self.Y)} rows, {self.n_contexts} contexts, {self.X.shape[1]} features, {self.actions})"

    @property
    def n_contexts(self) -> int:
        """m."""
        return self.actions.n_contexts(self.X)

    @property
    def size(self) -> int:
        """n, every row counted as often as it occurs."""
        return int(self.count.sum())

    @cached_property
    def log_propensity(self) -> np.ndarray:
        return np.log(self.propensity)

    @cached_property
    def feature_range(self) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest value of each feature, (d,) each."""
        return column_range(self.X)

    @cached_property
    def row_map(self):
        """The map between scores of the contexts and values of the rows: see :mod:`drcrm.actions.base`."""
        return self.actions.row_map(self.Y, self.context, self.n_contexts)

    def recount(self, count) -> BanditLog:
        """Return the log with other multiplicities, without the rows that never occur and contexts without rows."""
        count = _check_count(count, len(self.Y))
        if count.all() and np.bincount(self.context, minlength=self.n_contexts).all():
            return self.replace(count=count)
        keep = count != 0
        used, context = np.unique(self.context[keep], return_inverse=True)
        X, actions = self.X, self.actions
        if len(used) < self.n_contexts:
            actions, X = actions.select(used, X)
        return self.replace(count=count).subset(keep, context, X, actions)

    def with_contexts(self, X) -> BanditLog:
        """Return the log with other features of the same contexts."""
        X, _ = self.actions.bind(X)
        if X.shape[0] != self.X.shape[0]:
            raise InputError(f"X has {X.shape[0]} rows, expected {self.X.shape[0]}")
        return self.replace(X=X)

    def with_cost(self, cost) -> BanditLog:
        """Return the log with other costs of the same rows, (n,)."""
        return self.replace(cost=check_costs(cost, len(self.Y)))

    def replace(self, **changes) -> BanditLog:
        """Return the log with other arrays in place of some, made of its own, which were checked: these are not."""
        other = copy(self)
        if changes.keys() & {"Y", "context"}:
            other.__dict__.pop("row_map", None)
        if "X" in changes:
            other.__dict__.pop("feature_range", None)
        if "propensity" in changes:
            other.__dict__.pop("log_propensity", None)
        other.__dict__.update(changes)
        return other

    def subset(self, rows, context: np.ndarray, X, actions) -> BanditLog:
        """Return the log of some rows, and of contexts, their features and actions, to which ``context`` leads."""
        of_rows = {name: getattr(self, name)[rows] for name in ("Y", "propensity", "cost", "count")}
        part = self.replace(X=X, actions=actions, **of_rows, context=context)
        if "log_propensity" in self.__dict__:
            part.__dict__["log_propensity"] = self.log_propensity[rows]
        return part

    def merge_duplicates(self) -> tuple[BanditLog, np.ndarray]:
        """Return the log with rows equal in context, action, propensity and cost stored once, their counts added up.

        The new rows are ordered by context; the second result says which of them each old row went to.
        """
        if (np.diff(self.context) > 0).all():
            return self, np.arange(len(self.context))
        keys = [self.cost, self.propensity, *self.actions.sort_keys(self.Y), self.context]
        order = np.lexsort(keys)
        new = np.zeros(len(order), dtype=bool)
        new[0] = True
        for key in keys:
            new[1:] |= np.diff(key[order]) != 0
        group = np.empty(len(order), dtype=np.intp)
        group[order] = np.cumsum(new) - 1
        first = order[new]
        count = np.bincount(group, self.count).astype(np.intp)
        rows = {name: getattr(self, name)[first] for name in ("Y", "propensity", "cost", "context")}
        return self.replace(**rows, count=count), group


def _check_count(count, rows: int) -> np.ndarray:
    """How often each row occurs; InputError where none does, or where they are more than floats tell apart."""
    count = check_integers(count, rows, "count")
    reject_rows(count < 0, count, "count", "0 or more")
    if not count.any():
        raise InputError(f"the log is empty: {rows} rows, none of which occurs")
    if count.sum(dtype=float) >= WHOLE:
        raise InputError(f"count adds up to {count.sum(dtype=float):.6g}, expected less than {WHOLE:g}")
    return count


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


def as_clip(clip, log: BanditLog) -> float | None:
    """Return M, that of the log for "auto", None for no clipping; InputError for anything else."""
    if clip is None:
        return None
    if isinstance(clip, str):
        if clip == "auto":
            return clipping_constant(log)
    elif to_float(clip) >= 1:
        return float(clip)
    raise InputError(f"clip is {clip!r}, expected 'auto', a number ≥ 1, or None")
