"""Logged rows before their features are encoded: a whole log, or a batch that a reader yields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from drcrm.arrays.array_collector import ArrayCollector
from drcrm.arrays.mapped_arrays import scratch_path, take_rows
from drcrm.arrays.validation import round_probabilities
from drcrm.data.bandit_log import BanditLog
from drcrm.data.executors import run_in_order
from drcrm.errors import InputError
from drcrm.logs.encoding.base import Encoding
from drcrm.logs.encoding.columns import reject_rows
from drcrm.logs.mapping import LogMapping

BLOCK_ROWS, BLOCK_BYTES = 2**17, 2**24  # largest block of rows that is processed at once
LEAST_PROPENSITY = 1e-100  # weights by smaller propensities overflow, and no policy draws such an action
SEPARATOR = "\x1f"  # between the values of several slice columns
KINDS = {"single": "single actions", "labels": "labels", "lists": "lists of actions"}  # for messages

COLUMNS = (  # attributes of Records with a value for each row
    *("action", "cost", "rows", "propensity", "context", "slices", "loggers", "groups"),
    *("candidate", "count", "time", "ids", "group_marks", "weights", "guardrails", "follows"),
)


@dataclass(frozen=True, kw_only=True)
class Records:
    """Logged rows with the features of their contexts: a log, or the batch of consecutive rows that a reader yields.

    Attributes
    ----------
    action : integer array (n,), or (n, q)
        For single actions, the place in ``names``, or the number minus ``first_action``. For lists, the place in the
        context's list. For labels, 0 or 1.
    cost : array (n,)
        The lower, the better; a reward is negated.
    rows : integer array (n,)
        Number of the row in its file, from 0. In a folder, the count continues from file to file.
    propensity : array (n,), optional
        None if the propensities have to be estimated.
    context : integer array (n,), optional
        Context of each row; None if row i belongs to context i.
    slices : integer array (n,), optional
        Place in ``slice_values``.
    loggers : integer array (n,), optional
        Place in ``logger_values``.
    groups : integer array (n,), optional
        Number of the row's group. Rows of a group may depend on each other.
    candidate : array (n,), optional
        Probability that a policy under evaluation gives the logged action.
    count : integer array (n,), optional
        Multiplicity of the row.
    time : array (n,), optional
        Order of the rows; ties are in the order of the file.
    ids : integer array (n,), optional
        Hash of the row's id.
    group_marks : integer array (n,), optional
        Hash of the group's name, −1 for a row without a group. Only batches have it, instead of ``groups``.
    weights : array (n,), optional
        Weight of the row if the logger dropped rows at random. Only batches have it, instead of ``count``.
    follows : bool array (n,), optional
        Whether the action is that of the logging policy's rule. Only batches have it.
    guardrails : array (n, g), optional
        Costs of the guardrails of the mapping; rewards are negated.
    format : "csv", "parquet", "npz", "dsjson", "vw", "obp" or "frame"
    mapping : LogMapping
    kind : "single", "labels" or "lists"
        Kind of the actions.
    data : ContextFeatures or None
        Features of the m contexts; None once they are encoded.
    is_reward : bool
        Whether the costs are negated rewards.
    first_action : int, optional
        Number of the first action if the format numbers the actions; None if they have names.
    clock : str, optional
        Kind of ``time``: numbers, times, or times with zone.
    names : list of str or int
        Names of the actions, or labels; empty for lists, and for batches that number the actions.
    slice_values : list of str
        Values of the slice column, or combinations of the values of several columns.
    logger_values : list of str
        Names of the logging policies.
    skipped : dict of int
        Number of rows that the reader skipped, by reason.
    missing : dict of int
        Number of missing values by feature column.
    """

    action: np.ndarray
    cost: np.ndarray
    rows: np.ndarray
    propensity: np.ndarray | None = None
    context: np.ndarray | None = None
    slices: np.ndarray | None = None
    loggers: np.ndarray | None = None
    groups: np.ndarray | None = None
    candidate: np.ndarray | None = None
    count: np.ndarray | None = None
    time: np.ndarray | None = None
    ids: np.ndarray | None = None
    group_marks: np.ndarray | None = None
    weights: np.ndarray | None = None
    guardrails: np.ndarray | None = None
    follows: np.ndarray | None = None
    format: str
    mapping: LogMapping
    kind: str
    data: Any
    is_reward: bool = False
    first_action: int | None = None
    clock: str | None = None
    names: list = field(default_factory=list)
    slice_values: list[str] = field(default_factory=list)
    logger_values: list[str] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """n."""
        return len(self.action)

    def columns(self) -> dict[str, np.ndarray]:
        """Return the columns of rows that the log has, by name."""
        return {name: values for name in COLUMNS if (values := getattr(self, name)) is not None}

    @property
    def n_choices(self) -> np.ndarray:
        """Number of actions, of candidates of the list, or of label vectors of each row, (n,)."""
        if self.kind == "lists":
            sizes = np.diff(self.data.starts)
            return sizes if self.context is None else sizes[self.context]
        return np.full(self.size, 2.0 ** self.action.shape[1] if self.kind == "labels" else len(self.names))

    @property
    def summary(self) -> tuple[str, str, str]:
        """The columns, actions and times, which must be the same in all batches of a log, as phrases."""
        columns = ", ".join(self.mapping.columns)
        return f"the columns {columns}", KINDS[self.kind], f"{self.clock} in the column for time"

    @property
    def outcome(self) -> str:
        """The name of the outcome's column; "reward" or "cost" if it has no name."""
        return self.mapping.reward or self.mapping.cost or ("reward" if self.is_reward else "cost")

    @property
    def is_imitated(self) -> bool:
        """Whether the propensities are estimated, not logged."""
        return self.mapping.propensity_model is not None

    @property
    def row_slices(self) -> np.ndarray | None:
        """The slice of each row, (n,) of str; with s > 1 columns, (n, s)."""
        if self.slices is None:
            return None
        values = np.array([text.split(SEPARATOR) for text in self.slice_values], dtype=object)
        return values[self.slices, 0] if values.shape[1] == 1 else values[self.slices]

    @property
    def logged_shares(self) -> dict[str, float]:
        """The share of the rows that each logging policy logged, by its name; empty if the log does not name them."""
        if self.loggers is None:
            return {}
        rows = np.bincount(self.loggers, self.count, len(self.logger_values))
        return {name: float(share) for name, share in zip(self.logger_values, rows / rows.sum(), strict=True) if share}

    @property
    def units(self) -> np.ndarray:
        """The group of each row, (n,), or its context if the log has no groups."""
        units = self.context if self.groups is None else self.groups
        return np.arange(self.size) if units is None else units

    def validated(self) -> Records:
        """Return the records with rounded probabilities; InputError without rows, or for a value out of range."""
        if not self.size:
            raise InputError("has no rows, expected at least one")
        bad = ~np.isfinite(self.cost)
        reject_rows(bad, self.cost, "reward" if self.is_reward else "cost", self.rows, "a finite number")
        rounded: dict[str, Any] = {}
        for name, least, expected in (
            ("propensity", np.nextafter(0, 1), "a value in (0, 1]"),
            ("candidate", 0, "a value in [0, 1]"),
            ("propensity", LEAST_PROPENSITY, f"at least {LEAST_PROPENSITY:g}"),
        ):
            if (values := getattr(self, name)) is not None:
                values = rounded[name] = round_probabilities(values)
                bad = ~((values >= least) & (values <= 1))
                reject_rows(bad, values, self.mapping.label_of(name), self.rows, expected)
        return replace(self, **rounded)

    def take(self, rows: np.ndarray | slice) -> Records:
        """Return selected rows and their contexts; ``rows`` are row numbers, a mask or a slice."""
        used, context = rows, None
        if self.context is not None:
            used, context = np.unique(self.context[rows], return_inverse=True)
        columns: dict[str, Any] = {name: values[rows] for name, values in self.columns().items()}
        return replace(self, **columns | {"context": context, "data": self.data.take(used)})

    def blocks(self) -> Iterator[tuple[slice, Records]]:
        """Yield blocks of consecutive rows with their place; a single block if contexts may have several rows."""
        rows = max(min(BLOCK_ROWS, BLOCK_BYTES * self.size // max(self.data.nbytes, 1)), 1)
        if self.context is not None or self.size <= rows:
            yield slice(0, self.size), self
            return
        for start in range(0, self.size, rows):
            place = slice(start, min(start + rows, self.size))
            yield place, self.take(place)

    def blocks_of(self, rows: np.ndarray | None) -> Iterator[Records]:
        """Yield selected rows, a mask (n,), block by block; by default all rows."""
        for place, block in self.blocks():
            if rows is None or rows[place].all():
                yield block
            elif rows[place].any():
                yield block.take(rows[place])

    def map(self, function: Callable[[slice, Records], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Return arrays of all rows by name, computed block by block. If the records are mapped, so are the arrays."""
        with closing(ArrayCollector(scratch_path(self.cost))) as collector:
            for arrays in run_in_order(partial(function, place, block) for place, block in self.blocks()):
                collector.append(arrays)
            return {str(name): values for name, values in collector.finish().items()}

    def without_features(self, rows: np.ndarray | None = None) -> Records:
        """Return selected rows, a mask (n,), by default all, without their features and contexts."""
        columns: dict[str, Any] = (
            {} if rows is None else {name: take_rows(values, rows) for name, values in self.columns().items()}
        )
        return replace(self, **columns | {"data": None, "context": None})

    def fit(self, rows: np.ndarray | None = None) -> Encoding:
        """Return the encoding fitted to selected rows, by default to all; it knows the names of all actions."""
        if rows is not None and self.context is not None:
            used = np.zeros(len(self.data), dtype=bool)
            used[self.context[rows]] = True
            rows = used
        return self.data.fit(self.kind, self.names, rows)

    def encoded(self, encoding: Encoding) -> BanditLog:
        """Return the log of the rows, in memory."""
        if self.propensity is None:
            raise InputError("the file has no propensities; add propensity_model: auto to the mapping")
        if self.kind != encoding.kind:
            raise InputError(f"the log has {KINDS[self.kind]}, but its encoding is for {KINDS[encoding.kind]}")
        X, Y = encoding.contexts(self.data), self._action_among(encoding.names)
        options: dict[str, Any] = encoding.actions.log_options
        return BanditLog(X, Y, self.propensity, self.cost, self.context, self.count, **options)

    def _action_among(self, names: list) -> np.ndarray:
        """Return the actions as places among the names of an encoding."""
        if self.kind == "lists" or self.names == names:
            return self.action
        if self.kind == "labels":
            raise InputError(f"the labels are {_listed(self.names)}, expected {_listed(names)}")
        place = {str(name): at for at, name in enumerate(names)}
        action = np.array([place.get(str(name), -1) for name in self.names], dtype=np.intp)[self.action]
        if (action < 0).any():
            logged = np.array(self.names, dtype=object)[self.action]
            reject_rows(action < 0, logged, self.mapping.label_of("action"), self.rows, f"one of {_listed(names)}")
        return action


def _listed(names: list, most: int = 8) -> str:
    first = ", ".join(repr(name) for name in names[:most])
    return f"{first}, … ({len(names)})" if len(names) > most else first
