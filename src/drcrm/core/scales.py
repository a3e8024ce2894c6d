"""The sizes of what is learned from, and what stands in the way of a fit, in words with the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsqr

from .log import BanditLog
from .policies import ExponentialPolicy
from .risks import KLBall
from .validation import Features, constant_features

if TYPE_CHECKING:
    from .objective import Objective

LIKE = 1e3  # times that one feature's scale may be another's
REASON = 1e6  # features, costs and 1/p up to here are not what takes an objective beyond the range of numbers
SPAN = 10_000  # rows on which columns are taken to add up to a constant, if they do
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
    """Return the unit of each feature, its largest |x|, shape (d,); 1 where all are 0."""
    largest = largest_entries(X)
    return np.where(largest > 0, largest, 1)


def spread(log: BanditLog) -> float:
    """Return the deviation of the logged costs, the unit of an objective; where all are equal their size, or 1."""
    least, most = log.cost.min(), log.cost.max()
    if least == most:
        return abs(float(least)) or 1.0
    share, place = log.count / log.size, (log.cost - least) / (most - least)
    return float((most - least) * np.sqrt(share @ (place - share @ place) ** 2))


def has_constant(X: Features) -> bool:
    """Whether a column of X is constant, or some add up to a constant, as one-hot columns do."""
    if constant_features(X).any():
        return True
    some = X[:SPAN] / feature_scales(X[:SPAN])
    sums = some @ lsqr(some, np.ones(some.shape[0]), atol=1e-12, btol=1e-12, iter_lim=100)[0]
    return bool(np.abs(sums - 1).max() < 1e-6)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def why_flat(objective: Objective, start: np.ndarray) -> str:
    """Say why L-BFGS has not moved from where it started, (d, q)."""
    log, risk, largest = objective.log, objective.risk, objective.log.cost.max()
    if log.cost.min() == largest:
        return "all costs are equal"
    value, gradient = objective(start)
    weight, slope = objective.weight(ExponentialPolicy(start).log_prob(log.X, log.Y, log.context), log.log_propensity)
    if not slope.any():
        return "no row's weight changes there: all are clipped, or vanish"
    if gradient.any():
        return "its gradient there is within tol of 0"
    _, worst = risk(weight * (log.cost - value * objective.estimate.moves_with_costs), log.count)
    if not worst[log.cost < largest].any():
        share = log.count @ (log.cost == largest) / log.size
        least = f", less than {-np.log(share):.3g}" if isinstance(risk, KLBall) else ""
        return (
            f"the worst case of {risk!r} is the rows of the largest cost alone, {100 * share:.3g} % of all, and no "
            f"policy changes that; take a smaller ball{least}"
        )
    return "its gradient there is 0"


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
