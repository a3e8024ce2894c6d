"""Bounds that hold at every look at a growing log, for ``drcrm certify --anytime``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.estimates import RATIO, UNBIASED, default_estimate
from drcrm.evaluation.bounds.betting_terms import CostMixture, betting_mixture
from drcrm.evaluation.bounds.independent_units import Interval, require_single_rows
from drcrm.evaluation.bounds.upper_bound import ANYTIME, SEQUENCE, as_bound
from drcrm.evaluation.certified_terms import CertificateSettings
from drcrm.logs.decisions.opened_log import OpenedLog
from drcrm.logs.decisions.watching.looks import Growth, RunningBets, RunningCertificates
from drcrm.logs.diagnostics.comparison.constraints.guardrails import GuardedOutcomes
from drcrm.logs.diagnostics.comparison.policy_comparison import relative_error
from drcrm.logs.diagnostics.comparison.reference import Reference
from drcrm.logs.diagnostics.log_columns import infer_cost_range
from drcrm.policies.tabular import TabularPolicy, policy_for_log

NOTHING = Reference(policy=None, factor=0.0)  # for bounds on a cost itself
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
    """

    confidence: float
    choices: int
    is_asymptotic: bool = False
    cost_model: Any = None
    limits: dict[str, float | None] = field(default_factory=dict)

    @property
    def level(self) -> float:
        """Level 1 − δ/K of a bound."""
        return 1 - (1 - self.confidence) / self.choices

    @property
    def estimate(self) -> str:
        """The estimate, "dr" with a cost model, otherwise "ips"."""
        return default_estimate(self.cost_model is not None, UNBIASED)


@dataclass(frozen=True)
class WatchedOutcome:
    """The estimates of an outcome by the terms of its bounds, and bounds on its difference from the reference.

    Attributes
    ----------
    cost, difference : Interval
    baseline_cost : Interval or None
        The estimate of the baseline's cost; None if the reference is the logging policy.
    bounds : (float, float)
        Lower and upper bound on the difference; infinite if they are refused. For a relative margin, they are on the
        difference minus the margin. The lower bound has the level δ/(2K).
    relative_error : float
        Standard error of the difference as a share of the mean logged cost; NaN if it has no meaning.
    """

    cost: Interval
    difference: Interval
    baseline_cost: Interval | None
    bounds: tuple[float, float]
    relative_error: float = np.nan

    @property
    def reference(self) -> float:
        """The estimated cost of the reference."""
        return float(self.cost - self.difference)

    @property
    def estimates(self) -> dict[str, Any]:
        """The attributes of a comparison that are estimates."""
        return {name: getattr(self, name) for name in ("difference", "reference", "relative_error")}


def watch(
    opened: OpenedLog, guarded: GuardedOutcomes, policy: Any, settings: Watch
) -> tuple[dict[str, Any], list[WatchedOutcome]]:
    """Return the bounds after all rows and at earlier looks, and when the policy was first shown to be better.

    The mapping's ``time``, or else the files, give the order of the rows. A group is one unit. With asymptotic bounds,
    it counts with its rows so far. With other bounds, groups have the order of their first rows. A group counts once it
    and all earlier groups are complete. The policy counts as better from the first row by which each bound, on the main
    outcome and on the guardrails, has been below its limit. This is valid because all these bounds hold together. If an
    outcome differs from that of an earlier look, the answer uses the new one.

    Parameters
    ----------
    opened : OpenedLog
        Rows that did not train the policy.
    guarded : GuardedOutcomes
        The outcomes of the guardrails in these rows.
    policy : any policy that :func:`drcrm.off_policy_value` accepts
    settings : Watch

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
        - asymptotic: whether the bounds are asymptotic.
        - estimate: "ips" or "dr".
    outcomes : list of WatchedOutcome
        The main outcome and those of the guardrails.

    Raises
    ------
    InputError
        If a row occurs several times, or an asymptotic bound is refused. Without asymptotic bounds: if the range of
        costs, or of a guardrail's outcome, is unknown, or the largest size of a group or weight of a row.
    """
    log, rows = opened.evaluated, opened.evaluated.rows
    require_single_rows(log)
    units, policy = (
        Growth.of(opened, settings.is_asymptotic, settings.limits.get("most_rows")),
        policy_for_log(policy, log),
    )
    reference, main = opened.reference, _main_outcome(opened)
    cost, difference = (main.run(policy, units, settings, compared) for compared in (NOTHING, reference))
    bound, difference_bound = cost.final, difference.final
    bounds = main.bound_below(policy, units, settings, reference), difference_bound
    firsts, outcomes = [difference.first_below(0.0)], [main.estimate(policy, units, settings, reference, bounds)]
    for guardrail, evaluation in guarded:
        needed = f"range in the {guardrail.label.rstrip(',')}"
        outcome = _Outcome(evaluation.log, guardrail.cost_range, guardrail.is_reward, needed, "its possible outcomes")
        excess_over = replace(reference, factor=guardrail.baseline_factor)
        arguments = policy, units, replace(settings, cost_model=None), excess_over
        excess = outcome.run(*arguments)
        firsts.append(excess.first_below(0.0 if guardrail.is_relative else guardrail.margin))
        bounds = outcome.bound_below(*arguments), float(excess.bounds[-1])
        outcomes.append(outcome.estimate(*arguments, bounds))
    return {
        "value": min(float(outcomes[0].cost), bound),
        "bound": bound,
        "difference": float(outcomes[0].difference),
        "difference_bound": difference_bound,
        "difference_lower": outcomes[0].bounds[0],
        "first_better": None if None in firsts else int(units.rows[max(firsts) - 1]),
        "guardrails": [outcome.bounds for outcome in outcomes[1:]],
        "n": outcomes[0].cost.n,
        "by": "row" if rows.get("groups") is None else "group",
        "curve": [[int(units.rows[n - 1]), float(y)] for n, y in zip(units.looks, difference.bounds, strict=True)],
        "asymptotic": settings.is_asymptotic,
        "estimate": settings.estimate,
    }, outcomes


def bound_every_look(opened: OpenedLog, policy: Any, settings: Watch) -> dict[str, float] | None:
    """Return the bounds of ``watch`` on the policy's cost and on its difference, after all rows; None without any.

    There are none if several policies made the log, a row occurs several times, or a limit is unknown: the range of
    costs, or the largest size of a group or weight of a row.
    """
    if opened.policy_change is not None:
        return None
    policy, main = policy_for_log(policy, opened.evaluated), _main_outcome(opened)
    try:
        require_single_rows(opened.evaluated)
        units = Growth.of(opened, settings.is_asymptotic, settings.limits.get("most_rows"))
        compared = {"cost": NOTHING, "difference": opened.reference}
        return {name: main.run(policy, units, settings, reference).final for name, reference in compared.items()}
    except InputError:
        return None


def bets_on_cost(opened: OpenedLog, policy: Any, units: Growth, settings: Watch, sign: int) -> CostMixture:
    """Return the bets on an upper bound on a policy's cost, or on a lower bound for the sign −1."""
    require_single_rows(opened.evaluated)
    return _main_outcome(opened).bet(policy_for_log(policy, opened.evaluated), units, settings, NOTHING, sign)


def estimate_watched(opened: OpenedLog, policy: Any, settings: Watch) -> WatchedOutcome:
    """Return the estimates of the main outcome by the terms of its bounds, if these are refused."""
    units, policy = (
        Growth.of(opened, settings.is_asymptotic, settings.limits.get("most_rows")),
        policy_for_log(policy, opened.evaluated),
    )
    return _main_outcome(opened).estimate(policy, units, settings, opened.reference, (-np.inf, np.inf))


def _main_outcome(opened: OpenedLog) -> _Outcome:
    known = opened.mapping.cost_range, opened.evaluated.description.is_reward
    return _Outcome(opened.evaluated, *known, "cost_range in the mapping", "the possible costs")


@dataclass(frozen=True, eq=False)
class _Outcome:
    """A log with the costs of an outcome, their range if it is known, and words on the range for an error."""

    log: BanditLog
    cost_range: tuple[float, float] | None
    is_reward: bool
    key: str
    meaning: str

    def run(
        self, policy: Any, units: Growth, settings: Watch, reference: Reference
    ) -> RunningCertificates | RunningBets:
        """Return the running bound on the policy's cost minus that of the reference, times its factor."""
        if settings.is_asymptotic:
            return RunningCertificates(self._certify(policy, units, settings, reference), units.looks)
        return RunningBets(self.bet(policy, units, settings, reference), units.looks)

    def bound_below(self, policy: Any, units: Growth, settings: Watch, reference: Reference) -> float:
        """Return a lower bound on the difference after all rows, at level δ/(2K); −∞ if it is refused."""
        settings = replace(settings, choices=2 * settings.choices)
        if not settings.is_asymptotic:
            return self.bet(policy, units, settings, reference, sign=-1).bound()
        look = self._certify(policy, units, settings, reference, is_lower=True)
        return -RunningCertificates(look, units.looks).bound(units.size)

    def estimate(
        self, policy: Any, units: Growth, settings: Watch, reference: Reference, bounds: tuple[float, float]
    ) -> WatchedOutcome:
        """Return the estimates by "ips" of centred costs, with intervals; they are between the bounds.

        The centre of bounds by betting is the estimate by "snips", so both bounds are around the same estimate.
        """
        origin = None if settings.is_asymptotic else reference.evaluation(policy, self.log).by(RATIO).terms.value
        log, origin = _centre(self.log, settings, origin)
        evaluation = reference.evaluation(policy, log, cost_model=settings.cost_model).by(settings.estimate)
        level, baseline_cost = settings.confidence, None
        cost, difference = evaluation.value(level).shifted(origin), evaluation.difference(level)
        if reference.is_baseline:
            baseline_cost = evaluation.of_baseline.value(level).shifted(origin)
        excess = cost - reference.factor * (cost - difference)
        move = float(np.clip(excess, *bounds) - excess)  # not 0 if the terms of the other bound say so
        cost, difference = cost.shifted(move), difference.shifted(move)
        error = relative_error(evaluation, difference, cost - difference)
        return WatchedOutcome(cost, difference, baseline_cost, bounds, error)

    def bet(self, policy: Any, units: Growth, settings: Watch, reference: Reference, sign: int = 1) -> CostMixture:
        """Return the bets on an upper bound, or on a lower bound for the sign −1."""
        costs = infer_cost_range(self.cost_range, self.log.cost, self.is_reward)
        if costs is None:
            raise InputError(f"--anytime needs {self.key}: [least, largest], {self.meaning}; or use --asymptotic")
        bound = as_bound(settings.level, ANYTIME)
        bounded = CertificateSettings.of(
            self.log, bound, settings.confidence, settings.choices, costs, factor=reference.factor, **settings.limits
        )
        assert units.bets is not None
        return betting_mixture(reference.evaluation(policy, self.log), bounded, units.bets, sign)

    def _certify(
        self, policy: Any, units: Growth, settings: Watch, reference: Reference, is_lower: bool = False
    ) -> Callable:
        """Return the look of the confidence sequence, a certificate on the first n rows; minus it for a lower bound."""
        bound, sign = as_bound(settings.level, SEQUENCE), -1 if is_lower else 1

        def look(n: int) -> float:
            is_seen = units.place < n
            size = n if self.log.units is None else len(np.unique(self.log.units[is_seen]))
            if size < FEWEST:
                raise InputError(f"an asymptotic bound needs at least {FEWEST} rows or groups, got {size}")
            log, origin = _centre(self.log.replace(count=self.log.count * is_seen), settings)
            costs = None if self.cost_range is None else tuple(np.array(self.cost_range) - origin)
            part, compared = _restrict(policy, log), replace(reference, policy=_restrict(reference.policy, log))
            evaluation = compared.evaluation(part, log, cost_model=settings.cost_model).by(settings.estimate)
            of_log = evaluation.log, bound, settings.confidence, settings.choices, costs
            bounded = CertificateSettings.of(*of_log, factor=reference.factor)
            certificate = evaluation.certificate(bounded, is_lower=is_lower)
            return sign * (certificate.bound + origin * (1 - reference.factor))

        return look


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
