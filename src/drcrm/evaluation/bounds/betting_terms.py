"""Terms of a policy for bounds by betting, for every number of rows or at every look.

Let r = (c_max − c)/(c_max − c_min) be the reward, w = π/p the weight, W its largest possible value, and β in [0, 1] the
mean reward by the rows of earlier units, (½ + Σ w r)/(1 + Σ w). The modelled reward q̂ is in [0, 1]. For every k ≥ 0
the terms x have the mean reward of π, and are at least −s:

=========================  ==============================================  =====================================
bound on                   x                                               s
=========================  ==============================================  =====================================
ips                        w (r − kβ) + kβ                                 kβ (W − 1)
dr                         w (r − k q̂(a)) + k Σ_b π(b) q̂(b)                kW
minus f times the log's    x of ips − f r                                  max(f − kβ, kβ (W − 1))
minus f times the log's    x of dr − f r                                   max(f, kW)
minus f times a baseline   (w − f w_b)(r − kβ) + kβ (1 − f)                max(f W_b (1 − kβ), W kβ) − kβ (1 − f)
=========================  ==============================================  =====================================

k is 0, ½ and 1 if the logging policy takes every action of a context with at least a known probability, because W is
known then. Otherwise only k = 0 is used: the mean of x is then at most the mean reward if π0 lacks actions, which count
as the largest cost. A baseline whose weights have no known limit W_b has the term 1 − w_b (1 − r) instead of w_b r:
missing actions of the baseline count as the smallest cost. A lower bound on a cost is an upper bound on −c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drcrm.actions.base import largest_probability
from drcrm.arrays.validation import check_choice, reject_rows
from drcrm.cost_models.base import action_effects
from drcrm.errors import InputError
from drcrm.evaluation import AUTO, EVALUATIONS, ROBUST, UNBIASED, default_estimate
from drcrm.evaluation.bounds.betting_mixture import BettingMixture, BettingUnits
from drcrm.evaluation.bounds.upper_bound import ANYTIME
from drcrm.evaluation.policy_on_log import PolicyOnLog
from drcrm.policies.prepared_log import modelled_cost

if TYPE_CHECKING:
    from drcrm.evaluation.certified_terms import CertificateSettings
    from drcrm.evaluation.evaluation import Evaluation

ROUNDING = 1e-6  # relative, of weights and propensities
SHARES = 0.0, 0.5, 1.0  # k
Term = tuple[np.ndarray, Any]  # x of the observations, and s of their units


@dataclass(frozen=True, eq=False)
class CostMixture:
    """A mixture of bets on rewards, and the costs that mean rewards correspond to.

    Attributes
    ----------
    mixture : BettingMixture
        Its reward is the policy's, minus f times the baseline's.
    origin, scale : float
        The cost of a mean reward m is origin − scale · m. For lower bounds the scale is below 0.
    value : float
        Estimate of the cost by the terms of the largest k.
    """

    mixture: BettingMixture
    origin: float
    scale: float
    value: float

    def bound(self) -> float:
        """Return the bound on the cost after all units."""
        return self.origin - self.scale * self.mixture.lower_bound()

    def bounds(self, looks: np.ndarray) -> np.ndarray:
        """Return the bounds after increasing numbers of units. They never become wider."""
        rewards: list[float] = []
        for n in looks:
            rewards.append(self.mixture.lower_bound(int(n), *rewards[-1:]))
        return self.origin - self.scale * np.array(rewards)

    def first_beyond(self, limit: float) -> int | None:
        """Return the first number of units with a bound beyond a limit of the cost; None if there is none."""
        return self.mixture.first_reached((self.origin - limit) / self.scale)


def choose_betting_estimate(
    evaluation: Evaluation, estimate: Any, cost_range: Any, least_propensity: float | None
) -> str:
    """Return the estimate, "ips" or "dr".

    "auto" is "dr" if a cost model, the least propensity and the policy's probabilities of all actions are known, and
    the baseline is not a policy. Raise InputError without a range of costs, for another estimate, and if "dr" lacks
    something that it needs.
    """
    if cost_range is None:
        raise InputError("bounds by betting need cost_range=, the smallest and the largest possible cost")
    estimate = check_choice([AUTO, UNBIASED, ROBUST], estimate, "estimate of bounds by betting")
    lacking = ""
    if not evaluation.log.actions.are_choices:
        lacking = "one of K actions or lists of actions, not label vectors"
    elif evaluation.cost_model is None:
        lacking = "cost_model=, a cost model that was fitted to earlier rows"
    elif least_propensity is None:
        lacking = "least_propensity=, the smallest probability with which the logging policy takes any action"
    elif not evaluation.policy.knows_all_actions:
        lacking = "the policy's probabilities of all actions"
    elif len(evaluation.sides) > 1:
        lacking = "baseline='logging' or None"
    if estimate == AUTO:
        return default_estimate(not lacking, UNBIASED)
    if EVALUATIONS[estimate].kind.uses_model and lacking:
        raise InputError(f"the estimate {estimate!r} by betting needs {lacking}")
    return estimate


def bound_by_betting(
    evaluation: Evaluation, settings: CertificateSettings, sign: int, is_paired: bool
) -> dict[str, Any]:
    """Return value, bound, n, missing and skewness of a certificate."""
    units = BettingUnits.of(evaluation.log, settings.bound.name == ANYTIME, settings.most_rows)
    bets = betting_mixture(evaluation, settings, units, sign, is_paired)
    bound = bets.bound()
    value = min(bets.value, bound) if sign > 0 else max(bets.value, bound)
    return {"value": value, "bound": bound, "n": units.size, "missing": False, "skewness": None}


def betting_mixture(
    evaluation: Evaluation, settings: CertificateSettings, units: BettingUnits, sign: int = 1, is_paired: bool = True
) -> CostMixture:
    """Return the bets on an upper bound on the policy's cost, or on a lower bound for the sign −1.

    With ``is_paired``, the bound is on the cost minus ``settings.factor`` times that of the baseline.
    """
    least, largest = settings.costs
    if not least < largest:
        raise InputError(f"cost_range must have two different costs, got {least:.6g} and {largest:.6g}")
    origin, scale = (largest, largest - least) if sign > 0 else (least, least - largest)
    compared = evaluation if is_paired else evaluation.alone
    references = compared.sides[1:]
    factor = settings.factor if references or compared.has_logged_costs else 0.0
    bets = _Bets(evaluation, settings, units, origin, scale)
    if references:
        [reference] = references
        terms = bets.differ_from(reference, _largest_weight(reference, settings, settings.largest_weight), factor)
    elif EVALUATIONS[evaluation.estimate].kind.uses_model:
        terms = bets.control(evaluation, origin, scale, factor)
    else:
        terms = bets.differ_from_log(factor)
    mixture = BettingMixture(
        np.stack([units.sums(x) for x, _ in terms]),
        np.stack([np.broadcast_to(limit, units.size) for _, limit in terms]),
        1 - settings.bound.confidence,
        settings.bound.name == ANYTIME,
        least=0.0 - factor,
        sizes=units.sizes,
        largest_size=units.largest_size,
    )
    origin = (1 - factor) * origin
    return CostMixture(mixture, origin, scale, float(origin - scale * mixture.terms[-1].sum() / units.total))


class _Bets:
    """Weights w and rewards r of the observations, (M,), in the order of the bets.

    ``largest`` is W, or None if it is unknown, ``shares`` are the values of k, and ``beta`` is the mean reward β by the
    rows of earlier units, (N,).
    """

    def __init__(
        self, evaluation: Evaluation, settings: CertificateSettings, units: BettingUnits, origin: float, scale: float
    ):
        log, least = evaluation.log, settings.least_propensity
        if least is not None:
            is_small = log.propensity < least * (1 - ROUNDING)
            reject_rows(is_small, log.propensity, "propensity", f"at least least_propensity, {least:.6g}")
        self.units, self.largest = units, _largest_weight(evaluation.policy, settings)
        self.reward = (origin - log.cost[units.rows]) / scale
        self.weight = _weights(evaluation.policy, self.largest, units)
        self.shares = SHARES[:1] if self.largest is None else SHARES
        total, count = (np.cumsum(units.sums(x)) for x in (self.weight * self.reward, self.weight))
        self.beta = np.append(0.5, (0.5 + total[:-1]) / (1 + count[:-1]))

    def differ_from_log(self, factor: float) -> list[Term]:
        """Return the terms of ips, minus f times the logged rewards."""
        logged, terms = factor * self.reward, []
        for k in self.shares:
            centre = k * self.beta
            of_rows = self.units.spread(centre)
            x = self.weight * (self.reward - of_rows) + of_rows - logged
            terms.append((x, np.maximum(factor - centre, centre * ((self.largest or 1) - 1))))
        return terms

    def control(self, evaluation: Evaluation, origin: float, scale: float, factor: float) -> list[Term]:
        """Return the terms of dr, minus f times the logged rewards."""
        assert self.largest is not None
        log, rows = evaluation.log, self.units.rows
        modelled = np.clip((origin - action_effects(evaluation.cost_model, log.X, log.actions)) / scale, 0, 1)
        of_actions = modelled_cost(log, modelled)[rows]
        mean = evaluation.policy.expected_cost(modelled)[log.context][rows]
        logged = factor * self.reward
        return [
            (self.weight * (self.reward - k * of_actions) + k * mean - logged, max(factor, k * self.largest))
            for k in self.shares
        ]

    def differ_from(self, reference: PolicyOnLog, largest: float | None, factor: float) -> list[Term]:
        """Return the terms of ips minus f times those of a baseline, whose weights are at most ``largest``."""
        weight, terms = _weights(reference, largest, self.units), []
        if largest is None:
            return [(self.weight * self.reward - factor * (1 - weight * (1 - self.reward)), factor)]
        for k in self.shares:
            centre, constant = k * self.beta, k * self.beta * (1 - factor)
            x = (self.weight - factor * weight) * (self.reward - self.units.spread(centre))
            limit = np.maximum(factor * largest * (1 - centre), (self.largest or 0) * centre) - constant
            terms.append((x + self.units.spread(constant), limit))
        return terms


def _largest_weight(side: PolicyOnLog, settings: CertificateSettings, known: float | None = None) -> float | None:
    """Return the largest possible weight of a policy, which may be given as ``known``; None if it is unknown."""
    if known is not None or settings.least_propensity is None:
        return known
    return largest_probability(side.log.actions, side.policy.explore) / settings.least_propensity


def _weights(side: PolicyOnLog, largest: float | None, units: BettingUnits) -> np.ndarray:
    """Return the weights of the observations, (M,); InputError if one is above its limit."""
    weight, name = side.importance, f"the weight of the {side.name}"
    reject_rows(~np.isfinite(weight), weight, name, "a finite number")
    if largest is not None:
        reject_rows(weight > largest * (1 + ROUNDING), weight, name, f"at most its known limit, {largest:.6g}")
        weight = np.minimum(weight, largest)
    return weight[units.rows]
