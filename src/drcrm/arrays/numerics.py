"""Numerical helpers that many packages share: exponentials, quantiles, slopes, and scales of features and costs."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsqr

from drcrm.arrays.mapped_arrays import Features, map_rows
from drcrm.arrays.validation import column_range, find_constant_features

SMALLEST_EXPONENT = -200.0
LARGEST_RATIO = 1e3  # scales of features are similar if their ratio is at most this
SPAN_SAMPLE = 10_000  # number of rows on which columns are tested for a constant in their span
LARGEST_OFFSET = 10  # a fit becomes slow if a feature's mean exceeds this many of its standard deviations
BLOCK = 2**13  # number of rows that are read at once
MOST_NAMES = 5  # number of columns that a message lists

Names = Sequence[int | str]


def exp(x: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Write e^x to ``out`` and return it, with 0 for every x below −200; ``out`` may be x.

    Terms this small do not change a sum with e^0. Products of two of them are denormal numbers, which slow matrix
    products down several times.
    """
    vanishing = x < SMALLEST_EXPONENT if x.min() < SMALLEST_EXPONENT else None
    np.exp(x, out=out)
    if vanishing is not None:
        out[vanishing] = 0
    return out


def group_rows(keys: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row of each group of rows with equal keys, and the group of each row, (n,).

    ``keys`` are vectors (n,) without NaN. Groups are numbered in the order of the keys, the first of which counts most.
    """
    order = np.lexsort(keys[::-1])
    is_first = np.zeros(len(order), dtype=bool)
    is_first[:1] = True
    for key in keys:
        ordered = key[order]
        is_first[1:] |= ordered[1:] != ordered[:-1]
    group = np.empty(len(order), dtype=np.intp)
    group[order] = np.cumsum(is_first) - 1
    return order[is_first], group


def weighted_quantiles(values: np.ndarray, count: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Return the quantiles of values, (n,), that occur ``count`` times: those of np.repeat(values, count)."""
    order = np.argsort(values)
    ends = np.cumsum(count[order])
    position = np.asarray(levels) * (ends[-1] - 1)
    lower, upper = (
        values[order[np.searchsorted(ends, place, side="right")]] for place in (np.floor(position), np.ceil(position))
    )
    return lower + (position % 1) * (upper - lower)


def derivative_fault(
    function: Callable[[np.ndarray], Any],
    points: np.ndarray,
    slope: np.ndarray,
    step: float,
    tolerance: float,
    kinks: float = 0.0,
) -> str:
    """Return where a slope, (n,), differs from central differences of a function; "" if it is the derivative.

    A share ``kinks`` of the points may differ.
    """
    difference = (np.asarray(function(points + step)) - np.asarray(function(points - step))) / (2 * step)
    is_wrong = ~(np.abs(difference - slope) <= tolerance * (1 + np.abs(difference)))
    if is_wrong.mean() <= kinks:
        return ""
    point = np.argmax(is_wrong)
    return f"At {points[point]:.6g} it is {slope[point]:.6g}, but differences give {difference[point]:.6g}"


def largest_entries(X: Features, feature_range: tuple | None = None) -> np.ndarray:
    """Return the largest |x| of each feature, (d,).

    The maximum is a better scale than the mean. A rare word has a small mean, but its entries are like those of other
    words.
    """
    low, high = feature_range or column_range(X)
    return np.maximum(high, -low)


def feature_scales(X: Features, feature_range: tuple | None = None) -> np.ndarray:
    """Return the unit of each feature, (d,): its largest |x|, or 1 if all its entries are 0.

    ``feature_range`` is the result of ``column_range(X)``, if it is known.
    """
    largest = largest_entries(X, feature_range)
    return np.where(largest > 0, largest, 1)


def divide_columns(X: Features, scales: np.ndarray) -> Features:
    """Return features divided by their scales, (d,)."""
    return map_rows(X, lambda rows: (rows / scales).tocsr() if sparse.issparse(rows) else rows / scales)


def as_column(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return values of the features, (d,), in a shape that multiplies coefficients (d, *shape)."""
    return values.reshape(len(values), *(1 for _ in shape))


def cost_deviation(cost: np.ndarray, count: np.ndarray) -> float:
    """Return the standard deviation of costs with counts; for equal costs their absolute value, or 1 if they are 0."""
    low, high = cost.min(), cost.max()
    if low == high:
        return abs(float(low)) or 1.0
    share, position = count / count.sum(), (cost - low) / (high - low)
    position -= share @ position
    position *= position
    return float((high - low) * np.sqrt(share @ position))


def has_constant(X: Features) -> bool:
    """Return whether a column of X is constant, or whether columns add up to a constant, like one-hot columns."""
    if find_constant_features(X).any():
        return True
    sample = X[:: -(-X.shape[0] // SPAN_SAMPLE)]
    sample = sample / feature_scales(sample)
    fitted = sample @ lsqr(sample, np.ones(sample.shape[0]), atol=1e-12, btol=1e-12, iter_lim=100)[0]
    return bool(np.abs(fitted - 1).max() < 1e-6)


def describe_offset_features(X: Features, names: Names | None = None) -> str:
    """Describe the features whose mean is more than 10 standard deviations from 0, such as years; "" if none is."""
    scales, sums = feature_scales(X), np.zeros((2, X.shape[1]))
    for start in range(0, X.shape[0], BLOCK):
        scaled = X[start : start + BLOCK] / scales
        sums += [np.asarray(power.sum(axis=0)).ravel() for power in (scaled, scaled**2)]
    mean, square = sums / X.shape[0]
    deviation = np.sqrt(np.maximum(square - mean**2, 0))
    is_offset = (abs(mean) > LARGEST_OFFSET * deviation) & ~find_constant_features(X)
    if not is_offset.any():
        return ""
    return _describe(np.flatnonzero(is_offset), "has", "have", names) + (
        f" a mean that is more than {LARGEST_OFFSET} standard deviations from 0"
    )


def describe_unequal_scales(scales: np.ndarray, names: Names | None = None) -> str:
    """Describe the features whose scale differs from the rest by more than a factor of 1000; "" if none does.

    ``scales``, (d,), may contain 0. ``names`` are the names of the columns, by default their numbers from 0.
    """
    positive = np.flatnonzero(scales)
    low, high = scales[positive].min(initial=np.inf), scales.max()
    if high / LARGEST_RATIO <= low:
        return ""
    large, small = positive[scales[positive] / LARGEST_RATIO > low], positive[scales[positive] < high / LARGEST_RATIO]
    is_large = len(large) <= len(small)
    columns, rest = (large, low) if is_large else (small, high)
    reach = f"{_describe(columns, 'reaches', 'reach', names)} {'' if is_large else 'only '}{scales[columns].max():.3g}"
    return f"the scales of features differ by more than {LARGEST_RATIO:g}: {reach}, others {rest:.3g}"


def _describe(columns: np.ndarray, singular: str, plural: str, names: Names | None) -> str:
    """Return the first columns, by name or number, with a verb: ``columns 0, 1 reach``."""
    listed = [repr(column.item() if names is None else names[column]) for column in columns[:MOST_NAMES]]
    text = ", ".join([*listed, "…"] if len(columns) > MOST_NAMES else listed)
    return f"column {text} {singular}" if len(columns) == 1 else f"columns {text} {plural}"
