"""Bound on the mean of a policy's terms, or of their paired differences from a baseline's, with its checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from drcrm.arrays.formats import format_number
from drcrm.arrays.validation import to_float
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError, RareRowsError
from drcrm.estimates import SelfNormalised
from drcrm.evaluation import EVALUATIONS
from drcrm.evaluation.bounds.asymptotic_bounds import (
    LARGEST_SKEWNESS,
    BlockTerms,
    corrected_bound,
    estimate_skewness,
    rare_charge,
    upper_skewness,
)
from drcrm.evaluation.bounds.independent_units import group_means, require_equal_units, unit_ratios, unit_values
from drcrm.evaluation.bounds.upper_bound import ASYMPTOTIC, SEQUENCE, Bound
from drcrm.evaluation.policy_on_log import has_missing_mass, low_weight_warning, unlogged_charges
from drcrm.evaluation.policy_terms import Terms, check_weights, subtract
from drcrm.risks import PhiBall
from drcrm.weights import Clipped, effective_sample_size

if TYPE_CHECKING:
    from drcrm.evaluation.evaluation import Evaluation

MOST_CHOICES = 10**6
LEAST_WEIGHT = 1e-30  # times the largest weight: smaller weights are raised to it, because ratios need weights above 0


@dataclass(frozen=True)
class CertificateSettings:
    """How the mean of an evaluation's terms is bounded. The parameters are those of ``policy_certificate``.

    Attributes
    ----------
    bound : Bound
        Method at level δ/K.
    confidence : float
        1 − δ.
    choices : int
        K.
    costs : (float, float)
        Range of the costs, which contains all logged costs.
    factor : float
        Multiple of the baseline's cost.
    check_tails, full_support : bool
    largest_weight : float, optional
        Known limit of the baseline's weights.
    least_propensity, most_rows : float, optional
        Smallest probability of any action under the logging policy, and largest number of rows of a unit, for bounds
        by betting.
    """

    bound: Bound
    confidence: float
    choices: int
    costs: tuple[float, float]
    factor: float = 1.0
    check_tails: bool = True
    full_support: bool = False
    largest_weight: float | None = None
    least_propensity: float | None = None
    most_rows: float | None = None

    @property
    def method(self) -> str:
        """The name of the method. With a correction for skewness, a ball hardly ever decides the bound."""
        is_corrected = self.check_tails and self.bound.asymptotic and self.bound.name != SEQUENCE
        return ASYMPTOTIC if is_corrected else self.bound.name

    @classmethod
    def of(
        cls, log: BanditLog, bound: Bound, confidence: float, choices: int, cost_range: Any, **settings: Any
    ) -> Self:
        """Return the settings for a log, whose costs must be in the range."""
        return cls(bound, float(confidence), int(choices), check_cost_range(cost_range, log.cost), **settings)


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


class CertifiedTerms:
    """Terms of a policy, and of a baseline if there is one, and the bound on their mean.

    Parameters
    ----------
    evaluation : Evaluation
    settings : CertificateSettings
    is_paired : bool
        Whether the terms are differences from the baseline.
    sign : int
        1 for an upper bound; −1 for an upper bound on the mean of −z, which is minus a lower bound.
    is_charged : bool
        Whether unsupported actions are charged the worst of the costs.

    Attributes
    ----------
    worst : float
        The cost a of missing actions of the policy: the largest cost, or for a lower bound the smallest.
    policy : Terms
    reference : Terms or None
        The terms of the baseline, whose weights have no limit; None without a baseline.
    sides : list
        The terms of the policy and of the baseline, each with its factor and the cost of its missing actions.
    """

    def __init__(
        self, evaluation: Evaluation, settings: CertificateSettings, is_paired: bool, sign: int, is_charged: bool
    ):
        self.evaluation, self.settings, self.sign, self.is_charged = evaluation, settings, sign, is_charged
        self.log, (least, largest) = evaluation.log, settings.costs
        self.worst, best = (largest, least) if sign > 0 else (least, largest)
        # Plain terms do not depend on the range of the costs.
        is_plain = not (is_charged or evaluation.lacks_actions) and evaluation.radius is None
        if is_plain:
            terms = evaluation.terms
        else:
            terms = evaluation.side_terms(evaluation.policy, self.worst, sign, is_charged=is_charged)
        self.policy = self._checked(terms, "policy")
        self.reference: Terms | None = None
        self.sides = [(self.policy, 1.0, self.worst)]
        if is_paired:
            if is_plain and evaluation.limit is None:
                terms = evaluation.reference
            else:
                terms = evaluation.baseline_terms(best, -sign, Clipped(), is_charged)
            self.reference = self._checked(terms, "baseline")
            self.sides.append((self.reference, settings.factor, best))

    def _checked(self, terms: Terms, name: str) -> Terms:
        check_weights(terms.factor if terms.unsupported is None else terms.importance, self.log, name)
        if terms.refusal:
            raise InputError(terms.refusal)
        return terms

    @property
    def _weight(self) -> np.ndarray:
        """The weights, minus those of the baseline."""
        counted = 0.0 if self.reference is None else self.settings.factor * self.reference.counted
        return subtract(self.policy.counted, counted)

    def certify(self) -> dict[str, Any]:
        """Return value, bound, n, missing and skewness of the certificate; value and bound are those of sign · z."""
        bound = self.settings.bound
        z, unlogged, *gaps, count = self._unit_values()
        is_ratio = self.evaluation.kind.is_ratio and self.reference is None and self.evaluation.radius is None
        value, upper = self._bound_ratio() if is_ratio else (np.average(z, weights=count), bound(z, count))
        if lacking := self._lacking_gaps(gaps, count):
            z = z + sum(lacking)
            value, upper = np.average(z, weights=count), bound(z, count)
        skewness = None
        if bound.asymptotic and self.settings.check_tails:
            n = int(count.sum())
            skewness = self._skewness(n, is_lacking=bool(lacking))
            self._check_skewness(skewness)
            charge = 0.0 if lacking else self._charge_rare(n)
            charged = z if lacking else z + unlogged
            upper = max(upper, corrected_bound(charged, count, bound.confidence, skewness, charge))
        results = {"value": float(value), "bound": float(upper), "n": int(count.sum())}
        is_marked = not self.is_charged and self.evaluation.lacks_actions
        return results | {"missing": bool(lacking) or is_marked, "skewness": skewness}

    def summarize(self) -> BlockTerms:
        """Return the summary of sign · z with all charges, for a bound on several blocks."""
        z, unlogged, *gaps, count = self._unit_values()
        lacking, n = self._lacking_gaps(gaps, count), int(count.sum())
        charged = z + sum(lacking) if lacking else z + unlogged
        charge = 0.0 if lacking else self._charge_rare(n)
        return BlockTerms.of(charged, count, self._skewness(n, bool(lacking)), charge)

    def _unit_values(self) -> tuple[np.ndarray, ...]:
        """Return sign · z, the charges of unlogged actions and the gaps of each side by unit; and last the counts.

        Raise InputError if units are of unequal size and the method is not asymptotic.
        """
        sign, z = self.sign, self.policy.z
        signs = sign, -sign
        gaps = [side * factor * terms.gap(cost) for side, (terms, factor, cost) in zip(signs, self.sides, strict=False)]
        if self.reference is not None:
            z = subtract(z, self.settings.factor * self.reference.z)
        if not all(np.isfinite(values).all() for values in (z, *gaps)):
            raise InputError("the policy's weights, or their costs, are beyond the range of floating-point numbers")
        values, log, bound = (
            (sign * z, np.broadcast_to(self._unlogged(), z.shape), *gaps),
            self.log,
            self.settings.bound,
        )
        if not bound.asymptotic:
            require_equal_units(log, log.units, bound.name, "choose the method 'asymptotic'")
        if log.units is None or bound.asymptotic:
            return unit_values(log, *values)
        return group_means(log.units, log.count, *values)  # they keep the range of the terms in spite of rounding

    def _unlogged(self) -> Any:
        """Return the ``unlogged_charges`` of the policy; 0 if unsupported actions are charged already."""
        if self.is_charged or self.evaluation.radius is not None:
            return 0.0
        terms, sign = self.policy, self.sign
        predicted = sign * (terms.cost - terms.residual)
        return unlogged_charges(sign * terms.modelled, predicted, terms.importance, self.log, sign * self.worst)

    def _bound_ratio(self) -> tuple[float, float]:
        """Return the ratio Σ wc/Σ w, and its bound: the root of v ↦ ball(w (c − v))."""
        log, cost = self.log, self.sign * self.policy.cost
        weight = np.maximum(self.policy.counted, LEAST_WEIGHT * self.policy.counted.max())
        cost, weight, count = unit_ratios(log, cost, weight)
        self.settings.bound.check_size(count.sum())
        estimate, ball = SelfNormalised(cost, count), cast(PhiBall, self.settings.bound.ball)
        with np.errstate(divide="ignore"):
            upper = estimate.evaluate(ball, weight, weight, None, None)[0]
        return estimate.mean(weight), upper

    def _lacking_gaps(self, gaps: list[np.ndarray], count: np.ndarray) -> list[np.ndarray]:
        """Return the gaps of the policies whose actions the log lacks; InputError if the method cannot charge them."""
        # If the logging policy is known, unsupported actions are charged already. But the log may still lack a vector
        # of labels that are all supported.
        bound, log = self.settings.bound, self.log
        if not self.is_charged:
            unit, is_marked = max(map(abs, self.settings.costs)), self.evaluation.lacked is not None
            lacks = [not self.settings.full_support and has_missing_mass(gap, count, unit, is_marked) for gap in gaps]
        else:
            lacks = [bound.asymptotic and bool(low_weight_warning(terms.counted, log)) for terms, *_ in self.sides]
        if any(lacks) and not bound.asymptotic:
            raise InputError(
                f"the log lacks actions of the policy, and a bound by {bound.name} cannot charge them; choose an "
                "asymptotic method, or 'ips' and costs of at most 0"
            )
        return [gap for gap, is_lacking in zip(gaps, lacks, strict=True) if is_lacking]

    def _skewness(self, units: int, is_lacking: bool) -> float:
        """Return the skewness γ of the estimate.

        The terms are z = m + a e: see :mod:`drcrm.evaluation.bounds.asymptotic_bounds`. For "ips", e is the cost
        itself, and a mean far from 0 can hide the tail of the costs. So the result is the larger skewness of costs and
        centred costs.
        """
        log, terms, weight, relative, sign = self.log, self.policy, self._weight, self.log.relative_weight, self.sign
        if is_lacking:
            residual = sign * (terms.cost - self.worst) * relative
            return upper_skewness(weight, residual, log.count / relative, units)
        cost = log.cost if self.evaluation.radius is None else terms.cost
        return estimate_skewness(weight, sign * terms.residual, sign * cost, log.count, units, relative)

    def _check_skewness(self, skewness: float) -> None:
        """Raise InputError if the costs are all equal, or the skewness is too large for the bound."""
        log = self.log
        if np.ptp(log.cost) == 0:
            raise InputError(
                f"every logged cost is {format_number(log.cost[0])}, expected costs that vary; for equal costs use "
                "a bound with a known range: certify --anytime, or in Python the method betting"
            )
        if not skewness <= LARGEST_SKEWNESS:
            cap = "cap the costs, " if len(np.unique(log.cost)) > 2 else ""  # events have no size that could be capped
            raise RareRowsError(
                f"rare, large costs dominate the estimate: the skewness of its mean is {format_number(skewness)}, and "
                f"an asymptotic bound needs at most {LARGEST_SKEWNESS}. Log more rows, {cap}or use a "
                "bound with a known range: certify --anytime, or in Python the method betting"
            )

    def _charge_rare(self, units: int) -> float:
        """Return r, the charge for rows with large weights and costs that the log lacks by chance."""
        log, terms = self.log, self.policy
        if self.evaluation.radius is not None:
            return 0.0
        weight, relative = np.maximum(self._weight, 0.0) * log.relative_weight, log.relative_weight
        raised = weight * np.maximum(self.sign * (self.worst - terms.cost + terms.residual), 0.0)
        return rare_charge(weight, raised, log.count / relative, self.settings.bound.confidence, units)

    def notes(self) -> tuple[str, ...]:
        """Return why to doubt the certificate: a small effective sample size, and a low mean weight."""
        log, evaluation = self.log, self.evaluation
        least, notes = EVALUATIONS[evaluation.estimate].least_size or 0, []
        weighted = self.sides[: len(evaluation.sides)]  # logged costs have no weights
        for (terms, *_), is_safe in zip(weighted, (log.cost.max() <= 0, log.cost.min() >= 0), strict=False):
            if is_safe and not evaluation.kind.is_translation_equivariant:  # weights that are missing raise the bound
                continue
            rows = effective_sample_size(terms.weight * log.relative_weight, log.copies)
            few = (
                f"the effective sample size is {format_number(rows)} rows: below {least} an asymptotic bound by "
                f"{evaluation.estimate!r} can be too low, and hold with less than the stated confidence"
            )
            is_few = self.settings.bound.asymptotic and rows < least
            notes.append("; ".join(filter(None, [few if is_few else "", low_weight_warning(terms.weight, log)])))
        return tuple(filter(None, notes))


def summarize_block(evaluation: Evaluation, settings: CertificateSettings, sign: int = 1) -> BlockTerms:
    """Return the summary of the differences from the baseline on a block of rows, times a sign.

    Rows in which the policy takes no logged action say nothing about it.
    """
    if not evaluation.policy.importance.any():
        return BlockTerms(float(evaluation.log.count.sum()), np.nan, np.inf)
    return CertifiedTerms(evaluation, settings, True, sign, evaluation.charged is not None).summarize()
