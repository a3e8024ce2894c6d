"""The rows of a table as records."""

from __future__ import annotations

import numpy as np
import pandas as pd

from drcrm.diagnostics.repeated_rows.row_hashes import hash_texts
from drcrm.errors import InputError
from drcrm.logs.encoding.columns import MISSING, as_names, categories, numbers, reject_rows, unescape_formula
from drcrm.logs.encoding.tables import Table, require_columns
from drcrm.logs.encoding.timestamps import order_of
from drcrm.logs.mapping import LogMapping, as_mapping
from drcrm.logs.readers.obp import dataset_mapping
from drcrm.logs.record_collector import collect
from drcrm.logs.records import Records


def records_of_frame(frame: pd.DataFrame, mapping, form: str = "frame") -> Records:
    """Return the rows of a frame; its index counts for nothing."""
    return collect([part_of_frame(frame, mapping, form)])


def part_of_frame(frame: pd.DataFrame, mapping, form: str, first: int = 0) -> Records:
    """Return the rows of a frame that is a part of a file, from the row ``first`` on, as ``collect`` takes them.

    Its actions are those that occur, and its groups marks of their names, −1 where there is none.
    """
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"frame is of type {type(frame).__name__}, expected a pandas DataFrame")
    mapping = dataset_mapping(list(frame.columns), as_mapping(mapping)).require_table()
    require_columns(frame.columns, mapping.columns)
    if not len(frame):
        raise InputError("has no rows, expected at least one")
    rows = np.arange(first, first + len(frame))

    def vector(key: str) -> np.ndarray | None:
        name = getattr(mapping, key)
        expected = "a value in (0, 1]" if key == "propensity" else "a finite number"
        called = key if name in (None, key) else f"{key} {name!r}"
        return None if name is None else numbers(frame[name], called, rows, expected)

    reward = vector("reward")
    data = Table.of(frame, mapping.numeric, mapping.categorical, mapping.times, rows)
    time, clock = (None, None) if mapping.time is None else order_of(frame[mapping.time], mapping.time, rows)
    names, action = _labels(frame, mapping, rows) if mapping.labels else _actions(frame, mapping.action, rows, form)
    return Records(
        format=form,
        mapping=mapping,
        kind="labels" if mapping.labels else "single",
        names=names,
        data=data,
        action=action,
        cost=vector("cost") if reward is None else 0 - reward,
        reward=reward is not None,
        propensity=vector("propensity"),
        rows=rows,
        **_slices(frame, mapping.slice),
        groups=None if mapping.group is None else _groups(frame[mapping.group], mapping.group),
        candidate=vector("candidate"),
        time=time,
        clock=clock,
        missing=data.missing(),
    ).validated()


def _groups(column: pd.Series, name: str) -> np.ndarray:
    """Marks of the groups; of a row without one, −1."""
    codes, values = categories(column, name)
    marks = (hash_texts(values) >> np.uint64(1)).astype(np.int64)
    return np.where([value == MISSING for value in values], -1, marks)[codes]


def _actions(frame: pd.DataFrame, name: str, rows: np.ndarray, form: str) -> tuple[list, np.ndarray]:
    """The actions' names, and the logged ones as places among them; in CSV ``drcrm predict`` escapes formulas."""
    column = frame[name]
    codes, values = categories(column, name)
    called = "action" if name == "action" else f"action {name!r}"
    missing = np.array([value == "" for value in values])[codes]
    reject_rows(missing, column, called, rows, "an action's name; remove rows without one")
    if form == "csv":
        values = [unescape_formula(value) for value in values]
    names = as_names(list(dict.fromkeys(values)))
    place = {str(each): at for at, each in enumerate(names)}
    return names, np.array([place[value] for value in values], dtype=np.intp)[codes]


def _labels(frame: pd.DataFrame, mapping: LogMapping, rows: np.ndarray) -> tuple[list, np.ndarray]:
    columns = []
    for name in mapping.labels:
        values = numbers(frame[name], f"label {name!r}", rows, "0 or 1")
        reject_rows((values != 0) & (values != 1), values, f"label {name!r}", rows, "0 or 1")
        columns.append(values)
    return list(mapping.labels), np.column_stack(columns).astype(np.uint8)


def _slices(frame: pd.DataFrame, name: str | None) -> dict:
    return {} if name is None else dict(zip(("slices", "slice_values"), categories(frame[name], name), strict=True))
