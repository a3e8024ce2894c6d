"""Sentences on a verdict: its reason, cautions and certificates. :mod:`.advice` says how to change it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtri

from drcrm.arrays.formats import (
    capitalize,
    decimals_for,
    format_count,
    format_level,
    format_number,
    percent,
    quote_label,
    with_confidence,
)
from drcrm.evaluation.bounds.asymptotic_bounds import POWER
from drcrm.evaluation.results import Sensitivity
from drcrm.logs.diagnostics.check import Consequence
from drcrm.logs.diagnostics.comparison.advice import (
    MORE_ROWS,
    NEXT_STEPS,
    OTHER_LOGGER,
    REPAIRS,
    TRY_OTHERS,
    advise_baseline,
    advise_logging,
    advise_rows,
)
from drcrm.logs.diagnostics.comparison.judged_constraints import describe_constraints
from drcrm.logs.diagnostics.comparison.policy_comparison import Comparison
from drcrm.logs.diagnostics.comparison.reference import LOGGING_POLICY
from drcrm.logs.diagnostics.comparison.verdict import BETTER, NOT_SHOWN, WORSE, WRONG, Evidence, Verdict
from drcrm.logs.diagnostics.diagnosis import Diagnosis

MAX_PERCENT = 1000  # larger changes are not stated in per cent
FEW_GROUPS = 30  # with fewer independent groups, normal approximations are poor
WAY_OF_LEARNING = "the way of learning"  # the label of policies that are learned before blocks
WRITTEN = {  # with blocks, by the mapping's ``deploy``
    "refit": " The policy in the file was fitted again to all rows; certify it on later rows.",
    "mixture": " The policy in the file is the mixture of these policies that the bound is about: it draws one of them "
    "for each decision.",
}
OWN_LOG = "The policy has the logged propensities: it probably logged these rows itself, and is compared with itself. "
ESTIMATED = "the estimated propensities are right"
UNTESTED = " This holds only if the propensities are right, which could not be tested."


@dataclass(frozen=True)
class Statement:
    """A verdict in words.

    Attributes
    ----------
    verdict : str
        One of ``VERDICTS``, or "certified" if the sentence states certificates.
    sentence : str
    changes : list of str
        Advice on how to change the verdict.
    cautions : list of str
    assumption : str
        An assumption of the verdict that no test can check; empty with logged propensities.
    next_step : str
    """

    verdict: str
    sentence: str
    changes: list[str]
    cautions: list[str]
    assumption: str = ""
    next_step: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the part "verdict" of an answer."""
        return {key: value for key, value in asdict(self).items() if key != "next_step"}


def state(verdict: Verdict, evidence: Evidence, assumption: str = "") -> Statement:
    """Return a verdict in words."""
    sentence, changes, helps = _explain(verdict, evidence)
    checks = sorted(evidence.diagnosis.diagnostics, key=lambda check: check.key != "repeated_contexts")  # users first
    cautions = [check.statement for check in checks if check.level == "caution"]
    step = TRY_OTHERS if verdict.name == NOT_SHOWN and not helps else NEXT_STEPS[verdict.name]
    if verdict.is_better and evidence.running is None:
        missing, of_missing = describe_missing(evidence.comparison, evidence.diagnosis.rows)
        sentence, cautions = sentence + describe_breakeven(evidence.sensitivity) + missing, [*cautions, *of_missing]
    if verdict.is_own_log:
        changes = [*OTHER_LOGGER, *(changes if verdict.name != NOT_SHOWN else [])]
        sentence, step = OWN_LOG + sentence, OTHER_LOGGER[0]
    step = step.replace(LOGGING_POLICY, evidence.reference)
    return Statement(verdict.name, sentence, changes, [*cautions, *_describe_shift(evidence.radius)], assumption, step)


def _explain(verdict: Verdict, evidence: Evidence) -> tuple[str, list[str], bool]:
    """Return a verdict's sentence, advice on how to change it, and whether more rows may change it."""
    if verdict.name == WRONG:
        return verdict.failed[0].statement, REPAIRS, False
    if not verdict.has_bounds:
        return _explain_refusal(verdict, evidence)
    if verdict.direction == NOT_SHOWN:
        return _explain_open(evidence)
    claim = _claim(evidence, verdict.direction == BETTER) + untested(evidence.diagnosis)
    if verdict.direction == WORSE:
        return claim, [], False
    advice = [part.advise() for part in verdict.unmet]
    sentence = claim + describe_constraints(verdict.constraints, evidence.confidence)
    return sentence, [text for text, _ in advice], any(helps for _, helps in advice)


def _explain_refusal(verdict: Verdict, evidence: Evidence) -> tuple[str, list[str], bool]:
    """Return the sentence of a verdict without bounds, advice, and whether more rows may change it."""
    cause = verdict.failed[0] if verdict.failed else None
    reason, advice = cause.sentence if cause else str(verdict.refusal), []
    units = evidence.comparison.difference
    if units.by == "group" and units.n < FEW_GROUPS:
        reason += f". The rows that judge it have {units.n} independent groups, and bounds need about {FEW_GROUPS}"
        advice = ["Log more groups: further rows of the same groups hardly help."]
    sentence = f"It is unknown whether {evidence.label} is better than {evidence.reference}: {reason}."
    if verdict.lacks_rows:
        rows = f"{MORE_ROWS}: the logging policy takes every action of the policy, but some of them rarely."
        return sentence, [*advice, rows], True
    remedies = [] if verdict.failed else [*evidence.remedies] or advise_baseline(evidence.comparison)
    return sentence, [*advice, *(remedies or advise_logging(evidence.diagnosis, cause))], False


def _explain_open(evidence: Evidence) -> tuple[str, list[str], bool]:
    """Return the sentence of the verdict "not shown" by bounds, advice, and whether more rows may change it."""
    if evidence.running is not None:
        helps = evidence.running["difference"] < 0
        return "", [f"{MORE_ROWS}, and look again: the bounds hold at every look."] if helps else [], helps
    comparison, sign = evidence.comparison, evidence.units.sign
    ends = sorted(sign * end for end in (comparison.lower_bound, comparison.certificate.bound))
    pairs = [pair for pair in zip(("above", "below"), ends, strict=True) if np.isfinite(pair[1])]
    sides = [f"{side} {comparison.format(end)}" for side, end in pairs]
    sentence = (
        f"{describe_change(evidence, has_intervals=False)}, by estimate. The change is {sides[0]} "
        f"{_confidence(comparison)}" + "".join(f", and {side} with the same confidence" for side in sides[1:]) + "."
    ) + describe_week(evidence, pairs)
    advice, helps = advise_rows(comparison, evidence.diagnosis.rows, sign)
    return sentence, [advice], helps


def state_certificates(
    verdict: Verdict, evidence: Evidence, statement: Statement, every_look: Mapping[str, float] | None = None
) -> Statement:
    """Return the statement "certified" with the bounds on the cost and on its difference, and when they hold.

    Without bounds, return the ``statement`` of the verdict, which has the reason. ``every_look`` has bounds that hold
    at every look, if those of the verdict hold at one look.
    """
    running, comparison = evidence.running, evidence.comparison
    if not verdict.has_bounds:
        return statement
    if running is not None:
        cost, difference = running["bound"], running["difference_bound"]
        first, unit_name = running["first_better"], "rows" if running["by"] == "row" else "groups"
        since = f" The policy was first shown to be better after row {first}." if first else ""
        about, reason = ("approximately ", ": the bounds are asymptotic") if running["asymptotic"] else ("", "")
        holds = (
            f"Each bound, together with those after fewer {unit_name}, holds {about}"
            f"{with_confidence(evidence.confidence)}{reason}.{since}"
        )
    else:
        cost, difference = comparison.cost_certificate.bound, comparison.certificate.bound
        holds = f"Each bound holds {with_confidence(evidence.confidence)}."
        if verdict.is_better and evidence.radius is None:
            missing, _ = describe_missing(comparison, evidence.diagnosis.rows)
            holds += describe_breakeven(evidence.sensitivity) + missing
    units, sign, change = evidence.units, evidence.units.sign, describe_change(replace(evidence, label="the policy"))
    policy_bound = f"{units.side} {comparison.format(sign * cost, sign=False)}"
    limit = f"{units.side} {comparison.format(sign * difference)}"
    if every_look is not None:
        later = f"{units.side} {comparison.format(sign * every_look['difference'])}"
        limit = f"{limit} (now, asymptotic) and {later} (at every look, without assumptions on tails)"
    bounds = (
        f"{change}. The policy's mean {evidence.quantity} is {policy_bound} per row. The change from "
        f"{evidence.reference} is {limit}.{describe_week(evidence)} {holds}"
    )
    constraints = describe_constraints(verdict.constraints, evidence.confidence) + untested(evidence.diagnosis)
    of_own_log = OWN_LOG if verdict.is_own_log else ""
    return replace(statement, verdict="certified", sentence=of_own_log + bounds + constraints)


def describe_change(evidence: Evidence, has_intervals: bool = True) -> str:
    """Return how a policy changes the outcome, in units of the outcome and in per cent.

    With intervals, the estimates are corrected for the choice among several candidates. The change in per cent is left
    out unless the logging policy's mean outcome is positive.
    """
    comparison, sign = evidence.comparison, evidence.units.sign
    mean = comparison.reference
    change = comparison.corrected if has_intervals else {"value": float(comparison.difference)}
    amount, start = sign * change["value"] + 0.0, f"{format_level(evidence.confidence)} interval "
    interval = _describe_interval(change, sign, comparison.format, start)
    text = f"changes {evidence.quantity} by {comparison.format(amount)} per row{interval}"
    has_mean = not comparison.settings.reference.is_baseline and evidence.radius is None and sign * mean > 0
    share = amount / abs(mean) if mean else np.inf
    if has_mean and 100 * abs(share) < MAX_PERCENT:
        form = partial(percent, decimals=decimals_for([], [1000 * share]), sign=True)
        interval = _describe_interval(comparison.relative if has_intervals else {}, sign, form)
        text += f", or {form(share)}{interval}"
    return f"Compared with {evidence.reference}, {quote_label(evidence.label)} {text}"


def _describe_interval(estimate: Mapping[str, float], sign: int, form: Callable[[float], str], start: str = "") -> str:
    """Return the interval of an estimate in brackets, in the direction of the outcome; empty if it has none."""
    low, high = sorted(sign * estimate.get(key, np.nan) for key in ("low", "high"))
    return f" ({start}{form(low)} to {form(high)})" if np.isfinite([low, high]).all() else ""


def _claim(evidence: Evidence, is_better: bool) -> str:
    """Return the sentence of bounds that show a policy to be better, or worse."""
    comparison, units = evidence.comparison, evidence.units
    if evidence.running is not None:
        return ""
    bound, side = comparison.certificate.bound, units.side
    if not is_better:
        bound, side = comparison.lower_bound, units.other_side
    if comparison.settings.blocks is not None:
        return _claim_in_blocks(evidence, bound, side, is_better) + describe_week(evidence)
    choices, limit = comparison.settings.choices, f"{side} {comparison.format(units.sign * bound)}"
    adjusted = f" All these numbers are adjusted for the choice among {choices} candidates." if choices > 1 else ""
    certainty, change = capitalize(with_confidence(evidence.confidence)), describe_change(evidence)
    return f"{change}. {certainty}, the change is {limit} (one-sided).{adjusted}{describe_week(evidence)}"


def _claim_in_blocks(evidence: Evidence, bound: float, side: str, is_better: bool) -> str:
    """Return the sentence of bounds that show a way of learning to be better, or worse."""
    sign = evidence.units.sign
    change, end = (evidence.comparison.format(sign * value) for value in (evidence.comparison.difference, bound))
    than = "" if evidence.reference == LOGGING_POLICY else f" than {evidence.reference}"
    return (
        f"{capitalize(WAY_OF_LEARNING)} is shown to be {'better' if is_better else 'worse'}{than}: policies learned on "
        f"the rows before changed {evidence.quantity} by {change} per row on the rows after ({side} {end}, "
        f"{_confidence(evidence.comparison)})."
    )


def describe_week(evidence: Evidence, bounds: Sequence[tuple[str, float]] = ()) -> str:
    """Return a sentence on the change per week: on its ``bounds`` per row, or without them on its estimate.

    It is empty without times, and for worst cases around the environment.
    """
    rows = evidence.rows_per_week
    if rows is None or evidence.radius is not None:
        return ""
    show, end = partial(evidence.comparison.format, rows=rows), ""
    if bounds:
        amounts = " and ".join(f"{side} {show(rows * bound)}" for side, bound in bounds)
    else:
        part = evidence.gain(rows)["outcome"]
        amounts, bound = show(part["value"]), part["bound"]
        end = _describe_interval({key: value for key, value in part.items() if value is not None}, 1, show)
        end += "" if bound is None else f", and {evidence.units.side} {show(bound)}"
    week = f"{format_count(rows)} rows per week, as in this log"
    return f" At {week}, that is {amounts} {evidence.units.name} per week{end}."


def _confidence(comparison: Comparison) -> str:
    adjusted = f", adjusted for {comparison.settings.choices} candidates" if comparison.settings.choices > 1 else ""
    return with_confidence(comparison.difference.confidence) + adjusted


def describe_breakeven(sensitivity: Sensitivity | None) -> str:
    """Return a sentence on how wrong propensities may be; empty if this is unknown."""
    if sensitivity is None or np.isnan(sensitivity.breakeven):
        return ""
    factor = format_number(np.floor(100 * sensitivity.breakeven) / 100)
    return f" It stays better if every propensity's odds are off by a factor of at most {factor}."


def describe_missing(comparison: Comparison, rows: int) -> tuple[str, list[str]]:
    """Return a sentence on m*, the share of the policy's actions that π0 may never take, and cautions.

    The caution says that m* is below the smallest share that the mean weight shows in 80 % of all logs: the standard
    error of the mean weight, times the sum of the normal quantiles of the test and of the power. Nothing is
    returned if the mapping says that the log has every action.
    """
    share, certificate = comparison.missing_share, comparison.certificate
    if certificate is None or not share > 0 or comparison.settings.full_support:
        return "", []
    per_row = max(1 / certificate.effective_size - 1 / rows, 0.0)
    error = certificate.mean_weight * np.sqrt(per_row * rows / certificate.n)
    detectable = error * (ndtri(comparison.settings.confidence) + ndtri(POWER))
    least = percent(np.floor(1000 * share) / 1000, 1)
    sentence = f" It also stays better if the logging policy never takes up to {least} of the policy's actions."
    if detectable <= share:
        return sentence, []
    return sentence, [
        f"If the logging policy never takes some of the policy's actions, the weights of this log show it only from "
        f"{percent(detectable, 1)} of the policy's actions on, but {least} can undo the result. If it can take every "
        "action in every context, state its smallest probability as least_propensity in the mapping."
    ]


def _describe_shift(radius: float | None) -> list[str]:
    """Return a caution that explains comparisons at the radius κ; none without a radius."""
    if radius is None:
        return []
    share = percent(float(np.exp(-radius)), 1)
    return [
        f"Differences and certified bounds are of worst cases at a shift of {format_number(radius)}. A worst case "
        f"bounds the mean on every subpopulation that makes up at least {share} of the traffic. The two policies can "
        "have different worst cases, so a policy with a better worst case is not better in every environment."
    ]


def untested(diagnosis: Diagnosis) -> str:
    """Return a sentence that restricts a claim if the propensities could not be tested, else an empty string."""
    return UNTESTED if any(check.consequence is Consequence.UNTESTED for check in diagnosis.diagnostics) else ""
