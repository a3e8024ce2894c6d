"""Leakage: single features that explain most of the costs, as copies of the reward do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from scipy import sparse

from ..core.actions import ListedActions
from ..core.log import BanditLog
from .diagnostic import Diagnostic, level_of

NAME = "leakage of the reward"
ADVICE = (
    "Take it out of the features if it is not known before the decision. If it is known, subtract what it predicts "
    "from the reward: this changes no difference between policies"
)
FAILS, CAUTIONS = 0.8, 0.5  # share of the variance of costs that a feature explains alone
MOST_ROWS = 20_000  # a sample of which shows this as well as all rows
LEAST_ROWS = 40
LEAST_EFFECTIVE = 5  # rows that carry the variance: (Σ d²)²/Σ d⁴ of deviations d
MOST_BINS, ROWS_OF_A_BIN = 20, 5
MOST_FEATURES = 200  # of more, those that are most correlated with the costs are tested
ROUNDING = 1e-9  # of the largest cost


def leakage(log: BanditLog, columns: Mapping[str, slice] | None = None, units=None) -> Diagnostic | None:
    """Return the largest share of the variance of costs that one feature explains, on rows it was not fitted to.

    A feature predicts costs by a line, by means in at most 20 quantile bins, or by means of its categories, fitted to
    half of the contexts for the other half. What it explains through the logged action does not count.

    Parameters
    ----------
    log : BanditLog
        In which every row occurs.
    columns : mapping of slice, optional
        Where the columns of X are that belong to each feature; by default each column is a feature.
    units : array (n,), optional
        Which rows belong together: they stay in one half.

    Returns
    -------
    Diagnostic or None
        None if costs are constant, or hardly vary, or rows are few.
    """
    half = _halves(log, units)
    rows = np.sort(np.random.default_rng(1).permutation(len(log.Y))[:MOST_ROWS])
    half, cost, count = half[rows], log.cost[rows], log.count[rows].astype(float)
    cost = cost / (np.abs(cost).max() or 1.0)
    deviation = cost - count @ cost / count.sum()
    total, fourth = count @ deviation**2, count @ deviation**4
    is_constant = total <= count.sum() * ROUNDING**2
    if count.sum() < LEAST_ROWS or is_constant or total**2 < LEAST_EFFECTIVE * fourth:
        return None
    action = _action_codes(log, rows)
    by_action = None if action is None else _by_means(action, deviation, count, half)
    shares = {}
    for name, values in _features(_features_of_rows(log, rows), columns, deviation * count):
        shares[name] = _explained(values, deviation, count, half, action, by_action)
    if not shares:
        return None
    worst = max(shares, key=shares.get)
    return _diagnostic(worst, shares[worst])


def _diagnostic(name: str, share: float) -> Diagnostic:
    level = level_of(share > FAILS, share > CAUTIONS)
    sentence = f"feature {name} alone explains {share:.0%} of the variance of costs on rows that it was not fitted to"
    if level == "good":
        sentence = f"no single feature explains more than {max(share, 0):.0%} of the variance of costs"
    else:
        sentence += f". {ADVICE}"
    threshold = f"at most {CAUTIONS:.0%}; fails above {FAILS:.0%}"
    return Diagnostic(NAME, share, None, None, threshold, level, sentence, "out of fold, this project")


def _halves(log: BanditLog, units) -> np.ndarray:
    """Return the half of each row, 0 or 1, (n,); contexts and units stay whole."""
    unit = log.context if units is None else units
    _, unit = np.unique(unit, return_inverse=True)
    return np.random.default_rng(0).permutation(unit.max() + 1)[unit] % 2


def _features_of_rows(log: BanditLog, rows: np.ndarray):
    """Return the features of rows, (rows, d), an array or CSC: of lists those of the logged action."""
    places = log.context[rows]
    if isinstance(log.actions, ListedActions):
        places = log.actions.starts[places] + log.Y[rows]
    used, place = np.unique(places, return_inverse=True)
    X = log.X[used][place]
    return X.tocsc() if sparse.issparse(X) else X


def _features(X, columns, weighted: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Give each feature that varies, with its name: numbers, or integer codes of categories."""
    if columns is None:
        for at in _most_correlated(X, weighted):
            yield str(at), _dense(X[:, [at]])[:, 0]
        return
    for name, place in columns.items():
        block = X[:, place]
        yield repr(name), _dense(block)[:, 0] if block.shape[1] == 1 else _codes(block)


def _most_correlated(X, weighted: np.ndarray) -> np.ndarray:
    """Return the columns whose entries, or places of entries other than 0, are most correlated with the costs."""
    if X.shape[1] <= MOST_FEATURES:
        return np.arange(X.shape[1])
    largest = np.zeros(X.shape[1])
    for part in (X, X != 0):
        part = part.astype(float)
        squares = part.multiply(part) if sparse.issparse(part) else part**2
        mean, square = (np.asarray(each.mean(axis=0)).ravel() for each in (part, squares))
        covariance = weighted @ part
        variance = square - mean**2
        score = np.divide(covariance**2, variance, out=np.zeros_like(variance), where=variance > 1e-12 * square)
        largest = np.maximum(largest, score)
    return np.sort(np.argpartition(largest, -MOST_FEATURES)[-MOST_FEATURES:])


def _dense(block) -> np.ndarray:
    return block.toarray() if sparse.issparse(block) else block


def _codes(block) -> np.ndarray:
    """Return the category of each row: the column of its entry, or one more for a row of zeros."""
    if not sparse.issparse(block):
        return np.where(block.any(axis=1), np.abs(block).argmax(axis=1), block.shape[1])
    block = block.tocoo()
    codes = np.full(block.shape[0], block.shape[1])
    codes[block.coords[0]] = block.coords[1]
    return codes


def _action_codes(log: BanditLog, rows: np.ndarray) -> np.ndarray | None:
    """Return a number for each distinct action of the rows; None for lists, whose places are no actions."""
    if isinstance(log.actions, ListedActions):
        return None
    return np.unique(log.Y[rows], axis=0, return_inverse=True)[1].ravel()


def _explained(values, deviation, count, half, action, by_action) -> float:
    """Return the share of the variance that a feature explains, and explains beyond the action: the less of both."""
    is_coded = values.dtype.kind in "iu"
    if is_coded:
        predicted = [_by_means(values, deviation, count, half)]
    else:
        predicted = [_by_means(_bins(values), deviation, count, half), _by_line(values, deviation, count, half)]
    share = _share(deviation, predicted, count)
    if action is None or share <= CAUTIONS:
        return share
    left = deviation - by_action
    if not count @ left**2 > 1e-12 * (count @ deviation**2):
        return 0.0
    if is_coded:
        cells = np.unique(np.column_stack([values, action]), axis=0, return_inverse=True)[1].ravel()
        predicted = [_by_means(codes, left, count, half) for codes in (values, cells)]
    else:
        ranks = _ranks(values)
        apart, ranks_apart = (each - _by_means(action, each, count, half) for each in (values, ranks))
        predicted = [_by_means(_bins(ranks_apart), left, count, half), _by_line(apart, left, count, half)]
    return min(share, _share(left, predicted, count))


def _share(values: np.ndarray, predicted: list[np.ndarray], count: np.ndarray) -> float:
    return max(float(1 - count @ (values - each) ** 2 / (count @ values**2)) for each in predicted)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return the mean rank of equal values."""
    _, place, many = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(many) - many / 2)[place]


def _bins(values: np.ndarray) -> np.ndarray:
    many = int(np.clip(len(values) // (2 * ROWS_OF_A_BIN), 2, MOST_BINS))
    edges = np.unique(np.quantile(values, np.arange(1, many) / many))
    return np.searchsorted(edges, values)


def _by_means(codes, target, count, half) -> np.ndarray:
    """Return the mean of the same category in the other half; of a new one, the mean of that half."""
    predicted = np.empty(len(target))
    for own in (0, 1):
        weight = count * (half != own)
        rows = np.bincount(codes, weight, codes.max() + 1)
        mean = weight @ target / max(weight.sum(), 1)
        means = np.full(len(rows), mean)
        np.divide(np.bincount(codes, weight * target, len(rows)), rows, out=means, where=rows > 0)
        predicted[half == own] = means[codes[half == own]]
    return predicted


def _by_line(values, target, count, half) -> np.ndarray:
    """Return what the line of least squares through the other half predicts."""
    values = values / max(np.abs(values).max(), np.finfo(float).tiny)
    predicted = np.empty(len(target))
    for own in (0, 1):
        weight = count * (half != own)
        n = max(weight.sum(), 1)
        centre, mean = weight @ values / n, weight @ target / n
        variance = weight @ (values - centre) ** 2
        slope = weight @ ((values - centre) * (target - mean)) / variance if variance > 1e-20 * n else 0.0
        predicted[half == own] = mean + slope * (values[half == own] - centre)
    return predicted
