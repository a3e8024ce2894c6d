"""Confidence intervals of a policy's estimated cost, from independent rows, contexts or groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import stdtrit

from drcrm.certificates.independent_units import mean_and_deviation, number_groups, unit_values
from drcrm.data.bandit_log import BanditLog


class PolicyValue(float):
    """An estimate of a policy's cost: a float with its standard error, interval and overlap diagnostics.

    Attributes
    ----------
    standard_error : float
        Standard error of the mean of the estimate's terms z over independent units. For "snips" the terms are the
        linear part of the ratio, v̂ + w (c − v̂)/w̄. It is NaN for a single unit, for a risk other than the mean, and if
        the estimate is NaN. For "dm" it covers only the sampling of contexts, not the error of the cost model.
    low, high : float
        value ∓ t · standard_error, with the two-sided quantile t of Student's distribution with n − 1 degrees of
        freedom. The interval is asymptotic. With clipped weights it covers the expectation of the clipped estimate.
    confidence : float
    n : int
        Number of independent units.
    by : str
        Kind of unit: "row", "context" or "group".
    effective_size : float
        Kish's effective sample size (Σ w)²/Σ w² of the unclipped weights w = π/p, in rows.
    mean_weight : float
        Mean of the unclipped weights. Its expectation is 1.
    support : float or None
        Probability that the policy takes an unsupported action. None if the logging policy, or the policy's
        probabilities of all actions, are unknown.
    """

    standard_error: float
    low: float
    high: float

    def __new__(cls, value: float, **attributes: Any) -> PolicyValue:
        estimate = super().__new__(cls, value)
        estimate.__dict__.update(attributes)
        return estimate

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends of the confidence interval."""
        return self.low, self.high

    def as_dict(self) -> dict[str, float | None]:
        """Return value, standard_error, low and high, with None for numbers that are not finite."""
        numbers = {"value": self, "standard_error": self.standard_error, "low": self.low, "high": self.high}
        return {name: float(number) if np.isfinite(number) else None for name, number in numbers.items()}


@np.errstate(over="ignore", invalid="ignore")
def compute_interval(
    value: float, z: np.ndarray | None, log: BanditLog, groups: Any, confidence: float
) -> dict[str, Any]:
    """Return the interval attributes of a :class:`PolicyValue`: standard_error, low, high, confidence, n and by.

    Parameters
    ----------
    value : float
        The estimate, at the centre of the interval.
    z : array (n,) or None
        Terms of the estimate, one for each row. Without them, or if one is not finite, the interval is NaN.
    log : BanditLog
    groups : array (n,) or None
        Ids of independent groups. Without groups, contexts are the independent units if the log has several contexts
        and fewer contexts than rows. Otherwise rows are.
    confidence : float
        Two-sided confidence level.
    """
    by = "group" if groups is not None else "context" if 1 < log.n_contexts < log.size else "row"
    values, count = (np.full(len(log.Y), np.nan) if z is None else z), log.count.astype(float)
    if by != "row":
        units = log.context if groups is None else number_groups(groups, len(values))
        values = unit_values(values, count, units)
        count = np.ones(len(values))
    n, error, width = count.sum(), np.nan, np.nan
    if n > 1:
        if np.isfinite(values).all():
            error = float(mean_and_deviation(values, count, n)[1] / np.sqrt(n))
        width = stdtrit(n - 1, (1 + confidence) / 2) * error
    ends = {"low": float(value - width), "high": float(value + width)}
    return {"standard_error": error, **ends, "confidence": confidence, "n": int(n), "by": by}
