"""Probabilities of all actions under the logging policy, from a column of lists or a column for each action."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from drcrm.arrays.mapped_arrays import map_rows
from drcrm.errors import InputError
from drcrm.logs.encoding.columns import numbers, reject_values
from drcrm.mapping.entries import KnownPropensity

TOLERANCE = 0.002  # of the sum of a row's weights, so that [0.333, 0.333, 0.333] is valid
KEY = "propensity.weights"
SEPARATORS = re.compile(r"[\s,;]+")  # between the numbers of a list in a text, such as [0.5, 0.3, 0.2]


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


def order_weights(weights: np.ndarray, actions: Sequence[Any], names: Sequence[Any]) -> np.ndarray:
    """Return weights of ``actions``, (n, K), for the actions ``names``; those without weights have 0."""
    order = pd.Index([*map(str, actions)]).get_indexer([*map(str, names)])  # −1, the added column, without weights
    if np.array_equal(order, np.arange(len(actions))):
        return weights
    return map_rows(weights, lambda rows: np.column_stack([rows, np.zeros(len(rows))])[:, order])


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
