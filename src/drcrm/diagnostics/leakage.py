"""Leakage: single features that explain most of the costs, as copies of the reward do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import pandas as pd
from scipy import sparse

from drcrm.actions.listed_actions import ListedActions
from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.diagnostic import Diagnostic, worst_level
from drcrm.logs.split import halves

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


def check_leakage(log: BanditLog, columns: Mapping[str, slice] | None = None, units=None) -> Diagnostic | None:
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
    half = halves(log.context if units is None else units)
    rows = np.sort(np.random.default_rng(1).permutation(len(log.Y))[:MOST_ROWS])
    half, cost, count = half[rows], log.cost[rows], log.count[rows].astype(float)
    cost = cost / (np.abs(cost).max() or 1.0)
    deviation = cost - count @ cost / count.sum()
    total, fourth = count @ deviation**2, count @ deviation**4
    is_constant = total <= count.sum() * ROUNDING**2
    if count.sum() < LEAST_ROWS or is_constant or total**2 < LEAST_EFFECTIVE * fourth:
        return None
    explained = partial(_explained, deviation, _action_codes(log, rows), count, half)
    features = _features(_features_of_rows(log, rows), columns, deviation * count)
    shares = {name: explained(values) for name, values in features}
    if not shares:
        return None
    name = max(shares, key=shares.get)
    share = shares[name]
    level = worst_level(share > FAILS, share > CAUTIONS)
    sentence = f"feature {name} alone explains {share:.0%} of the variance of costs on rows that it was not fitted to"
    if level == "good":
        sentence = f"no single feature explains more than {max(share, 0):.0%} of the variance of costs"
    else:
        sentence += f". {ADVICE}"
    threshold = f"at most {CAUTIONS:.0%}; fails above {FAILS:.0%}"
    return Diagnostic(NAME, share, None, None, threshold, level, sentence, "out of fold, this project")


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
            yield str(at), _dense(X[:, [at]])
        return
    for name, place in columns.items():
        block = X[:, place]
        # A row has one entry in the columns of its category, or none.
        yield repr(name), _dense(block) if block.shape[1] == 1 else (block != 0) @ np.arange(1, block.shape[1] + 1)


@np.errstate(divide="ignore", invalid="ignore")
def _most_correlated(X, weighted: np.ndarray) -> np.ndarray:
    """Return the columns whose entries, or places of entries other than 0, are most correlated with the costs."""
    if X.shape[1] <= MOST_FEATURES:
        return np.arange(X.shape[1])
    from sklearn.feature_selection import r_regression  # takes half a second, and most logs have fewer features

    correlations = [np.abs(r_regression(part.astype(float), weighted)) for part in (X, X != 0)]
    score = np.maximum(*np.nan_to_num(correlations, posinf=0.0))  # infinite for a constant column
    return np.sort(np.argpartition(score, -MOST_FEATURES)[-MOST_FEATURES:])


def _dense(column) -> np.ndarray:
    return (column.toarray() if sparse.issparse(column) else column)[:, 0]


def _action_codes(log: BanditLog, rows: np.ndarray) -> np.ndarray | None:
    """Return a number for each distinct action of the rows; None for lists, whose places are no actions."""
    if isinstance(log.actions, ListedActions):
        return None
    return np.unique(log.Y[rows], axis=0, return_inverse=True)[1].ravel()


def _explained(deviation, action, count, half, values) -> float:
    """Return the share of the variance that a feature explains, and explains beyond the action: the less of both."""
    predicted = partial(_predicted, count=count, half=half)
    is_coded = values.dtype.kind in "iu"

    def share(target, codes: list[np.ndarray], numbers: list[np.ndarray]) -> float:
        predictions = [*(predicted(_means, part, target) for part in codes)]
        predictions += [*(predicted(_line, part, target) for part in numbers)]
        return max(float(1 - count @ (target - part) ** 2 / (count @ target**2)) for part in predictions)

    alone = share(deviation, [values], []) if is_coded else share(deviation, [_bins(values)], [values])
    if action is None or alone <= CAUTIONS:
        return alone
    left = deviation - predicted(_means, action, deviation)
    if not count @ left**2 > 1e-12 * (count @ deviation**2):
        return 0.0
    if is_coded:
        _, cells = np.unique(np.column_stack([values, action]), axis=0, return_inverse=True)
        return min(alone, share(left, [values, cells.ravel()], []))
    ranks = pd.Series(values).rank().to_numpy()
    apart, ranks_apart = (part - predicted(_means, action, part) for part in (values, ranks))
    return min(alone, share(left, [_bins(ranks_apart)], [apart]))


def _bins(values: np.ndarray) -> np.ndarray:
    many = int(np.clip(len(values) // (2 * ROWS_OF_A_BIN), 2, MOST_BINS))
    edges = np.unique(np.quantile(values, np.arange(1, many) / many))
    return np.searchsorted(edges, values)


def _predicted(fit: Callable, values, target, count, half) -> np.ndarray:
    """Return what a fit to the other half predicts of the target, (n,)."""
    predictions = [fit(values, target, count * (half != fold)) for fold in (0, 1)]
    return np.where(half == 0, *predictions)


def _means(codes, target, weight) -> np.ndarray:
    """Return the weighted mean of rows of the same category; of a category without weight, that of all rows."""
    rows = np.bincount(codes, weight)
    means = np.full(len(rows), weight @ target / max(weight.sum(), 1))
    np.divide(np.bincount(codes, weight * target), rows, out=means, where=rows > 0)
    return means[codes]


def _line(values, target, weight) -> np.ndarray:
    """Return what the line of weighted least squares predicts."""
    values = values / max(np.abs(values).max(), np.finfo(float).tiny)
    n = max(weight.sum(), 1)
    centre, mean = weight @ values / n, weight @ target / n
    variance = weight @ (values - centre) ** 2
    slope = weight @ ((values - centre) * (target - mean)) / variance if variance > 1e-20 * n else 0.0
    return mean + slope * (values - centre)
