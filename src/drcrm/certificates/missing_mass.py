"""Mass of a policy that a log lacks: when its rows show that there is some, and what it may cost.

Whatever actions π0 never takes, and for every a that no cost exceeds,

    E_π c ≤ E [a + w (c − a)],    equal where π0 takes every action of π,

and z̃ = a + w (c − a) ≤ a has its long tail towards low costs: rows that a sample lacks make its mean too high. The z of
an estimate of less variance promise more, and their mean can be too low. Both are of one cost, so that the mean gap
z̃ − z is 0 but for noise and for what is missing: (a − ĉ) times the missing mass for z = m + w (c − ĉ), 1 − w̄ times
a − v̂ for snips, and nothing where ĉ is a on all actions that are missing. Where it is above 0, z̃ counts.
"""

import numpy as np

from drcrm.certificates.independent_units import mean_and_deviation
from drcrm.data.bandit_log import BanditLog

FEW = 10  # units that a mean may rest on, and at most one of SHARE
SHARE = 30
SURE = 2  # standard errors
ROUNDING = 1e-9  # of the unit of the costs
LOW_WEIGHT, LOW_BY = 0.1, 5  # a mean weight, and standard errors from 1


def worst_case_gaps(z: np.ndarray, weight: np.ndarray, cost: np.ndarray, at: float) -> np.ndarray:
    """Return a + w (c − a) − z of each row, (n,): what counting the missing mass at a cost a adds to z."""
    return at + weight * (cost - at) - z


def has_missing_mass(gaps: np.ndarray, count: np.ndarray, unit: float = 0.0) -> bool:
    """Whether the mean gap is 2 standard errors above 0, its least ten no lower than the eleventh.

    These are of the largest weights. A mean of weights that is 1 by ten rows alone is no evidence: another ten, or
    none, would have been as likely, and the standard error does not know of it. Of less than 300 units it is one of 30.
    ``count`` says how often each gap occurs; a mean of 10⁻⁹ units, as large as costs are, is rounding.
    """
    n, order = count.sum(), np.argsort(gaps)
    eleventh = np.searchsorted(np.cumsum(count[order]), min(FEW, n // SHARE), side="right")
    raised = np.maximum(gaps, gaps[order[eleventh]])
    mean, deviation = mean_and_deviation(raised, count, n)
    return bool(mean > SURE * deviation / np.sqrt(n) + ROUNDING * unit)


def low_weight_warning(weight: np.ndarray, log: BanditLog) -> str:
    """Say where the mean weight is less than a tenth, and by 5 standard errors less than 1; nothing elsewhere.

    The expectation of π/p is 1 where the log could show every action of the policy.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        share = log.count / log.size
        mean = share @ weight
        error = np.sqrt(share @ (weight - mean) ** 2 / log.size)
    if not (mean < LOW_WEIGHT and mean + LOW_BY * error < 1):
        return ""
    return (
        f"the mean weight is {mean:.3g}, far below 1: the log has few of the actions that this policy takes, and says "
        "little about their costs"
    )
