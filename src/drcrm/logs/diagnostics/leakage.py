"""Single features that explain most of the costs, such as copies of the reward, or that number the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from drcrm.arrays.formats import percent
from drcrm.data.bandit_log import BanditLog
from drcrm.data.folds import row_folds
from drcrm.logs.diagnostics.check import MIN_ROWS, Check, Consequence, judge_share, time_order

LEAKAGE = "leakage of the reward"
ADVICE = (
    "Remove it from the features if it is unknown before the decision. If it is known, subtract its prediction from "
    "the reward. This does not change any difference between policies"
)
FAILS, CAUTIONS = 0.8, 0.5  # share of the variance of costs that a single feature explains
MAX_ROWS = 20_000  # a sample of this size shows leakage as well as all rows
MIN_EFFECTIVE_ROWS = 5  # least (Σ d²)²/Σ d⁴, where d are the deviations of the costs from their mean
MAX_CORRELATION = 0.95
MAX_BINS, ROWS_PER_BIN = 20, 5
MAX_FEATURES = 200  # if there are more, those most correlated with the costs, or with the order of the rows, are tested
ROUNDING = 1e-9  # costs with a smaller standard deviation, relative to the largest cost, are constant


def check_leakage(log: BanditLog) -> Check | None:
    """Check the largest share of the variance of costs that one feature explains on rows that it was not fitted to.

    A numeric feature predicts costs by a line, or by the mean cost in each of at most 20 quantile bins. A categorical
    feature predicts them by the mean cost of each category. Predictions are fitted to half of the contexts and tested
    on the other half. The share counts only what the feature explains beyond the logged action.

    Parameters
    ----------
    log : BanditLog
        A log without rows of count 0. Its encoding has the columns of X of each feature; otherwise each column is a
        feature.

    Returns
    -------
    Check or None
        None if the log has fewer than 40 rows, costs are constant, or fewer than 5 rows cause their variance.
    """
    rows = np.sort(np.random.default_rng(1).permutation(len(log.Y))[:MAX_ROWS])
    half = row_folds(log, 2)[rows]
    cost, count = log.cost[rows], log.count[rows].astype(float)
    cost = cost / (np.abs(cost).max() or 1.0)
    deviation = cost - count @ cost / count.sum()
    total, fourth = count @ deviation**2, count @ deviation**4
    is_constant = total <= count.sum() * ROUNDING**2
    if count.sum() < MIN_ROWS or is_constant or total**2 < MIN_EFFECTIVE_ROWS * fourth:
        return None
    action: np.ndarray | None = None  # equal actions have equal numbers; the actions of lists differ by context
    if log.actions.are_shared:
        action = np.unique(log.Y[rows], axis=0, return_inverse=True)[1].ravel()
    features = _features(log, rows, deviation * count)
    shares = {name: _explained_share(deviation, action, count, half, values) for name, values in features}
    if not shares:
        return None
    name = max(shares, key=lambda name: shares[name])
    share = shares[name]
    threshold, level = judge_share(share, CAUTIONS, FAILS)
    sentence = f"the best single feature explains {percent(max(share, 0))} of the variance of costs"
    if level != "good":
        sentence = (
            f"feature {name} alone explains {percent(share)} of the variance of costs on rows that it was not fitted "
            f"to. {ADVICE}"
        )
    source = "out of fold, this project"
    return Check("leakage", level, Consequence.LEAK, LEAKAGE, share, threshold, sentence, source)


@np.errstate(divide="ignore", invalid="ignore")  # of constant features
def check_feature_order(log: BanditLog) -> Check | None:
    """Return a caution if the rank correlation of a numeric feature with the order of the rows is beyond ±0.95.

    Otherwise return None. The check uses the first 20 000 rows. Such a feature numbers the rows, or tells the time.
    Later rows have values that the log lacks, and a policy that is linear in the feature extrapolates. Rows that are
    held out at random cannot show this.
    """
    rows = np.arange(len(log.Y))[:MAX_ROWS]
    if len(rows) < MIN_ROWS:
        return None
    order = pd.Series(time_order(log)[rows])
    numeric = (
        (name, values) for name, values in _features(log, rows, order - order.mean()) if values.dtype.kind == "f"
    )
    correlations = {name: pd.Series(values).rank().corr(order) for name, values in numeric}
    name, correlation = max(correlations.items(), key=lambda item: np.nan_to_num(abs(item[1])), default=("", 0.0))
    if not abs(correlation) > MAX_CORRELATION:
        return None
    sentence = (
        f"feature {name} follows the order of the rows. If this is the order of time, later rows have values that this "
        "log lacks, and a policy that uses the feature may fail on them. Remove it from the features"
    )
    threshold = f"at most {MAX_CORRELATION:g} in size"
    name, value = "order of a feature", float(correlation)
    return Check("feature_order", "caution", Consequence.NONE, name, value, threshold, sentence, "Spearman 1904")


def _features(log: BanditLog, rows: np.ndarray, weighted: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and the values of each feature. Values are numbers, or integer codes of categories."""
    used, place = np.unique(log.actions.feature_rows(log.Y[rows], log.context[rows]), return_inverse=True)
    X = log.X[used][place]  # of lists, the features of the logged actions
    X = X.tocsc() if sparse.issparse(X) else X
    columns: Mapping[str, slice] | None = getattr(log.encoding, "columns", None)
    if columns is None:
        for column in _most_correlated(X, weighted):
            yield str(column), _dense_column(X[:, [column]])
        return
    for name, place in columns.items():
        block = X[:, place]
        # A row has at most one entry in the columns of a categorical feature.
        is_number = block.shape[1] == 1
        yield repr(name), _dense_column(block) if is_number else (block != 0) @ np.arange(1, block.shape[1] + 1)


@np.errstate(divide="ignore", invalid="ignore")
def _most_correlated(X: Any, weighted: np.ndarray) -> np.ndarray:
    """Return the columns most correlated with ``weighted``, by their values or by whether these are not 0."""
    if X.shape[1] <= MAX_FEATURES:
        return np.arange(X.shape[1])
    from sklearn.feature_selection import r_regression  # its import takes half a second, and few logs need it

    correlations = [np.abs(r_regression(part.astype(float), weighted)) for part in (X, X != 0)]
    score = np.maximum(*np.nan_to_num(correlations, posinf=0.0))  # a constant column has an infinite correlation
    return np.sort(np.argpartition(score, -MAX_FEATURES)[-MAX_FEATURES:])


def _dense_column(column: Any) -> np.ndarray:
    return (column.toarray() if sparse.issparse(column) else column)[:, 0]


def _explained_share(
    deviation: np.ndarray, action: np.ndarray | None, count: np.ndarray, half: np.ndarray, values: np.ndarray
) -> float:
    """Return the share of the variance that a feature explains, alone or beyond the action, whichever is smaller."""
    predict = partial(_cross_predict, count=count, half=half)

    def best_share(target: np.ndarray, fits: list[tuple[Callable, np.ndarray]]) -> float:
        predictions = [predict(fit, inputs, target) for fit, inputs in fits]
        return max(float(1 - count @ (target - part) ** 2 / (count @ target**2)) for part in predictions)

    is_coded = values.dtype.kind in "iu"
    codes = values if is_coded else _bins(values)
    share = best_share(deviation, [(_means, codes)] if is_coded else [(_means, codes), (_line, values)])
    if action is None or share <= CAUTIONS:
        return share
    left = deviation - predict(_means, action, deviation)
    if not count @ left**2 > 1e-12 * (count @ deviation**2):
        return 0.0
    _, cells = np.unique(np.column_stack([codes, action]), axis=0, return_inverse=True)
    beyond: list[tuple[Callable, np.ndarray]] = [(_means, codes), (_means, cells.ravel())]
    if not is_coded:
        ranks = pd.Series(values).rank().to_numpy()
        values_left, ranks_left = (part - predict(_means, action, part) for part in (values, ranks))
        beyond += [(_means, _bins(ranks_left)), (_line, values_left)]
    return min(share, best_share(left, beyond))


def _bins(values: np.ndarray) -> np.ndarray:
    """Return the number of each value's quantile bin."""
    number = int(np.clip(len(values) // (2 * ROWS_PER_BIN), 2, MAX_BINS))
    edges = np.unique(np.quantile(values, np.arange(1, number) / number))
    return np.searchsorted(edges, values)


def _cross_predict(
    fit: Callable, values: np.ndarray, target: np.ndarray, count: np.ndarray, half: np.ndarray
) -> np.ndarray:
    """Return predictions of the target, (n,). Each half of the rows is predicted by a fit to the other half."""
    predictions = [fit(values, target, count * (half != fold)) for fold in (0, 1)]
    return np.where(half == 0, *predictions)


def _means(codes: np.ndarray, target: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the weighted mean of the target in each row's category; in a category without weight, the overall mean."""
    rows = np.bincount(codes, weight)
    means = np.full(len(rows), weight @ target / max(weight.sum(), 1))
    np.divide(np.bincount(codes, weight * target), rows, out=means, where=rows > 0)
    return means[codes]


def _line(values: np.ndarray, target: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the predictions of a line fitted by weighted least squares."""
    values = values / max(np.abs(values).max(), np.finfo(float).tiny)
    n = max(weight.sum(), 1)
    centre, mean = weight @ values / n, weight @ target / n
    variance = weight @ (values - centre) ** 2
    slope = weight @ ((values - centre) * (target - mean)) / variance if variance > 1e-20 * n else 0.0
    return mean + slope * (values - centre)
