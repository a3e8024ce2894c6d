"""What the next log will show, if the logging policy explores and logs more rows.

With the exploration rate ε, the next logging policy is (1 − ε) π0 + ε u, where u is the uniform policy. A row of
today's log occurs in the next one ρ = (1 − ε) + ε u/p times as often, and its importance weight is w/ρ. So means over
the next log are means over today's log with the weights ρ. If rows of a user or context depend on each other, standard
deviations are multiplied by the ratio of the clustered to the plain standard error in today's log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drcrm.certificates.independent_units import mean_and_deviation
from drcrm.certificates.sample_size import (
    ChargedLook,
    OneLook,
    anytime_power,
    smallest_anytime_difference,
)
from drcrm.certificates.skewness import estimate_skewness
from drcrm.certificates.terms.overlap import worst_case_gaps
from drcrm.data.bandit_log import BanditLog

RATES = 0.0, 0.01, 0.02, 0.05, 0.1, 0.2
MULTIPLES = 1, 2, 4, 8
TINY = float(np.finfo(float).tiny)
SURE = 3  # standard errors by which the mean weight of an action must be too small to show that contexts lack it


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
    model: np.ndarray
    residual: np.ndarray
    spread: float = 1.0
    gain: float | None = None

    def terms(self, log: BanditLog, ratio: Any = 1.0) -> np.ndarray:
        """Return z of each row in a log in which rows occur ``ratio`` times as often."""
        return self.model + self.weight / ratio * self.residual - log.cost


@dataclass(frozen=True)
class PlanSettings:
    """Settings of a plan.

    Attributes
    ----------
    rows : int
        Today's number of rows.
    cost : float
        How much more the uniform policy costs per row than the logging policy.
    confidence, choices : float, int
        1 − α, and the number K of candidates that share α.
    cost_range : (float, float), optional
        Least and largest possible cost, which bounds at every look need.
    """

    rows: int
    cost: float = 0.0
    confidence: float = 0.95
    choices: int = 1
    cost_range: tuple[float, float] | None = None


def uniform_policy(log: BanditLog) -> np.ndarray:
    """Return the probabilities of all actions under the uniform policy, in the shape of scores."""
    return log.actions.log_partition(np.zeros((log.X.shape[0], *log.actions.shape)))[1]


def exploration_ratio(log: BanditLog, uniform: np.ndarray, rate: float) -> np.ndarray:
    """Return ρ, how much more often each row occurs in the next log, (n,)."""
    explored = np.exp(log.actions.log_prob(uniform, log.Y, log.context))
    return (1 - rate) + rate * explored / log.propensity


def plan_exploration(log: BanditLog, tested: PlannedPolicy, settings: PlanSettings) -> list[dict[str, Any]]:
    """Return what the next log will show for each exploration rate and number of rows, as JSON values.

    Parameters
    ----------
    log : BanditLog
        Today's log, without rows of count 0.
    tested : PlannedPolicy
    settings : PlanSettings

    Returns
    -------
    list of dict
        For each rate: the cost of exploring per row, the effective sample sizes of the policy and of each action, and
        the result of :func:`plan_size` for each number of rows. The effective sample sizes are for today's number of
        rows, and grow with it.
    """
    uniform, more = uniform_policy(log), settings.rows / log.size

    def size_of(rate: float) -> float:
        squares = log.count @ (tested.weight**2 / exploration_ratio(log, uniform, rate))
        return float(more * (log.count @ tested.weight) ** 2 / squares) if squares > 0 else 0.0

    return [
        {
            "rate": rate,
            "cost": rate * settings.cost,
            "effective_size": size_of(rate),
            "actions": [more * size for size in action_sizes(log, uniform, rate)],
            "sizes": [plan_size(log, tested, rate, multiple * settings.rows, settings) for multiple in MULTIPLES],
        }
        for rate in RATES
    ]


def plan_size(log: BanditLog, tested: PlannedPolicy, rate: float, n: int, settings: PlanSettings) -> dict[str, Any]:
    """Return what n rows at an exploration rate show.

    Returns
    -------
    dict
        - rows: n
        - difference: the smallest difference that is shown with 80 % power, from the policy that logs and explores
        - power: the power for the gain, which includes the cost of exploring; None if the gain is unknown
        - anytime_difference, anytime_power: the same for bounds at every look, by "ips"; None without a cost range
    """
    ratio = exploration_ratio(log, uniform_policy(log), rate)
    share = log.count * ratio / (log.count @ ratio)
    terms, weight = tested.terms(log, ratio), tested.weight / ratio
    deviation = tested.spread * mean_and_deviation(terms, share * log.size, log.size)[1]
    gain = None if tested.gain is None else tested.gain + rate * settings.cost
    level: Any = {"confidence": settings.confidence, "choices": settings.choices}
    least, largest = settings.cost_range or (np.nan, max(log.cost.max(), 0.0))
    centred = terms - share @ terms
    centred /= max(np.sqrt(share @ centred**2), TINY)
    shape: Any = {"asymmetry": float(share @ centred**3), "kurtosis": float(share @ centred**4)}
    shape["skewness"] = estimate_skewness(weight - 1, tested.residual, log.cost, share, 1)  # of a single row
    gaps = worst_case_gaps(tested.model + weight * tested.residual, weight, log.cost, largest)
    look = ChargedLook(OneLook(max(deviation, TINY), **level, **shape), terms, gaps, share)
    plan: dict[str, Any] = {"rows": n, "difference": look.smallest_difference(n)}
    plan |= {"power": None, "anytime_difference": None, "anytime_power": None}
    if gain is not None:
        plan["power"] = look.power_of(gain, n)
    if settings.cost_range is None:
        return plan
    z, high, units = (1 - weight) * (largest - log.cost), largest - least, n / tested.spread**2
    plan["anytime_difference"] = smallest_anytime_difference(z, share, high, units, **level)
    if gain is not None:
        shifted = np.minimum(z - share @ z - gain, high)
        plan["anytime_power"] = anytime_power(shifted, share, high, units, **level)
    return plan


def missing_shares(log: BanditLog, uniform: np.ndarray) -> np.ndarray:
    """Return for each action the share of the contexts that have the action, but in which it is never logged, (K,).

    It is what the mean weight of the action significantly lacks. Empty for lists of actions and label vectors.
    """
    context_share = np.bincount(log.context, log.count / log.size, len(uniform))
    missing = []
    for action in range(log.actions.n_classes):
        weight = np.where(action == log.Y, 1 / log.propensity, 0.0)
        present, deviation = mean_and_deviation(weight, log.count, log.size)
        available = context_share @ (uniform[:, action] > 0)
        missing.append(max(available - present - SURE * deviation / np.sqrt(log.size), 0.0))
    return np.array(missing)


def action_sizes(log: BanditLog, uniform: np.ndarray, rate: float) -> list[float]:
    """Return the effective sample size of always taking each action; empty for lists of actions and label vectors.

    It is n q²/(mean of 1/p_ε(a|x)), where q is the share of the contexts in which a can be taken. Where the logging
    policy never takes the action, p_ε is only the share of exploration.
    """
    ratio, sizes = exploration_ratio(log, uniform, rate), []
    for action, missing in enumerate(missing_shares(log, uniform)):
        weight = np.where(action == log.Y, 1 / log.propensity, 0.0)
        squares = log.count @ (weight**2 / ratio) / log.size
        share = log.count @ weight / log.size
        if rate and missing:
            squares += missing / (rate * uniform[:, action][uniform[:, action] > 0].min())
            share += missing
        sizes.append(float(log.size * share**2 / squares) if squares > 0 else 0.0)
    return sizes
