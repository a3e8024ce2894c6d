"""Results of an evaluation: the estimate of the cost, the certificate, and the sensitivity to wrong propensities.

The sensitivity is that of the marginal sensitivity model. In this model, the odds of the true propensity of each row
are within a factor Γ of the odds of the logged propensity p. So the row's weight is between π (1 − 1/Γ) + w/Γ and π (1
− Γ) + w Γ, where w = π/p. Rows with p = 1 have no uncertainty. Sources: Tan 2006; Kallus & Zhou 2021.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # loads scipy.optimize, which is slow, at its first use

from drcrm.arrays.validation import check_confidence, to_float
from drcrm.errors import InputError
from drcrm.estimates import SelfNormalised
from drcrm.evaluation import UNBIASED
from drcrm.evaluation.bounds.betting_terms import bound_by_betting
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.evaluation.certified_terms import CertificateSettings, CertifiedTerms
from drcrm.evaluation.policy_on_log import low_weight_warning, summarize_weights
from drcrm.evaluation.policy_terms import Terms, check_weights, subtract
from drcrm.risks import MeanRisk

if TYPE_CHECKING:
    from drcrm.evaluation.evaluation import Evaluation

ROUNDING = 1e-9  # relative tolerance for an estimate outside the range of costs
LARGEST_GAMMA = 1e4
CURVE = 13  # points of the curve


def estimate_cost(evaluation: Evaluation, confidence: float, is_paired: bool) -> Interval:
    """Return the estimate of the policy's cost, or of another risk, with an interval and notes.

    With ``is_paired``, the baseline's cost is subtracted, in paired differences of the rows.
    """
    terms, log, limit = evaluation.terms, evaluation.log, evaluation.limit
    z = terms.linear if isinstance(evaluation.risk, MeanRisk) else np.full(len(log.cost), np.nan)
    value, notes = terms.value, _notes(evaluation, terms)
    if is_paired:
        reference = evaluation.reference
        z = subtract(z, reference.linear)
        value = value - reference.value if z.any() else 0.0
        notes += () if evaluation.has_logged_costs else _notes(evaluation, reference)
    return Interval.of(
        z,
        log,
        confidence,
        value,
        **summarize_weights(terms.importance, log),
        support=evaluation.unsupported_mass,
        estimate=evaluation.estimate,
        clip=limit,
        clipped=0.0 if limit is None else terms.clipped,
        notes=notes,
    )


def _notes(evaluation: Evaluation, terms: Terms) -> tuple[str, ...]:
    """Return why to doubt a value: a mean weight far below 1, and a value outside the range of the costs."""
    log, value = evaluation.log, terms.value
    low, high = log.cost.min(), log.cost.max()
    tolerance = ROUNDING * max(abs(low), abs(high))
    is_outside = evaluation.risk.monotone and not low - tolerance <= value <= high + tolerance
    messages = (
        low_weight_warning(terms.importance, log) if evaluation.kind.uses_weights else "",
        f"the estimate by {evaluation.estimate!r} is {value:.6g}, outside the range of the logged costs, {low:.6g} to "
        f"{high:.6g}"
        if is_outside
        else "",
    )
    return tuple(filter(None, ["; ".join(filter(None, messages))]))


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
        Whether the rows show that the log lacks actions of the policy. These actions then count with the largest of
        ``costs``, and missing actions of a baseline with the smallest.
    unsupported : float or None
        Probability that the policy takes actions that the logging policy hardly takes. They are charged the same way.
        None if the logging policy is unknown.
    costs : (float, float)
        Range of the costs.
    skewness : float or None
        Skewness γ of the estimate, if the bound was corrected for it, otherwise None. See
        :mod:`drcrm.evaluation.bounds.asymptotic_bounds`.
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


@np.errstate(over="ignore", invalid="ignore")  # results that are not finite raise InputError
def certify(
    evaluation: Evaluation, settings: CertificateSettings, is_paired: bool, sign: int, is_charged: bool
) -> Certificate:
    """Return the certificate of an evaluation: see :meth:`drcrm.evaluation.evaluation.Evaluation.certificate`."""
    log = evaluation.log
    if settings.bound.is_mixture:
        terms, results = evaluation.by(UNBIASED).terms, bound_by_betting(evaluation, settings, sign, is_paired)
        notes: tuple[str, ...] = ()  # the method needs no overlap
    else:
        certified = CertifiedTerms(evaluation, settings, is_paired, sign, is_charged)
        terms, results, notes = certified.policy, certified.certify(), certified.notes()
        results |= {"value": sign * results["value"], "bound": sign * results["bound"]}
    results |= summarize_weights(terms.weight, log) | {"mean_weight": float(log.count @ terms.counted / log.size)}
    return Certificate(
        **results,
        confidence=settings.confidence,
        method=settings.method,
        estimate=evaluation.estimate,
        by="row" if log.column("groups") is None else "group",
        choices=settings.choices,
        asymptotic=settings.bound.asymptotic,
        baseline=is_paired,
        unsupported=terms.unsupported,
        costs=settings.costs,
        clip=evaluation.limit,
        clipped=0.0 if evaluation.limit is None else terms.clipped,
        notes=notes,
    )


@dataclass(frozen=True)
class Sensitivity:
    """Worst case of a policy's cost if propensities are wrong.

    Attributes
    ----------
    gamma : float
        Factor Γ ≥ 1 of ``worst`` and ``bound``.
    worst : float
        Largest estimate of the policy's cost over all weights that the factor Γ allows.
    bound : float
        Upper confidence bound on ``worst`` minus the logging policy's cost. Below 0, the policy is better even if
        propensities are off by Γ.
    breakeven : float
        Largest Γ* at which this bound is at most 0. NaN if the bound is above 0 at Γ = 1. At most 10 000.
    curve : array (13, 3)
        Γ, worst and bound, for Γ from 1 to beyond ``gamma`` and ``breakeven``.
    certain_share : float
        Share of the rows with propensity 1, whose weights have no uncertainty.
    """

    gamma: float
    worst: float
    bound: float
    breakeven: float
    curve: np.ndarray
    certain_share: float

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as JSON values."""
        names = ("gamma", "worst", "bound", "breakeven", "certain_share")
        values = {name: getattr(self, name) for name in names}
        values["breakeven"] = None if np.isnan(self.breakeven) else self.breakeven
        return values | {"curve": self.curve.tolist()}


def worst_cases(evaluation: Evaluation, gamma: float, confidence: float) -> Sensitivity:
    """Return the worst cases of the terms of an evaluation by an estimate that has a self-normalised form."""
    if not to_float(gamma) >= 1 or not np.isfinite(to_float(gamma)):
        raise InputError(f"gamma is {gamma!r}, expected a finite number of at least 1")
    log, terms = evaluation.log, evaluation.terms
    check_weights(terms.weight, log, "policy")
    level, order = check_confidence(confidence, "confidence"), np.argsort(-terms.residual, kind="stable")
    prob = terms.weight * log.propensity

    def worst_at(factor: float) -> tuple[float, float]:
        """Return the worst cost at Γ, and the upper bound on its difference from the logging policy's cost."""
        low, high = prob * (1 - 1 / factor) + terms.weight / factor, terms.weight * factor - prob * (factor - 1)
        weight = worst_weights(terms.residual, log.count / log.size, low, high, order)
        z = terms.modelled + SelfNormalised(terms.residual, log.count).terms(weight)
        return float(log.count @ z / log.size), Interval.of(z - log.cost, log, 2 * level - 1).high

    breakeven = _breakeven(lambda factor: worst_at(factor)[1])
    largest = max(2.0, 1.5 * gamma, 0.0 if np.isnan(breakeven) else min(1.5 * breakeven, LARGEST_GAMMA))
    curve = np.array([(value, *worst_at(value)) for value in np.geomspace(1, largest, CURVE)])
    worst, bound = worst_at(float(gamma))
    certain = float(log.count @ (log.log_propensity == 0) / log.size)
    return Sensitivity(float(gamma), worst, bound, breakeven, curve, certain)


def _breakeven(bound: Callable[[float], float]) -> float:
    """Return the largest Γ at which a bound is at most 0; NaN if there is none."""
    if not bound(1.0) <= 0:
        return np.nan
    if bound(LARGEST_GAMMA) <= 0:
        return LARGEST_GAMMA
    return float(np.exp(scipy.optimize.brentq(lambda log_gamma: bound(np.exp(log_gamma)), 0, np.log(LARGEST_GAMMA))))


def worst_weights(
    cost: np.ndarray, share: np.ndarray, low: np.ndarray, high: np.ndarray, order: np.ndarray | None = None
) -> np.ndarray:
    """Return the weights w between ``low`` and ``high`` with the largest Σ s w c/Σ s w.

    Parameters
    ----------
    cost, share, low, high : array (n,)
        c, s, and the ends of the range of each w, with 0 ≤ low ≤ high.
    order : integer array (n,), optional
        Rows from the largest cost to the smallest; by default they are sorted.
    """
    order = np.argsort(-cost, kind="stable") if order is None else order
    sorted_low, gain = (share * low)[order], (share * (high - low))[order]
    mass = sorted_low.sum() + np.r_[0.0, np.cumsum(gain)]
    total = sorted_low @ cost[order] + np.r_[0.0, np.cumsum(gain * cost[order])]
    ratio = np.divide(total, mass, out=np.full(len(mass), -np.inf), where=mass > 0)
    best = order[: int(np.argmax(ratio))]
    weight = low.copy()
    weight[best] = high[best]
    return weight
