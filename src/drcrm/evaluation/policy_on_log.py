"""A policy on a log: its probabilities, weights and unsupported mass, and a test for actions that the log lacks.

Let a be an upper bound on every cost. Even if the logging policy never takes some actions,

    E_π c ≤ E [a + w (c − a)],    with equality if the logging policy takes every action of π.

The terms z̃ = a + w (c − a) ≤ a have a long tail of low costs. In a sample without the rare rows, their mean is
therefore too high, which is safe. Estimates with less variance have other terms z, whose mean can be too low in such a
sample. Both estimate the same cost, so the mean gap z̃ − z is 0 except for noise and for the missing mass:

- for z = m + w (c − ĉ) it is (a − ĉ) times the missing mass, and 0 if ĉ = a on every missing action;
- for "snips" it is 1 − w̄ times a − v̂.

If the mean gap is significantly above 0, the certificate is computed from z̃.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np

from drcrm.arrays.formats import format_number
from drcrm.arrays.mapped_arrays import as_memory_order
from drcrm.data.bandit_log import BanditLog
from drcrm.evaluation.bounds.asymptotic_bounds import DOMINANT, LARGEST_SKEWNESS, estimate_skewness
from drcrm.evaluation.bounds.independent_units import mean_and_deviation
from drcrm.logging_policy import LoggingPolicy
from drcrm.policies.base import Policy
from drcrm.policies.prepared_log import importance_weights
from drcrm.weights import effective_sample_size

FEW = 10  # number of smallest gaps that are raised, but at most one gap in SHARE
SHARE = 30
SURE, SURE_IF_MARKED = 2, 4  # number of standard errors by which the mean gap must exceed 0
SIMILAR = 1.01  # propensities are rounded, so a weight must exceed another by this factor
ROUNDING = 1e-9  # a smaller mean gap, in units of the costs, is rounding
LEAST_ROWS, LEAST_SHARE, MANY_ROWS = 10, 0.05, 400  # of the effective sample size: see has_enough_rows
DOMINANT_SHARE = 0.5  # a row with more than this share of a sum dominates it
LOW_WEIGHT, LOW_BY = 0.1, 5  # a mean weight below this, and this many standard errors below 1, is too low


class PolicyOnLog:
    """A policy on the rows of one log.

    Parameters
    ----------
    policy : Policy
    log : BanditLog
        Log without rows of count 0.
    name : str
        Role of the policy, for messages.
    needs_all : bool
        Whether the probabilities of all actions will be needed. The same pass then computes them and log π.
    """

    def __init__(self, policy: Policy, log: BanditLog, name: str = "policy", needs_all: bool = True):
        self.policy, self.log, self.name = policy, log, name
        self.knows_all_actions = policy.knows_all_actions
        self._needs_all = needs_all or not policy.knows_all_actions
        self._last: Any = None, None

    @cached_property
    def _probabilities(self) -> tuple[np.ndarray, list[tuple[float, np.ndarray]]]:
        return self.policy.probabilities(self.log, self.name)

    @cached_property
    def log_prob(self) -> np.ndarray:
        """Values of log π of the rows, (n,)."""
        return self._probabilities[0] if self._needs_all else self.policy.log_prob_of_rows(self.log, self.name)

    @property
    def importance(self) -> np.ndarray:
        """Importance weights π/p, (n,)."""
        return importance_weights(self.log_prob, self.log)

    def components(self, purpose: str) -> list[tuple[float, np.ndarray]]:
        """Return the shares and μ of π and of the uniform policy; InputError if only logged actions are known.

        Labels are independent within each of them, but not in the mixture. ``purpose`` is for the message.
        """
        if not self.knows_all_actions:
            return [*self.policy.components(self.log.X, self.log.actions, purpose)]
        return self._probabilities[1]

    def mean(self, purpose: str = "the support rule") -> np.ndarray:
        """Return the probabilities of all actions, in the shape of scores."""
        components = self.components(purpose)
        if len(components) == 1:
            return components[0][1]
        return reduce(add, (share * mean for share, mean in components))

    def expected_cost(self, effects: np.ndarray) -> np.ndarray:
        """Return the expected modelled cost of each context, (m,), from the effects of a cost model."""
        if self._last[0] is not effects:
            components, actions = self.components("the expectation of the modelled cost"), self.log.actions
            ordered = as_memory_order(effects, actions.order)
            self._last = effects, sum(share * actions.expected_cost(mean, ordered) for share, mean in components)
        return self._last[1]


@np.errstate(divide="ignore", invalid="ignore")
def unlogged_charges(
    modelled: np.ndarray, predicted: np.ndarray, weight: np.ndarray, log: BanditLog, largest: float
) -> np.ndarray:
    """Return the charge of each row, (n,), for actions of the policy whose weights exceed every logged weight.

    A row with π = π(a|x) and p = π0(a|x) leaves 1 − π and 1 − p to the other actions of its context. Their mean weight
    is v = (1 − π)/(1 − p). If it exceeds every logged weight, the log says nothing about their costs. They are then
    charged the largest cost: the charge is (1 − π) C − (m − π ĉ), where m = E_π ĉ is ``modelled``, and ĉ ``predicted``.
    Nothing is charged if such actions have less than a quarter of E w², to which they contribute (1 − π) v.
    """
    probability = np.minimum(weight * log.propensity, 1.0)
    rest = (1 - probability) / (1 - log.propensity)
    is_unlogged = rest > SIMILAR * weight.max()
    unlogged, logged = log.count @ np.where(is_unlogged, (1 - probability) * rest, 0.0), log.count @ weight**2
    charge = (1 - probability) * largest - (modelled - probability * predicted)
    return np.where(is_unlogged & (unlogged >= DOMINANT * (unlogged + logged)), np.maximum(charge, 0.0), 0.0)


def has_missing_mass(gaps: np.ndarray, count: np.ndarray, unit: float = 0.0, is_marked: bool = False) -> bool:
    """Return whether the mean gap exceeds 0 by two standard errors, after the ten smallest gaps are raised.

    The smallest gaps belong to the largest weights. A mean weight that reaches 1 only through ten rows does not show
    overlap: a new sample could well have none of these rows, and the standard error does not reveal it. The ten
    smallest gaps are therefore raised to the eleventh. With fewer than 300 units, one gap in 30 is raised.

    Parameters
    ----------
    gaps : array (n,)
        Gaps of independent units.
    count : array (n,)
        How often each gap occurs.
    unit : float
        Magnitude of the costs. A mean gap of less than 10⁻⁹ units is rounding.
    is_marked : bool
        Whether missing actions are charged already in the cells that lack them: see
        :mod:`drcrm.cost_models.missing_cells`. No gap is then raised, and the mean must exceed four standard errors.
    """
    n = count.sum()
    if not is_marked:
        order = np.argsort(gaps)
        eleventh = np.searchsorted(np.cumsum(count[order]), min(FEW, n // SHARE), side="right")
        gaps = np.maximum(gaps, gaps[order[eleventh]])
    mean, deviation = mean_and_deviation(gaps, count, n)
    return bool(mean > (SURE_IF_MARKED if is_marked else SURE) * deviation / np.sqrt(n) + ROUNDING * unit)


def has_enough_rows(size: float, n: int) -> bool:
    """Return whether an effective sample size, of n rows, is large enough to judge a policy.

    400 effective rows are enough even if they are a small share of the rows. With 50 equally frequent actions, the
    effective sample size of a constant policy is 2 % of a log of any size.
    """
    return size >= LEAST_ROWS and (size >= LEAST_SHARE * n or size >= MANY_ROWS)


def largest_share(values: np.ndarray, count: np.ndarray) -> float:
    """Return the largest share of one row in the sum of non-negative values, (n,); NaN if the sum is 0 or infinite."""
    total = count @ values
    return float(values.max() / total) if 0 < total < np.inf else np.nan


def grade_overlap(weight: np.ndarray, log: BanditLog, residual: np.ndarray) -> int:
    """Return how well a log can judge a policy with these weights and residuals of a cost model, both (n,).

    The grade is 0 if the effective sample size is too small, or one row dominates the weights, the weighted costs or
    the cost differences from the logging policy. It is 1 if the estimate of the cost or of the difference is too skewed
    for a certificate, and otherwise 2.
    """
    magnitude = np.abs(log.cost)
    sums = weight, weight * magnitude, np.abs(weight - 1) * magnitude
    relative, copies, n = log.relative_weight, log.copies, int(log.copies.sum())
    if not has_enough_rows(effective_sample_size(weight * relative, copies), n):
        return 0
    if any(largest_share(values * relative, copies) > DOMINANT_SHARE for values in sums):
        return 0
    skewness = [estimate_skewness(weight - origin, residual, log.cost, log.count, n, relative) for origin in (0, 1)]
    return 2 if max(skewness) <= LARGEST_SKEWNESS else 1


@np.errstate(over="ignore", invalid="ignore")
def summarize_weights(weight: np.ndarray, log: BanditLog) -> dict[str, float]:
    """Return the effective sample size in rows and the mean weight, whatever the magnitude of the weights.

    If some weights are infinite, the effective sample size is the number of these rows.
    """
    size = effective_sample_size(weight * log.relative_weight, log.copies)
    return {"effective_size": size, "mean_weight": float(log.count @ weight / log.size)}


@np.errstate(over="ignore", invalid="ignore")
def clipped_share(weight: np.ndarray, used: np.ndarray, log: BanditLog) -> float:
    """Return the share of the total weight that a limit removes; ``used`` are the weights, (n,), after the limit."""
    total = log.count @ weight
    return float(1 - log.count @ used / total) if total > 0 else 0.0


@np.errstate(over="ignore", invalid="ignore")
def low_weight_warning(weight: np.ndarray, log: BanditLog) -> str:
    """Return a warning if the mean weight is below 0.1 and more than five standard errors below 1, else "".

    The expectation of π/p is 1 if the logging policy can take every action of the policy.
    """
    mean, copies = log.count @ weight / log.size, log.copies
    error = np.sqrt(copies @ (log.relative_weight * (weight - mean)) ** 2) / copies.sum()
    if not (mean < LOW_WEIGHT and mean + LOW_BY * error < 1):
        return ""
    return (
        f"the mean weight is {format_number(mean)}, far below 1: the log has few of the actions that this policy "
        "takes, and says little about their costs"
    )


@dataclass(frozen=True)
class PolicySupport:
    """How far a log covers the actions of a policy.

    Attributes
    ----------
    mass : float
        Mean probability with which the policy takes an unsupported action, at most 1. For label vectors it is the sum
        over labels, at most q.
    mass_by_action : array (q,), (K,) or ()
        The same for each label or action.
    mean_weight : float
        Mean of the importance weights w = π/p. Its expectation is 1 if the policy has support everywhere.
    mean_weight_by_action : array (q,), (K,) or ()
        For each label, the mean of π(y_l|x)/π0(y_l|x). For each action a, the mean of w 1[y = a], divided by the
        policy's mean probability of a.
    """

    mass: float
    mass_by_action: np.ndarray
    mean_weight: float
    mean_weight_by_action: np.ndarray


def summarize_support(policy: PolicyOnLog, logging_policy: Policy | None, support: float) -> PolicySupport:
    """Return how much of a policy's probability is on actions that π0 hardly takes; by default π0 is cloned."""
    log, mean = policy.log, policy.mean("the support of a policy")
    logging = LoggingPolicy.clone(log, support) if logging_policy is None else LoggingPolicy(logging_policy, support)
    logging_mean = logging.policy.marginals_on(log.X, log.actions, "logging policy", "the support of a policy")
    raised, share = logging.probabilities(log.X, log.actions), log.count / log.size
    of_context = log.actions.broadcast(np.bincount(log.context, share))
    missing = (of_context * log.actions.unsupported_mass(mean, raised, support)).sum(axis=0)
    by_action = log.actions.mean_weights(log, policy.importance, mean, logging_mean)
    return PolicySupport(float(missing.sum()), missing, float(share @ policy.importance), by_action)
