"""What the next log will show, if the logging policy explores and logs more rows.

With the exploration rate ε, the next logging policy is (1 − ε) π0 + ε u, where u is the uniform policy. A row of
today's log occurs in the next one ρ = (1 − ε) + ε u/p times as often, and its importance weight is w/ρ. So means over
the next log are means over today's log with the weights ρ. If rows of a user or context depend on each other, standard
deviations are multiplied by the ratio of the clustered to the plain standard error in today's log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drcrm.certificates.independent_units import mean_and_deviation
from drcrm.certificates.sample_size import OneLook
from drcrm.data.bandit_log import BanditLog

RATES = 0.0, 0.01, 0.02, 0.05, 0.1, 0.2
MULTIPLES = 1, 2, 4, 8
TINY = float(np.finfo(float).tiny)  # in place of a standard deviation of 0


@dataclass(frozen=True)
class PlannedPolicy:
    """A policy that the next log tests, by its terms in today's log, whose mean is its cost minus the logged cost.

    Attributes
    ----------
    weight, model, residual : array (n,)
        The terms are z = m + w e − c, with weights w, modelled costs m and residuals e.
    spread : float
        Ratio of the clustered to the plain standard error of the mean of z.
    gain : float or None
        How much less the policy is expected to cost per row than the logging policy.
    """

    weight: np.ndarray
    model: Any
    residual: np.ndarray
    spread: float = 1.0
    gain: float | None = None

    def deviation(self, log: BanditLog, ratio: Any) -> float:
        """Return the standard deviation s of z in a log in which rows occur ``ratio`` times, (n,), as often."""
        share = log.count * ratio / (log.count @ ratio)
        z = self.model + self.weight / ratio * self.residual - log.cost
        return max(self.spread * float(mean_and_deviation(z, share * log.size, log.size)[1]), TINY)


def uniform_policy(log: BanditLog) -> np.ndarray:
    """Return the probabilities of all actions under the uniform policy, in the shape of scores."""
    return log.actions.log_partition(np.zeros((log.X.shape[0], *log.actions.shape)))[1]


def plan_exploration(
    log: BanditLog, tested: PlannedPolicy, look: OneLook, rows: int, cost: float = 0.0
) -> list[dict[str, Any]]:
    """Return what the next log will show for each exploration rate and number of rows, as JSON values.

    Parameters
    ----------
    log : BanditLog
        Today's log, without rows of count 0.
    tested : PlannedPolicy
    look : OneLook
        The test; its deviation is replaced by that of the policy.
    rows : int
        Today's number of rows.
    cost : float
        How much more the uniform policy costs per row than the logging policy.

    Returns
    -------
    list of dict
        For each rate: the cost of exploring per row, the standard deviation s, the number of rows that show the gain
        with 80 % power, and for 1 to 8 times today's rows the smallest difference with this power and the power for the
        gain. The gain includes the cost of exploring. Without a gain, these numbers are None.
    """
    explored = np.exp(log.actions.log_prob(uniform_policy(log), log.Y, log.context)) / log.propensity
    plans = []
    for rate in RATES:
        at_rate = replace(look, deviation=tested.deviation(log, (1 - rate) + rate * explored))
        gain = None if tested.gain is None else tested.gain + rate * cost
        sizes = [
            {
                "rows": n,
                "difference": at_rate.smallest_difference(n),
                "power": None if gain is None else at_rate.power_of(gain, n),
            }
            for n in (multiple * rows for multiple in MULTIPLES)
        ]
        needed = at_rate.required_size(gain) if gain is not None and gain > 0 else None
        plans.append(
            {"rate": rate, "cost": rate * cost, "deviation": at_rate.deviation, "needed": needed, "sizes": sizes}
        )
    return plans
