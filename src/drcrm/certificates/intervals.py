"""Standard errors and intervals of means over a log's rows, some of which belong together."""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from drcrm.certificates.bounds import group_numbers, moments
from drcrm.data.bandit_log import BanditLog


class PolicyValue(float):
    """An estimate of a policy's cost, as a number, and how far it can be trusted.

    Attributes
    ----------
    standard_error : float
        Of the mean of z, the estimate's terms (of "snips" those of the ratio, v̂ + w (c − v̂)/w̄), over independent units;
        NaN of one unit, of a risk that is no mean, or where the estimate is NaN. That of "dm" is of the contexts alone:
        no interval covers the error of a model.
    low, high : float
        value ∓ t · standard_error, t the two-sided quantile with n − 1 degrees of freedom. As n → ∞; where weights are
        clipped, of the expectation of the clipped estimate.
    confidence : float
    n, by : int, str
        How many units there are: "row"s, "context"s where these have several rows, or "group"s.
    effective_size, mean_weight : float
        Of π/p, not clipped: (Σ w)²/Σ w² in rows, and w̄, whose expectation is 1.
    support : float or None
        The policy's probability of what π0 hardly takes; None where π0, or all of the policy, is not known.
    """

    def __new__(cls, value: float, **attributes) -> PolicyValue:
        made = super().__new__(cls, value)
        made.__dict__.update(attributes)
        return made

    def __reduce__(self):
        return _restored, (float(self), self.__dict__)

    @property
    def interval(self) -> tuple[float, float]:
        """(low, high)."""
        return self.low, self.high

    def as_dict(self) -> dict[str, float | None]:
        """Return value, standard_error, low and high; None for what is not finite."""
        found = float(self), self.standard_error, self.low, self.high
        names = "value", "standard_error", "low", "high"
        return {name: float(each) if np.isfinite(each) else None for name, each in zip(names, found, strict=True)}


def _restored(value: float, attributes: dict) -> PolicyValue:
    return PolicyValue(value, **attributes)


def units_of(log: BanditLog, groups=None) -> tuple[np.ndarray | None, str]:
    """Return which unit each row of a log belongs to, (n,), and what units are; None where each row is its own.

    Groups that are given; else contexts, where some have several rows. Rows of a log's only context are units: it says
    nothing of other contexts.
    """
    if groups is not None:
        return group_numbers(groups, len(log.Y)), "group"
    if 1 < log.n_contexts < log.size:
        return log.context, "context"
    return None, "row"


def unit_values(z: np.ndarray, count: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return z̄ + (Σ_{i∈g} z_i − n_g z̄) G/n of each of G units, (G,): their mean is that of the rows, z̄.

    Their standard error is that of a mean of rows by clusters. Source: Liang & Zeger 1986.
    """
    _, index = np.unique(units, return_inverse=True)
    n = count.sum()
    mean = count @ z / n
    total = np.bincount(index, count * (z - mean))
    return mean + total * (len(total) / n)


@np.errstate(over="ignore", invalid="ignore")
def measured(value: float, z: np.ndarray | None, log: BanditLog, groups, confidence: float) -> dict[str, object]:
    """Return the standard error of a mean of z over rows, and its interval, as :class:`PolicyValue` has them.

    NaN without z, of one unit, or of what is not finite.
    """
    units, by = units_of(log, groups)
    values, count = (np.full(len(log.Y), np.nan) if z is None else z), log.count.astype(float)
    if units is not None:
        values = unit_values(values, count, units)
        count = np.ones(len(values))
    n, error = count.sum(), np.nan
    if n > 1 and np.isfinite(values).all():
        error = float(moments(values, count, n)[1] / np.sqrt(n))
    width = stdtrit(n - 1, (1 + confidence) / 2) * error if n > 1 else np.nan
    ends = {"low": float(value - width), "high": float(value + width)}
    return {"standard_error": error, **ends, "confidence": confidence, "n": int(n), "by": by}


def groups_that_occur(groups, log: BanditLog) -> np.ndarray | None:
    """Return the groups of the rows of a log that occur; InputError for other than one for each row."""
    return None if groups is None else group_numbers(groups, len(log.Y))[log.count > 0]
