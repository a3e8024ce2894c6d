"""Batch of a frame's rows: a mapping says which columns are actions, propensities, outcomes and features."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from drcrm.arrays.tables import Table
from drcrm.errors import InputError
from drcrm.logs.batches import Batch, LogDescription
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
from drcrm.logs.encoding.tables import TableEncoding, select_columns, table_features
from drcrm.mapping.entries import KnownPropensity
from drcrm.mapping.log_mapping import COLUMNS, LogMapping, as_mapping

DATASET = {"item_id", "position", "click", "propensity_score"}  # columns of the Open Bandit Dataset's csv
WEIGHTED = "logging_mean", "propensity"  # columns of a batch from the weights of all actions
NUMBERS = "constant", "exploration"  # keys of ``propensity`` whose values are numbers, not columns
TOLERANCE = 0.002  # of the sum of a row's weights, so that [0.333, 0.333, 0.333] is valid
KEY = "propensity.weights"
SEPARATORS = re.compile(r"[\s,;]+")  # between the numbers of a list in a text, such as [0.5, 0.3, 0.2]


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


def read_weights(
    frame: pd.DataFrame, known: KnownPropensity, taken: np.ndarray, names: list[str], booleans: Mapping[str, float]
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return the weights of all actions, the propensities of the logged ones, and the actions in the weights' order.

    The weights of a row, (n, K), are divided by their sum.

    Parameters
    ----------
    frame : DataFrame
        Its index has the numbers of the rows in messages.
    known : KnownPropensity
    taken : integer array (n,)
        Places of the logged actions in ``names``.
    names : list of str
    booleans : mapping of float

    Raises
    ------
    InputError
        If a row has another number of weights than there are actions, they are no probabilities or do not add up to 1,
        or the logged action has the weight 0.
    """
    if isinstance(known.weights, str):
        weights = _read_lists(frame[known.weights], known.actions)
    else:
        columns: Any = known.weights
        weights = np.column_stack([numbers(frame[name], f"{KEY} {name!r}", booleans=booleans) for name in columns])
    actions = known.action_names(weights.shape[1])
    for name, column in zip(actions, weights.T, strict=True):
        is_bad = ~((column >= 0) & (column <= 1 + TOLERANCE))
        reject_values(is_bad, column, f"{KEY} of action {name!r}", "a probability", frame.index)
    total = weights.sum(axis=1)
    expected = f"1, up to {TOLERANCE:g}: the probabilities of all actions"
    reject_values(np.abs(total - 1) > TOLERANCE, total, f"the sum of {KEY}", expected, frame.index)
    weights = weights / total[:, None]
    propensity = weights[np.arange(len(weights)), _places(names, actions, known.actions is None)[taken]]
    expected = "above 0; the order of the actions may be wrong, which propensity.actions gives"
    reject_values(propensity <= 0, propensity, f"the weight of the logged action in {KEY}", expected, frame.index)
    return weights, propensity, actions


def _places(names: Sequence[str], actions: Sequence[str], are_numbers: bool) -> np.ndarray:
    """Return the place of each name among the actions; InputError if it is not among them."""
    places = pd.Index(actions).get_indexer(names)
    if (places < 0).any():
        name = names[int(np.argmax(places < 0))]
        advice = "list the names in the order of the weights: propensity: {weights: …, actions: [a, b, c]}"
        expected = (
            f"the numbers 0 to {len(actions) - 1}" if are_numbers else f"propensity.actions: {', '.join(actions)}"
        )
        raise InputError(f"the log has the action {name!r}, expected one of {expected}; {advice}")
    return places


def _read_lists(column: pd.Series, actions: Sequence[str] | None) -> np.ndarray:
    """Return a column of lists, or of their texts, as an array (n, K)."""
    rows = [_parse(cell) for cell in column]
    size = next((len(row) for row in rows if row), 0) if actions is None else len(actions)
    is_bad = np.array([row is None for row in rows])
    label = f"{KEY} {column.name!r}"
    reject_values(is_bad, column, label, "a list of probabilities such as [0.5, 0.3, 0.2]")
    lengths = np.array([*map(len, rows)])  # type: ignore[arg-type]
    expected = f"{size}, one for each action"
    reject_values(lengths != size, lengths, f"the number of values in {label}", expected, column.index)
    return np.array(rows, dtype=float)


def _parse(cell: Any) -> list[float] | None:
    """Return the numbers of a list or of its text; None for another value."""
    parts = SEPARATORS.split(cell.strip().strip("[]()").strip(" ,;")) if isinstance(cell, str) else cell
    try:
        return [float(part) for part in parts] or None
    except (TypeError, ValueError):
        return None
