"""Advice on what would change a verdict, and what to do next."""

from __future__ import annotations

import numpy as np

from drcrm.arrays.formats import capitalize, format_count, format_number, percent
from drcrm.evaluation.bounds.asymptotic_bounds import POWER, bound_quantile, required_size, shrink_difference
from drcrm.logs.diagnostics.check import Check, Consequence
from drcrm.logs.diagnostics.comparison.policy_comparison import Comparison
from drcrm.logs.diagnostics.comparison.verdict import ROUNDING, WRONG_LOG
from drcrm.logs.diagnostics.diagnosis import Diagnosis
from drcrm.logs.diagnostics.leakage import ADVICE
from drcrm.logs.diagnostics.repeated_rows import IDENTIFY

MAX_ROWS = 1e12  # largest number of required rows that the advice states
MAX_ACTIONS = 3  # number of actions that the advice names
MIN_SHARE = 1e-3  # the advice names an action only if more than this share of the policy's choices is affected
RANDOMISE = "Randomise some decisions, for example 5 %, and log their propensities."
REPAIRS = [
    "Correct the propensities: each must be the probability with which the action of its row was drawn.",
    "Or leave the propensities out and set propensity_model: auto. It estimates propensities of logged actions.",
]
RETEST = "Then check the propensities again: the audit fails too, perhaps because of the leak."
CLOSER = "evaluate a policy that is closer to the logging policy."
LOG_PROPENSITIES = "Log the propensities, or add the features by which the logging policy chooses."
TAKE_ALL = "Or let the logging policy take every action of the policy in every context, if it does not."
OTHER_LOGGER = [
    "Compare it with the policy that ran before: --baseline EARLIER.npz.",
    "Or certify it on rows that the earlier policy logged, and that neither trained nor chose it.",
]
NEXT_STEPS = {
    "better": "Deploy the policy, log its actions with their propensities, and certify it on the new rows.",
    "not shown": "Keep the logging policy, log more rows, and certify the candidate on them.",
    "worse": "Keep the logging policy.",
    "the log cannot say": "Keep the logging policy, change the log as advised, and judge the policy again.",
    "the log is wrong": "Correct the propensities, and judge the policy again.",
}
TRY_OTHERS = "Keep the logging policy, and try other features, rewards or algorithms."
MORE_ROWS = "Log more rows"  # the start of advice
# Advice by the consequence of a failed check. REPAIRS are for wrong propensities, and more rows of some actions for the
# others: OVERLAP, FEW_ROWS.
BY_CONSEQUENCE = {
    Consequence.LEARNED_ROWS: [IDENTIFY],
    Consequence.DEPENDENT_ROWS: [
        "Set `group:` to the column of user ids, if users have several rows; otherwise the propensities are too small."
    ],
    Consequence.LEAK: [f"{ADVICE}."],
    Consequence.DETERMINISTIC: [RANDOMISE],
    Consequence.UNBALANCED: [LOG_PROPENSITIES, f"Or {CLOSER}"],
    Consequence.OVERESTIMATED: [LOG_PROPENSITIES, TAKE_ALL, f"Or {CLOSER}"],
    Consequence.MISSING_ACTIONS: [REPAIRS[0], TAKE_ALL, f"Or {CLOSER}"],
    Consequence.LOST_GAIN: [
        "Learn the policy again, from recent rows.",
        "Or judge it on later rows only, to see whether it still gains.",
    ],
}
TRY_POLICY = "Try another policy. This one does not look better, so more rows would not help."
TOO_SMALL = "Try another policy. No number of rows that can be logged would show a difference this small."


def advise_rows(comparison: Comparison, rows: int, sign: int = 1) -> tuple[str, bool]:
    """Return advice on how many rows would show the difference, and whether more rows may help.

    ``sign`` is that of the outcome. The difference is shrunk if the policy was chosen on these rows. Its standard
    deviation per row follows from the standard error, or from the width of the certificate's bound if this is wider
    than the normal bound.
    """
    difference, error, certificate = comparison.difference, comparison.difference.standard_error, comparison.certificate
    rounding = 0.0 if certificate is None else ROUNDING * max(map(abs, certificate.costs))
    if not (difference < -rounding and error > 0):
        return TRY_POLICY, False
    confidence, divisor = difference.confidence, comparison.settings.divisor
    is_chosen = comparison.settings.choices > 1
    expected = shrink_difference(float(difference), error) if is_chosen else float(difference)
    if certificate is not None:
        error = max(error, (certificate.bound - difference) / bound_quantile(confidence, divisor))
    if expected == 0:
        return (
            f"{MORE_ROWS}. The estimated difference is smaller than its standard error, so the number of rows that "
            "would show it is unknown."
        ), True
    deviation = error * np.sqrt(rows)
    needed = required_size(-expected, deviation, confidence, divisor)
    if needed > MAX_ROWS:
        return TOO_SMALL, False
    rounded, alone = _round_up(needed), _round_up(required_size(-expected, deviation, confidence))
    shrunk = (
        f", the estimate shrunk because it is the best of {comparison.settings.choices} candidates" if is_chosen else ""
    )
    return (
        f"{MORE_ROWS}. If the difference is {comparison.format(sign * expected)}{shrunk}, "
        f"{100 * POWER:g} % of all logs with {format_count(rounded)} rows for the evaluation show it. "
        f"That is {format_number(rounded / rows)} times the {format_count(rows)} rows of this evaluation."
        + (f" To certify this one candidate takes {format_count(alone)} new rows." if is_chosen else "")
    ), True


def _round_up(rows: float) -> int:
    """Return a number of rows, rounded up to two digits."""
    unit = 10 ** max(len(str(int(rows))) - 2, 0)
    return int(-(-rows // unit)) * unit


def advise_baseline(comparison: Comparison) -> list[str]:
    """Return advice if a log has fewer effective rows of the baseline than of the policy; none without a baseline."""
    if not comparison.settings.reference.is_baseline:
        return []
    size, of_policy = comparison.evaluation.of_baseline.value().effective_size, comparison.difference.effective_size
    if not size < of_policy:
        return []
    name = comparison.settings.reference.name
    return [
        f"The log says little about {name}: its effective sample size is {format_count(size)}, that of the policy "
        f"{format_count(of_policy)}. Let {name} decide in a share of the rows, or raise explore in the mapping of the "
        "policy that runs."
    ]


def advise_logging(diagnosis: Diagnosis, cause: Check | None) -> list[str]:
    """Return advice on how to log data on which a failed check would pass; None if no check failed."""
    consequence = Consequence.NONE if cause is None else cause.consequence
    lacks_support = any(
        check.consequence is Consequence.OVERLAP and check.level != "good" for check in diagnosis.diagnostics
    )
    if consequence is Consequence.MISSING_ACTIONS and lacks_support:
        consequence = Consequence.OVERLAP  # unsupported actions explain it
    if advice := BY_CONSEQUENCE.get(consequence):
        is_accused = any(check.consequence in WRONG_LOG for check in diagnosis.failed)
        return [*advice, *([RETEST] if consequence is Consequence.LEAK and is_accused else [])]
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
