"""Comparison of a policy with a reference on the same rows: estimates, certificates, and how robust they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from drcrm.arrays.formats import decimals_for, format_number
from drcrm.cost_models.base import follow_forecasts, model_for_log
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError, RareRowsError
from drcrm.evaluation import EVALUATIONS, NORMALISED, RATIO
from drcrm.evaluation.bounds.asymptotic_bounds import BlockTerms, bound_blocks, correct_for_choice
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.evaluation.bounds.upper_bound import BALL, as_bound
from drcrm.evaluation.certified_terms import CertificateSettings
from drcrm.evaluation.evaluation import Evaluation
from drcrm.evaluation.off_policy_value import evaluate_each
from drcrm.evaluation.policy_terms import check_radius
from drcrm.evaluation.results import Certificate, Sensitivity
from drcrm.logs.block_policies import RowBlocks
from drcrm.logs.diagnostics.check import to_json
from drcrm.logs.diagnostics.comparison.reference import ComparisonSettings, by_each_model
from drcrm.logs.estimated_propensities import FORECASTS

ESTIMATES = "ips", "clipped_ips", "snips", "dm", "dr"
GAMMA = 1.5  # default factor of the sensitivity to wrong propensities
LARGEST_SHIFT = 3.0  # largest κ of the search: subpopulations with a share of at least 5 %
SCAN, HALVINGS = 12, 5
MOST_SEARCHED_ROWS = 200_000  # on larger logs the search takes too long
CERTIFICATE_KEYS = (
    *("estimate", "value", "bound", "confidence"),
    *("n", "by", "missing", "effective_size", "mean_weight"),
)


@dataclass(frozen=True)
class Comparison:
    """A policy compared with the logging policy on the same rows.

    Attributes
    ----------
    difference : Interval
        Cost of the policy minus cost of the logging policy, from paired differences. Negative if the policy is better.
    certificate, cost_certificate : Certificate or None
        Upper bounds on the difference and on the cost of the policy. None if no certificate can be issued.
    refusals : sequence of InputError
        Why certificates cannot be issued.
    lower_bound : float
        Lower bound on the difference at level δ/(2K), from the certificate of negated costs. −∞ if that certificate
        cannot be issued.
    reference : float
        Mean logged cost, or the estimated cost of the baseline.
    settings : ComparisonSettings
    evaluation : Evaluation
        The policy on the log, with the reference. Further results use it.
    relative_error : float
        Standard error of the difference divided by the logging policy's mean cost; NaN if it has no meaning.
    tested_blocks : list of BlockTerms
        The difference in each block, and ``block_weights``, (J,), the weights of their mean; empty without blocks.
    """

    difference: Interval
    certificate: Certificate | None
    cost_certificate: Certificate | None
    refusals: Sequence[InputError]
    lower_bound: float
    reference: float
    settings: ComparisonSettings
    evaluation: Evaluation
    relative_error: float = np.nan
    tested_blocks: Sequence[BlockTerms] = ()
    block_weights: np.ndarray | None = None

    @property
    def refusal(self) -> str:
        """Why no certificate can be issued, or an empty string."""
        return str(self.refusals[0]) if self.refusals else ""

    @property
    def needs_rows(self) -> bool:
        """Whether certificates cannot be issued only because rare rows dominate the estimate: more rows would help."""
        return bool(self.refusals) and all(isinstance(error, RareRowsError) for error in self.refusals)

    @property
    def corrected(self) -> dict[str, float]:
        """The difference and its interval, corrected for the choice of the best of several candidates.

        The pessimistic end of the interval holds for all candidates together, the other end for a single candidate.
        """
        value, error, k = self.difference, self.difference.standard_error, self.settings.divisor
        low, high = value.interval
        if self.settings.choices > 1 and np.isfinite(error):
            value = correct_for_choice(float(value), error, k)
            high = max(high, self.difference - error * ndtri((1 - self.settings.confidence) / (2 * k)))
        return {"value": float(value), "low": low, "high": high}

    @property
    def relative(self) -> dict[str, float]:
        """The corrected difference as a share of the logging policy's mean cost; empty if it has no meaning."""
        if not (np.isfinite(self.relative_error) and self.difference.standard_error > 0):
            return {}
        corrected, mean = self.corrected, abs(self.reference)
        scale = self.relative_error / self.difference.standard_error
        ends = {end: self.difference / mean + scale * (corrected[end] - self.difference) for end in ("low", "high")}
        return {"value": corrected["value"] / mean, **ends}

    def format(self, outcome: float, rows: float = 1.0, sign: bool = True) -> str:
        """Return an outcome of a number of rows with the decimals that the error of the difference needs.

        A number that would be rounded to 0 has one significant digit, unless it is below 0.1 % of this error.
        """
        error = rows * self.difference.standard_error
        decimals = decimals_for([error], [rows * self.difference])
        if 0.001 * error < abs(outcome) < 0.5 / 10**decimals:
            return format_number(outcome, sign=sign, digits=1)
        return format_number(outcome, decimals, sign)

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound on the difference; infinite without a certificate.

        If the reference has a factor f, certificates bound the difference minus (f − 1) times its cost.
        """
        excess = (self.settings.reference.factor - 1) * self.reference
        upper = np.inf if self.certificate is None else self.certificate.bound
        return self.lower_bound + excess, upper + excess

    @property
    def missing_share(self) -> float:
        """m*, the share of the policy's actions that the log may lack before the bound reaches 0; NaN if unknown.

        Each of them can cost at most the range of the costs more than its estimate. At a shift, m* is unknown.
        """
        if self.certificate is None or self.settings.reference.radius is not None:
            return np.nan
        low, high = self.certificate.costs
        return max(-self.bounds[1], 0.0) / (high - low) if high > low else np.nan

    def as_dict(self) -> dict[str, object]:
        """Return the difference, the certificate and the overlap as JSON values."""
        certificate, difference = {"refused": self.refusal}, self.difference
        if self.cost_certificate is not None:
            certificate = {key: to_json(getattr(self.cost_certificate, key)) for key in CERTIFICATE_KEYS}
            certificate |= {"choices": self.settings.choices, "effective_choices": self.settings.divisor}
        bound = None if self.certificate is None else to_json(self.certificate.bound)
        return {
            "difference": difference.as_dict() | {"bound": bound},
            "corrected": to_json(self.corrected),
            "relative": to_json(self.relative or None),
            "certificate": certificate,
            "effective_size": to_json(difference.effective_size),
            "mean_weight": to_json(difference.mean_weight),
            "unsupported": to_json(difference.support),
            "missing_share": to_json(self.missing_share),
        }


def estimate_values(
    evaluation: Evaluation, clip: float | str | None = "auto", confidence: float = 0.95
) -> dict[str, Interval | None]:
    """Return all estimates of a policy's cost. An estimate without its inputs is None.

    Only the weights of "clipped_ips" are clipped, at ``clip``. :func:`drcrm.off_policy_value` describes it.
    """
    has_model = evaluation.cost_model is not None
    names = [name for name in ESTIMATES if has_model or not EVALUATIONS[name].kind.uses_model]
    values = evaluate_each(names, evaluation.alone, clip, confidence)
    return {name: values.get(name) for name in ESTIMATES}


def compare_with_logging(
    policy: Any, log: BanditLog, settings: ComparisonSettings | None = None, *, cost_model: Any = None
) -> Comparison:
    """Compare a policy with the reference of the settings on rows that trained neither the policy nor the cost model.

    Parameters
    ----------
    policy : any policy that :func:`drcrm.off_policy_value` accepts
    log : BanditLog
    settings : ComparisonSettings, optional
    cost_model : optional
        See :func:`drcrm.certificates`.
    """
    settings = settings or ComparisonSettings()
    return compare(settings.reference.evaluation(policy, log, cost_model=cost_model), settings)


def compare(evaluation: Evaluation, settings: ComparisonSettings, certifies_cost: bool = True) -> Comparison:
    """Compare the policy of an evaluation with its reference; also certify its cost if ``certifies_cost``.

    With estimated propensities, the cost model gets the forecasts of the log, see :func:`follow_forecasts`. If the log
    has a second estimate of its propensities, two comparisons are made. The one with the larger upper bound is
    returned, with the smaller of the two lower bounds. The bounds ignore the sampling error of the propensity model. If
    the model is right, this is safe: propensities estimated by maximum likelihood reduce the variance (Hirano, Imbens &
    Ridder 2003).
    """
    log, settings = evaluation.log, replace(settings, estimate=choose_estimate(evaluation, settings))
    model = follow_forecasts(evaluation.cost_model, log, log.column(FORECASTS))
    is_followed = model is not evaluation.cost_model
    followed = replace(evaluation, cost_model=model_for_log(model, log), shared={}) if is_followed else evaluation
    radius = settings.reference.radius
    radius = None if radius is None else check_radius(radius, settings.estimate)
    results = [
        _compare(part.by(settings.estimate, radius=radius), settings, certifies_cost=certifies_cost)
        for part in by_each_model(followed)
    ]
    return replace(
        max(results, key=lambda result: result.bounds[1]),
        lower_bound=min(result.lower_bound for result in results),
        evaluation=evaluation,
    )


def _compare(evaluation: Evaluation, settings: ComparisonSettings, certifies_cost: bool) -> Comparison:
    """Return the comparison by the propensities of the evaluation's log."""
    log, is_logging = evaluation.log, evaluation.has_logged_costs
    difference = evaluation.difference(settings.confidence)
    certificate, of_difference = certify(evaluation, settings)
    cost_certificate, of_cost = certify(evaluation, settings, is_paired=False) if certifies_cost else (None, None)
    refusals = [error for error in (of_cost, of_difference) if error]
    reference = float(log.count @ log.cost / log.size if is_logging else evaluation.reference.value)
    error = relative_error(evaluation, difference, reference) if certifies_cost else np.nan
    lower_bound = bound_below(evaluation, settings)
    results = difference, certificate, cost_certificate, refusals, lower_bound, reference, settings
    comparison = Comparison(*results, evaluation, error)
    return comparison if settings.blocks is None else _compare_in_blocks(comparison, evaluation, settings.blocks)


def _compare_in_blocks(comparison: Comparison, evaluation: Evaluation, blocks: RowBlocks) -> Comparison:
    """Return the comparison with the weighted mean of the differences of blocks, and the bounds on it."""
    settings, certificate, refusals, lower = comparison.settings, comparison.certificate, comparison.refusals, -np.inf
    if not comparison.difference.standard_error > 0:
        return comparison
    plain = _certificate_settings(evaluation, replace(settings, reference=replace(settings.reference, factor=1.0)))
    terms = blocks.summarize(evaluation, plain)
    estimate = bound_blocks(terms, plain.bound.confidence, blocks.weights)
    if certificate is not None:
        upper, refused = blocks.certify(evaluation, _certificate_settings(evaluation, settings))
        certificate = None if refused else replace(certificate, value=estimate.value, bound=upper)
        refusals = [refused, *refusals] if refused else refusals  # there may be no bound on the cost
    if np.isfinite(comparison.lower_bound):
        lower, _ = blocks.certify(evaluation, _certificate_settings(evaluation, settings, is_lower=True), sign=-1)
    width = estimate.standard_error * ndtri((1 + settings.confidence) / 2)
    ends = {"low": estimate.value - width, "high": estimate.value + width}
    known = comparison.difference.__dict__ | ends | {"standard_error": estimate.standard_error}
    error = comparison.relative_error * estimate.standard_error / comparison.difference.standard_error
    results = {"certificate": certificate, "refusals": refusals, "lower_bound": lower, "relative_error": error}
    results |= {"tested_blocks": terms, "block_weights": estimate.weights}
    return replace(comparison, difference=Interval(estimate.value, **known), **results)


def relative_error(evaluation: Evaluation, difference: float, mean: float) -> float:
    """Return the standard error of a difference from the logging policy, divided by the mean cost, by the delta method.

    It is NaN if the mean is 0, or if the evaluation compares with a baseline or under shift. A constant in the costs of
    the evaluation does not change it.
    """
    log = evaluation.log
    if not evaluation.has_logged_costs or evaluation.radius is not None or mean == 0:
        return np.nan
    terms = evaluation.terms.linear - evaluation.reference.linear - difference / mean * log.cost
    return Interval.of(terms, log, 0.95).standard_error / abs(mean)


def choose_estimate(evaluation: Evaluation, settings: ComparisonSettings) -> str:
    """Return the estimate of the settings, or "snips" if it needs a cost model or probabilities that are unknown."""
    has_inputs = evaluation.cost_model is not None and evaluation.policy.knows_all_actions
    return settings.estimate if has_inputs or not EVALUATIONS[settings.estimate].kind.uses_model else RATIO


def certify(
    evaluation: Evaluation, settings: ComparisonSettings, *, is_paired: bool = True, is_lower: bool = False
) -> tuple[Certificate | None, InputError | None]:
    """Return a certificate and None, or None and the reason why no certificate can be issued.

    A lower bound has half the error probability, because it depends on the long tail of the weighted costs, which few
    rows reach.
    """
    try:
        certified = _certificate_settings(evaluation, settings, is_lower)
        return evaluation.certificate(certified, is_paired=is_paired, is_lower=is_lower), None
    except InputError as error:
        return None, error


def _certificate_settings(
    evaluation: Evaluation, settings: ComparisonSettings, is_lower: bool = False
) -> CertificateSettings:
    """Return how bounds on an evaluation are computed; InputError if the costs are not in their range."""
    choices = settings.divisor * (2 if is_lower else 1)
    bound = as_bound(1 - (1 - settings.confidence) / choices, BALL)
    options: dict[str, Any] = {"factor": settings.reference.factor, "full_support": settings.full_support}
    of_log = evaluation.log, bound, settings.confidence, choices, settings.cost_range
    return CertificateSettings.of(*of_log, **options)


def bound_below(evaluation: Evaluation, settings: ComparisonSettings) -> float:
    """Return a lower bound on the cost difference, at level δ/(2K); −∞ if it cannot be computed.

    The bound on the difference of worst cases is the end of an interval at the same level.
    """
    if evaluation.radius is not None:
        low = evaluation.difference(1 - (1 - settings.confidence) / settings.divisor).low
        return low if np.isfinite(low) else -np.inf
    certificate, _ = certify(evaluation, settings, is_lower=True)
    return -np.inf if certificate is None else certificate.bound


def find_breakeven_shift(comparison: Comparison) -> float | None:
    """Return κ*, the largest radius at which the policy's worst case is shown to be better, or None.

    The certificate of the difference is the one of a comparison with this radius, at level δ/K. So it
    compares two worst cases, which can belong to different environments. The search doubles κ from 0.0015 to 3 while
    the policy is better, and then halves the last step 5 times. The bound on the difference is below 0 at κ* and at all
    smaller radii that the search tries.

    There is no κ* on logs with more than 200 000 rows, or if the estimate has no worst case.
    """
    evaluation, settings = comparison.evaluation, comparison.settings
    if len(evaluation.log.cost) > MOST_SEARCHED_ROWS or settings.estimate not in NORMALISED:
        return None
    parts = [part.by(settings.estimate) for part in by_each_model(evaluation)]
    low, high, radius = 0.0, np.inf, LARGEST_SHIFT / 2 ** (SCAN - 1)
    while radius <= LARGEST_SHIFT and not high - low <= low / 2**HALVINGS:
        certificates = (certify(replace(part, radius=radius), settings)[0] for part in parts)
        if all(certificate is not None and certificate.bound < 0 for certificate in certificates):
            low = radius
        elif low == 0:
            return None
        else:
            high = radius
        radius = min(2 * low, (low + high) / 2)
    return low


def sensitivity_to_propensities(comparison: Comparison) -> Sensitivity:
    """Return the worst case of a policy's cost if propensities are wrong, with bounds at level δ/K.

    If the log has a second estimate of its propensities, it is the one with the larger bound.
    """
    settings = comparison.settings
    estimate = settings.estimate if settings.estimate in NORMALISED else RATIO
    confidence = 1 - (1 - settings.confidence) / settings.divisor
    parts = (part.by(estimate) for part in by_each_model(comparison.evaluation))
    return max((part.sensitivity(settings.gamma or GAMMA, confidence) for part in parts), key=lambda part: part.bound)
