"""Prices of limits on mean costs: they are subtracted from the scores that a policy within the limits maximises.

A policy has the value v(π) = mean_i Σ_a π(a|x_i) Γ_i(a), and limit l requires mean_i Σ_a π(a|x_i) A_li(a) ≤ b_l. For
prices λ_l ≥ 0, the best tree for the scores Γ − Σ_l λ_l A_l solves the problem without limits. The smallest value of
this dual over λ bounds the value of every mixture of trees within the limits. Its prices come from a linear program:
over the trees found so far, the best mixture within the limits has a price for each limit. The best tree at these
prices is added, and the program is solved again, until no tree at its prices is better than the mixture (Dantzig &
Wolfe 1960). With one limit this takes fewer searches than a bisection.

A single tree can be far from its limits, because its share of an action jumps between two prices. So the splits of each
tree found are kept, and a linear program chooses the probabilities of the actions in its leaves. At most as many leaves
draw their action as there are limits. The best of these trees meets the limits.

For other policies, the price is subtracted from the logits. Of all policies q within the limits, the mean KL(q ‖ π) is
smallest for q(a|x) ∝ π(a|x) e^{−Σ_l λ_l A_l(x, a)}. Its mean costs fall as their prices rise, so a bisection for each
limit in turn finds the prices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog, toms748

from drcrm.policies.trees.tree import ActionTree, Node

MOST_TREES = 30  # searches for one policy tree
LARGEST_PRICE = 1e3  # in units of the spread of the scores over that of the costs; a larger one meets no limit
ROUNDING = 1e-6  # of the linear programs
TOLERANCE = 1e-9  # relative to the same spreads
SWEEPS = 20  # over all limits
CERTAIN = 1 - 1e-9  # a larger probability of a leaf's action is 1


class MixedTree(NamedTuple):
    """A tree with probabilities of the actions in its leaves.

    Attributes
    ----------
    tree : ActionTree
    leaf : int array (m,)
        Leaf of each context.
    probabilities : array (leaves, K)
    value : float
        v(π).
    costs : array (L,)
        Mean costs.
    bound : float
        Bound on the value of every mixture of trees of this depth within the limits.
    """

    tree: ActionTree
    leaf: np.ndarray
    probabilities: np.ndarray
    value: float
    costs: np.ndarray
    bound: float = np.inf

    def as_tree(self) -> ActionTree:
        """Return the tree whose leaves have the probabilities, without splits that decide nothing."""
        rows = iter(self.probabilities.tolist())

        def rebuild(node: Node) -> Node:
            if not node.children:
                row = next(rows)
                return replace(node, action=int(np.argmax(row)), probabilities=() if max(row) == 1 else tuple(row))
            left, right = children = tuple(map(rebuild, node.children))
            is_needless = not (left.children or right.children) and left.probabilities == right.probabilities
            if is_needless and left.action == right.action:
                return Node(left.action, node.share, probabilities=left.probabilities)
            return replace(node, children=children)

        return replace(self.tree, root=rebuild(self.tree.root))


@dataclass(frozen=True, eq=False)
class Problem:
    """Scores of the actions in m contexts, and limits on their mean costs.

    Attributes
    ----------
    scores : array (m, K)
        Γ, for each occurrence of a context.
    costs : list of L arrays (K,) or (m, K)
        A_l, likewise.
    limits : array (L,)
        b_l.
    counts : array (m,)
        Occurrences of each context.
    """

    scores: np.ndarray
    costs: Sequence[np.ndarray]
    limits: np.ndarray
    counts: np.ndarray

    def priced(self, prices: np.ndarray) -> np.ndarray:
        """Return Γ − Σ_l λ_l A_l, (m, K)."""
        return self.scores - sum(price * cost for price, cost in zip(prices, self.costs, strict=True))

    def totals(self, leaf: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return for each leaf and action the sum of the scores, (leaves, K), and of each cost, (L, leaves, K)."""
        n, m_leaves = self.counts.sum(), int(leaf.max()) + 1

        def total(values: np.ndarray) -> np.ndarray:
            weighted = self.counts[:, None] * values / n
            return np.stack([np.bincount(leaf, of_action, m_leaves) for of_action in weighted.T], axis=1)

        return total(self.scores), np.array([total(cost) for cost in self.costs])

    def excess(self, costs: np.ndarray) -> float:
        """Return the sum of the excesses of mean costs (L,) over the limits, in units of the costs' spreads."""
        units = np.array([np.ptp(cost) or 1.0 for cost in self.costs])
        beyond = (costs - self.limits) / units
        return float(np.where(beyond > ROUNDING, beyond, 0.0).sum())

    def mix(self, tree: ActionTree, leaf: np.ndarray) -> MixedTree:
        """Return a tree with the probabilities in its leaves that are best within the limits."""
        values, costs = self.totals(leaf)
        n_leaves, K = values.shape
        of_leaf = np.kron(np.eye(n_leaves), np.ones(K))
        weights, _, _ = solve_mixture(values.ravel(), costs.reshape(len(costs), -1), self.limits, of_leaf)
        weights = weights.reshape(n_leaves, K)
        largest = weights.max(axis=1, keepdims=True)
        weights = np.where(largest > CERTAIN, weights == largest, weights)
        return MixedTree(tree, leaf, weights, float((weights * values).sum()), (costs * weights).sum(axis=(1, 2)))


def solve_mixture(
    values: np.ndarray, costs: np.ndarray, limits: np.ndarray, choices: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the weights w ≥ 0 of k columns with the largest value within the limits, the prices λ, and the value.

    Limits that no weights meet are exceeded as little as possible.

    Parameters
    ----------
    values : array (k,)
    costs : array (L, k)
    limits : array (L,)
    choices : array (g, k)
        Rows of 0 and 1: the weights of the columns of each choice add up to 1.
    """
    unit, cost_units = np.ptp(values) or 1.0, np.where(np.ptp(costs, axis=1) > 0, np.ptp(costs, axis=1), 1.0)
    slack = np.eye(len(limits))
    result = linprog(
        np.append(-values / unit, np.full(len(limits), LARGEST_PRICE)),
        A_ub=np.hstack([costs / cost_units[:, None], -slack]),
        b_ub=limits / cost_units,
        A_eq=np.hstack([choices, np.zeros((len(choices), len(limits)))]),
        b_eq=np.ones(len(choices)),
        method="highs",
    )
    weights = np.maximum(result.x[: len(values)], 0)
    return weights, -result.ineqlin.marginals * unit / cost_units, float(values @ weights)


def best_mixed_tree(problem: Problem, search: Callable[[np.ndarray], tuple[ActionTree, np.ndarray]]) -> MixedTree:
    """Return the best tree within the limits, with probabilities of the actions in its leaves.

    Parameters
    ----------
    problem : Problem
    search : callable
        Function of scores (m, K) that returns the best tree, and the leaf of each context.
    """
    n, K = problem.scores.shape
    root = np.zeros(n, dtype=np.intp)
    [values], costs = problem.totals(root)
    costs = costs[:, 0]
    trees = [(ActionTree(Node(int(values.argmax()), 1.0), [], K), root)]
    unit, prices, bound = np.ptp(values) or 1.0, np.zeros(len(problem.limits)), np.inf
    for _ in range(MOST_TREES):
        tree, leaf = search(problem.priced(prices))
        of_leaf, costs_of_leaf = problem.totals(leaf)
        place = np.arange(len(of_leaf)), [node.action for node in tree.leaves]
        value, cost = float(of_leaf[place].sum()), costs_of_leaf[:, *place].sum(axis=-1)
        if not prices.any() and not problem.excess(cost):
            return MixedTree(tree, leaf, np.eye(K)[place[1]], value, cost, value)
        trees.append((tree, leaf))
        bound = min(bound, value - float(prices @ (cost - problem.limits)))
        values, costs = np.append(values, value), np.column_stack([costs, cost])
        _, prices, mixed = solve_mixture(values, costs, problem.limits, np.ones((1, len(values))))
        if bound - mixed <= TOLERANCE * unit:
            break
    mixtures = [problem.mix(*part) for part in trees]
    best = max(mixtures, key=lambda part: part.value - LARGEST_PRICE * unit * problem.excess(part.costs))
    return best._replace(bound=bound)


def find_prices(logits: np.ndarray, costs: Sequence[np.ndarray], limits: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the prices λ, (L,), at which π(a|x) e^{−Σ λ_l A_l(x, a)} meets its limits; 0 for a limit that is slack.

    A limit that no policy meets has the largest price, at which only actions of the least cost are left.

    Parameters
    ----------
    logits : array (m, K)
        log π(a|x), up to a constant for each context; −∞ for actions that a context lacks.
    costs : list of L arrays (K,) or (m, K)
        A_l.
    limits : array (L,)
    counts : array (m,)
        Occurrences of each context.
    """
    share, prices = counts / counts.sum(), np.zeros(len(limits))
    largest = 2 * float(np.ptp(logits[np.isfinite(logits)])) + LARGEST_PRICE

    def excess(price: float, number: int) -> float:
        tried = np.where(np.arange(len(prices)) == number, price, prices)
        tilted = logits - sum(value * cost for value, cost in zip(tried, costs, strict=True))
        tilted = np.exp(tilted - tilted.max(axis=1, keepdims=True))
        return float(share @ ((tilted * costs[number]).sum(axis=1) / tilted.sum(axis=1)) - limits[number])

    for _ in range(SWEEPS):
        before = prices.copy()
        for number, cost in enumerate(costs):
            end = largest / (np.ptp(cost) or 1.0)
            if excess(0.0, number) <= 0:
                prices[number] = 0.0
            elif excess(end, number) > 0:
                prices[number] = end
            else:
                width = TOLERANCE * end / largest
                prices[number] = toms748(excess, 0.0, end, args=(number,), xtol=width) + 2 * width  # within the limit
        if np.allclose(prices, before, rtol=TOLERANCE, atol=0):
            break
    return prices
