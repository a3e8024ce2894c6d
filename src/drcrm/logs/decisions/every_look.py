"""Bounds that hold at every look at a growing log, for ``drcrm certify --anytime``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.evaluation import RATIO, UNBIASED, default_estimate
from drcrm.evaluation.bounds.betting_mixture import BettingUnits
from drcrm.evaluation.bounds.betting_terms import CostMixture, betting_mixture
from drcrm.evaluation.bounds.independent_units import Interval, require_single_rows
from drcrm.evaluation.bounds.upper_bound import (
    ANYTIME,
    LOOKS,
    SEQUENCE,
    LeastFavourable,
    RunningCertificates,
    as_bound,
)
from drcrm.evaluation.certified_terms import CertificateSettings
from drcrm.logs.decisions.opened_log import OpenedLog
from drcrm.logs.diagnostics.check import infer_cost_range
from drcrm.logs.diagnostics.comparison.constraints import GuardedOutcomes, require_keys
from drcrm.logs.diagnostics.comparison.policy_comparison import relative_error
from drcrm.logs.diagnostics.comparison.reference import NOTHING, Reference
from drcrm.logs.estimated_propensities import SECOND
from drcrm.policies.tabular import TabularPolicy, policy_for_log

FEWEST = 50  # units at the first look of the confidence sequence, as in studies/anytime.py


@dataclass(frozen=True)
class Watch:
    """How a policy is watched.

    Attributes
    ----------
    confidence : float
        Level 1 − δ of each bound: it holds at all looks together with this probability.
    choices : int
        Number K of candidates that share δ.
    is_asymptotic : bool
        Whether the bounds are those of the confidence sequence, which need no range of outcomes.
    cost_model : optional
        Cost model of the policy, for asymptotic bounds on the main outcome.
    limits : dict
        Known ``largest_weight`` of the baseline, ``least_propensity`` and ``most_rows``, each None if it is unknown:
        see :func:`drcrm.certificates.policy_certificate`. Asymptotic bounds need none.
    choices_of : callable, optional
        Function of the name of a guardrail that returns the number of candidates for its outcome; by default K.
    """

    confidence: float
    choices: int
    is_asymptotic: bool = False
    cost_model: Any = None
    limits: dict[str, float | None] = field(default_factory=dict)
    choices_of: Callable[[str], int] | None = None

    @property
    def level(self) -> float:
        """Level 1 − δ/K of a bound."""
        return 1 - (1 - self.confidence) / self.choices

    @property
    def estimate(self) -> str:
        """The estimate, "dr" with a cost model, otherwise "ips"."""
        return default_estimate(self.cost_model is not None, UNBIASED)


@dataclass(frozen=True, eq=False)
class Growth:
    """Steps by which the log grows in the ``order`` of time: units of ``bets``, or rows for asymptotic bounds."""

    order: np.ndarray
    bets: BettingUnits | None

    @classmethod
    def of(cls, opened: OpenedLog, settings: Watch) -> Growth:
        log, time = opened.evaluated, opened.evaluated.rows.get("time")
        order = np.arange(len(log.Y)) if time is None else np.argsort(time, kind="stable")
        if settings.is_asymptotic:
            return cls(order, None)
        return cls(order, BettingUnits.of(log, True, settings.limits.get("most_rows"), order))

    @cached_property
    def place(self) -> np.ndarray:
        """Position of each row in the order of time, (n,)."""
        return np.argsort(self.order)

    @cached_property
    def rows(self) -> np.ndarray:
        """Number of rows after each step, (N,)."""
        return np.arange(1, len(self.order) + 1) if self.bets is None else self.bets.completed

    @property
    def looks(self) -> np.ndarray:
        """Numbers of steps after which the bound is computed."""
        return np.unique(np.linspace(1, len(self.rows), LOOKS).astype(int))


@dataclass(frozen=True)
class WatchedOutcome:
    """The estimates of an outcome by the terms of its bounds, and bounds on its difference from the reference.

    Attributes
    ----------
    cost, difference : Interval
    baseline_cost : Interval or None
        The estimate of the baseline's cost; None if the reference is the logging policy.
    excess_bounds : (float, float)
        Lower and upper bound on the cost minus f times that of the reference, with f = ``factor``; infinite if they are
        refused. The lower bound has the level δ/(2K).
    refusal : str
        Why there is no upper bound, or an empty string.
    relative_error : float
        Standard error of the difference as a share of the mean logged cost; NaN if it has no meaning.
    """

    cost: Interval
    difference: Interval
    baseline_cost: Interval | None
    excess_bounds: tuple[float, float]
    refusal: str
    factor: float
    relative_error: float

    @property
    def reference(self) -> float:
        """The estimated cost of the reference."""
        return float(self.cost - self.difference)

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound on the difference."""
        lower, upper = self.excess_bounds
        excess = (self.factor - 1) * self.reference
        return lower + excess, upper + excess


def watch(
    opened: OpenedLog, guarded: GuardedOutcomes, policy: Any, settings: Watch
) -> tuple[dict[str, Any], list[WatchedOutcome]]:
    """Return the bounds after all rows and at earlier looks, and when the policy was first shown to be better.

    The mapping's ``time``, or else the files, give the order of the rows. A group is one unit. With asymptotic bounds,
    it counts with its rows so far. With other bounds, groups have the order of their first rows. A group counts as soon
    as it and all earlier groups are complete. The policy counts as better from the first row by which each bound, on
    the main outcome and on the guardrails, has been below its limit. This is valid because all these bounds hold
    together. If an outcome differs from that of an earlier look, the answer uses the new one.

    Returns
    -------
    running : dict
        - value and bound: the estimate of the policy's cost, and its upper bound.
        - difference and difference_bound: the same for its difference from the logged costs, or from the baseline.
        - difference_lower: a lower bound on this difference at level δ/(2K); −∞ if it is refused.
        - first_better: the number of rows after which the policy was first shown to be better, or None. For asymptotic
          bounds, if there are more than 10⁴ rows, it is one of 10⁴ numbers between 1 and the number of rows.
        - guardrails: the bounds of each guardrail's outcome.
        - n and by: the number of units, and "row" or "group".
        - curve: pairs of a number of rows and the bound on the difference; infinite if it is refused at this look.
        - asymptotic and estimate: whether the bounds are asymptotic, and "ips" or "dr".
    outcomes : list of WatchedOutcome
        The main outcome and those of the guardrails.

    Raises
    ------
    InputError
        If a row occurs several times, or an asymptotic bound is refused. Other bounds also need the range of the costs
        and of each guardrail's outcome, and the largest size of a group or weight of a row.
    """
    require_single_rows(opened.evaluated)
    if not settings.is_asymptotic:
        require_keys(opened.evaluated)
    (main, reference, _), *rails = watched_costs(opened, guarded, policy, settings)
    units, (cost, difference) = main.units, (main.run(compared) for compared in (NOTHING, reference))
    bound, difference_bound = cost.bound(), difference.bound()
    bounds = main.bound_below(reference), difference_bound
    firsts, outcomes = [difference.first_beyond(0.0)], [main.estimate(reference, bounds)]
    for part, over, limit in rails:
        excess, refusal = part.run(over), ""
        firsts.append(excess.first_beyond(limit))
        try:
            upper = excess.bound()
        except InputError as error:
            upper, refusal = np.inf, str(error)
        outcomes.append(part.estimate(over, (part.bound_below(over), upper), refusal))
    curve = zip(units.looks, difference.bounds(units.looks), strict=True)
    return {
        "value": min(float(outcomes[0].cost), bound),
        "bound": bound,
        "difference": float(outcomes[0].difference),
        "difference_bound": difference_bound,
        "difference_lower": outcomes[0].bounds[0],
        "first_better": None if None in firsts else int(units.rows[max(firsts) - 1]),
        "guardrails": [outcome.excess_bounds for outcome in outcomes[1:]],
        "n": outcomes[0].cost.n,
        "by": "row" if opened.evaluated.rows.get("groups") is None else "group",
        "curve": [[int(units.rows[n - 1]), float(y)] for n, y in curve],
        "asymptotic": settings.is_asymptotic,
        "estimate": settings.estimate,
    }, outcomes


def watched_costs(
    opened: OpenedLog, guarded: GuardedOutcomes, policy: Any, settings: Watch
) -> list[tuple[CostsAtLooks, Reference, float]]:
    """Return the main outcome and those of guardrails: each with the reference, and the limit of its excess over it."""
    main, reference = watch_costs(opened, policy, settings), opened.reference
    parts = [(main, reference, 0.0)]
    for rail, evaluation in guarded:
        choices = settings.choices_of(rail.name) if settings.choices_of else settings.choices
        known = {"cost_range": rail.cost_range, "is_reward": rail.is_reward}
        part = replace(main, log=evaluation.log, settings=replace(settings, cost_model=None, choices=choices), **known)
        parts.append((part, replace(reference, factor=rail.baseline_factor), 0.0 if rail.is_relative else rail.margin))
    return parts


def watch_costs(opened: OpenedLog, policy: Any, settings: Watch) -> CostsAtLooks:
    """Return the main outcome of a log."""
    log = opened.evaluated
    known = Growth.of(opened, settings), settings, opened.mapping.cost_range, log.description.is_reward
    return CostsAtLooks(log, policy_for_log(policy, log), *known)


@dataclass(frozen=True, eq=False)
class CostsAtLooks:
    """A policy on a log with the costs of an outcome, and their range if known.

    If the log has a second estimate of its propensities, bounds are the less favourable ones of both.
    """

    log: BanditLog
    policy: Any
    units: Growth
    settings: Watch
    cost_range: tuple[float, float] | None
    is_reward: bool

    @property
    def variants(self) -> list[CostsAtLooks]:
        """The same with each estimate of the propensities."""
        second = self.log.column(SECOND)
        return [self] if second is None else [self, replace(self, log=self.log.replace(propensity=second))]

    def run(self, reference: Reference) -> LeastFavourable:
        """Return the running bound on the policy's cost minus that of the reference, times its factor."""
        if not self.settings.is_asymptotic:
            return self.bet(reference)
        looks = (cache(partial(part._certify, reference)) for part in self.variants)
        return LeastFavourable([RunningCertificates(look, self.units.looks) for look in looks])

    def bound_below(self, reference: Reference) -> float:
        """Return a lower bound on the difference after all rows, at level δ/(2K); −∞ if it is refused."""
        halved = replace(self, settings=replace(self.settings, choices=2 * self.settings.choices))
        if not self.settings.is_asymptotic:
            return halved.bet(reference, sign=-1).bound()
        try:
            return min(part._certify(reference, len(self.units.rows), is_lower=True) for part in halved.variants)
        except InputError:
            return -np.inf

    def estimate(self, reference: Reference, bounds: tuple[float, float], refusal: str = "") -> WatchedOutcome:
        """Return the estimates by "ips" of centred costs, with intervals; they are between the bounds.

        The centre of bounds by betting is the estimate by "snips", so both bounds are around the same estimate. If the
        policy never takes a logged action, there is no such estimate.
        """
        policy, settings = self.policy, self.settings
        ratio = np.nan if settings.is_asymptotic else reference.evaluation(policy, self.log).by(RATIO).terms.value
        log, origin = _centre(self.log, settings, ratio if np.isfinite(ratio) else None)
        evaluation = reference.evaluation(policy, log, cost_model=settings.cost_model).by(settings.estimate)
        level, baseline_cost = settings.confidence, None
        cost, difference = evaluation.value(level).shifted(origin), evaluation.difference(level)
        if reference.is_baseline:
            baseline_cost = evaluation.of_baseline.value(level).shifted(origin)
        excess = cost - reference.factor * (cost - difference)
        move = float(np.clip(excess, *bounds) - excess)  # not 0 if the terms of the other bound say so
        cost, difference = cost.shifted(move), difference.shifted(move)
        error = relative_error(evaluation, difference, cost - difference)
        return WatchedOutcome(cost, difference, baseline_cost, bounds, refusal, reference.factor, error)

    def bet(self, reference: Reference, sign: int = 1) -> LeastFavourable:
        """Return the bets on an upper bound, or on a lower bound for the sign −1."""
        return LeastFavourable([part._bet(reference, sign) for part in self.variants], sign)

    def _bet(self, reference: Reference, sign: int) -> CostMixture:
        settings, costs = self.settings, infer_cost_range(self.cost_range, self.log.cost, self.is_reward)
        if costs is None:
            raise InputError("bounds by betting need the range of the outcome")
        bound = as_bound(settings.level, ANYTIME)
        bounded = CertificateSettings.of(
            self.log, bound, settings.confidence, settings.choices, costs, factor=reference.factor, **settings.limits
        )
        assert self.units.bets is not None
        return betting_mixture(reference.evaluation(self.policy, self.log), bounded, self.units.bets, sign)

    def _certify(self, reference: Reference, n: int, is_lower: bool = False) -> float:
        """Return the bound of the confidence sequence after n rows; InputError if it is refused."""
        settings, is_seen = self.settings, self.units.place < n
        size = n if self.log.units is None else len(np.unique(self.log.units[is_seen]))
        if size < FEWEST:
            raise InputError(f"an asymptotic bound needs at least {FEWEST} rows or groups, got {size}")
        log, origin = _centre(self.log.replace(count=self.log.count * is_seen), settings)
        costs = None if self.cost_range is None else tuple(np.array(self.cost_range) - origin)
        part, compared = _restrict(self.policy, log), replace(reference, policy=_restrict(reference.policy, log))
        evaluation = compared.evaluation(part, log, cost_model=settings.cost_model).by(settings.estimate)
        of_log = evaluation.log, as_bound(settings.level, SEQUENCE), settings.confidence, settings.choices, costs
        bounded = CertificateSettings.of(*of_log, factor=reference.factor)
        return evaluation.certificate(bounded, is_lower=is_lower).bound + origin * (1 - reference.factor)


def _centre(log: BanditLog, settings: Watch, origin: float | None = None) -> tuple[BanditLog, float]:
    """Return the log with costs minus an origin, and the origin: by default the mean cost, or 0 with a cost model.

    Then a constant that is added to all costs does not change differences by "ips".
    """
    if settings.cost_model is not None:
        return log, 0.0
    origin = float(log.count @ log.cost / log.size) if origin is None else origin
    return log.with_cost(log.cost - origin), origin


def _restrict(policy: Any, log: BanditLog) -> Any:
    """Return a policy, without the rows of count 0 of a log if it is known by its probabilities."""
    is_table = isinstance(policy, TabularPolicy)
    return TabularPolicy.for_log(policy.log_prob, policy.mean, log, policy.explore) if is_table else policy
