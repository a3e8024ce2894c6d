"""Search for the best policy tree, by histograms of scores over binned columns.

A tree gives each context an action, and its value is Σ_i Γ_i(action of i). For a pair of columns, one histogram of the
scores over pairs of bins is cumulated along both axes. It then gives the best actions for all pairs of cuts. With n
rows, d columns, K actions and B bins, the search takes O(d² K (n + B²)) operations. It is exact for depths 1 and 2,
except that ``fit_encoded_tree`` tries only the 20 best columns.

Source: Zhou, Athey & Wager 2023, who search over sorted rows; the histograms replace the sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.validation import as_float_array, check_fraction, check_positive_integer, require_finite
from drcrm.errors import InputError
from drcrm.policies.trees import DEPTH
from drcrm.policies.trees.encoded_columns import (
    Column,
    EncodedColumn,
    as_table,
    choose_cuts,
    find_columns,
    read_table,
)
from drcrm.policies.trees.tree import ActionTree, Node

MOST_COLUMNS = 20  # that the search tries in pairs
THRESHOLDS, LEAST_SHARE = 64, 0.02
BLOCK = 2**16  # rows whose sums stay in the processor's cache
LEAST_GAIN = 1e-11  # of a split, relative to the sum of the largest |score| of the rows; less is rounding


def optimal_tree(
    X: Any,
    scores: Any,
    depth: int = DEPTH,
    thresholds: int = THRESHOLDS,
    least_share: float = LEAST_SHARE,
) -> ActionTree:
    """Return the tree T of a given depth with the largest total score Σ_i Γ_i(T(x_i)).

    The search is exact for depths 1 and 2, over the cuts of each column and over both places of its missing values. In
    a deeper tree the root is that of the best tree of depth 2, and the search goes on below it. Splits that gain
    nothing are left out. For the value of the tree, use contexts that the tree was not fitted to.

    Parameters
    ----------
    X : array or DataFrame (n, d)
        Contexts. NaN is a missing value. In a DataFrame, columns may also have booleans, times and categories. Columns
        of texts are categories, which are split in the order of their mean scores.
    scores : array (n, K)
        Γ, for example doubly robust rewards: a large score is good.
    depth : int ≥ 1
        Largest number of splits above a leaf.
    thresholds : int ≥ 1
        Largest number of cuts of a column. With fewer distinct values every cut between them is tried, otherwise those
        next to quantiles.
    least_share : float in [0, 1]
        Least share of the rows in a leaf.

    Returns
    -------
    ActionTree
        Tree with ``predict(X)`` and ``export_text()``.

    Raises
    ------
    InputError
        If a score is not finite, shapes do not match, or a parameter is invalid.

    References
    ----------
    Zhou, Athey & Wager 2023, Offline multi-action policy learning. Operations Research 71.
    """
    scores = as_float_array(scores, "scores")
    table = as_table(X)
    if scores.ndim != 2 or not scores.size or len(scores) != len(table):
        raise InputError(
            f"scores have shape {scores.shape}, expected ({len(table)}, actions) with at least one of each"
        )
    require_finite(scores, "scores have a NaN or infinite entry, expected finite numbers")
    return fit_tree(table, scores, TreeSettings(depth, thresholds, least_share).check())


class TreeSettings(NamedTuple):
    """Parameters of a search.

    Attributes
    ----------
    depth, thresholds, least_share
        As in :func:`optimal_tree`; with depth 0, the tree is a single leaf.
    most_columns : int, optional
        If there are more columns, the search uses those with the best trees of depth 1.
    """

    depth: int = DEPTH
    thresholds: int = THRESHOLDS
    least_share: float = LEAST_SHARE
    most_columns: int | None = None

    def check(self) -> TreeSettings:
        """Return the parameters; raise InputError unless they are valid for :func:`optimal_tree`."""
        check_positive_integer(self.depth, "depth")
        check_positive_integer(self.thresholds, "thresholds")
        check_fraction(self.least_share, "least_share")
        return self


def fit_tree(table: Any, scores: np.ndarray, settings: TreeSettings) -> ActionTree:
    """Return the best tree for checked values: see :func:`optimal_tree`."""
    columns = find_columns(table, scores)
    return grow_tree(columns, read_table(table, columns), scores, np.ones(len(scores)), settings)


def grow_tree(
    columns: Sequence[Column], values: list[np.ndarray], scores: np.ndarray, counts: np.ndarray, settings: TreeSettings
) -> ActionTree:
    """Return the best tree for the values that columns read.

    ``counts``, (n,), are positive numbers of occurrences, over which the scores are sums.
    """
    scores = scores / (np.abs(scores).max() or 1.0)  # sums of huge scores could overflow
    columns = [
        replace(column, has_missing=bool(np.isnan(of_column).any()))
        for column, of_column in zip(columns, values, strict=True)
    ]
    cuts = [
        choose_cuts(column.decode(of_column), settings.thresholds)
        for column, of_column in zip(columns, values, strict=True)
    ]
    encoded = [column.encode(of_column) for column, of_column in zip(columns, cuts, strict=True)]
    bins = Bins.of(values, encoded, np.concatenate([(scores[:, 1:] - scores[:, :1]).T, counts[None]]))
    total = float(counts.sum())
    least = max(1.0, np.ceil(settings.least_share * total - 1e-9))
    if settings.most_columns is not None and len(columns) > settings.most_columns:
        bins, used = bins.with_best_columns(settings.most_columns, least)
        columns, cuts = [columns[place] for place in used], [cuts[place] for place in used]
    return ActionTree(_grow(bins, columns, cuts, settings.depth, (least, total)), columns, scores.shape[1])


def _grow(bins: Bins, columns: list[Column], cuts: list[np.ndarray], depth: int, sizes: tuple[float, float]) -> Node:
    """Return the node of some rows; ``sizes`` are the least number of rows of a leaf, and the number of all rows."""
    least, total = sizes
    leaf = Node(int(np.argmax(bins.values)), float(bins.sums[-1].sum()) / total)
    split = best_split(bins, min(depth, 2), least) if depth and columns else None
    if split is None:
        return leaf
    is_left = bins.is_left(split)
    children = tuple(_grow(bins.take(side), columns, cuts, depth - 1, sizes) for side in (is_left, ~is_left))
    of_column = cuts[split.column]
    cut = float(of_column[split.cut]) if split.cut < len(of_column) else np.inf
    missing_left = columns[split.column].missing_side(cut)
    if (bins.codes[split.column] == bins.sizes[split.column]).any():
        missing_left = split.missing_left
    elif missing_left is None:
        missing_left = children[0].share >= children[1].share
    return Node(leaf.action, leaf.share, split.column, cut, missing_left, children)


def fit_encoded_tree(
    columns: Sequence[EncodedColumn], X: Features, scores: np.ndarray, counts: np.ndarray, depth: int
) -> ActionTree:
    """Return the best tree for scores (m, K) of contexts, which are sums over ``counts``, (m,), occurrences.

    With depth 0, it is the best single action.
    """
    fitted = [column.fit(X, scores, counts) for column in columns] if depth else []
    columns, values = [column for column, _ in fitted], [of_column for _, of_column in fitted]
    return grow_tree(columns, values, scores, counts, TreeSettings(depth, most_columns=MOST_COLUMNS))


class Split(NamedTuple):
    """A split: rows whose bin is at most ``cut`` go left; rows without a value go left if ``missing_left``."""

    column: int
    cut: int
    missing_left: bool


class Bins(NamedTuple):
    """Binned columns of n rows, and the scores of their actions.

    Attributes
    ----------
    codes : int array (d, n)
        The bin of each value. The bin of missing values is the last one.
    sizes : list of int
        Number of bins of each column, without that of missing values.
    sums : array (K, n)
        Scores of the actions 1, 2, …, minus the score of action 0, and last how often each row occurs. Scores are sums
        over the occurrences.
    """

    codes: np.ndarray
    sizes: list[int]
    sums: np.ndarray

    @classmethod
    def of(cls, table: list[np.ndarray], cuts: list[np.ndarray], sums: np.ndarray) -> Bins:
        """Return the bins of columns, between their increasing cuts."""
        codes = np.zeros((len(table), sums.shape[1]), dtype=np.int32)
        for code, values, of_column in zip(codes, table, cuts, strict=True):
            code[:] = np.searchsorted(of_column, values)
            code[np.isnan(values)] = len(of_column) + 1
        return cls(codes, [len(of_column) + 1 for of_column in cuts], sums)

    def take(self, rows: np.ndarray) -> Bins:
        """Return selected rows, a mask."""
        places = np.flatnonzero(rows)
        return Bins(self.codes.take(places, axis=1), self.sizes, self.sums.take(places, axis=1))

    def with_best_columns(self, most: int, least: float) -> tuple[Bins, list[int]]:
        """Return the bins of the columns with the best trees of depth 1, in their order, and their places."""
        tables = [_value_of_split(self.histogram(column), least) for column in range(len(self.sizes))]
        best = np.argsort([-table.max(initial=-np.inf) for table in tables], kind="stable")[:most]
        used = sorted(best.tolist())
        return Bins(self.codes[used], [self.sizes[place] for place in used], self.sums), used

    def is_left(self, split: Split) -> np.ndarray:
        """Return which rows a split sends to the left."""
        code = self.codes[split.column]
        return (code <= split.cut) | ((code == self.sizes[split.column]) & split.missing_left)

    @property
    def values(self) -> np.ndarray:
        """Total scores of all actions, (K,), minus that of action 0."""
        return np.append(0.0, self.sums[:-1].sum(axis=1))

    def histogram(self, *columns: int) -> np.ndarray:
        """Return the sums over the bins of one or two columns, (K, bins, …)."""
        shape = [self.sizes[column] + 1 for column in columns]
        size = int(np.prod(shape))
        total = np.zeros((len(self.sums), size))
        for start in range(0, self.codes.shape[1], BLOCK):
            rows = slice(start, start + BLOCK)
            code = self.codes[columns[0], rows].astype(np.intp)
            if len(columns) == 2:
                code = code * shape[1] + self.codes[columns[1], rows]
            total += [np.bincount(code, of_rows, size) for of_rows in self.sums[:, rows]]
        return total.reshape(-1, *shape)


def best_split(bins: Bins, depth: int, least: float) -> Split | None:
    """Return the first split of the best tree, or None if a single action is as good.

    Parameters
    ----------
    bins : Bins
    depth : 1 or 2
    least : float
        Least number of rows in a leaf, at least 1.
    """
    best, value = None, float(bins.values.max())
    noise = LEAST_GAIN * np.abs(bins.sums[:-1]).max(axis=0, initial=0.0).sum()
    of_columns = [bins.histogram(column) for column in range(len(bins.sizes))]
    tables = [_value_of_split(histogram, least) for histogram in of_columns]
    for level in range(depth):  # of equally good trees, take the smaller one
        for column, table in enumerate(_values_of_roots(bins, of_columns, least) if level else tables):
            if table.size and table.max() > value + noise:
                missing, cut = np.unravel_index(np.argmax(table), table.shape)
                best, value = Split(column, int(cut), bool(missing)), float(table.max())
    return best


def _values_of_roots(bins: Bins, of_columns: list[np.ndarray], least: float) -> list[np.ndarray]:
    """Return for each column the value of the best tree of depth 2, by the place of missing values and the cut.

    ``of_columns`` are the histograms of single columns.
    """
    values = []
    for histogram in of_columns:
        sides = _sum_sides(histogram)
        values.append(np.where(sides[-1] < least, -np.inf, sides[:-1].max(axis=0, initial=0.0)))
    for root in range(len(bins.sizes)):
        for child in range(root + 1):
            joint = _pair_with_itself(of_columns[root]) if root == child else bins.histogram(root, child)
            for column, histogram in ((root, joint), (child, joint.swapaxes(1, 2)))[: 1 + (root != child)]:
                sides = np.moveaxis(_sum_sides(histogram.swapaxes(1, 2)), 2, -1)
                best = _value_of_split(sides, least).max(axis=(-2, -1), initial=-np.inf)
                np.maximum(values[column], best, out=values[column])
    return [value.sum(axis=0) for value in values]


def _value_of_split(histogram: np.ndarray, least: float) -> np.ndarray:
    """Return the value of each cut of the last axis, (…, 1 or 2, cuts); −∞ if a side has fewer than ``least`` rows."""
    sides = _sum_sides(histogram)
    leaves = sides[:-1].max(axis=0, initial=0.0).sum(axis=0)
    leaves[sides[-1].min(axis=0) < least] = -np.inf
    return leaves


def _sum_sides(histogram: np.ndarray) -> np.ndarray:
    """Return the sums left and right of each cut of the last axis, (K, 2, …, 1 or 2, cuts).

    The next to last axis has missing values on the right, and then, if there are any, on the left.
    """
    missing, left = histogram[..., None, -1:], histogram[..., None, :-1].cumsum(axis=-1)
    if missing[-1].any():
        left = np.concatenate([left, left + missing], axis=-2)
    return np.stack([left, histogram.sum(axis=-1)[..., None, None] - left], axis=1)


def _pair_with_itself(histogram: np.ndarray) -> np.ndarray:
    """Return the histogram of a column paired with itself."""
    joint = np.zeros((*histogram.shape, histogram.shape[1]))
    place = np.arange(histogram.shape[1])
    joint[:, place, place] = histogram
    return joint
