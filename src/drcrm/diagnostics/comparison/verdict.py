"""Compare a policy with the logging policy, and reach one of five verdicts on it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drcrm.certificates.certificate import Certificate
from drcrm.certificates.independent_units import PolicyValue
from drcrm.certificates.off_policy_value import evaluate_each, off_policy_value
from drcrm.certificates.policy_certificate import policy_certificate
from drcrm.certificates.sample_size import POWER, OneLook, shrink_difference
from drcrm.certificates.sensitivity import Sensitivity, sensitivity
from drcrm.certificates.terms.evaluation import LOGGING, EvaluationInputs
from drcrm.cost_models.ridge_model import action_effects
from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.diagnosis import Diagnosis
from drcrm.diagnostics.diagnostic import capitalize, percent, to_json, with_confidence
from drcrm.diagnostics.leakage import ADVICE, LEAKAGE
from drcrm.diagnostics.propensity_audit import LIKELIHOOD_RATIO
from drcrm.diagnostics.repeated_rows.dependence import NAME as INDEPENDENCE
from drcrm.diagnostics.repeated_rows.row_checks import IDENTIFY, LEARNED
from drcrm.errors import InputError
from drcrm.estimates import EVALUATIONS
from drcrm.policies.exponential import LinearPolicy
from drcrm.policies.tabular import knows_all_actions, policy_for_log

VERDICTS = "better", "not shown", "worse", "the log cannot say", "the log is wrong"
WITHOUT_CERTIFICATE = VERDICTS[3:]
LOGGING_POLICY = "the logging policy"
ESTIMATES = "ips", "clipped_ips", "snips", "dm", "dr"
AUDIT = "propensit"  # start of the names of checks whose failure gives "the log is wrong"
MAX_ROWS = 1e12  # largest number of required rows that the advice states
MAX_ACTIONS = 3  # number of actions that the advice names
MAX_PERCENT = 1000  # larger changes are not stated in per cent
MIN_SHARE = 1e-3  # the advice names an action only if more than this share of the policy's choices is affected
ROUNDING = 1e-9  # relative to the largest cost
GAMMA = 1.5  # default factor of the sensitivity to wrong propensities
RANDOMISE = "Randomise some decisions, for example 5 %, and log their propensities."
REPAIRS = [
    "Correct the propensities: each must be the probability with which the action of its row was drawn.",
    "Or leave the propensities out and set propensity_model: auto. It estimates propensities of logged actions.",
]
EXPLORE = "let the logging policy take every action of the policy in every context, if it does not."
CLOSER = "evaluate a policy that is closer to the logging policy."
NEXT_STEPS = {
    "better": "Deploy the policy, log its actions with their propensities, and certify it on the new rows.",
    "not shown": "Keep the logging policy, log more rows, and certify the candidate on them.",
    "worse": "Keep the logging policy.",
    "the log cannot say": "Keep the logging policy, change the log as advised, and judge the policy again.",
    "the log is wrong": "Correct the propensities, and judge the policy again.",
}
MORE_ROWS = "Log more rows"  # the start of advice
UNSUPPORTED = "unsupported actions"
UNTESTED = " This holds only if the propensities are right, which could not be tested."
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
    cost_range : (float, float), optional
        Bounds on the costs, if known.
    gamma : float, optional
        Factor Γ of the sensitivity to wrong propensities. By default it is computed only for a better policy.
    reference : str
        Name of what the policy is compared with, in sentences: the logging policy or a baseline.
    baseline_factor : float
        Factor of the logging policy's cost in certificates of the difference.
    shift : float, optional
        Radius κ, if both policies have their worst case around the environment: see
        :class:`drcrm.risks.EnvironmentBall`. The sensitivity is then not computed.
    """

    estimate: str = "dr"
    confidence: float = 0.95
    choices: int = 1
    cost_range: tuple[float, float] | None = None
    gamma: float | None = None
    effective_choices: int | None = None
    reference: str = LOGGING_POLICY
    baseline_factor: float = 1.0
    shift: float | None = None

    @property
    def divisor(self) -> int:
        """The number of candidates by which δ is divided."""
        return self.effective_choices or self.choices

    @property
    def certificate_options(self) -> dict[str, Any]:
        """The options of :func:`drcrm.certificates.policy_certificate`."""
        names = ("estimate", "confidence", "cost_range", "baseline_factor", "shift")
        return {name: getattr(self, name) for name in names} | {"choices": self.divisor}


@dataclass(frozen=True)
class Comparison:
    """A policy compared with the logging policy on the same rows.

    Attributes
    ----------
    difference : PolicyValue
        Cost of the policy minus cost of the logging policy, from paired differences. Negative if the policy is better.
    certificate, cost_certificate : Certificate or None
        Upper bounds on the difference and on the cost of the policy. None if no certificate can be issued.
    refusal : str
        Why no certificate can be issued, or an empty string.
    choices : int
        Number K of candidates that were compared on the same rows.
    lower_bound : float
        Lower bound on the difference at level δ/(2K), from the certificate of negated costs. −∞ if that certificate
        cannot be issued.
    reference : str
        See ``ComparisonSettings``.
    logging : float
        Mean logged cost.
    shift : float or None
        Radius κ, if the costs are worst cases around the environment.
    """

    difference: PolicyValue
    certificate: Certificate | None
    cost_certificate: Certificate | None
    refusal: str
    choices: int
    lower_bound: float
    reference: str = LOGGING_POLICY
    logging: float = np.nan
    shift: float | None = None

    @property
    def relative(self) -> float:
        """The difference divided by the mean logged cost; NaN if this mean is 0 or unknown."""
        return float(self.difference) / self.logging if self.logging else np.nan

    def as_dict(self) -> dict[str, object]:
        """Return the difference, the certificate and the overlap as JSON values."""
        certificate, difference = {"refused": self.refusal}, self.difference
        if self.cost_certificate is not None:
            certificate = {key: to_json(getattr(self.cost_certificate, key)) for key in CERTIFICATE_KEYS}
            certificate |= {"choices": self.choices, "effective_choices": self.cost_certificate.choices}
        bound = None if self.certificate is None else to_json(self.certificate.bound)
        return {
            "difference": difference.as_dict() | {"bound": bound},
            "certificate": certificate,
            "effective_size": to_json(difference.effective_size),
            "mean_weight": to_json(difference.mean_weight),
            "unsupported": to_json(difference.support),
        }


@dataclass(frozen=True)
class Verdict:
    """One of ``VERDICTS``, a sentence with its numbers, advice on how to change the verdict, and cautions."""

    verdict: str
    sentence: str
    changes: list[str]
    cautions: list[str]


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
    baseline: Any = LOGGING,
) -> Comparison:
    """Compare a policy with the logging policy on rows that trained neither the policy nor the cost model.

    Parameters
    ----------
    policy : any policy that :func:`drcrm.off_policy_value` accepts
    log : BanditLog
    settings : ComparisonSettings, optional
    cost_model : optional
        See :func:`drcrm.certificates.policy_certificate`.
    logging_policy : ExponentialPolicy or SoftmaxPolicy, optional
        π0, if it is known and not estimated.
    groups : array (n,), optional
        Ids of independent groups of rows.
    baseline : any policy, or "logging"
        Policy to compare with in place of the logged costs. Its probabilities of all actions must be known for "dr".
    """
    policy, settings = policy_for_log(policy, log), settings or ComparisonSettings()
    has_mean = knows_all_actions(policy)
    settings = replace(settings, estimate=choose_estimate(policy, settings, cost_model))
    models = {"cost_model": cost_model, "logging_policy": logging_policy if has_mean else None, "groups": groups}
    with warnings.catch_warnings(action="ignore"):
        options = models | {"baseline": baseline, "confidence": settings.confidence, "shift": settings.shift}
        difference = off_policy_value(policy, log, settings.estimate, **options)
        certificate, refusal = certify_against(policy, log, settings, baseline, models)
        cost_certificate, cost_refusal = certify_against(policy, log, settings, None, models)
        lower_bound = bound_below(policy, log, settings, baseline, models)
    logging = float(log.count @ log.cost / log.size)
    return Comparison(
        difference,
        certificate,
        cost_certificate,
        cost_refusal or refusal,
        settings.choices,
        lower_bound,
        settings.reference,
        logging,
        settings.shift,
    )


def choose_estimate(policy: Any, settings: ComparisonSettings, cost_model: Any) -> str:
    """Return the estimate of the settings, or "snips" if it needs a cost model or probabilities that are unknown."""
    has_inputs = cost_model is not None and knows_all_actions(policy)
    return settings.estimate if has_inputs or not EVALUATIONS[settings.estimate].kind.uses_model else "snips"


def certify_against(
    policy: Any, log: BanditLog, settings: ComparisonSettings, baseline: Any, models: dict[str, Any]
) -> tuple[Certificate | None, str]:
    """Return a certificate and an empty string, or None and the reason why no certificate can be issued."""
    try:
        return policy_certificate(policy, log, baseline=baseline, **settings.certificate_options, **models), ""
    except InputError as error:
        return None, str(error)


@dataclass(frozen=True)
class _NegatedModel:
    """A cost model of the negated costs."""

    model: object

    def action_effects(self, X: Any, actions: Any) -> np.ndarray:
        """Return the negated effects of the model."""
        return -action_effects(self.model, X, actions)


def bound_below(
    policy: Any, log: BanditLog, settings: ComparisonSettings, baseline: Any, models: dict[str, Any]
) -> float:
    """Return a lower bound on the cost difference: minus the certificate of the negated costs, at level δ/(2K).

    The level is only half of δ/K because this bound depends on the long tail of the weighted costs, which few rows
    reach. Worst cases have no negation, so their bound is the end of an interval at the same level.
    """
    if settings.shift is not None:
        options = models | {"baseline": LOGGING, "confidence": 1 - (1 - settings.confidence) / settings.choices}
        low = off_policy_value(policy, log, settings.estimate, shift=settings.shift, **options).low
        return low if np.isfinite(low) else -np.inf
    model, costs = models["cost_model"], settings.cost_range
    negated = None if costs is None else (-costs[1], -costs[0])
    settings = replace(settings, effective_choices=2 * settings.divisor, cost_range=negated)
    models = models | {"cost_model": None if model is None else _NegatedModel(model)}
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
    has_model = settings.estimate == "dr" and cost_model is not None and knows_all_actions(policy_for_log(policy, log))
    confidence = 1 - (1 - settings.confidence) / settings.divisor
    estimate, model = ("dr", cost_model) if has_model else ("snips", None)
    return sensitivity(policy, log, settings.gamma or GAMMA, estimate, model, confidence, groups)


def describe_breakeven(sensitivity: Sensitivity | None) -> str:
    """Return a sentence on how wrong propensities may be; empty if this is unknown."""
    if sensitivity is None or np.isnan(sensitivity.breakeven):
        return ""
    factor = f"{np.floor(100 * sensitivity.breakeven) / 100:.3g}"
    return f" It stays better if every propensity's odds are off by a factor of at most {factor}."


def describe_shift(shift: float | None) -> list[str]:
    """Return a caution that explains comparisons at the radius κ; none without a radius."""
    if shift is None:
        return []
    share = percent(float(np.exp(-shift)), 1)
    return [
        f"Differences and certified bounds are of worst cases at a shift of {shift:g}. A worst case bounds the mean on "
        f"every subpopulation that makes up at least {share} of the traffic. The two policies can have different worst "
        "cases, so a policy with a better worst case is not better in every environment."
    ]


def untested(diagnosis: Diagnosis) -> str:
    """Return a sentence that restricts a claim if the propensities could not be tested, else an empty string."""
    return UNTESTED if any(check.name == "propensity audit" for check in diagnosis.diagnostics) else ""


def reach_verdict(
    comparison: Comparison,
    diagnosis: Diagnosis,
    *,
    label: str = "the policy",
    reward: bool = False,
    outcome: str = "",
) -> Verdict:
    """Return the verdict on a policy.

    =====================  ==================================================================================
    verdict                condition; the first one that holds decides
    =====================  ==================================================================================
    *the log is wrong*     A check of the propensity audit fails.
    *the log cannot say*   Another check fails, or no certificate can be issued.
    *better*               The upper bound on the cost difference, at level δ/K, is below 0.
    *worse*                The lower bound on the cost difference, at level δ/(2K), is above 0.
    *not shown*            None of these.
    =====================  ==================================================================================

    If ``reward`` is true, sentences describe rewards, which are negated costs. ``outcome`` is their name.
    """
    outcome = outcome or ("reward" if reward else "cost")
    unfounded = LIKELIHOOD_RATIO if INDEPENDENCE in diagnosis.failed else ""  # dependent rows predict each other
    failed = [check for check in diagnosis.diagnostics if check.level == "fail" and check.name != unfounded]
    failed.sort(key=lambda check: check.name != LEARNED)
    cautions = [f"{capitalize(check.sentence)}." for check in diagnosis.diagnostics if check.level == "caution"]
    for check in failed:
        if check.name.startswith(AUDIT):
            return Verdict("the log is wrong", f"{capitalize(check.sentence)}.", REPAIRS, cautions)
    certificate = comparison.certificate
    if failed or certificate is None or comparison.cost_certificate is None:
        reason = failed[0].sentence if failed else comparison.refusal
        sentence = f"It is unknown whether {label} is better than {comparison.reference}: {reason}."
        return Verdict("the log cannot say", sentence, _advise_logging(diagnosis), cautions)
    rounding = ROUNDING * max(map(abs, certificate.costs))
    is_better = certificate.bound < -rounding
    if is_better or comparison.lower_bound > rounding:
        bound = certificate.bound if is_better else comparison.lower_bound
        claim = _claim(comparison, is_better, bound, label, reward, outcome) + untested(diagnosis)
        return Verdict("better" if is_better else "worse", claim, [], cautions)
    sentence = _describe_difference(comparison, certificate.bound, label, reward, outcome)
    return Verdict("not shown", sentence, [_advise_rows(comparison, diagnosis.rows, reward)], cautions)


def describe_change(comparison: Comparison, label: str, reward: bool, outcome: str) -> str:
    """Return how a policy changes the outcome, in units of the outcome and in per cent.

    The change in per cent is left out unless the logging policy's mean outcome is positive.
    """
    sign = -1 if reward else 1
    change = f"changes {name_quantity(comparison, outcome)} by {sign * comparison.difference:+.4g} per row"
    relative = 100 * comparison.relative
    has_mean = comparison.reference == LOGGING_POLICY and comparison.shift is None
    if has_mean and sign * comparison.logging > 0 and abs(relative) < MAX_PERCENT:
        change += f", {relative:+.0f} %" if abs(relative) >= 10 else f", {relative:+.2g} %"
    return f"Compared with {comparison.reference}, {label} {change}"


def _claim(comparison: Comparison, is_better: bool, bound: float, label: str, reward: bool, outcome: str) -> str:
    """Return the sentence of the verdict "better" or "worse"."""
    sign, side = -1 if reward else 1, "at least" if reward == is_better else "at most"
    change = describe_change(comparison, label, reward, outcome)
    return f"{change}, and by {side} {sign * bound:+.4g} {_confidence(comparison)}."


def _describe_difference(comparison: Comparison, upper_bound: float, label: str, reward: bool, outcome: str) -> str:
    """Return the sentence of the verdict "not shown"."""
    sign = -1 if reward else 1
    ends = sorted(sign * end for end in (comparison.lower_bound, upper_bound))
    sides = [f"{side} {end:+.4g}" for side, end in zip(("above", "below"), ends, strict=True) if np.isfinite(end)]
    return (
        f"{describe_change(comparison, label, reward, outcome)}, by estimate. The change is {sides[0]} "
        f"{_confidence(comparison)}" + "".join(f", and {side} with the same confidence" for side in sides[1:]) + "."
    )


def name_quantity(comparison: Comparison, outcome: str) -> str:
    """Return the name of the compared quantity."""
    return outcome if comparison.shift is None else f"worst-case {outcome} under a shift of {comparison.shift:g}"


def _confidence(comparison: Comparison) -> str:
    adjusted = f", adjusted for {comparison.choices} candidates" if comparison.choices > 1 else ""
    return with_confidence(comparison.difference.confidence) + adjusted


def next_step(verdict: Verdict) -> str:
    """Return one sentence on what to do after a verdict."""
    is_open = verdict.verdict == "not shown"
    if is_open and not any(advice.startswith(MORE_ROWS) for advice in verdict.changes):
        return "Keep the logging policy, and try other features, rewards or algorithms."
    return NEXT_STEPS[verdict.verdict]


def _advise_rows(comparison: Comparison, rows: int, reward: bool = False) -> str:
    """Return advice on how many rows would show the difference, or the advice that more rows would not help.

    The difference is shrunk if the policy was chosen on these rows. Its standard deviation per row follows from the
    standard error, or from the width of the certificate's bound if this is wider than the normal bound.
    """
    difference, error = comparison.difference, comparison.difference.standard_error
    if not (difference < 0 and error > 0):
        return "Try another policy. This one does not look better, so more rows would not help."
    choices = comparison.certificate.choices if comparison.certificate is not None else comparison.choices
    look = OneLook(error * np.sqrt(rows), difference.confidence, choices)
    is_chosen = comparison.choices > 1
    expected = shrink_difference(float(difference), error) if is_chosen else float(difference)
    if comparison.certificate is not None:
        error = max(error, (comparison.certificate.bound - difference) / look.quantile)
    if expected == 0:
        return (
            f"{MORE_ROWS}. The estimated difference is smaller than its standard error, so the number of rows that "
            "would show it is unknown."
        )
    needed = replace(look, deviation=error * np.sqrt(rows)).required_size(-expected)
    if needed > MAX_ROWS:
        return "Try another policy. No number of rows that can be logged would show a difference this small."
    unit = 10 ** max(len(str(int(needed))) - 2, 0)
    rounded = int(-(-needed // unit)) * unit
    shrunk = f", the estimate shrunk because it is the best of {comparison.choices} candidates" if is_chosen else ""
    return (
        f"{MORE_ROWS}. If the difference is {(-1 if reward else 1) * expected:.3g}{shrunk}, "
        f"{100 * POWER:g} % of all logs with {format_rows(rounded)} rows for the evaluation show it. "
        f"That is {rounded / rows:.3g} times the {format_rows(rows)} rows of this evaluation."
    )


def format_rows(rows: int) -> str:
    """Return a number of rows with separated thousands."""
    return f"{rows:,}".replace(",", " ")


def _advise_logging(diagnosis: Diagnosis) -> list[str]:
    """Return advice on how to log data on which the failed checks would pass."""
    if LEARNED in diagnosis.failed:
        return [IDENTIFY]
    advice = [f"{ADVICE}."] if LEAKAGE in diagnosis.failed else []
    if advice and len(diagnosis.failed) == 1:
        return advice
    if "exploration" in diagnosis.failed:
        return [*advice, RANDOMISE]
    suspicious = {check.name for check in diagnosis.diagnostics if check.level != "good"}
    if "mean weight" in diagnosis.failed and UNSUPPORTED not in suspicious:
        return [*advice, REPAIRS[0], f"Or {EXPLORE}", f"Or {CLOSER}"]
    by_unsupported = sorted(diagnosis.actions, key=lambda entry: -(entry["unsupported"] or 0))[:MAX_ACTIONS]
    by_excess = sorted(diagnosis.actions, key=lambda entry: entry["logging"] - (entry["policy"] or 0))[:MAX_ACTIONS]
    unsupported = [
        f"{entry['action']} ({percent(entry['unsupported'], 1)} of the policy's choices)"
        for entry in by_unsupported
        if (entry["unsupported"] or 0) > MIN_SHARE
    ]
    rare = [
        f"{entry['action']} ({percent(entry['logging'], 1)} of the log, "
        f"{percent(entry['policy'], 1)} of the policy's choices)"
        for entry in by_excess
        if (entry["policy"] or 0) > entry["logging"] + MIN_SHARE
    ]
    if unsupported:
        advice.append(f"Explore actions that the policy takes but that are hardly logged: {', '.join(unsupported)}.")
    elif rare:
        advice.append(f"Log more of the actions that the policy takes more often: {', '.join(rare)}.")
    return [*advice, f"Or {CLOSER}" if advice else capitalize(CLOSER)]
