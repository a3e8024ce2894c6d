"""Read the rows of a table as a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from drcrm.arrays.tables import Table
from drcrm.errors import InputError
from drcrm.logs.batches.description import Batch, LogDescription
from drcrm.logs.encoding.base import Contexts
from drcrm.logs.encoding.columns import (
    MISSING,
    boolean_numbers,
    categories,
    numbers,
    reject_rows,
)
from drcrm.logs.encoding.identifiers import id_marks, reject_rounded
from drcrm.logs.encoding.listed_tables import ListedTableEncoding, ListIds
from drcrm.logs.encoding.tables import TableEncoding, select_columns, table_features
from drcrm.logs.encoding.timestamps import order_of
from drcrm.logs.mapping import COLUMNS, LogMapping, as_mapping

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
    frame: pd.DataFrame,
    mapping: LogMapping,
    form: str,
    lists: ListIds | None = None,
    unescape: Callable[[Any], Any] = lambda name: name,
) -> Batch:
    """Return the rows of a frame, whose index has their numbers in the file.

    ``lists`` knows the lists in earlier parts. ``unescape`` is applied to the names of actions.
    """
    mapping = dataset_mapping(list(frame.columns), mapping).require_table()
    frame = select_columns(frame, mapping.columns)
    mapped, starts, values = MappedFrame(frame, mapping, unescape), None, {}
    features = table_features(frame, mapping.numeric, mapping.categorical, mapping.times, mapping.booleans)
    encoder: Any = partial(TableEncoding.fit, times=mapping.times, booleans=mapping.booleans)
    by_rule: Any = None
    if mapping.labels:
        kind, action = "labels", mapped.labels()
    elif mapping.list is None:
        kind, (action, values["action"]) = "single", mapped.actions("action", mapping.action)
        if mapping.rule is not None:
            codes, texts = mapped.actions("propensity.rule", mapping.rule)
            by_rule = np.array(values["action"], dtype=object)[action] == np.array(texts, dtype=object)[codes]
    else:
        kind, starts = "lists", (lists or ListIds(mapping.list)).starts_of(frame[mapping.list])
        chosen = mapped.chosen("chosen", mapping.chosen, starts)
        if mapping.rule is not None:
            by_rule = chosen == mapped.chosen("propensity.rule", mapping.rule, starts)
        encoder = partial(ListedTableEncoding.fit, list_id=mapping.list, **encoder.keywords)
        action, mapped = chosen - starts[:-1], MappedFrame(frame.iloc[chosen], mapping, unescape)
    columns, clock = mapped.columns(values)
    rows = Table(len(mapped.frame), columns | {"action": action, "follows": by_rule}, values)
    facts = {"is_reward": mapping.reward is not None, "clock": clock, "names": list(mapping.labels or ())}
    description = LogDescription(format=form, mapping=mapping, kind=kind, encoder=encoder, **facts)
    return Batch(description, Contexts(features, starts), rows).validated()


class MappedFrame(NamedTuple):
    """A frame whose index has the numbers of its rows, and the mapping that names its columns."""

    frame: pd.DataFrame
    mapping: LogMapping
    unescape: Callable[[Any], Any]

    def columns(self, values: dict[str, list]) -> tuple[dict[str, Any], str | None]:
        """Return the columns of a batch but the action, and the kind of time; add the values of codes to ``values``."""
        mapping, frame = self.mapping, self.frame
        reward, time, clock = self.vector("reward"), None, None
        if mapping.time is not None:
            time, clock = order_of(frame[mapping.time], mapping.time)
        columns = {
            "cost": self.vector("cost") if reward is None else 0 - reward,
            "propensity": self.vector("propensity", "a value in (0, 1]"),
            "number": frame.index.to_numpy(),
            "candidate": self.vector("candidate"),
            "time": time,
        }
        if mapping.guardrails:
            costs = [rail.sign * self.numbers(rail.column, rail.label) for rail in mapping.guardrails]
            columns["guardrails"] = np.column_stack(costs) + 0.0
        for key, column, is_optional in (("id", "ids", False), ("group", "group_marks", True)):
            if (name := getattr(mapping, key)) is not None:
                columns[column] = id_marks(frame[name], mapping.label_of(key), is_optional)
        coded = {f"slice {place}": ("slice", name) for place, name in enumerate(mapping.slice_columns)}
        coded |= {"logger": ("logged_by", mapping.logged_by)} if mapping.logged_by else {}
        for column, (key, name) in coded.items():
            reject_rounded(frame[name], _label(key, name))
            columns[column], values[column] = categories(frame[name], name)
        return columns, clock

    def numbers(self, name: str, label: str, expected: str = "a finite number") -> np.ndarray:
        """Return a column as numbers, (n,)."""
        booleans = boolean_numbers(self.mapping.booleans)
        return numbers(self.frame[name], label, expected, booleans=booleans)

    def vector(self, key: str, expected: str = "a finite number") -> Any:
        """Return the column of a key as numbers, (n,); None if the mapping does not have it."""
        name = getattr(self.mapping, key)
        return None if name is None else self.numbers(name, self.mapping.label_of(key), expected)

    def flags(self, name: str, label: str) -> np.ndarray:
        """Return a column of 0 and 1, (n,)."""
        values = self.numbers(name, label, "0 or 1")
        reject_rows((values != 0) & (values != 1), values, label, "0 or 1", self.frame.index)
        return values

    def labels(self) -> np.ndarray:
        """Return the logged label vectors, (n, q)."""
        columns = [self.flags(name, f"label {name!r}") for name in self.mapping.labels or ()]
        return np.column_stack(columns).astype(np.uint8)

    def actions(self, key: str, name: Any) -> tuple[np.ndarray, list[str]]:
        """Return the action of each row, (n,), as a place among the names of actions, and the names."""
        column, label = self.frame[name], _label(key, name)
        reject_rounded(column, label)
        codes, values = categories(column, label)
        missing = np.array([value == MISSING for value in values])[codes]
        reject_rows(missing, column, label, "an action's name; remove rows without one")
        return codes, [*map(self.unescape, values)]

    def chosen(self, key: str, name: Any, starts: np.ndarray) -> np.ndarray:
        """Return the row that a column of 0 and 1 marks in each list, (m,); InputError unless each list has one."""
        label = _label(key, name)
        is_chosen = self.flags(name, label)
        counts = np.add.reduceat(is_chosen, starts[:-1])
        if (counts != 1).any():
            at = int(np.argmax(counts != 1))
            first, last = self.frame.index[[starts[at], starts[at + 1] - 1]]
            raise InputError(
                f"{label} is 1 in {counts[at]:.0f} of the rows {first} to {last}, which are one list by "
                f"{self.mapping.list!r}, expected exactly one; the rows of a list must follow one another"
            )
        return np.flatnonzero(is_chosen)


def _label(key: str, name: str) -> str:
    return key if name == key else f"{key} {name!r}"


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
