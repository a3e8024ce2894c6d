"""Batches of rows that readers yield, their join to a log with a table of features, and its encoding block by block."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from drcrm.actions import ACTIONS
from drcrm.arrays.mapped_arrays import as_mapped, map_rows, write_blocks
from drcrm.arrays.tables import Table, TableCollector
from drcrm.arrays.validation import round_probabilities
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import run_in_order
from drcrm.data.counted_rows import draw_counts
from drcrm.errors import InputError
from drcrm.logs.encoding.base import Contexts, Encoding
from drcrm.logs.encoding.columns import as_names, canonical_text, number_marks, reject_values
from drcrm.mapping.log_mapping import LogMapping
from drcrm.progress import report_progress

LEAST_PROPENSITY = 1e-100  # weights by smaller propensities overflow, and no policy draws such an action
MANY = 1000  # with more actions, the column may be the wrong one
ARRAYS = ("action", "propensity", "cost", "context", "count", "weights", "follows", "group_marks", "logging_mean")
BLOCK_ROWS, BLOCK_BYTES = 2**17, 2**24  # largest block of rows that is processed at once


@dataclass(frozen=True, kw_only=True)
class LogDescription:
    """Properties that all rows of a log's file share.

    Attributes
    ----------
    format : "csv", "parquet", "json", "npz", "dsjson", "vw", "obp" or "frame"
    mapping : LogMapping
    kind : "single", "labels" or "lists"
        Kind of the actions.
    encoder : callable
        The ``fit`` of an encoding.
    is_reward : bool
        Whether the costs are negated rewards.
    clock : str, optional
        Kind of the rows' time: numbers, times, or times with zone. Times are dates, in microseconds since 1970.
    names : list of str or int
        Names of the actions, or labels; empty for lists, and for batches that number the actions.
    first_action : int, optional
        Number of the first action if the format numbers the actions; None if they have names.
    skipped : dict of int
        Number of rows that the reader skipped, by reason.
    missing : dict of int
        Number of missing values by feature column.
    n_weights : int, optional
        Number of actions whose probabilities each row has.
    """

    format: str
    mapping: LogMapping
    kind: str
    encoder: Callable[..., Encoding]
    is_reward: bool = False
    clock: str | None = None
    names: list = field(default_factory=list)
    first_action: int | None = None
    skipped: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    n_weights: int | None = None

    @property
    def summary(self) -> tuple[str, str, str]:
        """The columns, actions and times, which must be the same in all batches of a log, as phrases."""
        columns = ", ".join(self.mapping.columns)
        actions = ACTIONS[self.kind].plural + (f" with {self.n_weights} probabilities a row" if self.n_weights else "")
        return f"the columns {columns}", actions, f"{self.clock} in the column for time"

    @property
    def is_dated(self) -> bool:
        """Whether the rows' times are dates, and not numbers."""
        return (self.clock or "").startswith("times")

    @property
    def sign(self) -> int:
        """−1 for rewards, else 1: times a cost, it is the outcome as it is written."""
        return -1 if self.is_reward else 1

    @property
    def outcome(self) -> str:
        """The name of the outcome's column; "reward" or "cost" if it has no name."""
        return self.mapping.reward or self.mapping.cost or ("reward" if self.is_reward else "cost")


class Batch(NamedTuple):
    """Consecutive rows of a log, not yet encoded.

    Attributes
    ----------
    description : LogDescription
    contexts : Contexts
    rows : Table
        Columns with a value for each of the n rows:

        - action: A single action is a place in ``names``, or the number minus ``first_action``. An action of a list is
          the place in the context's list. Labels are 0 or 1, (n, q).
        - cost: Lower is better. A reward is negated.
        - propensity: Missing if the propensities are not logged.
        - number: The number of the row in its file, from 0. In a folder, the count continues from file to file.

        Optional columns:

        - context: The context of each row. By default, row i belongs to context i.
        - slice 0, slice 1, …, and logger: Codes of the values of the slice columns, and of the logging policies.
        - group_marks: Marks of the groups' names, see :func:`drcrm.logs.encoding.columns.id_marks`.
        - candidate: Probability that a policy under evaluation gives the logged action.
        - count, or weights: The multiplicity, or the weight if the logger dropped rows at random.
        - time: The order of the rows. Ties are in the order of the file.
        - ids: Hashes of the rows' ids. guardrails: Costs of the guardrails, (n, g). prices: Those of the budget.
        - follows: Whether the action is that of the logging policy's rule.
        - logging_mean: Probabilities of all actions, (n, K).
    """

    description: LogDescription
    contexts: Contexts
    rows: Table

    def validated(self) -> Self:
        """Return the batch with rounded probabilities; InputError without rows, or for a value out of range."""
        columns, mapping = dict(self.rows.columns), self.description.mapping
        numbers, cost = columns["number"], columns["cost"]
        if not self.rows.size:
            raise InputError("has no rows, expected at least one")
        outcome = "reward" if self.description.is_reward else "cost"
        reject_values(~np.isfinite(cost), cost, outcome, "a finite number", numbers)
        for name, least, expected in (
            ("propensity", np.nextafter(0, 1), "a value in (0, 1]"),
            ("candidate", 0, "a value in [0, 1]"),
            ("propensity", LEAST_PROPENSITY, f"at least {LEAST_PROPENSITY:g}"),
        ):
            if name in columns:
                values: Any = round_probabilities(columns[name])
                columns[name] = values
                median = float(np.median(values))
                expected += "; divide percentages by 100" * (median > 1)
                expected += "; take the exponential of log probabilities" * (median < 0)
                bad = ~((values >= least) & (values <= 1))
                reject_values(bad, values, mapping.label_of(name), expected, numbers)
        return self._replace(rows=replace(self.rows, columns=columns))


def join_batches(
    batches: Iterable[Batch],
    folder: Callable[[], Path] | None = None,
    most: int = 0,
    place: AbstractContextManager | None = None,
) -> BanditLog:
    """Return the log of all batches, whose X is a table of features. Its propensities may be None.

    Parameters
    ----------
    batches : iterable of Batch
    folder : callable, optional
        It returns a folder for memory-mapped files. It is called once the columns take more bytes than ``most``.
    most : int
    place : context manager, optional
        It handles errors about all rows together, such as too many actions.
    """
    features, rows, sizes = TableCollector(), TableCollector(), [np.zeros(1, dtype=int)]
    description: Any = None
    with closing(features), closing(rows):
        for batch in batches:
            description = description or batch.description
            features.append(batch.contexts.features)
            rows.append(batch.rows)
            if batch.contexts.starts is not None:
                sizes.append(np.diff(batch.contexts.starts))
            if folder is not None and features.nbytes + rows.nbytes > most:
                path, folder = folder(), None
                features.move_to(path / "features")
                rows.move_to(path / "rows")
        with place or nullcontext():
            starts = np.cumsum(np.concatenate(sizes)) if sizes[1:] else None
            return _make_log(description, features.finish(), rows.finish(), starts)


def _make_log(description: LogDescription, features: Table, rows: Table, starts: np.ndarray | None) -> BanditLog:
    mapping, action, cost, context = description.mapping, rows.get("action"), rows.get("cost"), rows.get("context")
    names: list = description.names
    count, is_weighted = _counts(rows)
    if "action" in rows.values or description.first_action is not None:
        names, action = _named_actions(description, rows.values.get("action", []), action)
    actions = ACTIONS[description.kind].create(len(names)).over(starts)
    if (mean := rows.get("logging_mean")) is not None:
        written = mapping.known_propensity.action_names(len(names))  # type: ignore[union-attr]
        actions = actions.with_logging_mean(order_weights(mean, written, names))
    log = BanditLog.unchecked(
        X=features,
        actions=actions,
        Y=action,
        propensity=rows.get("propensity"),
        cost=cost,
        context=as_mapped(np.arange(rows.size), cost) if context is None else context,
        count=count,
        is_weighted=is_weighted,
        rows=_further_columns(rows, mapping),
        description=replace(description, names=names, missing=dict(features.missing)),
        skipped=description.skipped,
        imitated_propensities=mapping.propensity_model is not None,
    )
    if mapping.known_propensity is None or mapping.weights:
        return log
    n_choices, follows = actions.count_row_choices(log.context), rows.get("follows")
    return log.replace(propensity=as_mapped(mapping.known_propensity.probabilities(n_choices, follows), cost))


def _counts(rows: Table) -> tuple[np.ndarray, bool]:
    """Return how often each row occurred, or weights rounded to counts, or 1; and whether they are weights."""
    weights, count = rows.get("weights"), rows.get("count")
    if weights is not None and (rounded := draw_counts(weights)) is not None:
        return as_mapped(rounded, weights), True
    return (np.broadcast_to(np.intp(1), rows.size) if count is None else count), False


def _further_columns(rows: Table, mapping: LogMapping) -> Table:
    """Return the columns that are no arrays of the log, with numbers of groups in place of marks of their names."""
    marks, ids = rows.get("group_marks"), rows.get("ids")
    if ids is not None and mapping.id is None and len(np.unique(ids)) < rows.size:
        ids = None  # the ids of a format are ignored unless they identify rows
    groups = None if marks is None else as_mapped(number_marks(marks), marks)
    return rows.assign(**dict.fromkeys(ARRAYS), ids=ids, groups=groups)


def _named_actions(description: LogDescription, appeared: list[str], action: np.ndarray) -> tuple[list, np.ndarray]:
    """Return the names of all actions in order, and ``action`` as places among them instead of in ``appeared``."""
    size, first = len(action), description.first_action
    if first is not None:
        last = first + max(int(action.max()), len(description.names) - 1)
        if last > MANY and last > 10 * size:
            raise InputError(f"the largest action is {last} in {size} rows, expected numbers from {first}")
        return list(range(first, last + 1)), action
    if len(appeared) > MANY and 2 * len(appeared) > size:
        label = description.mapping.label_of("action")
        raise InputError(f"{label} has {len(appeared)} values in {size} rows, expected fewer different actions")
    names = as_names(appeared)
    places = pd.Index([*map(str, names)]).get_indexer(appeared)
    return names, map_rows(action, lambda codes: places[codes])


def fit_encoding(log: BanditLog, rows: np.ndarray | None = None) -> Encoding:
    """Return the encoding fitted to selected rows of a reader's log, by default to all; it knows all actions' names.

    X of the log is a table of features; ``rows`` is a mask, or has the numbers of the rows.
    """
    is_fitted, actions, description = None, log.actions, log.description
    if rows is not None:
        is_fitted = np.zeros(log.n_contexts, dtype=bool)
        is_fitted[log.context[rows]] = True
        is_fitted = actions.repeat(is_fitted)
    encoding = description.encoder(log.X, actions.kind, description.names, is_fitted, actions.starts)
    if (interactions := description.mapping.interactions) != encoding.interactions:
        raise InputError(
            f"interactions is {interactions}, but the log has no lists of actions with named features; remove the key"
        )
    return encoding


def encode(log: BanditLog, encoding: Encoding, rows: np.ndarray | None = None, path: Path | None = None) -> BanditLog:
    """Return selected rows of a reader's log with encoded features.

    Parameters
    ----------
    log : BanditLog
        Log whose X is a table of features.
    encoding : Encoding
    rows : bool array (n,), optional
        Selected rows; by default all.
    path : Path, optional
        Prefix of the names of memory-mapped files for X; by default the log is in memory.
    """
    if log.propensity is None:
        raise InputError("the file has no propensities; add propensity_model: auto to the mapping")
    if not log.actions.is_like(encoding.actions):
        raise InputError(f"the log has {log.actions.plural}, but its encoding is for {encoding.actions.plural}")
    blocks, cost = blocks_of(log, rows), log.cost
    log = log.replace(X=np.empty((log.X.size, 0)))
    log = _with_names_of(log if rows is None else log.take(rows), encoding)

    def encode_block(block: BanditLog) -> Any:
        report_progress(len(block.Y), "rows", len(log.Y))
        return encoding.encode(block.X)

    X = write_blocks(path, run_in_order(partial(encode_block, block) for _, block in blocks))
    if isinstance(X, np.ndarray):
        X.setflags(write=False)  # then feature maps compute their features once
    names = () if path is None else ("Y", "propensity", "cost", "context", "count")
    arrays = {name: as_mapped(getattr(log, name), cost) for name in names}
    return log.replace(X=X, encoding=encoding, **arrays)


def blocks_of(log: BanditLog, rows: np.ndarray | None = None) -> Iterator[tuple[slice, BanditLog]]:
    """Yield blocks of consecutive rows with their places; a single block if contexts may have several rows.

    Blocks have only the rows of the mask ``rows``, and blocks without any are left out.
    """
    n = len(log.Y)
    step = max(min(BLOCK_ROWS, BLOCK_BYTES * n // max(log.X.nbytes, 1)), 1)
    is_whole = n <= step or not log.is_paired
    for start in range(0, n, n if is_whole else step):
        place = slice(start, n if is_whole else min(start + step, n))
        block = log if is_whole else log.take(place)
        if rows is None or rows[place].all():
            yield place, block
        elif rows[place].any():
            yield place, block.take(rows[place])


def _with_names_of(log: BanditLog, encoding: Encoding) -> BanditLog:
    """Return the log with actions as places among the names of an encoding."""
    description, names = log.description, encoding.names
    if description.names == names:
        return log
    if not log.actions.are_choices:
        raise InputError(f"the labels are {_listed(description.names)}, expected {_listed(names)}")
    place = {canonical_text(str(name)): at for at, name in enumerate(names)}  # other formats write True as true
    place |= {str(name): at for at, name in enumerate(names)}
    texts = map(str, description.names)
    action = np.array([place.get(text, place.get(canonical_text(text), -1)) for text in texts], dtype=np.intp)[log.Y]
    if (action < 0).any():
        logged, label = np.array(description.names, dtype=object)[log.Y], description.mapping.label_of("action")
        known = f"one of {_listed(names)}, the policy's actions; learn again from a log with this action"
        reject_values(action < 0, logged, label, known, log.column("number"))
    actions, mean = encoding.actions, log.actions.logging_mean
    if mean is not None:
        actions = actions.with_logging_mean(order_weights(mean, description.names, names))
    return log.replace(Y=action, actions=actions, description=replace(description, names=names))


def order_weights(weights: np.ndarray, actions: Sequence[Any], names: Sequence[Any]) -> np.ndarray:
    """Return weights of ``actions``, (n, K), for the actions ``names``; those without weights have 0."""
    order = pd.Index([*map(str, actions)]).get_indexer([*map(str, names)])  # −1, the added column, without weights
    if np.array_equal(order, np.arange(len(actions))):
        return weights
    return map_rows(weights, lambda rows: np.column_stack([rows, np.zeros(len(rows))])[:, order])


def _listed(names: list, most: int = 8) -> str:
    first = ", ".join(repr(name) for name in names[:most])
    return f"{first}, … ({len(names)})" if len(names) > most else first
