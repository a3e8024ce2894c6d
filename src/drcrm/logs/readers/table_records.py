"""Read the rows of a table as records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from drcrm.errors import InputError
from drcrm.logs.encoding.columns import (
    MISSING,
    as_names,
    boolean_numbers,
    categories,
    numbers,
    reject_rows,
    unescape_formula,
)
from drcrm.logs.encoding.identifiers import group_marks, id_marks, reject_rounded
from drcrm.logs.encoding.listed_tables import ListIds, listed_features
from drcrm.logs.encoding.tables import select_columns, table_features
from drcrm.logs.encoding.timestamps import order_of
from drcrm.logs.mapping import COLUMNS, LogMapping, as_mapping
from drcrm.logs.records import SEPARATOR, Records

DATASET = {"item_id", "position", "click", "propensity_score"}  # columns of the Open Bandit Dataset's csv
NUMBERS = "constant", "exploration"  # keys of ``propensity`` whose values are numbers, not columns


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


def frame_batch(
    frame: pd.DataFrame, mapping: LogMapping, form: str, first: int = 0, lists: ListIds | None = None
) -> Records:
    """Return the rows of a frame. If it is a part of a file, ``first`` is the number of its first row in the file.

    ``lists`` knows the lists in earlier parts.
    """
    mapping = dataset_mapping(list(frame.columns), mapping).require_table()
    frame = select_columns(frame, mapping.columns)
    rows = np.arange(first, first + len(frame))
    columns = [("action", mapping.action), *(("slice", name) for name in mapping.slice_columns)]
    for key, name in [*columns, ("logged_by", mapping.logged_by)]:
        if name:
            reject_rounded(frame[name], key if key == name else f"{key} {name!r}", rows)

    booleans = boolean_numbers(mapping.booleans)

    def vector(key: str, expected: str = "a finite number") -> Any:
        name = getattr(mapping, key)
        return None if name is None else numbers(frame[name], mapping.label_of(key), rows, expected, booleans=booleans)

    data = table_features(frame, mapping.numeric, mapping.categorical, mapping.times, rows, mapping.booleans)
    if mapping.list is None:
        names, action = _labels(frame, mapping, rows) if mapping.labels else _actions(frame, mapping, rows, form)
        follows = None if mapping.rule is None else _follows_rule(frame, mapping, rows)
    else:
        starts = (lists or ListIds(mapping.list)).starts_of(frame[mapping.list], rows)
        chosen = _chosen_rows(frame, "chosen", mapping.chosen, starts, mapping, rows)
        by_rule = mapping.rule and _chosen_rows(frame, "propensity.rule", mapping.rule, starts, mapping, rows)
        follows = None if by_rule is None else chosen == by_rule
        data, names, action = listed_features(data, starts, mapping.list), [], chosen - starts[:-1]
        frame, rows = frame.iloc[chosen], rows[chosen]
    reward = vector("reward")
    time, clock = (None, None) if mapping.time is None else order_of(frame[mapping.time], mapping.time, rows)
    slices, slice_values = _slices(frame, mapping.slice_columns)
    by = mapping.logged_by
    loggers, logger_values = (None, []) if by is None else categories(frame[by], by)
    records = Records(
        format=form,
        mapping=mapping,
        kind="lists" if mapping.list else "labels" if mapping.labels else "single",
        is_reward=reward is not None,
        clock=clock,
        names=names,
        data=data,
        action=action,
        cost=vector("cost") if reward is None else 0 - reward,
        propensity=vector("propensity", "a value in (0, 1]"),
        rows=rows,
        slices=slices,
        slice_values=slice_values,
        loggers=loggers,
        logger_values=logger_values,
        candidate=vector("candidate"),
        guardrails=_guardrail_costs(frame, mapping, rows),
        follows=follows,
        time=time,
        missing=dict(data.missing),
        ids=None if mapping.id is None else id_marks(frame[mapping.id], mapping.label_of("id"), rows),
        group_marks=None if mapping.group is None else group_marks(frame[mapping.group], mapping.group),
    )
    return records.validated()


def dataset_mapping(header: list[str], mapping: LogMapping) -> LogMapping:
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


def _actions(frame: pd.DataFrame, mapping: Any, rows: np.ndarray, form: str) -> tuple[list, np.ndarray]:
    """Return the names of the actions that occur, and the logged actions as places among them.

    In CSV, names that ``drcrm predict`` escaped lose their apostrophe.
    """
    column = frame[mapping.action]
    codes, values = categories(column, mapping.action)
    missing = np.array([value == MISSING for value in values])[codes]
    advice = "an action's name; remove rows without one"
    reject_rows(missing, column, mapping.label_of("action"), rows, advice)
    if form == "csv":
        values = [unescape_formula(value) for value in values]
    names = as_names(list(dict.fromkeys(values)))
    place = {str(name): at for at, name in enumerate(names)}
    return names, np.array([place[value] for value in values], dtype=np.intp)[codes]


def _follows_rule(frame: pd.DataFrame, mapping: LogMapping, rows: np.ndarray) -> np.ndarray:
    """Return whether the logged action is the rule's, (n,), by the texts of both."""
    columns = [(mapping.action, "action"), (mapping.rule, "propensity.rule")]
    texts = [_texts(frame[name], f"{key} {name!r}", rows) for name, key in columns]
    return texts[0] == texts[1]


def _texts(column: pd.Series, label: str, rows: np.ndarray) -> np.ndarray:
    """Return the name of an action in each row, (n,) of str; InputError for a row without one."""
    reject_rounded(column, label, rows)
    codes, values = categories(column, label)
    texts = np.array([unescape_formula(value) for value in values], dtype=object)[codes]
    reject_rows(texts == MISSING, column, label, rows, "an action's name")
    return texts


def _guardrail_costs(frame: pd.DataFrame, mapping: LogMapping, rows: np.ndarray) -> np.ndarray | None:
    """Return the costs of the guardrails, (n, g); None without guardrails."""
    booleans = boolean_numbers(mapping.booleans)
    columns = [
        rail.sign * numbers(frame[rail.column], rail.label, rows, booleans=booleans) for rail in mapping.guardrails
    ]
    return np.column_stack(columns) + 0.0 if columns else None


def _slices(frame: pd.DataFrame, columns: list[str]) -> tuple[np.ndarray | None, list[str]]:
    """Return the place of each row among the combinations of values of the slice columns, and the combinations."""
    if not columns:
        return None, []
    coded = [categories(frame[name], name) for name in columns]
    distinct, place = np.unique(np.column_stack([codes for codes, _ in coded]), axis=0, return_inverse=True)
    names = [
        SEPARATOR.join(
            values[code].replace(SEPARATOR, " ") for code, (_, values) in zip(combination, coded, strict=True)
        )
        for combination in distinct
    ]
    return place.ravel(), names


def _chosen_rows(
    frame: pd.DataFrame, key: str, column: Any, starts: np.ndarray, mapping: LogMapping, rows: np.ndarray
) -> np.ndarray:
    """Return the row that a column of 0 and 1 marks in each list, (m,); InputError unless each list has one."""
    label = key if column == key else f"{key} {column!r}"
    is_chosen = numbers(frame[column], label, rows, "0 or 1", booleans=boolean_numbers(mapping.booleans))
    reject_rows((is_chosen != 0) & (is_chosen != 1), is_chosen, label, rows, "0 or 1")
    counts = np.add.reduceat(is_chosen, starts[:-1])
    if (counts != 1).any():
        at = int(np.argmax(counts != 1))
        first, last = rows[starts[at]], rows[starts[at + 1] - 1]
        raise InputError(
            f"{label} is 1 in {counts[at]:.0f} of the rows {first} to {last}, which are one list by {mapping.list!r}, "
            "expected exactly one; the rows of a list must follow one another"
        )
    return np.flatnonzero(is_chosen)


def _labels(frame: pd.DataFrame, mapping: Any, rows: np.ndarray) -> tuple[list, np.ndarray]:
    """Return the names of the labels, and the logged label vectors, (n, q)."""
    columns = []
    for name in mapping.labels:
        values = numbers(frame[name], f"label {name!r}", rows, "0 or 1", booleans=boolean_numbers(mapping.booleans))
        reject_rows((values != 0) & (values != 1), values, f"label {name!r}", rows, "0 or 1")
        columns.append(values)
    return list(mapping.labels), np.column_stack(columns).astype(np.uint8)
