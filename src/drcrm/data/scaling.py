"""The sizes of what is learned from: units, a constant, features of unlike scale, numbers beyond reason."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsqr

from drcrm.arrays.mapped_arrays import map_rows
from drcrm.arrays.validation import Features, column_range, find_constant_features
from drcrm.data.bandit_log import BanditLog

LIKE = 1e3  # times that one feature's scale may be another's
REASON = 1e6  # features, costs and 1/p up to here are not what takes an objective beyond the range of numbers
SPAN = 10_000  # rows on which columns are taken to add up to a constant, if they do
FAR = 10  # deviations from 0 at which a feature begins to slow a fit
BLOCK = 2**13  # rows at once
SHOWN = 5  # columns that are named


def largest_entries(X: Features, feature_range: tuple | None = None) -> np.ndarray:
    """Return the scale of each feature, its largest |x|, shape (d,).

    The largest, and no mean: a rare word's mean is small, and its entries are like those of other words.
    """
    low, high = feature_range or column_range(X)
    return np.maximum(high, -low)


def feature_scales(X: Features, feature_range: tuple | None = None) -> np.ndarray:
    """Return the unit of each feature, its largest |x|, shape (d,); 1 where all are 0.

    ``feature_range`` is what ``column_range`` returns, if it is known.
    """
    largest = largest_entries(X, feature_range)
    return np.where(largest > 0, largest, 1)


def divide_columns(X: Features, scales: np.ndarray) -> Features:
    """Return features over their scales, (d,)."""
    return map_rows(X, lambda rows: (rows / scales).tocsr() if sparse.issparse(rows) else rows / scales)


def as_column(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return values of the features, (d,), as they multiply coefficients (d, …) whose rows have this shape."""
    return values.reshape(len(values), *(1 for _ in shape))


def cost_deviation(cost: np.ndarray, count: np.ndarray) -> float:
    """Return the deviation of costs that occur ``count`` times, an objective's unit; of equal ones their size, or 1."""
    least, most = cost.min(), cost.max()
    if least == most:
        return abs(float(least)) or 1.0
    share, place = count / count.sum(), (cost - least) / (most - least)
    place -= share @ place
    place *= place
    return float((most - least) * np.sqrt(share @ place))


def has_constant(X: Features) -> bool:
    """Whether a column of X is constant, or some add up to a constant, as one-hot columns do."""
    if find_constant_features(X).any():
        return True
    some = X[:: -(-X.shape[0] // SPAN)]
    some = some / feature_scales(some)
    sums = some @ lsqr(some, np.ones(some.shape[0]), atol=1e-12, btol=1e-12, iter_lim=100)[0]
    return bool(np.abs(sums - 1).max() < 1e-6)


def describe_offset_features(X: Features, names: Sequence[int | str] | None = None) -> str:
    """Say which features vary little beside their distance from 0, as years do; nothing where there are none."""
    scales, sums = feature_scales(X), np.zeros((2, X.shape[1]))
    for start in range(0, X.shape[0], BLOCK):
        scaled = X[start : start + BLOCK] / scales
        sums += [np.asarray(each.sum(axis=0)).ravel() for each in (scaled, scaled**2)]
    mean, square = sums / X.shape[0]
    odd = np.flatnonzero((abs(mean) > FAR * np.sqrt(np.maximum(square - mean**2, 0))) & ~find_constant_features(X))
    if not odd.size:
        return ""
    verb = "column {} lies" if len(odd) == 1 else "columns {} lie"
    return f"{verb.format(_listed(odd, names))} more than {FAR} times as far from 0 as deviations are large"


def describe_unequal_scales(scales: np.ndarray, names: Sequence[int | str] | None = None) -> str:
    """Say which features have another scale than the rest, of scales (d,), some 0; nothing where all are alike.

    ``names`` are those of the columns, by default their numbers from 0.
    """
    seen = np.flatnonzero(scales)
    least, most = scales[seen].min(initial=np.inf), scales.max()
    if most / LIKE <= least:
        return ""
    large, small = seen[scales[seen] / LIKE > least], seen[scales[seen] < most / LIKE]
    odd = large if len(large) <= len(small) else small
    listed = _listed(odd, names)
    verb = "column {} reaches" if len(odd) == 1 else "columns {} reach"
    reach = f"{verb.format(listed)} {'' if odd is large else 'only '}{scales[odd].max():.3g}"
    return f"the scales of features differ by more than {LIKE:g}: {reach}, others {least if odd is large else most:.3g}"


def _listed(columns: np.ndarray, names: Sequence[int | str] | None) -> str:
    """Columns by their names, or their numbers from 0; of many the first."""
    first = [repr(each.item() if names is None else names[each]) for each in columns[:SHOWN]]
    return ", ".join([*first, "…"] if len(columns) > SHOWN else first)


def describe_extreme_values(log: BanditLog) -> str:
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
