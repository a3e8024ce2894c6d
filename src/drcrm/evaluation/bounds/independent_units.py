"""Independent units of a log, its rows or groups of rows, and ``Interval``, an estimate with an interval from them.

Rows of one user depend on each other. Standard errors and bounds are therefore computed from one value for each
independent unit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import stdtrit

from drcrm.data.bandit_log import BanditLog
from drcrm.data.counted_rows import number_groups
from drcrm.errors import InputError


def group_means(groups: Any, weights: np.ndarray, *values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return, for each vector, its weighted means by group; and last an array of ones, the weights of the groups.

    Groups whose rows all have weight 0 are left out.
    """
    occurs = weights > 0
    _, index = np.unique(number_groups(groups, len(weights))[occurs], return_inverse=True)
    weights = weights[occurs]
    total = np.bincount(index, weights)
    return *(np.bincount(index, weights * value[occurs]) / total for value in values), np.ones(len(total))


def unit_values(log: BanditLog, *values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return, for each vector, one value for each unit of a log; and last how often each unit occurs."""
    return grouped_values(log.units, log.count, *values)


def grouped_values(groups: Any, count: np.ndarray, *values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return, for each vector, one value for each group of rows; and last how often each group occurs.

    Without groups, the rows are the units. The plain mean of the G values of a vector z is its mean z̄ over the n rows.
    The value of group g is z̄ + (Σ_{i∈g} z_i − n_g z̄) G/n. The standard error of the values is the clustered standard
    error of z̄. Source: Liang & Zeger 1986.
    """
    count = count.astype(float)
    if groups is None:
        return *values, count
    index, n = number_groups(groups, len(count)), count.sum()
    size = len(np.bincount(index))

    def by_group(z: np.ndarray) -> np.ndarray:
        mean = count @ z / n
        return mean + np.bincount(index, count * (z - mean)) * (size / n)

    return *map(by_group, values), np.ones(size)


def unit_ratios(log: BanditLog, cost: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the cost and the weight of each unit in a ratio Σ w c/Σ w, and how often each unit occurs.

    Without groups, the rows are the units. A group has the sum of its weights, in units of the mean size of a group,
    and the weighted mean of its costs; groups without weight are left out.
    """
    count, units = log.count.astype(float), log.units
    if units is None:
        return cost, weight, count
    index = number_groups(units, len(count))
    gain, weight = (np.bincount(index, count * values) for values in (weight * cost, weight))
    gain, weight = gain[weight > 0], weight[weight > 0]
    return gain / weight, weight * (len(weight) / count.sum()), np.ones(len(weight))


def require_equal_units(log: BanditLog, units: np.ndarray | None, method: str, advice: str) -> None:
    """Raise InputError unless the mean over units is the mean per row: without weights, in units of equal size."""
    if log.is_weighted:
        raise InputError(
            f"the rows have weights, such as those of pdrop, and a bound by {method} needs rows without: {advice}"
        )
    size = log.count if units is None else np.bincount(number_groups(units, len(log.count)), log.count)
    if units is not None and np.ptp(size) > 0:
        raise InputError(
            f"a bound by {method} on the mean per row needs groups or contexts with equally many rows, but they have "
            f"{size.min():.0f} to {size.max():.0f}: {advice}"
        )


def require_single_rows(log: BanditLog) -> None:
    """Raise InputError unless each row of a log occurs once, as bounds at every look need."""
    if not log.is_weighted and (log.count > 1).any():
        raise InputError(
            f"bounds that hold at every look need rows that occur once, but count is up to {log.count.max()}: write "
            "each occurrence as a row of its own, in the order of time"
        )


def mean_and_deviation(z: np.ndarray, weights: np.ndarray, n: float) -> tuple[float, float]:
    """Return the mean and the standard deviation (divisor n − 1) of values that occur ``weights`` times, with sum n.

    Values are scaled before they are squared, so very large or small values neither overflow nor vanish.
    """
    mean = weights @ z / n
    centred = z - mean
    unit = abs(centred).max()
    return mean, unit * np.sqrt(weights @ (centred / unit) ** 2 / (n - 1)) if unit > 0 else 0.0


class Interval(float):
    """An estimate of a cost: a float with its standard error and interval, and the diagnostics of a policy.

    Parameters
    ----------
    value : float
        Estimate.
    **attributes
        Attributes that are listed below.

    Attributes
    ----------
    standard_error : float
        Standard error of the estimate, computed from its terms z in independent units. For "snips", z is the linear
        part of the ratio, v̂ + w (c − v̂)/w̄. The standard error is NaN for a single unit, for a risk other than the
        mean, and if the estimate is NaN. For "dm" it covers only the sampling of contexts, not the error of the cost
        model.
    low, high : float
        Ends of the confidence interval, value ∓ t · standard_error. t is the two-sided quantile of Student's
        distribution with n − 1 degrees of freedom. The interval is asymptotic. With clipped weights it covers the
        expectation of the clipped estimate, not the cost. For "dm" it does not include the error of the cost model.
    confidence : float
        Two-sided level of the interval.
    n : int
        Number of independent units.
    by : str
        Kind of unit: "row" or "group".
    effective_size : float
        Kish's effective sample size (Σ w)²/Σ w² of the unclipped weights w = π/p, in rows.
    mean_weight : float
        Mean of the unclipped weights. It should be near its expectation, 1.
    estimate : str
        Name of the estimate.
    clip : float or None
        Limit M of the weights, if the estimate has one.
    clipped : float
        Share of the total weight that the limit removes.
    support : float or None
        Probability that the policy takes an unsupported action, which the logging policy hardly takes. None if the
        logging policy, or the policy's probabilities of all actions, are unknown.
    notes : tuple of str
        Reasons to doubt the estimate, which ``off_policy_value`` warns of.
    """

    standard_error: float
    low: float
    high: float
    notes: tuple[str, ...] = ()

    def __new__(cls, value: float, **attributes: Any) -> Interval:
        estimate = super().__new__(cls, value)
        estimate.__dict__.update(attributes)
        return estimate

    def __repr__(self) -> str:
        known, is_finite = self.__dict__, np.isfinite([self.low, self.high]).all()
        level = f"{100 * known['confidence']:g} % interval {self.low:.6g} to {self.high:.6g}"
        estimate = f"{known['estimate']}, " if "estimate" in known else ""
        ends = level if is_finite else "no interval"
        return f"{float(self):.6g} ({estimate}{ends}, n = {known['n']} {known['by']}s)"

    __str__ = float.__repr__  # a text that shows only the number

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")
    def of(
        cls,
        z: np.ndarray,
        log: BanditLog,
        confidence: float,
        value: float | None = None,
        **attributes: Any,
    ) -> Interval:
        """Return the interval of the mean of terms.

        Parameters
        ----------
        z : array (n,)
            Terms of the estimate, one for each row. If one is not finite, the interval is NaN.
        log : BanditLog
            Its groups, or else its rows, are the independent units.
        confidence : float
            Two-sided confidence level.
        value : float, optional
            The estimate, at the centre of the interval; by default the mean of the terms.
        **attributes
            Further attributes.
        """
        value = float(log.count @ z / log.size) if value is None else value
        by = "row" if log.column("groups") is None else "group"
        values, count = unit_values(log, z)
        n, error, width = count.sum(), np.nan, np.nan
        if n > 1:
            if np.isfinite(values).all():
                error = float(mean_and_deviation(values, count, n)[1] / np.sqrt(n))
            width = stdtrit(n - 1, (1 + confidence) / 2) * error
        attributes |= {"standard_error": error, "low": float(value - width), "high": float(value + width)}
        return cls(value, confidence=confidence, n=int(n), by=by, **attributes)

    def shifted(self, change: float) -> Interval:
        """Return the interval of the estimate plus a known number.

        Parameters
        ----------
        change : float
            Number to add.

        Returns
        -------
        Interval
            Interval with the same standard error.
        """
        return Interval(self + change, **{**self.__dict__, "low": self.low + change, "high": self.high + change})

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends of the confidence interval."""
        return self.low, self.high

    def as_dict(self) -> dict[str, float | None]:
        """Return value, standard_error, low and high by name.

        Returns
        -------
        dict
            Numbers that are not finite are None.
        """
        numbers = {"value": self, "standard_error": self.standard_error, "low": self.low, "high": self.high}
        return {name: float(number) if np.isfinite(number) else None for name, number in numbers.items()}
