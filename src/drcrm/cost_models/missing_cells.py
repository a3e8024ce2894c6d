"""Cells: boxes of features in which a log lacks an action that the logging policy takes elsewhere.

Cells are found in the rows that train policies, and tested on the rows that evaluate them. These rows are independent,
so the test needs no correction for the search. The log is then marked, and an estimate with a cost model charges each
action the largest cost in the cells that lack it. If such a cell does not lack the action, the estimate stays unbiased.

The propensity p_k(x) of an action k is known only in the rows that drew k. The number of draws of k in a cell is
therefore compared with its expectation s by models of p_k. Three models predict its log odds from the rows with k: a
ridge regression, a tree, and the ridge regression plus a tree of its residuals. The smallest of the three predictions
counts. In rows that drew another action with propensity p, it is at most 1 − p. A cell lacks k if

- o or fewer draws have a probability of at most α by Chernoff's bound, exp(−(s − o + o log(o/s))),
- the mean of 1[a = k]/p over the cell is below ½,
- and the other actions leave no probability for k: see ``_Draws.remainder``.

Boxes are leaves of Poisson trees of the ratio of draws to expected draws. The first tree has all features, and the
others have random halves of them, to find boxes of several features that no single feature shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import sparse
from scipy.special import expit, logit, xlogy

from drcrm.actions.one_of_many_base import OneOfMany
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.tables import Table
from drcrm.data.bandit_log import BanditLog

LACKED = "lacked"  # column of a marked log, (n, K): the actions that the log lacks in the context of the row
LEVEL, LEVEL_OF_SEARCH = 0.05, 1e-5  # α of the test, which the cells share; α of a leaf that becomes a cell
LARGEST_MEAN = 0.5  # of 1[a = k]/p in a cell
LEAST_DRAWS, LEAST_LEAF, LEAF_SHARE = 30, 20, 0.01  # rows of an action, and of a leaf
MOST_CELLS, DEPTH, TREES = 3, 3, 11  # for each action
FEWEST_ROWS, MOST_ROWS, MOST_VALUES = 4000, 20_000, 10**6  # in search and test; values are rows times features
MOST_FEATURES = 1000  # with more, nothing is searched
LARGEST_WEIGHT, CERTAIN, SMALLEST = 50.0, 1e-6, 1e-4  # of a row in the models; 1 − p that is 0; smallest p_k


@dataclass(frozen=True)
class MissingCells:
    """Actions, (c,), and the boxes low < x ≤ high, (c, d), in which training rows lack them."""

    action: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def __len__(self) -> int:
        return len(self.action)

    def contain(self, X: Features) -> list[np.ndarray]:
        """Return for each cell which rows of X, (n, d), it contains."""
        of_cells = []
        for low, high in zip(self.low, self.high, strict=True):
            used = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
            columns = _dense(X[:, used])
            of_cells.append(((low[used] < columns) & (high[used] >= columns)).all(axis=1))
        return of_cells


class _Draws:
    """Draws of the actions in the rows of a log, with models of their propensities."""

    def __init__(self, log: BanditLog):
        self.X = _dense(log.X)[log.context]
        self.action, self.propensity, eligible = log.Y, np.asarray(log.propensity), log.actions.eligible
        # A group is one observation.
        units = log.column("groups")
        share = 1.0 if units is None else len(np.unique(units)) / log.size
        self.count = share * log.count
        is_eligible = np.ones((len(log.Y), log.actions.shape[0]), bool) if eligible is None else eligible[log.context]
        frequent = np.flatnonzero(np.bincount(log.Y, minlength=log.actions.shape[0]) >= LEAST_DRAWS)
        self.central, self.expected = {}, {}
        for k in map(int, frequent):
            is_drawn = self.action == k
            smallest, self.central[k] = self._model(is_drawn)
            rest = np.where(is_drawn | (self.propensity > 1 - CERTAIN), 1.0, 1 - self.propensity)
            self.expected[k] = np.where(is_eligible[:, k], np.clip(np.minimum(smallest, rest), SMALLEST, 1), SMALLEST)
            self.central[k] = np.where(is_eligible[:, k], self.central[k], 0.0)

    def _model(self, is_drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the smallest prediction of an action's propensity in each row, and that of all models together."""
        from sklearn.linear_model import Ridge  # slow to import
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.tree import DecisionTreeRegressor

        X, p = self.X[is_drawn], self.propensity[is_drawn]
        odds, weight = logit(np.minimum(p, 1 - CERTAIN)), np.minimum(1 / p, LARGEST_WEIGHT)
        ridge = make_pipeline(StandardScaler(), Ridge(1.0)).fit(X, odds, ridge__sample_weight=weight)
        trees = [DecisionTreeRegressor(max_depth=6, min_samples_leaf=5, random_state=0) for _ in range(2)]
        alone, after = (
            tree.fit(X, target, sample_weight=weight).predict(self.X)
            for tree, target in zip(trees, (odds, odds - ridge.predict(X)), strict=True)
        )
        linear = ridge.predict(self.X)
        return expit(np.minimum.reduce([linear, alone, linear + after])), expit(linear + after)

    def log_tail(self, k: int, rows: np.ndarray, expected: Any = None) -> float:
        """Return the logarithm of Chernoff's bound on so few draws of an action in some rows."""
        draws = self.count[rows] @ (self.action[rows] == k)
        expected = self.count[rows] @ (self.expected[k][rows] if expected is None else np.full(rows.sum(), expected))
        return float(-(expected - draws + xlogy(draws, draws / expected))) if draws < expected else 0.0

    def remainder(self, k: int, rows: np.ndarray) -> float:
        """Return the median probability that the other actions leave for k in some rows; 0 if it is within the error.

        It is 1 minus the propensity of the drawn action and the modelled ones of the others. The error adds up
        the models' root mean squared errors in rows that drew their actions, each times the share of the other rows.
        """
        rows = np.flatnonzero(rows & (self.action != k))
        if not len(rows):
            return 1.0
        left, error = 1 - self.propensity[rows], 0.0
        for action in self.central.keys() - {k}:
            is_drawn, modelled = self.action[rows] == action, self.central[action][rows]
            left = left - np.where(is_drawn, 0.0, modelled)
            if is_drawn.any():
                squares = (modelled - self.propensity[rows])[is_drawn] ** 2
                error += np.sqrt(squares.mean()) * np.mean(~is_drawn)
        median = float(np.median(left))
        return median if median > error else 0.0

    def lack(self, k: int, rows: np.ndarray, level: float) -> bool:
        """Return whether some rows lack an action."""
        if k not in self.expected or not rows.any() or self.log_tail(k, rows) > np.log(level):
            return False
        mean = self.count[rows] @ ((self.action == k) / self.propensity)[rows] / self.count[rows].sum()
        left = self.remainder(k, rows)
        return bool(mean < LARGEST_MEAN and (not left or self.log_tail(k, rows, left) <= np.log(level)))


def find_missing_cells(log: BanditLog) -> MissingCells:
    """Return the cells in which a log lacks actions; none unless its actions are one of K with logged propensities."""
    cells: list[tuple[int, np.ndarray, np.ndarray]] = []
    n_features = log.X.shape[1]
    if _is_testable(log):
        draws = _Draws(_sample(log))
        cells = [(k, low, high) for k in draws.expected for low, high in _find_boxes(draws, k)]
    action = np.array([k for k, *_ in cells], dtype=np.int64)
    low, high = (np.array([cell[place] for cell in cells]).reshape(-1, n_features) for place in (1, 2))
    return MissingCells(action, low, high)


def mark_missing(log: BanditLog, cells: MissingCells) -> BanditLog:
    """Return a log with a column of the actions that it lacks in each row, by a test of cells from other rows.

    The log is returned as it is if its propensities are estimated or its actions are not one of K.
    """
    if not _is_testable(log):
        return log
    lacked = np.zeros((len(log.Y), log.actions.shape[0] if len(cells) else 0), dtype=bool)
    if len(cells):
        draws = _Draws(_sample(log))
        tested = zip(cells.action, cells.contain(draws.X), cells.contain(log.X), strict=True)
        for k, rows, contexts in tested:
            lacked[:, k] |= contexts[log.context] & draws.lack(int(k), rows, LEVEL / len(cells))
    columns = Table(len(log.Y)) if log.rows is None else log.rows
    return log.replace(rows=columns.assign(**{LACKED: lacked if lacked.any() else lacked[:, :0]}))


def lacked_actions(log: BanditLog) -> np.ndarray | None:
    """Return the actions that a marked log lacks in each context, in the shape of scores.

    The shape is (m, 0) if it lacks none. The result is None if the log is not marked.
    """
    lacked = log.column(LACKED)
    if lacked is None:
        return None
    of_context = np.zeros((log.n_contexts, lacked.shape[1]), dtype=bool)
    of_context[log.context] = lacked
    is_listed = lacked.shape[1] > 0 and not log.actions.are_shared
    return of_context[_places(log, lacked.shape[1])] if is_listed else of_context


def mark_lists(listed: BanditLog, log: BanditLog) -> BanditLog:
    """Return a log that lists the available actions of a log of one of K actions, with the marks of that log."""
    lacked, actions = lacked_actions(log), cast(OneOfMany, log.actions)
    if lacked is None or listed.rows is None or not lacked.any():
        return listed
    by_place = np.zeros_like(lacked)
    by_place[_places(listed, lacked.shape[1])] = actions.as_lists(lacked[:, None], log)[0].features[:, 0]
    return listed.replace(rows=listed.rows.assign(**{LACKED: by_place[log.context]}))


def _places(listed: BanditLog, most: int) -> np.ndarray:
    """Return which of the first ``most`` places each list has, (m, most)."""
    return np.arange(most) < np.diff(listed.actions.starts)[:, None]


def _is_testable(log: BanditLog) -> bool:
    """Return whether the actions are one of K, with logged propensities and counts that are copies."""
    actions = log.actions
    is_logged = log.propensity is not None and not (log.imitated_propensities or log.is_weighted)
    return bool(is_logged and actions.are_choices and actions.are_shared and 0 < log.X.shape[1] <= MOST_FEATURES)


def _sample(log: BanditLog) -> BanditLog:
    """Return evenly spaced rows of a log."""
    most = int(np.clip(MOST_VALUES // log.X.shape[1], FEWEST_ROWS, MOST_ROWS))
    return log.take(slice(0, len(log.Y), -(-len(log.Y) // most)))


def _dense(X: Features) -> np.ndarray:
    """Return features as a dense array, in the precision of the trees."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float32)


def _find_boxes(draws: _Draws, k: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the boxes that lack an action, the clearest first. At most half of a box's rows are in earlier boxes."""
    from sklearn.tree import DecisionTreeRegressor  # slow to import

    expected, is_drawn = draws.expected[k], draws.action == k
    least = max(int(LEAF_SHARE * len(is_drawn)), LEAST_LEAF)
    options = {"criterion": "poisson", "max_depth": DEPTH, "min_samples_leaf": least}
    leaves = []
    for number in range(TREES):
        tree = DecisionTreeRegressor(**options, max_features=0.5 if number else None, random_state=number)
        # A leaf without draws must not have the mean 0, which the criterion refuses.
        tree.fit(draws.X, is_drawn / expected + LARGEST_WEIGHT**-1, sample_weight=draws.count * expected)
        leaf = tree.apply(draws.X)
        for node, low, high in _boxes(tree.tree_, draws.X.shape[1]):
            rows = leaf == node
            leaves.append((draws.log_tail(k, rows), rows, low, high))
    used, n_boxes = np.zeros(len(is_drawn), dtype=bool), 0
    for tail, rows, low, high in sorted(leaves, key=lambda leaf: leaf[0]):
        if tail > np.log(LEVEL_OF_SEARCH) or n_boxes == MOST_CELLS:
            return
        if (used & rows).sum() <= rows.sum() / 2 and draws.lack(k, rows, LEVEL_OF_SEARCH):
            used, n_boxes = used | rows, n_boxes + 1
            yield low, high


def _boxes(tree: Any, n_features: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield the number of each leaf of a tree, and its box low < x ≤ high."""
    nodes = [(0, np.full(n_features, -np.inf), np.full(n_features, np.inf))]
    while nodes:
        node, low, high = nodes.pop()
        feature, threshold = tree.feature[node], tree.threshold[node]
        if tree.children_left[node] < 0:
            yield node, low, high
            continue
        left, right = high.copy(), low.copy()
        left[feature], right[feature] = min(high[feature], threshold), max(low[feature], threshold)
        nodes += [(tree.children_left[node], low, left), (tree.children_right[node], right, high)]
