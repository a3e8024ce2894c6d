"""Comparison of a policy with the logging policy, or with a baseline, on the same rows: estimates and certificates."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from drcrm.cost_models.base import action_effects
from drcrm.cost_models.tabular_model import follow_forecasts
from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.check import to_json
from drcrm.diagnostics.comparison.reference import Reference
from drcrm.errors import InputError
from drcrm.estimates import EVALUATIONS, NORMALISED, RATIO, ROBUST
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.evaluation.bounds.sample_size import correct_for_choice
from drcrm.evaluation.certificate import Certificate
from drcrm.evaluation.inputs import LOGGING, EvaluationInputs
from drcrm.evaluation.off_policy_value import evaluate_each, off_policy_value
from drcrm.evaluation.policy_certificate import policy_certificate
from drcrm.evaluation.sensitivity import Sensitivity, sensitivity
from drcrm.evaluation.terms import TermBuilder
from drcrm.logs.estimated_propensities import FORECASTS, SECOND
from drcrm.policies.exponential import LinearPolicy
from drcrm.policies.tabular import policy_for_log

ESTIMATES = "ips", "clipped_ips", "snips", "dm", "dr"
GAMMA = 1.5  # default factor of the sensitivity to wrong propensities
CERTIFICATE_KEYS = (
    *("estimate", "value", "bound", "confidence"),
    *("n", "by", "missing", "effective_size", "mean_weight"),
)


@dataclass(frozen=True)
class ComparisonSettings:
    """How a policy is compared with the logging policy.

    Attributes
    ----------
    estimate : str
        "dr", "snips" or "ips". "snips" replaces "dr" if there is no cost model, or if the policy's probabilities are
        known only for the logged actions.
    confidence : float
        1 − δ.
    choices : int
        Number K of candidates that were compared on the same rows.
    effective_choices : int, optional
        Effective number of candidates, by default K. δ is divided by it: see :mod:`drcrm.selection.multiplicity`.
    guardrail_choices : mapping
        The same for the outcome of each guardrail, by its name.
    cost_range : (float, float), optional
        Bounds on the costs, if known.
    gamma : float, optional
        Factor Γ of the sensitivity to wrong propensities. By default it is computed only for a better policy.
    reference : Reference
        What the policy is compared with. Under a shift, the sensitivity is not computed.
    full_support : bool
        Whether the logging policy is known to take every action in every context.
    """

    estimate: str = ROBUST
    confidence: float = 0.95
    choices: int = 1
    cost_range: tuple[float, float] | None = None
    gamma: float | None = None
    effective_choices: int | None = None
    reference: Reference = field(default_factory=Reference)
    full_support: bool = False
    guardrail_choices: Mapping[str, int] = field(default_factory=dict)

    @property
    def divisor(self) -> int:
        """The number of candidates that share δ."""
        return self.effective_choices or self.choices


@dataclass(frozen=True)
class Comparison:
    """A policy compared with the logging policy on the same rows.

    Attributes
    ----------
    difference : Interval
        Cost of the policy minus cost of the logging policy, from paired differences. Negative if the policy is better.
    certificate, cost_certificate : Certificate or None
        Upper bounds on the difference and on the cost of the policy. None if no certificate can be issued.
    refusal : str
        Why no certificate can be issued, or an empty string.
    lower_bound : float
        Lower bound on the difference at level δ/(2K), from the certificate of negated costs. −∞ if that certificate
        cannot be issued.
    reference : float
        Mean logged cost, or the estimated cost of the baseline.
    settings : ComparisonSettings
    relative_error : float
        Standard error of the difference divided by the logging policy's mean cost; NaN if it has no meaning.
    """

    difference: Interval
    certificate: Certificate | None
    cost_certificate: Certificate | None
    refusal: str
    lower_bound: float
    reference: float
    settings: ComparisonSettings
    relative_error: float = np.nan

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
    policy: Any,
    log: BanditLog,
    *,
    cost_model: Any = None,
    clip: float | str | None = "auto",
    groups: np.ndarray | None = None,
    confidence: float = 0.95,
) -> dict[str, object]:
    """Return all estimates of a policy's cost as JSON values. An estimate without its inputs is None.

    Only the weights of "clipped_ips" are clipped, at ``clip``. :func:`drcrm.off_policy_value` describes the parameters.
    """
    names = [name for name in ESTIMATES if cost_model is not None or not EVALUATIONS[name].kind.uses_model]
    inputs = EvaluationInputs.create(policy, log, None, groups, None, cost_model)
    with warnings.catch_warnings(action="ignore"):  # the checks report the same problems
        values = evaluate_each(names, inputs, clip, confidence)
    return {name: values[name].as_dict() if name in values else None for name in ESTIMATES}


def compare_with_logging(
    policy: Any,
    log: BanditLog,
    settings: ComparisonSettings | None = None,
    *,
    cost_model: Any = None,
    logging_policy: LinearPolicy | None = None,
    groups: np.ndarray | None = None,
    certifies_cost: bool = True,
) -> Comparison:
    """Compare a policy with the reference of the settings on rows that trained neither the policy nor the cost model.

    With estimated propensities, the cost model gets the forecasts of the log, see :func:`follow_forecasts`. If the log
    has a second estimate of its propensities, the comparison is the one of the two with the larger upper bound, and its
    lower bound is the smaller one. Neither bound includes the error of right models: the influence of propensities of
    largest likelihood reduces the variance (Hirano, Imbens & Ridder 2003).

    Parameters
    ----------
    policy : any policy that :func:`drcrm.off_policy_value` accepts
    log : BanditLog
    settings : ComparisonSettings, optional
    cost_model : optional
        See :func:`drcrm.evaluation.policy_certificate`.
    logging_policy : ExponentialPolicy or SoftmaxPolicy, optional
        π0, if it is known and not estimated.
    groups : array (n,), optional
        Ids of independent groups of rows.
    certifies_cost : bool
        Whether to certify the cost too, and not only the difference.
    """
    policy, settings = policy_for_log(policy, log), settings or ComparisonSettings()
    settings = replace(settings, estimate=choose_estimate(policy, settings, cost_model))
    logging_policy = logging_policy if policy.knows_all_actions else None
    models = {
        "cost_model": follow_forecasts(cost_model, log, log.column(FORECASTS)),
        "logging_policy": logging_policy,
        "groups": groups,
    }
    logs = [log] if (second := log.column(SECOND)) is None else [log, log.replace(propensity=second)]
    results = [_compare(policy, part, settings, models, certifies_cost) for part in logs]
    return replace(
        max(results, key=lambda result: result.bounds[1]), lower_bound=min(result.lower_bound for result in results)
    )


def _compare(
    policy: Any,
    log: BanditLog,
    settings: ComparisonSettings,
    models: dict[str, Any],
    certifies_cost: bool,
) -> Comparison:
    """Return the comparison by the propensities of a log."""
    baseline, radius = settings.reference.policy, settings.reference.radius
    options = models | {"baseline": baseline, "confidence": settings.confidence, "shift": radius}
    with warnings.catch_warnings(action="ignore"):
        difference = off_policy_value(policy, log, settings.estimate, **options)
        certificate, refusal = certify_against(policy, log, settings, baseline, models)
        cost_certificate, cost_refusal = None, ""
        if certifies_cost:
            cost_certificate, cost_refusal = certify_against(policy, log, settings, None, models)
        lower_bound = bound_below(policy, log, settings, models)
        reference = log.count @ log.cost / log.size
        if settings.reference.is_baseline:
            reference = off_policy_value(baseline, log, settings.estimate, **models)
        relative_error = np.nan
        if certifies_cost and not settings.reference.is_baseline and radius is None and reference != 0:
            relative_error = _relative_error(policy, log, settings.estimate, models, difference / reference, reference)
    refusal = cost_refusal or refusal
    results = difference, certificate, cost_certificate, refusal, lower_bound, float(reference), settings
    return Comparison(*results, relative_error)


def _relative_error(
    policy: Any, log: BanditLog, estimate: str, models: dict[str, Any], ratio: float, mean: float
) -> float:
    """Return the standard error of a cost difference divided by the mean logged cost, by the delta method."""
    inputs = EvaluationInputs.create(
        policy, log, LOGGING, models["groups"], models["logging_policy"], models["cost_model"]
    ).cross_fitted(estimate)
    terms = TermBuilder(inputs, estimate).terms(inputs.policy)
    linear = Interval.of(terms.linear - (1 + ratio) * inputs.log.cost, inputs.log, inputs.groups, 0.95)
    return linear.standard_error / abs(mean)


def choose_estimate(policy: Any, settings: ComparisonSettings, cost_model: Any) -> str:
    """Return the estimate of the settings, or "snips" if it needs a cost model or probabilities that are unknown."""
    has_inputs = cost_model is not None and policy.knows_all_actions
    return settings.estimate if has_inputs or not EVALUATIONS[settings.estimate].kind.uses_model else RATIO


def certify_against(
    policy: Any, log: BanditLog, settings: ComparisonSettings, baseline: Any, models: dict[str, Any]
) -> tuple[Certificate | None, str]:
    """Return a certificate and an empty string, or None and the reason why no certificate can be issued."""
    names, reference = ("estimate", "confidence", "cost_range", "full_support"), settings.reference
    options = models | {name: getattr(settings, name) for name in names} | {"choices": settings.divisor}
    options |= {"baseline_factor": reference.factor, "shift": reference.radius}
    try:
        return policy_certificate(policy, log, baseline=baseline, **options), ""
    except InputError as error:
        return None, str(error)


def bound_below(policy: Any, log: BanditLog, settings: ComparisonSettings, models: dict[str, Any]) -> float:
    """Return a lower bound on the cost difference: minus the certificate of the negated costs, at level δ/(2K).

    The level is only half of δ/K because this bound depends on the long tail of the weighted costs, which few rows
    reach. Worst cases have no negation, so their bound is the end of an interval at the same level.
    """
    baseline, radius = settings.reference.policy, settings.reference.radius
    if radius is not None:
        options = models | {"baseline": baseline, "confidence": 1 - (1 - settings.confidence) / settings.divisor}
        low = off_policy_value(policy, log, settings.estimate, shift=radius, **options).low
        return low if np.isfinite(low) else -np.inf
    model, costs = models["cost_model"], settings.cost_range
    negated = None if costs is None else (-costs[1], -costs[0])
    settings = replace(settings, effective_choices=2 * settings.divisor, cost_range=negated)
    if model is not None:
        effects = model if isinstance(model, np.ndarray) else action_effects(model, log.X, log.actions)
        models = models | {"cost_model": -effects}
    certificate, _ = certify_against(policy, log.with_cost(-log.cost), settings, baseline, models)
    return -np.inf if certificate is None else -certificate.bound


def sensitivity_to_propensities(
    policy: Any,
    log: BanditLog,
    settings: ComparisonSettings,
    *,
    cost_model: Any = None,
    groups: np.ndarray | None = None,
) -> Sensitivity:
    """Return the worst case of a policy's cost if propensities are wrong, with bounds at level δ/K."""
    estimate = choose_estimate(policy_for_log(policy, log), settings, cost_model)
    estimate = estimate if estimate in NORMALISED else RATIO
    confidence = 1 - (1 - settings.confidence) / settings.divisor
    return sensitivity(policy, log, settings.gamma or GAMMA, estimate, cost_model, confidence, groups)


def describe_exploration(
    policy: LinearPolicy,
    log: BanditLog,
    rows: float,
    *,
    cost_model: Any = None,
    groups: np.ndarray | None = None,
    confidence: float = 0.95,
) -> dict[str, object]:
    """Return the cost of a policy's exploration per row, and the smallest effective sample size in its next log.

    The policy (1 − ε) π + ε U is compared with π. In n rows of the policy, a fixed action a has the effective sample
    size n/E[1/p(a|x)]. Here p(a|x) is its probability, and E the mean over the contexts of the log. For label vectors
    a label value replaces the action, and for lists the candidate with the smallest probability.

    Parameters
    ----------
    policy : ExponentialPolicy or SoftmaxPolicy
    log : BanditLog
        Rows that trained neither the policy nor the cost model.
    rows : float
        n, the number of rows of the next log.
    cost_model : optional
        With a cost model the estimate is "dr", else "snips".
    groups : array (n,), optional
        Ids of independent groups of rows.
    confidence : float
        Level of the interval.

    Returns
    -------
    dict
        - ``share``: ε.
        - ``cost``: the estimate with its interval.
        - ``rows``: n.
        - ``effective_size``: the smallest effective sample size, of a fixed action or a fixed value of a label.
        - ``of_label``: whether the actions are label vectors.
    """
    log = log.without_empty_rows()
    estimate = RATIO if cost_model is None else ROBUST
    with warnings.catch_warnings(action="ignore"):  # the checks of the policy report the same problems
        cost = off_policy_value(
            policy,
            log,
            estimate,
            baseline=policy.with_exploration(0.0),
            cost_model=cost_model,
            groups=groups,
            confidence=confidence,
        )
    probability = log.actions.fixed_choices(policy.marginals_on(log.X, log.actions))
    of_context = np.bincount(log.context, log.count, log.n_contexts) / log.size
    with np.errstate(divide="ignore", over="ignore"):
        inverse = float((of_context @ (1 / probability)).max())
    size = {"effective_size": rows / inverse, "of_label": not log.actions.are_choices}
    return {"share": policy.explore, "cost": cost.as_dict(), "rows": rows} | size
