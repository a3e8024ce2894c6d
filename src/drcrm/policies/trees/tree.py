"""Policy tree: an action for each leaf of a tree that splits contexts by readable columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from drcrm.arrays.validation import as_float_array, check_fraction, check_positive_integer, require_finite
from drcrm.errors import InputError
from drcrm.policies.trees import DEPTH
from drcrm.policies.trees.columns import CATEGORY, Column, as_table, choose_cuts, find_columns, read_table
from drcrm.policies.trees.search import Bins, best_split

THRESHOLDS, LEAST_SHARE = 64, 0.02
INDENT = 4 * " "  # of the text of a tree


@dataclass(frozen=True)
class Node:
    """A node of a tree: a leaf, or a split with two children.

    Attributes
    ----------
    action : int
        Best action of the node's rows.
    share : float
        Share of the rows that reach the node.
    column : int
        Place of the column of the split, −1 for a leaf.
    cut : float
        Rows with a value of at most ``cut`` go left. With an infinite cut all rows with a value do.
    missing_left : bool
        Whether rows without a value go left. If the node has no such row, they go to its larger child.
    children : tuple of Node
        Left and right child; empty for a leaf.
    probabilities : tuple of K floats
        Probabilities of the actions of a leaf that draws its action; empty if it always takes ``action``.
    """

    action: int
    share: float
    column: int = -1
    cut: float = np.inf
    missing_left: bool = False
    children: tuple[Node, ...] | list[Node] = ()
    probabilities: tuple[float, ...] | list[float] = ()

    def is_left(self, values: np.ndarray, column: Column) -> np.ndarray:
        """Return which values of the split's column go left."""
        return np.where(np.isnan(values), self.missing_left, values <= column.encode(self.cut))

    def describe(self, names: Sequence[Any]) -> str:
        """Return the action of a leaf, or the actions that it draws with their probabilities."""
        drawn = [f"{names[action]} with {100 * p:.3g} %" for action, p in enumerate(self.probabilities) if p > 0]
        return " or ".join(drawn) or str(names[self.action])

    def nodes(self) -> list[Node]:
        """Return the node and all nodes below it, each before its children."""
        return [self, *(node for child in self.children for node in child.nodes())]

    def leaves(self) -> list[Node]:
        """Return the leaves below the node, from left to right."""
        return [node for node in self.nodes() if not node.children]


class PlacedNode(NamedTuple):
    """A node in a list of a tree's nodes, for texts and pictures.

    Attributes
    ----------
    node : Node
    depth : int
        Number of splits above.
    parent : int
        Place of the parent in the list, −1 for the root.
    condition : str
        Condition of the split above; empty for the root.
    path : dict of str
        The conditions from the root on. A later condition of the same kind on a column replaces an earlier one.
    """

    node: Node
    depth: int = 0
    parent: int = -1
    condition: str = ""
    path: Mapping[tuple, str] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class ActionTree:
    """A tree that gives each context one of K actions.

    Attributes
    ----------
    root : Node
    columns : list of Column
        The columns of the contexts.
    n_actions : int
        K.
    """

    root: Node
    columns: list[Column]
    n_actions: int

    @property
    def leaves(self) -> list[Node]:
        """The leaves from left to right."""
        return self.root.leaves()

    def apply(self, X: Any) -> np.ndarray:
        """Return the number of the leaf of each context, from left to right.

        Parameters
        ----------
        X : array or DataFrame (m, d)
            Contexts with the columns of the fit; NaN is a missing value. A category that the fit did not have counts as
            missing.

        Returns
        -------
        int array (m,)

        Raises
        ------
        InputError
            If X lacks a column, or a value is not of its column's kind.
        """
        table = as_table(X)
        return self.apply_to_values(dict(enumerate(read_table(table, self.columns))), len(table))

    def apply_to_values(self, values: Mapping[int, np.ndarray], m: int) -> np.ndarray:
        """Return the leaf of each of m contexts from the values that the columns of the splits read, by place."""
        leaf, first = np.zeros(m, dtype=np.intp), 0
        for node, rows in self._walk(self.root, values, np.arange(m)):
            if not node.children:
                leaf[rows] = first
                first += 1
        return leaf

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable action of each context, (m,), from 0 to K − 1; see :meth:`apply`."""
        return np.array([leaf.action for leaf in self.leaves])[self.apply(X)]

    @property
    def leaf_probabilities(self) -> np.ndarray:
        """Probabilities of the actions in each leaf, (leaves, K)."""
        certain = np.eye(self.n_actions)
        return np.array([leaf.probabilities or certain[leaf.action] for leaf in self.leaves], dtype=float)

    def export_text(self, action_names: Sequence[Any] | None = None) -> str:
        """Return the tree as lines of text, with the share of the training rows in each leaf.

        Parameters
        ----------
        action_names : sequence of K names, optional
            By default the numbers of the actions.
        """
        names = range(self.n_actions) if action_names is None else action_names
        lines = []
        for node, depth, _, condition, _ in self.placed_nodes():
            lines += [f"{INDENT * (depth - 1)}if {condition}:"] if condition else []
            if not node.children:
                lines.append(f"{INDENT * depth}{node.describe(names)}  ({100 * node.share:.3g} % of the rows)")
        return "\n".join(lines) + "\n"

    def leaf_conditions(self) -> list[str]:
        """Return the conditions that lead to each leaf, from left to right, as one text each."""
        return [" and ".join(placed.path.values()) for placed in self.placed_nodes() if not placed.node.children]

    def placed_nodes(self) -> list[PlacedNode]:
        """Return all nodes, each before its children, with their places and conditions for texts and pictures."""
        return self._place_nodes(PlacedNode(self.root), {}, [])

    def _place_nodes(
        self, placed: PlacedNode, known: dict[int, tuple[Column, int]], nodes: list[PlacedNode]
    ) -> list[PlacedNode]:
        """Append a node and the nodes below it.

        ``known`` has the columns of the path with the categories that are left, and the place of the first of them.
        """
        node, parent = placed.node, len(nodes)
        nodes.append(placed)
        if not node.children:
            return nodes
        column, first = known.get(node.column, (self.columns[node.column], 0))
        is_set = column.kind == CATEGORY and node.cut != np.inf
        place = int(node.cut) + 1 - first if is_set else 0
        for child, is_left in zip(node.children, (True, False), strict=True):
            condition = column.describe(node.cut - first, is_left, node.missing_left)
            values = (column.values[:place] if is_left else column.values[place:]) if is_set else column.values
            has_missing = column.has_missing and node.missing_left == is_left
            left = replace(column, values=values, has_missing=has_missing), first if is_left else first + place
            key = (node.column,) if is_set else (node.column, is_left, node.cut == np.inf)
            below = PlacedNode(child, placed.depth + 1, parent, condition, {**placed.path, key: condition})
            self._place_nodes(below, known | {node.column: left}, nodes)
        return nodes

    def _walk(
        self, node: Node, values: Mapping[int, np.ndarray], rows: np.ndarray
    ) -> Iterator[tuple[Node, np.ndarray]]:
        """Yield each node from left to right, with the numbers of the rows that reach it."""
        yield node, rows
        if node.children:
            is_left = node.is_left(values[node.column][rows], self.columns[node.column])
            for child, side in zip(node.children, (is_left, ~is_left), strict=True):
                yield from self._walk(child, values, rows[side])


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


def tree_of(policy: Any) -> ActionTree | None:
    """Return the tree of a policy, or None if the policy has none."""
    tree = getattr(getattr(getattr(policy, "features", None), "transformer", None), "tree", None)
    return tree if isinstance(tree, ActionTree) else None
