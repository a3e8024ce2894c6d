"""Logged bandit feedback: rows with a context, an action, its propensity and its cost."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from drcrm.actions import infer_actions
from drcrm.actions.base import Actions
from drcrm.actions.modelled_costs import RowMap
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.numerics import group_rows
from drcrm.arrays.tables import Table
from drcrm.arrays.validation import (
    check_context,
    check_costs,
    check_vector,
    column_names,
    column_range,
    reject_rows,
    round_probabilities,
)
from drcrm.data.counted_rows import CountedRows, check_count
from drcrm.errors import InputError

ROWS = "Y", "propensity", "cost", "count", "rows"  # attributes with a value for each row


class BanditLog(CountedRows):
    """Log of n decisions: in each row a context x, the action a, its propensity p and its cost c.

    There are m contexts with d features, and q labels or K actions. Lists of actions have N candidates with D features.

    Parameters
    ----------
    X : array or CSR (m, d), or ActionLists
        Features of the m contexts, or their lists of actions. For lists, the attribute ``X`` holds the features of all
        N candidates.
    Y : array (n, q) or (n,)
        Logged actions. Label vectors are rows of 0 and 1. A single action is a number from 0 to K − 1, or a place in
        the context's list, from 0.
    propensity : array (n,)
        Probability p = π0(a|x) with which the logging policy π0 took the logged action, in (0, 1].
    cost : array (n,)
        Cost c of the logged action; smaller is better. If you log rewards, pass their negatives.
    context : int array (n,), optional
        Row of X for each logged row, so that rows can share a context; by default row i belongs to context i.
    count : int array (n,), optional
        How often each row occurred, 0 or more; by default once.
    n_actions : int, optional
        Number K of actions; by default the number of columns of ``eligible``, or the largest entry of Y plus one.
    eligible : bool array (m, K), optional
        Which of the K actions each context has; by default all.

    Attributes
    ----------
    feature_names_in_ : array (d,) or None
        Names of the columns of X, if X is a DataFrame and all names are strings. They must be those to which an
        evaluated policy was fitted.
    encoding : Encoding or None
        Encoding that made X from the columns of a file or table.
    rows : Table or None
        Further columns of a file's rows, such as ``number``, ``time``, ``ids`` and ``groups``. If the log has dates,
        ``time`` is in microseconds since 1970.
    description : LogDescription or None
        What the file says about all rows: its mapping, the kind and names of the actions.
    skipped : mapping of str to int
        For each reason, the number of rows that the reader of a file skipped.
    imitated_propensities : bool
        Whether the propensities are estimated, not logged.
    is_weighted : bool
        Whether ``count`` has the weights of single observations, not numbers of copies. A logger that dropped events
        with probability ``pdrop`` leaves such weights, in proportion to 1/(1 − pdrop).

    Raises
    ------
    InputError
        If shapes do not match, a value is out of range, or the log has no rows. The message names the row of the value.

    Examples
    --------
    >>> BanditLog([[1.0, 0.5], [1.0, 2.0]], Y=[0, 1], propensity=[0.5, 0.9], cost=[-1.0, 0.0])
    BanditLog(2 rows, 2 contexts, 2 features, one of 2 actions)
    """

    feature_names_in_: np.ndarray | None = None
    encoding: Any = None
    description: Any = None
    skipped: Mapping[str, int] = MappingProxyType({})
    imitated_propensities = False

    @classmethod
    def from_frame(cls, frame: Any, mapping: Any) -> BanditLog:
        """Return the log in the rows of a table.

        Parameters
        ----------
        frame : pandas.DataFrame
            Table with one row per decision.
        mapping : dict, path of YAML or JSON, or LogMapping
            Meaning of the columns: ``{"action": "item", "propensity": "p", "reward": "click", "features": {"numeric":
            ["age"], "categorical": ["city"]}}``. The cost is the negated reward.

        Returns
        -------
        BanditLog
            Log with encoded features. With ``propensity_model`` in the mapping, the propensities are estimated.

        Raises
        ------
        InputError
            If a column is missing or a value is invalid. The message names the row of the value, counted from 0.
        """
        import pandas as pd

        from drcrm import read_log  # the readers are in a layer above

        if not isinstance(frame, pd.DataFrame):
            raise InputError(f"frame is of type {type(frame).__name__}, expected a pandas DataFrame")
        return read_log(frame, mapping)

    @classmethod
    def from_obp(cls, feedback: Mapping[str, Any]) -> BanditLog:
        """Return the log in a dictionary of logged feedback of the Open Bandit Pipeline.

        Parameters
        ----------
        feedback : mapping
            Arrays ``action`` (n,), ``reward`` (n,), ``pscore`` (n,) and ``context`` (n, d); optionally ``position``,
            ``n_actions`` and ``n_rounds``.

        Returns
        -------
        BanditLog
            Log whose X is ``context`` with an appended constant 1, and whose costs are the negated rewards.

        Raises
        ------
        InputError
            If a key is missing or an array is invalid. The message names the row of the invalid value.
        """
        from drcrm import read_log

        if not isinstance(feedback, Mapping):
            raise InputError(f"feedback is of type {type(feedback).__name__}, expected OBP's dictionary")
        return read_log(feedback)

    @classmethod
    def unchecked(cls, **attributes: Any) -> BanditLog:
        """Return a log with these attributes, without checking them.

        Parameters
        ----------
        **attributes
            Values by the name of the attribute.

        Returns
        -------
        BanditLog
            Log. A reader's log has a table of features as X, which an encoding turns into an array.
        """
        log = cls.__new__(cls)
        log.__dict__.update(attributes)
        return log

    def __init__(
        self,
        X: Any,
        Y: Any,
        propensity: Any,
        cost: Any,
        context: Any = None,
        count: Any = None,
        n_actions: int | None = None,
        eligible: Any = None,
    ):
        self.X, self.actions, self.Y = infer_actions(X, Y, n_actions, eligible)
        self.feature_names_in_ = column_names(X)
        m, n = self.n_contexts, len(self.Y)
        if context is None and n != m:
            raise InputError(f"Y has {n} rows, expected {m}")
        self.propensity = round_probabilities(check_vector(propensity, n, "propensity"))
        is_bad = (self.propensity <= 0) | (self.propensity > 1)
        reject_rows(is_bad, self.propensity, "propensity", "a value in (0, 1]")
        self.context = np.arange(n) if context is None else check_context(context, n, m)
        self.actions.check_available(self.Y, self.context)
        self.count = check_count(np.broadcast_to(np.intp(1), n) if count is None else count, n)
        self.cost = check_costs(cost, n, self.count)

    def __repr__(self) -> str:
        return f"BanditLog({len(self.Y)} rows, {self.n_contexts} contexts, {self.X.shape[1]} features, {self.actions})"

    @property
    def n_contexts(self) -> int:
        """Number m of contexts."""
        return self.actions.n_contexts(self.X)

    @property
    def is_paired(self) -> bool:
        """Whether row i belongs to context i."""
        return len(self.context) == self.n_contexts and bool((np.diff(self.context) == 1).all())

    @cached_property
    def log_propensity(self) -> np.ndarray:
        return np.log(self.propensity)

    @cached_property
    def feature_range(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value of each feature, as two arrays (d,)."""
        return column_range(self.X)

    @cached_property
    def row_map(self) -> RowMap:
        """Map between the scores of contexts and the values of rows."""
        return self.actions.row_map(self.Y, self.context, self.n_contexts)

    def recount(self, count: Any) -> BanditLog:
        """Return the log with other counts, without rows of count 0 and without contexts that have no rows left.

        Parameters
        ----------
        count : int array (n,)
            How often each row occurs.

        Returns
        -------
        BanditLog
            Log with at most n rows.
        """
        count = check_count(count, len(self.Y))
        if count.all() and np.bincount(self.context, minlength=self.n_contexts).all():
            return self.replace(count=count)
        return self.replace(count=count).take(count != 0)

    def without_empty_rows(self) -> BanditLog:
        """Return the log without rows of count 0, and without contexts that have no rows left."""
        return self.recount(self.count)

    def take(self, rows: np.ndarray | slice) -> BanditLog:
        """Return the log of selected rows and their contexts.

        Parameters
        ----------
        rows : bool or int array, or slice
            Mask or numbers of the rows.

        Returns
        -------
        BanditLog
            Log of the rows in this order, with views of the arrays if ``rows`` is a slice of consecutive rows and row i
            belongs to context i.
        """
        X, actions = self.X, self.actions
        contexts: Any
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self.Y))
            rows = slice(start, max(start, stop)) if step == 1 else np.arange(start, stop, step)
        is_paired = self.is_paired
        if is_paired:
            contexts, context = rows, np.arange(len(self.context[rows]))
        else:
            contexts, context = np.unique(self.context[rows], return_inverse=True)
        if is_paired or len(contexts) < self.n_contexts:
            actions, X = actions.select(contexts, X)
        return self.subset(rows, context, X, actions)

    def with_cost(self, cost: Any) -> BanditLog:
        """Return the log with other costs for the same rows.

        Parameters
        ----------
        cost : array (n,)
            New costs.

        Returns
        -------
        BanditLog
            Log that shares all other arrays.
        """
        return self.replace(cost=check_costs(cost, len(self.Y), self.count))

    def subset(self, rows: Any, context: np.ndarray, X: Features, actions: Actions) -> BanditLog:
        """Return the log of some rows, without checking the arguments.

        Parameters
        ----------
        rows : bool or int array
            Mask or indices of the rows to keep.
        context : int array
            Row of the new X for each kept row.
        X : array or CSR
            Features of the remaining contexts.
        actions : Actions
            Actions of the remaining contexts.

        Returns
        -------
        BanditLog
            Log of the kept rows.
        """
        arrays = {name: values[rows] for name in ROWS if (values := getattr(self, name)) is not None}
        log = self.replace(X=X, actions=actions, **arrays, context=context)
        if "log_propensity" in self.__dict__:
            log.__dict__["log_propensity"] = self.log_propensity[rows]
        return log

    def merge_duplicates(self) -> tuple[BanditLog, np.ndarray]:
        """Merge rows with equal context, action, propensity and cost, and add up their counts.

        Rows of different groups are not merged. The new log has no further columns than ``groups``.

        Returns
        -------
        log : BanditLog
            Log whose rows are ordered by context.
        group : int array (n,)
            Row of the new log for each old row.
        """
        if (np.diff(self.context) > 0).all():
            return self, np.arange(len(self.context))
        of_actions = self.actions.sort_keys(self.Y)[::-1]  # the order of rows in logs of earlier versions
        keys, groups = [self.context, *of_actions, self.propensity, self.cost], self.column("groups")
        first, group = group_rows(keys if groups is None else [*keys, groups])
        count = np.bincount(group, self.count).astype(np.intp)
        kept = {name: getattr(self, name)[first] for name in ("Y", "propensity", "cost", "context")}
        rows = None if groups is None else Table(len(first), {"groups": groups[first]})
        return self.replace(**kept, count=count, rows=rows), group


def as_log(log: object) -> BanditLog:
    """Return a BanditLog; InputError for anything else."""
    if not isinstance(log, BanditLog):
        raise InputError(f"log is of type {type(log).__name__}, expected a BanditLog")
    return log
