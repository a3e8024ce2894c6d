"""The result of a certification: an estimate of a policy's cost and an upper confidence bound on it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drcrm.arrays.validation import to_float
from drcrm.errors import InputError


@dataclass(frozen=True)
class Certificate:
    """An estimate of a policy's cost and an upper confidence bound on it.

    Attributes
    ----------
    value, bound : float
        Estimate and bound, in the units of the cost. With a baseline, they are for the policy's cost minus the
        baseline's.
    confidence : float
        Probability 1 − δ with which the bounds on all ``choices`` policies hold together.
    method, estimate : str
        Method of the bound, and estimate of the cost. "asymptotic" is a bound that was corrected for skewness.
    by : str
        Independent unit: "row", "context" or "group".
    n : int
        Number of independent units.
    choices : int
        Number K of policies that were compared. The bound on each holds at level δ/K.
    effective_size : float
        Kish's effective sample size (Σ w)²/Σ w², in rows.
    mean_weight : float
        Mean of the importance weights w. If the logging policy is known, the probability of unsupported actions
        replaces the weights of rows with such an action. If the mean is far from 1, propensities are wrong or the log
        lacks actions of the policy.
    asymptotic : bool
        Whether the bound holds only as n → ∞.
    baseline : bool
        Whether the certificate is for the cost difference from a baseline.
    missing : bool
        Whether the rows show that the log lacks actions of the policy. Their probability is then charged the largest of
        ``costs``. For actions of a baseline, it is charged the smallest.
    unsupported : float or None
        Probability that the policy takes actions that the logging policy hardly takes. They are charged the same way.
        None if the logging policy is unknown.
    costs : (float, float)
        Range of the costs.
    skewness : float or None
        Skewness γ of the estimate, if the bound was corrected for it, otherwise None. See
        :mod:`drcrm.evaluation.bounds.skewness`.
    clip : float or None
        Limit of the weights of "clipped_ips".
    clipped : float
        Share of the total weight that the limit removes.
    notes : tuple of str
        Reasons to doubt the bound, which ``policy_certificate`` warns of.
    """

    value: float
    bound: float
    confidence: float
    method: str
    estimate: str
    by: str
    n: int
    choices: int
    effective_size: float
    mean_weight: float
    asymptotic: bool
    baseline: bool
    missing: bool
    unsupported: float | None
    costs: tuple[float, float]
    skewness: float | None
    clip: float | None = None
    clipped: float = 0.0
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        share = (1 - self.confidence) / self.choices
        level = f" (error probability {share:.4g} for each of {self.choices} choices)" if self.choices > 1 else ""
        level += ", as n → ∞" if self.asymptotic else ""
        quantity = "cost difference" if self.baseline else "cost"
        low, high = self.costs
        charge = f"the worst of the costs {low:.6g} to {high:.6g}" if self.baseline else f"a cost of {high:.6g}"
        overlap = f", missing actions charged {charge}" if self.missing else ""
        overlap += f", {self.unsupported:.3g} without support" if round(self.unsupported or 0, 3) else ""
        return (
            f"{quantity} at most {self.bound:.6g} with probability {self.confidence!r}{level} "
            f"({self.estimate} {self.value:.6g}; {self.method} by {self.by}, n = {self.n}; "
            f"effective size {self.effective_size:.6g} rows, mean weight {self.mean_weight:.4g}{overlap})"
        )


def check_cost_range(cost_range: Any, cost: np.ndarray) -> tuple[float, float]:
    """Return the range of costs, which contains all logged costs; by default it also contains 0."""
    least, largest = float(cost.min()), float(cost.max())
    if cost_range is None:
        return min(least, 0.0), max(largest, 0.0)
    is_pair = isinstance(cost_range, list | tuple) and len(cost_range) == 2
    low, high = map(to_float, cost_range) if is_pair else (np.nan, np.nan)
    if not -np.inf < low <= least <= largest <= high < np.inf:
        raise InputError(
            f"cost_range is {cost_range!r}, expected (least, largest) around all logged costs, which are "
            f"{least:.6g} to {largest:.6g}"
        )
    return low, high
