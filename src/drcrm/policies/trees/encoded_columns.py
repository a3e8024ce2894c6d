"""Columns of a table as a policy tree reads them from the encoded features X, in the units of the table.

A split compares encoded values with the encoded cut. Encoding is monotone, so the result is that of the table's values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from drcrm.arrays.mapped_arrays import Features
from drcrm.data.bandit_log import BanditLog
from drcrm.policies.trees.columns import BOOLEAN, CATEGORY, NUMBER, Column, order_categories
from drcrm.policies.trees.tree import ActionTree, TreeSettings, grow_tree

MOST_COLUMNS = 20  # that the search tries in pairs


@dataclass(frozen=True)
class EncodedColumn(Column):
    """A column of a table, of which X has the number (v − mean)/scale, or an indicator of each value.

    Attributes
    ----------
    places : list of int
        Its columns of X: one for a number, and one for each of ``values`` otherwise. The values of a ``NUMBER`` are
        then the texts of whole numbers, such as hours.
    indicator : int
        Column of X that is not 0 if the number is missing; −1 without one. A missing number then counts as the mean.
    mean, scale : float
    """

    places: tuple[int, ...] | list[int] = ()
    indicator: int = -1
    mean: float = 0.0
    scale: float = 1.0

    def read(self, column: Features) -> np.ndarray:
        """Return the encoded values of the column in X, (m,). A value that no column of X has is NaN."""
        block = _dense(column, self.places)
        if self.values:
            place = block.argmax(axis=1)
            numbers = place if self.kind == CATEGORY else np.array([*map(float, self.values)])[place]
            return np.where(block.any(axis=1), numbers, np.nan)
        values = block[:, 0].astype(float)
        if self.indicator >= 0:
            values[_dense(column, [self.indicator])[:, 0] != 0] = np.nan
        return values

    def decode(self, values: np.ndarray) -> np.ndarray:
        return values * self.scale + self.mean

    def encode(self, cuts: Any) -> Any:
        return (cuts - self.mean) / self.scale

    def missing_side(self, cut: float) -> bool | None:
        is_mean = not self.values and self.indicator < 0
        return bool(self.encode(cut) >= 0) if is_mean else None

    def fit(self, X: Features, scores: np.ndarray, counts: np.ndarray) -> tuple[Self, np.ndarray]:
        """Return the column with its categories in the order of their mean scores, and its values.

        ``scores``, (m, K), are sums over ``counts``, (m,), occurrences. Numbers 0 and 1 are booleans.
        """
        column, values = self, self.read(X)
        if self.kind == CATEGORY:
            order = order_categories(np.nan_to_num(values, nan=-1).astype(int), scores, counts)
            order += [place for place in range(len(self.values)) if place not in order]
            ordered: dict[str, Any] = {name: [getattr(self, name)[i] for i in order] for name in ("values", "places")}
            column = replace(self, **ordered)
            values = column.read(X)
        elif self.kind == NUMBER and not self.values and self._is_boolean(values):
            column = replace(self, kind=BOOLEAN)
        return column, values

    def _is_boolean(self, values: np.ndarray) -> bool:
        known = values[~np.isnan(values)]
        return bool(np.isin(known, self.encode(np.array([0.0, 1.0]))).all())


def number_columns(n_features: int, names: Sequence[Any] | None = None) -> list[EncodedColumn]:
    """Return the columns of features that are numbers without encoding."""
    return [
        EncodedColumn(f"x{place}" if names is None else names[place], places=[place]) for place in range(n_features)
    ]


def _dense(X: Features, places: Sequence[int]) -> np.ndarray:
    selected = X[:, list(places)]
    return selected.toarray() if hasattr(selected, "toarray") else np.asarray(selected)


def readable_columns(log: BanditLog) -> list[EncodedColumn]:
    """Return the columns of a log's table that a tree can split; without a table, the features."""
    return number_columns(log.X.shape[1]) if log.encoding is None else log.encoding.readable_columns


def fit_encoded_tree(
    columns: Sequence[EncodedColumn], X: Features, scores: np.ndarray, counts: np.ndarray, depth: int
) -> ActionTree:
    """Return the best tree for scores (m, K) of contexts, which are sums over ``counts``, (m,), occurrences.

    With depth 0, it is the best single action.
    """
    fitted = [column.fit(X, scores, counts) for column in columns] if depth else []
    columns, values = [column for column, _ in fitted], [of_column for _, of_column in fitted]
    return grow_tree(columns, values, scores, counts, TreeSettings(depth, most_columns=MOST_COLUMNS))


def apply_encoded_tree(tree: ActionTree, X: Features) -> np.ndarray:
    """Return the number of the leaf of each encoded context, from left to right, (m,)."""
    columns: Any = tree.columns
    used = {node.column for node in tree.root.nodes() if node.children}
    return tree.apply_to_values({place: columns[place].read(X) for place in used}, X.shape[0])
