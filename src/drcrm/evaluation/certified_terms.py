"""Bound on the mean of a policy's terms, or of their paired differences from a baseline's, with its checks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from drcrm.errors import InputError, warn_all
from drcrm.estimates import EVALUATIONS, SelfNormalised
from drcrm.evaluation.bounds.independent_units import group_means, require_equal_units, unit_ratios, unit_values
from drcrm.evaluation.bounds.skewness import (
    LARGEST_SKEWNESS,
    corrected_bound,
    estimate_skewness,
    rare_charge,
    upper_skewness,
)
from drcrm.evaluation.bounds.upper_bound import ANYTIME, Bound
from drcrm.evaluation.overlap import has_missing_mass, low_weight_warning
from drcrm.evaluation.terms import PolicyTerms, TermBuilder, check_weights, subtract
from drcrm.risks import PhiBall
from drcrm.weights import Clipped, effective_sample_size

LEAST_WEIGHT = 1e-30  # times the largest weight: smaller weights are raised to it, because ratios need weights above 0


@dataclass(frozen=True)
class CertifiedTerms:
    """Terms of a policy, and of a baseline if there is one, with the settings of the certificate."""

    builder: TermBuilder
    bound: Bound
    by: str
    costs: tuple[float, float]
    check_tails: bool
    factor: float
    full_support: bool
    policy: PolicyTerms
    baseline: PolicyTerms | None

    @classmethod
    def of(
        cls,
        builder: TermBuilder,
        bound: Bound,
        by: str,
        costs: tuple[float, float],
        check_tails: bool,
        factor: float,
        full_support: bool,
    ) -> CertifiedTerms:
        baseline = builder.inputs.baseline
        terms = builder.terms(builder.inputs.policy, extreme=costs[1])
        reference = None if baseline is None else replace(builder, weight=Clipped()).reference(baseline, costs[0])
        for side, name in ((terms, "policy"), (reference, "baseline")):
            if side is not None:
                check_weights(side.factor if side.unsupported is None else side.importance, builder.log, name)
                if side.refusal:
                    raise InputError(side.refusal)
        return cls(builder, bound, by, costs, check_tails, factor, full_support, terms, reference)

    @property
    def units(self) -> np.ndarray | None:
        """The independent unit of each row, (n,); None if these are the copies of the rows."""
        groups, log = self.builder.inputs.groups, self.builder.log
        return log.context if groups is None and self.by == "context" else log.weighted_units(groups)

    @property
    def sides(self) -> list[PolicyTerms]:
        """The terms of the policy, and of the baseline."""
        return [self.policy] if self.baseline is None else [self.policy, self.baseline]

    @property
    def _weight(self) -> np.ndarray:
        """The weights, minus those of the baseline."""
        return subtract(self.policy.counted, 0.0 if self.baseline is None else self.factor * self.baseline.counted)

    def certify(self) -> dict[str, Any]:
        """Return value, bound, n, missing and skewness of the certificate."""
        log, bound, units = self.builder.log, self.bound, self.units
        z = self.policy.z
        gaps = [factor * side.gap for factor, side in zip((1.0, self.factor), self.sides, strict=False)]
        if self.baseline is not None:
            z = subtract(z, self.factor * self.baseline.z)
        if not all(np.isfinite(values).all() for values in (z, *gaps)):
            raise InputError("the policy's weights, or their costs, are beyond the range of floating-point numbers")
        unlogged = np.broadcast_to(self.policy.unlogged, z.shape)
        if not bound.asymptotic:
            require_equal_units(units, log, bound.name, "choose an asymptotic method, such as 'kl'")
        # The means of equal units keep the range of the terms in spite of rounding.
        of_units = unit_values if units is None or bound.asymptotic else group_means
        z, unlogged, *gaps, count = of_units(units, log.count, z, unlogged, *gaps)
        is_ratio = self.builder.kind.is_ratio and self.baseline is None and self.builder.radius is None
        value, upper = self._bound_ratio() if is_ratio else (np.average(z, weights=count), bound(z, count))
        if lacking := self._lacking_gaps(gaps, count):
            z = z + sum(lacking)
            value, upper = np.average(z, weights=count), bound(z, count)
        skewness = None
        if bound.asymptotic and self.check_tails:
            n = int(count.sum())
            skewness = self._check_skewness(n, is_lacking=bool(lacking))
            charge = 0.0 if lacking else self._charge_rare(n)
            charged = z if lacking else z + unlogged
            upper = max(upper, corrected_bound(charged, count, bound.confidence, skewness, charge))
        results = {"value": float(value), "bound": float(upper), "n": int(count.sum())}
        is_charged = bound.name != ANYTIME and self.builder.lacked is not None and bool(self.builder.lacked.any())
        return results | {"missing": bool(lacking) or is_charged, "skewness": skewness}

    def _bound_ratio(self) -> tuple[float, float]:
        """Return the ratio Σ wc/Σ w, and its bound: the root of v ↦ ball(w (c − v))."""
        log, cost = self.builder.log, self.policy.cost
        weight = np.maximum(self.policy.counted, LEAST_WEIGHT * self.policy.counted.max())
        cost, weight, count = unit_ratios(self.units, log.count, cost, weight)
        self.bound.check_size(count.sum())
        estimate, ball = SelfNormalised(cost, count), cast(PhiBall, self.bound.ball)
        with np.errstate(divide="ignore"):
            upper = estimate.evaluate(ball, weight, weight, None, None)[0]
        return estimate.mean(weight), upper

    def _lacking_gaps(self, gaps: list[np.ndarray], count: np.ndarray) -> list[np.ndarray]:
        """Return the gaps of the policies whose actions the log lacks; InputError if the method cannot charge them."""
        # If the logging policy is known, unsupported actions are charged already. But the log may still lack a vector
        # of labels that are all supported.
        is_asymptotic, log = self.bound.asymptotic, self.builder.log
        if self.builder.support is None:
            unit, is_marked = max(map(abs, self.costs)), self.builder.lacked is not None
            lacks = [not self.full_support and has_missing_mass(gap, count, unit, is_marked) for gap in gaps]
        else:
            lacks = [is_asymptotic and bool(low_weight_warning(side.counted, log)) for side in self.sides]
        if any(lacks) and not is_asymptotic:
            raise InputError(
                f"the log lacks actions of the policy, and a bound by {self.bound.name} cannot charge them; choose an "
                "asymptotic method, or 'ips' and costs of at most 0"
            )
        return [gap for gap, is_lacking in zip(gaps, lacks, strict=True) if is_lacking]

    def _check_skewness(self, units: int, is_lacking: bool) -> float:
        """Return the skewness γ of the estimate; InputError if the costs are all equal, or too skewed for the bound.

        The terms are z = m + a e: see :mod:`drcrm.evaluation.bounds.skewness`. For "ips", e is the cost itself, and a
        mean far from 0 can hide the tail of the costs. So the result is the larger skewness of costs and centred costs.
        """
        log, side, weight, relative = self.builder.log, self.policy, self._weight, self.builder.log.relative_weight
        if is_lacking:
            residual = (side.cost - self.costs[1]) * relative
            skewness = upper_skewness(weight, residual, log.count / relative, units)
        else:
            cost = log.cost if self.builder.radius is None else side.cost
            skewness = estimate_skewness(weight, side.residual, cost, log.count, units, relative)
        if np.ptp(log.cost) == 0:
            raise InputError(
                f"every logged cost is {log.cost[0]:.6g}, expected costs that vary; for equal costs use a bound with "
                "a known range: certify --anytime, or in Python the method betting"
            )
        if not skewness <= LARGEST_SKEWNESS:
            cap = "cap the costs, " if len(np.unique(log.cost)) > 2 else ""  # events have no size that could be capped
            raise InputError(
                f"rare, large costs dominate the estimate: the skewness of its mean is {skewness:.2g}, and a bound by "
                f"{self.bound.name} needs at most {LARGEST_SKEWNESS}. Log more rows, {cap}or use a bound "
                "with a known range: certify --anytime, or in Python the method betting"
            )
        return skewness

    def _charge_rare(self, units: int) -> float:
        """Return r, the charge for rows with large weights and costs that the log lacks by chance."""
        log, side = self.builder.log, self.policy
        if self.builder.radius is not None:
            return 0.0
        weight, relative = np.maximum(self._weight, 0.0) * log.relative_weight, log.relative_weight
        raised = weight * np.maximum(self.costs[1] - side.cost + side.residual, 0.0)
        return rare_charge(weight, raised, log.count / relative, self.bound.confidence, units)

    def warn(self) -> None:
        """Warn of a small effective sample size and of a low mean weight."""
        log, builder = self.builder.log, self.builder
        least = EVALUATIONS[builder.estimate].least_size or 0
        sides = self.sides[:1] if isinstance(builder.inputs.baseline, str) else self.sides
        for side, is_safe in zip(sides, (log.cost.max() <= 0, log.cost.min() >= 0), strict=False):
            if is_safe and not builder.kind.is_translation_equivariant:  # the bound is too high if weights are missing
                continue
            rows = effective_sample_size(side.weight * log.relative_weight, log.copies)
            few = (
                f"the effective sample size is {rows:.3g} rows: below {least} an asymptotic bound by "
                f"{builder.estimate!r} can be too low, and hold with less than the stated confidence"
            )
            is_few = self.bound.asymptotic and rows < least
            warn_all(few if is_few else "", low_weight_warning(side.weight, log))
