"""The sizes of what is learned from: features of unlike scale, and numbers beyond reason, in words with the remedy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from .log import BanditLog
from .validation import Features

LIKE = 1e3  # times that one feature's scale may be another's
REASON = 1e6  # features, costs and 1/p up to here are not what takes an objective beyond the range of numbers
HUGE = 1e150  # squares of what is larger overflow
SHOWN = 5  # columns that are named


def largest_entries(X: Features) -> np.ndarray:
    """Return the scale of each feature, its largest |x|, shape (d,).

    The largest, and no mean: a rare word's mean is small, and its entries are like those of other words.
    """
    high, low = X.max(axis=0), X.min(axis=0)
    if sparse.issparse(X):
        high, low = high.toarray().ravel(), low.toarray().ravel()
    return np.maximum(high, -low)


def feature_scales(X: Features) -> np.ndarray:
    """Return the unit of each feature, the root mean square of its values other than 0, shape (d,); 1 where all are 0.

    Of those other than 0, since a rare word's entries are like those of other words.
    """
    largest = largest_entries(X)
    unit = np.where(largest > 0, largest, 1)
    if largest.max() < HUGE and unit.min() > 1 / HUGE:
        unit = np.ones(X.shape[1])
    else:  # squares of what is larger or smaller are beyond the range of numbers
        X = X @ sparse.diags_array(1 / unit) if sparse.issparse(X) else X / unit
    if sparse.issparse(X):
        squares, present = X.power(2).sum(axis=0), X.astype(bool).sum(axis=0)
    else:
        squares, present = np.einsum("kd,kd->d", X, X), np.count_nonzero(X, axis=0)
    return np.where(largest > 0, unit * np.sqrt(squares / np.maximum(present, 1)), 1)


def spread(log: BanditLog) -> float:
    """Return the deviation of the logged costs, the unit of an objective; where all are equal their size, or 1."""
    least, most = log.cost.min(), log.cost.max()
    if least == most:
        return abs(float(least)) or 1.0
    share, place = log.count / log.size, (log.cost - least) / (most - least)
    return float((most - least) * np.sqrt(share @ (place - share @ place) ** 2))


def unlike_scales(scales: np.ndarray, names: Sequence[int | str] | None = None) -> str:
    """Say which features have another scale than the rest, of scales (d,), some 0; nothing where all are alike.

    ``names`` are those of the columns, by default their numbers from 0.
    """
    seen = np.flatnonzero(scales)
    least, most = scales[seen].min(initial=np.inf), scales.max()
    if most / LIKE <= least:
        return ""
    large, small = seen[scales[seen] / LIKE > least], seen[scales[seen] < most / LIKE]
    odd = large if len(large) <= len(small) else small
    names = range(len(scales)) if names is None else names
    shown = [repr(names[each]) for each in odd[:SHOWN]]
    listed = ", ".join([*shown, "…"] if len(odd) > SHOWN else shown)
    verb = "column {} reaches" if len(odd) == 1 else "columns {} reach"
    reach = f"{verb.format(listed)} {'' if odd is large else 'only '}{scales[odd].max():.3g}"
    return f"the scales of features differ by more than {LIKE:g}: {reach}, others {least if odd is large else most:.3g}"


def beyond_reason(log: BanditLog) -> str:
    """Say which of a log's numbers is the largest beyond reason, and what is to be done about it."""
    features, cost, propensity = largest_entries(log.X).max(), abs(log.cost).max(), log.propensity.min()
    with np.errstate(over="ignore"):
        sizes = {
            f"features reach {features:.3g}; scale the features": features,
            f"costs reach {cost:.3g}; give them in another unit": cost,
            f"one is {propensity:.3g}; propensities this small need clipped weights": 1 / propensity,
        }
    words = max(sizes, key=sizes.get)
    return words if sizes[words] > REASON else "the hyper-parameters, or where the fit starts, are beyond reason"
