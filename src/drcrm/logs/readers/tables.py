"""Base of the readers of tables: frames with the needed columns, whose rows a mapping makes a batch."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from numbers import Integral
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd

from drcrm.arrays.tables import Table
from drcrm.errors import InputError, import_extra
from drcrm.logs.batches import Batch, LogDescription
from drcrm.logs.encoding.action_weights import read_weights
from drcrm.logs.encoding.base import Contexts
from drcrm.logs.encoding.columns import (
    MISSING,
    boolean_numbers,
    categories,
    id_marks,
    numbers,
    order_of,
    reject_rounded,
    reject_values,
)
from drcrm.logs.encoding.listed_tables import ListedTableEncoding, ListIds
from drcrm.logs.encoding.nested_lists import PANDAS_OPTIONS, explode_lists, nested_fields
from drcrm.logs.encoding.tables import TableEncoding, find_columns, select_columns, table_features
from drcrm.logs.readers.base import Columns, Reader, Select
from drcrm.mapping.log_mapping import COLUMNS, LogMapping, as_mapping
from drcrm.progress import report_progress

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
DATASET = {"item_id", "position", "click", "propensity_score"}  # columns of the Open Bandit Dataset's csv
WEIGHTED = "logging_mean", "propensity"  # columns of a batch from the weights of all actions
NUMBERS = "constant", "exploration"  # keys of ``propensity`` whose values are numbers, not columns


class TableReader(Reader):
    """Reader of tables with named columns; a mapping gives their meaning."""

    encodings = (TableEncoding, ListedTableEncoding)

    @abstractmethod
    def read_tables(self, file: Path, select: Select) -> Iterator[Any]:
        """Yield the rows of a file as Arrow tables with the selected columns."""

    def with_decimal_points(self, table: Any, numeric: list[str], first: int) -> Any:
        """Return a table with decimal points in numeric columns; ``first`` is the number of its first row."""
        return table

    def read_batches(self, file: Path) -> Iterator[Batch]:
        mapping, list_id = self.mapping, self.mapping.list
        self.n_read, lists = 0, ListIds(list_id) if list_id else None

        def select(header: list[str]) -> Columns:
            nonlocal mapping
            mapping = map_open_bandit_columns(header, mapping).require_table()
            return Columns(mapping.columns, mapping.number_columns)

        for frame, _ in self.read_frames(file, select, list_id):
            batch = frame_batch(frame, mapping, self.name, lists)
            self.n_read += len(frame)
            report_progress(len(frame), "rows")
            yield batch._replace(description=replace(batch.description, skipped=self.skipped))
        if lists:
            lists.finish()

    def read_contexts(self, file: Path, encoding: Any, keep: Sequence[str]) -> Iterator[tuple[Contexts, Any]]:
        lists = ListIds(encoding.list_id)
        columns = Columns([*dict.fromkeys([*encoding.inputs, *keep])], [*encoding.scales])
        for frame, table in self.read_frames(file, lambda header: columns, encoding.list_id):
            yield encoding.read(frame, lists), table.select([*keep])
        lists.finish()

    def read_frames(self, file: Path, select: Select, list_id: str | None = None) -> Iterator[tuple[pd.DataFrame, Any]]:
        """Yield the selected columns of a table twice: as a frame with decimal points, and as Arrow columns as written.

        The index of the frames has the row numbers in the file.
        Consecutive rows with the same value of ``list_id`` are in one frame, so frames may have fewer or more rows.
        """
        arrow, first = import_extra("pyarrow"), 0
        partition, columns, column_of, fields = partition_of(file), Columns([], []), {}, []

        def choose(header: list[str]) -> Columns:
            nonlocal columns, column_of, fields
            known = {name: value for name, value in partition.items() if name not in header}
            columns = select([*header, *known])
            fields = nested_fields([*header, *known], columns.names, list_id)
            column_of = find_columns([*header, *known, *fields], columns.names)
            names = [name for name in column_of.values() if name not in known and name not in fields]
            return Columns(names, [column_of[name] for name in columns.numeric if column_of[name] in names])

        tables = self.read_tables(file, choose)
        if list_id is not None:
            tables = explode_lists(tables, list_id, lambda: fields, [self.mapping.chosen, self.mapping.rule])
        for table in _cut_after_lists(tables, self.rows, lambda: column_of.get(list_id or "")):
            rows = range(first, first + len(table))
            for name in partition.keys() - {*table.column_names}:
                table = table.append_column(
                    name, arrow.repeat(arrow.scalar(partition[name], arrow.string()), len(rows))
                )
            table = arrow.table({name: table[column] for name, column in column_of.items()} or table)
            yield (
                self.with_decimal_points(table, columns.numeric, first).to_pandas(**PANDAS_OPTIONS).set_axis(rows),
                table,
            )
            first = rows.stop
        arrow.default_memory_pool().release_unused()


def partition_of(path: Path) -> dict[str, str | None]:
    """Return the columns that the folders above a file name, like Hive: ``day=2024-05-01``."""
    pairs = [folder.name.split("=", 1) for folder in takewhile(lambda folder: "=" in folder.name, path.parents)]
    return {unquote(name): None if value == HIVE_NULL else unquote(value) for name, value in reversed(pairs)}


def _cut_after_lists(tables: Iterable[Any], rows: int, list_column: Callable[[], str | None]) -> Iterator[Any]:
    """Yield Arrow tables of about ``rows`` rows, which end with the last row of a list; the last one may be smaller."""
    arrow = import_extra("pyarrow")
    rest: list[Any] = []
    for table in tables:
        table = arrow.concat_tables([*rest, table])
        while len(table) >= rows and (end := _end_of_list(table, rows, list_column())):
            yield table.slice(0, end)
            table = table.slice(end)
        rest = [table]
    yield from (table for table in rest if len(table))


def _end_of_list(table: Any, rows: int, list_column: str | None) -> int:
    """Return the last end of a list in the first rows of a table, else the first one after them; 0 if there is none."""
    if list_column not in table.column_names:
        return rows
    codes, _ = pd.factorize(table[list_column].to_pandas(**PANDAS_OPTIONS), use_na_sentinel=False)
    ends = np.flatnonzero(np.diff(codes)) + 1
    return int(ends[max(np.searchsorted(ends, rows, "right") - 1, 0)]) if len(ends) else 0


def frame_mapping(mapping: Any) -> LogMapping:
    """Return the mapping of a frame, whose columns may have whole numbers as names."""
    if isinstance(mapping, Mapping):
        mapping = {key: _as_names(value) if key in (*COLUMNS, "features") else value for key, value in mapping.items()}
    return as_mapping(mapping)


def _as_names(value: Any) -> Any:
    """Return a value of a mapping with texts in place of whole numbers."""
    if isinstance(value, Mapping):
        return {key: part if key in NUMBERS else _as_names(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [*map(_as_names, value)]
    return str(value) if isinstance(value, Integral) and not isinstance(value, bool) else value


def frame_batch(frame: pd.DataFrame, mapping: LogMapping, form: str, lists: ListIds | None = None) -> Batch:
    """Return the rows of a frame, whose index has their numbers in the file; ``lists`` knows those in earlier parts."""
    mapping = map_open_bandit_columns(list(frame.columns), mapping).require_table()
    frame, starts, values = select_columns(frame, mapping.columns), None, {}
    features = table_features(frame, mapping.numeric, mapping.categorical, mapping.times, mapping.booleans)
    encoder: Any = partial(TableEncoding.fit, times=mapping.times, booleans=mapping.booleans)
    follows, weighted, n_actions = None, {}, None
    if mapping.labels:
        flags = [_flags(frame, mapping, name, f"label {name!r}") for name in mapping.labels]
        kind, action = "labels", np.column_stack(flags).astype(np.uint8)
    elif mapping.list is None:
        action, names = _coded_actions(frame[mapping.action], mapping.label_of("action"))
        kind, values["action"] = "single", names
        if mapping.rule is not None:
            codes, texts = _coded_actions(frame[mapping.rule], mapping.label_of("propensity.rule", mapping.rule))
            follows = np.array(names, dtype=object)[action] == np.array(texts, dtype=object)[codes]
        if mapping.weights is not None:
            known: Any = mapping.known_propensity
            of_all = read_weights(frame, known, action, names, boolean_numbers(mapping.booleans))
            weighted = dict(zip(WEIGHTED, of_all[:2], strict=True))
            values["action"], n_actions = [*dict.fromkeys([*names, *of_all[2]])], len(of_all[2])
    else:
        kind, starts = "lists", (lists or ListIds(mapping.list)).starts_of(frame[mapping.list])
        chosen = _chosen_rows(frame, mapping, "chosen", mapping.chosen, starts)
        if mapping.rule is not None:
            follows = chosen == _chosen_rows(frame, mapping, "propensity.rule", mapping.rule, starts)
        options = {"list_id": mapping.list, "interactions": mapping.interactions}
        encoder = partial(ListedTableEncoding.fit, **options, **encoder.keywords)
        action, frame = chosen - starts[:-1], frame.iloc[chosen]
    rows, clock = _mapped_columns(frame, mapping, values)
    facts = {"is_reward": mapping.reward is not None, "clock": clock, "names": list(mapping.labels or ())}
    facts["n_weights"] = n_actions
    description = LogDescription(format=form, mapping=mapping, kind=kind, encoder=encoder, **facts)
    rows |= {"action": action, "follows": follows, **weighted}
    return Batch(description, Contexts(features, starts), Table(len(frame), rows, values)).validated()


def _mapped_columns(
    frame: pd.DataFrame, mapping: LogMapping, values: dict[str, list]
) -> tuple[dict[str, Any], str | None]:
    """Return the columns of a batch but the action, and the kind of time; add the values of codes to ``values``."""
    reward, time, clock = _numbers_of_key(frame, mapping, "reward"), None, None
    if mapping.time is not None:
        time, clock = order_of(frame[mapping.time], mapping.time)
    rows = {
        "cost": _numbers_of_key(frame, mapping, "cost") if reward is None else 0 - reward,
        "propensity": _numbers_of_key(frame, mapping, "propensity", "a value in (0, 1]"),
        "number": frame.index.to_numpy(),
        "candidate": _numbers_of_key(frame, mapping, "candidate"),
        "time": time,
    }
    if mapping.guardrails:
        costs = [rail.sign * _numbers(frame, mapping, rail.column, rail.label) for rail in mapping.guardrails]
        rows["guardrails"] = np.column_stack(costs) + 0.0
    if (price := mapping.price_column) is not None:
        rows["prices"] = _numbers(frame, mapping, price, f"budget.column {price!r}")
    for key, column, is_optional in (("id", "ids", False), ("group", "group_marks", True)):
        if (name := getattr(mapping, key)) is not None:
            rows[column] = id_marks(frame[name], mapping.label_of(key), is_optional)
    coded = {f"slice {place}": ("slice", name) for place, name in enumerate(mapping.slice_columns)}
    coded |= {"logger": ("logged_by", mapping.logged_by)} if mapping.logged_by else {}
    for column, (key, name) in coded.items():
        reject_rounded(frame[name], mapping.label_of(key, name))
        rows[column], values[column] = categories(frame[name], name)
    return rows, clock


def _numbers(
    frame: pd.DataFrame, mapping: LogMapping, name: str, label: str, expected: str = "a finite number"
) -> np.ndarray:
    """Return a column as numbers, (n,)."""
    return numbers(frame[name], label, expected, booleans=boolean_numbers(mapping.booleans))


def _numbers_of_key(frame: pd.DataFrame, mapping: LogMapping, key: str, expected: str = "a finite number") -> Any:
    """Return the column of a key as numbers, (n,); None if the mapping does not have it."""
    name = getattr(mapping, key)
    return None if name is None else _numbers(frame, mapping, name, mapping.label_of(key), expected)


def _flags(frame: pd.DataFrame, mapping: LogMapping, name: str, label: str) -> np.ndarray:
    """Return a column of 0 and 1, (n,)."""
    flags = _numbers(frame, mapping, name, label, "0 or 1")
    reject_values((flags != 0) & (flags != 1), flags, label, "0 or 1", frame.index)
    return flags


def _coded_actions(column: pd.Series, label: str) -> tuple[np.ndarray, list[str]]:
    """Return the action of each row, (n,), as a place among the names of actions, and the names."""
    reject_rounded(column, label)
    codes, values = categories(column, label)
    missing = np.array([value == MISSING for value in values])[codes]
    reject_values(missing, column, label, "an action's name; remove rows without one")
    return codes, values


def _chosen_rows(frame: pd.DataFrame, mapping: LogMapping, key: str, name: Any, starts: np.ndarray) -> np.ndarray:
    """Return the row that a column of 0 and 1 marks in each list, (m,); InputError unless each list has one."""
    label = mapping.label_of(key, name)
    is_chosen = _flags(frame, mapping, name, label)
    counts = np.add.reduceat(is_chosen, starts[:-1])
    if (counts != 1).any():
        at = int(np.argmax(counts != 1))
        first, last = frame.index[[starts[at], starts[at + 1] - 1]]
        raise InputError(
            f"{label} is 1 in {counts[at]:.0f} of the rows {first} to {last}, which are one list by "
            f"{mapping.list!r}, expected exactly one; the rows of a list must follow one another"
        )
    return np.flatnonzero(is_chosen)


def map_open_bandit_columns(header: list[str], mapping: LogMapping) -> LogMapping:
    """Return the mapping of a table's columns, completed for the csv of the Open Bandit Dataset.

    A table is that csv if it has the columns in ``DATASET`` and the mapping has no action, outcome, propensity or
    features. Every other table keeps its mapping.
    """
    columns = (mapping.action, mapping.labels, mapping.reward, mapping.cost, mapping.numeric, mapping.propensity)
    if not set(header) >= DATASET or any(column is not None for column in columns):
        return mapping
    return replace(
        mapping,
        action="item_id",
        reward="click",
        propensity=None if mapping.lacks_propensities else "propensity_score",
        numeric=(),
        categorical=(*(name for name in header if name.startswith("user_feature_")), "position"),
        slice=mapping.slice or "position",
    )
