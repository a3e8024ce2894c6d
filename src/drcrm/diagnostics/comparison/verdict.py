"""Reach one of five verdicts on a policy from its comparison with the logging policy, in sentences and advice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from drcrm.diagnostics.comparison.policy_comparison import BASELINE, Comparison
from drcrm.diagnostics.diagnosis import Diagnosis
from drcrm.diagnostics.diagnostic import capitalize, percent, with_confidence
from drcrm.diagnostics.estimated_propensities import BALANCE
from drcrm.diagnostics.leakage import ADVICE, LEAKAGE
from drcrm.diagnostics.propensity_audit import LIKELIHOOD_RATIO
from drcrm.diagnostics.repeated_rows.independence import NAME as INDEPENDENCE
from drcrm.diagnostics.repeated_rows.row_checks import IDENTIFY, LEARNED
from drcrm.evaluation.bounds.sample_size import POWER, bound_quantile, required_size, shrink_difference
from drcrm.evaluation.sensitivity import Sensitivity

VERDICTS = "better", "not shown", "worse", "the log cannot say", "the log is wrong"
AUDIT = "propensit"  # start of the names of checks whose failure gives "the log is wrong"
MAX_ROWS = 1e12  # largest number of required rows that the advice states
MAX_ACTIONS = 3  # number of actions that the advice names
MAX_PERCENT = 1000  # larger changes are not stated in per cent
MIN_SHARE = 1e-3  # the advice names an action only if more than this share of the policy's choices is affected
ROUNDING = 1e-12  # relative to the largest cost
RANDOMISE = "Randomise some decisions, for example 5 %, and log their propensities."
REPAIRS = [
    "Correct the propensities: each must be the probability with which the action of its row was drawn.",
    "Or leave the propensities out and set propensity_model: auto. It estimates propensities of logged actions.",
]
RETEST = "Then check the propensities again: the audit fails too, perhaps because of the leak."
EXPLORE = "let the logging policy take every action of the policy in every context, if it does not."
MEASURE = "Log the propensities, or add the features by which the logging policy chooses."
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
# Checks that fail only because few rows have most of the weight, if the log is known to have every action.
IMPRECISE = {"effective sample size", "largest share of one row", "largest share of weighted costs"}
FEW_GROUPS = 30  # with fewer independent groups, normal approximations are poor
ESTIMATED = "the estimated propensities are right"
UNTESTED = " This holds only if the propensities are right, which could not be tested."


@dataclass(frozen=True)
class Verdict:
    """One of ``VERDICTS``, a sentence with its numbers, advice on how to change the verdict, and cautions.

    ``assumption`` is what the verdict assumes and nobody can test; empty with logged propensities.
    """

    verdict: str
    sentence: str
    changes: list[str]
    cautions: list[str]
    assumption: str = ""


def describe_breakeven(sensitivity: Sensitivity | None) -> str:
    """Return a sentence on how wrong propensities may be; empty if this is unknown."""
    if sensitivity is None or np.isnan(sensitivity.breakeven):
        return ""
    factor = f"{np.floor(100 * sensitivity.breakeven) / 100:.3g}"
    return f" It stays better if every propensity's odds are off by a factor of at most {factor}."


def describe_missing(comparison: Comparison, rows: int) -> tuple[str, list[str]]:
    """Return a sentence on m*, the share of the policy's actions that the log may lack, and cautions.

    The caution says that m* is below the share that the mean weight shows in 80 % of all logs: the standard error of
    the mean weight, times the sum of the normal quantiles of the test and of the power. Nothing is returned if the
    mapping says that the log has every action.
    """
    share, certificate = comparison.missing_share, comparison.certificate
    if certificate is None or not share > 0 or comparison.settings.full_support:
        return "", []
    per_row = max(1 / certificate.effective_size - 1 / rows, 0.0)
    error = certificate.mean_weight * np.sqrt(per_row * rows / certificate.n)
    shown = error * (ndtri(comparison.settings.confidence) + ndtri(POWER))
    least = percent(np.floor(1000 * share) / 1000, 1)
    sentence = f" It also stays better if the log lacks at most {least} of the policy's actions."
    if shown <= share:
        return sentence, []
    return sentence, [
        f"The weights of this log would show missing actions only if these are at least {percent(shown, 1)} of the "
        f"policy's actions, but {least} can undo the result. If the logging policy can take every action "
        "in every context, state its smallest probability as least_propensity in the mapping."
    ]


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
    *the log is wrong*     The propensity audit fails; dependent rows or a leak do not explain it.
    *the log cannot say*   Another check fails, or no certificate can be issued.
    *better*               The upper bound on the cost difference, at level δ/K, is below 0.
    *worse*                The lower bound on the cost difference, at level δ/(2K), is above 0.
    *not shown*            None of these.
    =====================  ==================================================================================

    If the logging policy is known to take every action, and only checks in ``IMPRECISE`` fail, more rows would make
    them pass. The verdict is then *not shown*, without bounds, and advises more rows.

    If ``reward`` is true, sentences describe rewards, which are negated costs. ``outcome`` is their name.
    """
    outcome = outcome or ("reward" if reward else "cost")
    unfounded: str | tuple[()] = ()  # start of the names of checks whose failure is no evidence of wrong propensities
    if LEAKAGE in diagnosis.failed:
        unfounded = AUDIT  # a reward among the features predicts the actions
    elif INDEPENDENCE in diagnosis.failed:
        unfounded = LIKELIHOOD_RATIO  # dependent rows predict each other
    failed = [
        check for check in diagnosis.diagnostics if check.level == "fail" and not check.name.startswith(unfounded)
    ]
    failed.sort(key=lambda check: check.name not in (LEARNED, LEAKAGE))
    cautions = [f"{capitalize(check.sentence)}." for check in diagnosis.diagnostics if check.level == "caution"]
    for check in failed:
        if check.name.startswith(AUDIT):
            return Verdict("the log is wrong", f"{capitalize(check.sentence)}.", REPAIRS, cautions)
    certificate = comparison.certificate
    if failed or certificate is None or comparison.cost_certificate is None:
        reason, advice = failed[0].sentence if failed else comparison.refusal, []
        units = comparison.difference
        if units.by == "group" and units.n < FEW_GROUPS:
            reason += f". The rows that judge it have {units.n} independent groups, and bounds need about {FEW_GROUPS}"
            advice = ["Log more groups: further rows of the same groups hardly help."]
        sentence = f"It is unknown whether {label} is better than {comparison.settings.reference}: {reason}."
        if failed and comparison.settings.full_support and {check.name for check in failed} <= IMPRECISE:
            rows = f"{MORE_ROWS}: the logging policy takes every action of the policy, but some of them rarely."
            return Verdict("not shown", sentence, [*advice, rows], cautions)
        return Verdict("the log cannot say", sentence, [*advice, *_advise_logging(diagnosis)], cautions)
    rounding = ROUNDING * max(map(abs, certificate.costs))
    is_better = certificate.bound < -rounding
    if is_better or comparison.lower_bound > rounding:
        bound = certificate.bound if is_better else comparison.lower_bound
        claim = _claim(comparison, is_better, bound, label, reward, outcome) + untested(diagnosis)
        return Verdict("better" if is_better else "worse", claim, [], cautions)
    sentence = _describe_difference(comparison, certificate.bound, label, reward, outcome)
    return Verdict("not shown", sentence, [_advise_rows(comparison, diagnosis.rows, reward, rounding)], cautions)


def describe_change(comparison: Comparison, label: str, reward: bool, outcome: str, has_intervals: bool = True) -> str:
    """Return how a policy changes the outcome, in units of the outcome and in per cent.

    With intervals, the estimates are corrected for the choice among several candidates. The change in per cent is left
    out unless the logging policy's mean outcome is positive.
    """
    sign, choices = -1 if reward else 1, comparison.settings.choices
    shown = comparison.corrected if has_intervals else {"value": float(comparison.difference)}
    amount, start = sign * shown["value"], f"{100 * comparison.settings.confidence:g} % interval "
    end = f", corrected for the choice among {choices} candidates" if choices > 1 else ""
    interval = _describe_interval(shown, sign, "{:+.4g}".format, start, end)
    text = f"changes {name_quantity(comparison, outcome)} by {amount:+.4g} per row{interval}"
    has_mean = not comparison.settings.reference.startswith(BASELINE) and comparison.settings.shift is None
    share = amount / abs(comparison.reference) if comparison.reference else np.inf
    if has_mean and sign * comparison.reference > 0 and 100 * abs(share) < MAX_PERCENT:
        form = ("{:+.0f} %" if abs(share) >= 0.1 else "{:+.2g} %").format
        interval = _describe_interval(comparison.relative if has_intervals else {}, 100 * sign, form)
        text += f", {form(100 * share)}{interval}"
    return f"Compared with {comparison.settings.reference}, {label} {text}"


def _describe_interval(
    estimate: Mapping[str, float], sign: int, form: Callable[[float], str], start: str = "", end: str = ""
) -> str:
    """Return the interval of an estimate in brackets, in the direction of the outcome; empty if it has none."""
    low, high = sorted(sign * estimate.get(key, np.nan) for key in ("low", "high"))
    return f" ({start}{form(low)} to {form(high)}{end})" if np.isfinite([low, high]).all() else ""


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
    change = describe_change(comparison, label, reward, outcome, has_intervals=False)
    return (
        f"{change}, by estimate. The change is {sides[0]} "
        f"{_confidence(comparison)}" + "".join(f", and {side} with the same confidence" for side in sides[1:]) + "."
    )


def name_quantity(comparison: Comparison, outcome: str) -> str:
    """Return the name of the compared quantity."""
    return (
        outcome
        if comparison.settings.shift is None
        else f"worst-case {outcome} under a shift of {comparison.settings.shift:g}"
    )


def _confidence(comparison: Comparison) -> str:
    adjusted = f", adjusted for {comparison.settings.choices} candidates" if comparison.settings.choices > 1 else ""
    return with_confidence(comparison.difference.confidence) + adjusted


def next_step(verdict: Verdict) -> str:
    """Return one sentence on what to do after a verdict."""
    is_open = verdict.verdict == "not shown"
    if is_open and not any(advice.startswith(MORE_ROWS) for advice in verdict.changes):
        return "Keep the logging policy, and try other features, rewards or algorithms."
    return NEXT_STEPS[verdict.verdict]


def _advise_rows(comparison: Comparison, rows: int, reward: bool = False, rounding: float = 0.0) -> str:
    """Return advice on how many rows would show the difference, or the advice that more rows would not help.

    The difference is shrunk if the policy was chosen on these rows. Its standard deviation per row follows from the
    standard error, or from the width of the certificate's bound if this is wider than the normal bound.
    """
    difference, error = comparison.difference, comparison.difference.standard_error
    if not (difference < -rounding and error > 0):
        return "Try another policy. This one does not look better, so more rows would not help."
    confidence, divisor = difference.confidence, comparison.settings.divisor
    is_chosen = comparison.settings.choices > 1
    expected = shrink_difference(float(difference), error) if is_chosen else float(difference)
    if comparison.certificate is not None:
        error = max(error, (comparison.certificate.bound - difference) / bound_quantile(confidence, divisor))
    if expected == 0:
        return (
            f"{MORE_ROWS}. The estimated difference is smaller than its standard error, so the number of rows that "
            "would show it is unknown."
        )
    deviation = error * np.sqrt(rows)
    needed = required_size(-expected, deviation, confidence, divisor)
    if needed > MAX_ROWS:
        return "Try another policy. No number of rows that can be logged would show a difference this small."
    rounded, alone = _round_up(needed), _round_up(required_size(-expected, deviation, confidence))
    shrunk = (
        f", the estimate shrunk because it is the best of {comparison.settings.choices} candidates" if is_chosen else ""
    )
    return (
        f"{MORE_ROWS}. If the difference is {(-1 if reward else 1) * expected:.3g}{shrunk}, "
        f"{100 * POWER:g} % of all logs with {format_rows(rounded)} rows for the evaluation show it. "
        f"That is {rounded / rows:.3g} times the {format_rows(rows)} rows of this evaluation."
        + (f" To certify this one candidate takes {format_rows(alone)} new rows." if is_chosen else "")
    )


def _round_up(rows: float) -> int:
    """Return a number of rows, rounded up to two digits."""
    unit = 10 ** max(len(str(int(rows))) - 2, 0)
    return int(-(-rows // unit)) * unit


def format_rows(rows: int) -> str:
    """Return a number of rows with separated thousands."""
    return f"{rows:,}".replace(",", " ")


def _advise_logging(diagnosis: Diagnosis) -> list[str]:
    """Return advice on how to log data on which the failed checks would pass."""
    if LEARNED in diagnosis.failed:
        return [IDENTIFY]
    if LEAKAGE in diagnosis.failed:
        return [f"{ADVICE}.", *([RETEST] if any(name.startswith(AUDIT) for name in diagnosis.failed) else [])]
    if "exploration" in diagnosis.failed:
        return [RANDOMISE]
    if BALANCE in diagnosis.failed:
        return [MEASURE, f"Or {CLOSER}"]
    suspicious = {check.name for check in diagnosis.diagnostics if check.level != "good"}
    if "mean weight" in diagnosis.failed and UNSUPPORTED not in suspicious:
        return [REPAIRS[0], f"Or {EXPLORE}", f"Or {CLOSER}"]
    actions = diagnosis.tables["actions"]
    by_unsupported = sorted(actions, key=lambda entry: -(entry["unsupported"] or 0))[:MAX_ACTIONS]
    by_excess = sorted(actions, key=lambda entry: entry["logging"] - (entry["policy"] or 0))[:MAX_ACTIONS]
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
        advice = f"Explore actions that the policy takes but that are hardly logged: {', '.join(unsupported)}."
    elif rare:
        advice = f"Log more of the actions that the policy takes more often: {', '.join(rare)}."
    else:
        return [capitalize(CLOSER)]
    return [advice, f"Or {CLOSER}"]
