"""Policy tree: an action for each leaf of a tree that splits contexts by readable columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from drcrm.arrays.mapped_arrays import Features
from drcrm.policies.trees.encoded_columns import CATEGORY, Column, as_table, read_table

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

    def apply_encoded(self, X: Features) -> np.ndarray:
        """Return the leaf of each context, (m,), from encoded features; the columns are instances of EncodedColumn."""
        columns: Any = self.columns
        used = {node.column for node in self.root.nodes() if node.children}
        return self.apply_to_values({place: columns[place].read(X) for place in used}, X.shape[0])

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


def tree_of(policy: Any) -> ActionTree | None:
    """Return the tree of a policy, or None if the policy has none."""
    tree = getattr(getattr(getattr(policy, "features", None), "transformer", None), "tree", None)
    return tree if isinstance(tree, ActionTree) else None
