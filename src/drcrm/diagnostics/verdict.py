"""Compare a policy with the logging policy, and reach one of five verdicts."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass

import numpy as np
from scipy.special import stdtrit

from drcrm.certificates.intervals import PolicyValue
from drcrm.certificates.off_policy_value import off_policy_value
from drcrm.certificates.policy_certificate import LOGGING, Certificate, policy_certificate
from drcrm.cost_models.ridge_model import action_effects
from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.diagnosis import Diagnosis
from drcrm.diagnostics.diagnostic import capitalize, to_json_number
from drcrm.diagnostics.leakage import ADVICE
from drcrm.diagnostics.leakage import NAME as LEAKAGE
from drcrm.errors import InputError
from drcrm.policies.tabular import policy_for_log

VERDICTS = "better", "not shown", "worse", "the log cannot say", "the log is wrong"
WITHOUT_CERTIFICATE = VERDICTS[3:]
AUDIT = "propensit"  # start of the names of the audit's diagnostics
MOST_ROWS = 1e12  # that are worth naming
NAMED = 3  # actions to explore, at most
ROUNDING = 1e-9  # of the largest cost
RANDOMISE = "Randomise some decisions, for example 5%, and log their propensities."
REPAIRS = [
    "Correct the propensities: each is the probability of the action in its own row, at the time when it was drawn.",
    "Or leave the propensities out: propensity_model: softmax estimates them, but not of actions never logged.",
]
UNTESTED = " That is so if the propensities are right, which could not be tested."
RARE = 1e-3  # of the policy's choices, below which no action is named


@dataclass(frozen=True)
class Comparison:
    """A policy compared with the logging policy on the same rows.

    Attributes
    ----------
    difference : PolicyValue
        The policy's cost less that of the logging policy, by paired differences; below 0 it is better.
    certificate, own : Certificate or None
        Of that difference, and of the policy's own cost; None where they are refused.
    refused : str
        Why.
    choices : int
        How many policies were compared on the same rows: each at level δ/K.
    least : float
        The lower bound of the difference, at level δ/2K, by the certificate of negated costs; −∞ where it is refused.
    """

    difference: PolicyValue
    certificate: Certificate | None
    own: Certificate | None
    refused: str
    choices: int
    least: float

    def as_dict(self) -> dict[str, object]:
        """Return difference, certificate, effective size, mean weight and unsupported, as they go into JSON."""
        bound = None if self.certificate is None else to_json_number(self.certificate.bound)
        own = {"refused": self.refused} if self.own is None else _said(self.own)
        found = self.difference
        return {
            "difference": found.as_dict() | {"bound": bound},
            "certificate": own,
            "effective_size": to_json_number(found.effective_size),
            "mean_weight": to_json_number(found.mean_weight),
            "unsupported": to_json_number(found.support),
        }


@dataclass(frozen=True)
class Verdict:
    """One of ``VERDICTS``, in a sentence with its numbers; what would change it, and what casts doubt on it."""

    verdict: str
    sentence: str
    changes: list[str]
    cautions: list[str]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def estimate_values(
    policy, log: BanditLog, *, cost_model=None, clip="auto", groups=None, confidence=0.95
) -> dict[str, object]:
    """Return what each estimate makes of a policy, as it goes into JSON; None for one that lacks what it needs.

    ips, snips and dr are not clipped; clipped_ips is, at M. Arguments are those of :func:`drcrm.off_policy_value`.
    """
    policy, found = policy_for_log(policy, log), {}
    kinds = {name: (name.removeprefix("clipped_"), clip if name == "clipped_ips" else None) for name in ESTIMATES}
    with warnings.catch_warnings(action="ignore"):  # diagnostics report the same
        for name, (estimate, at) in kinds.items():
            lacks = estimate in ("dm", "dr") and (cost_model is None or getattr(policy, "mean", policy) is None)
            options = {"clip": at, "cost_model": cost_model, "groups": groups, "confidence": confidence}
            found[name] = None if lacks else off_policy_value(policy, log, estimate, **options).as_dict()
    return found


ESTIMATES = "ips", "clipped_ips", "snips", "dm", "dr"


def compare_with_logging(
    policy,
    log: BanditLog,
    estimate: str = "dr",
    *,
    cost_model=None,
    logging_policy=None,
    confidence: float = 0.95,
    choices: int = 1,
    groups=None,
    cost_range=None,
) -> Comparison:
    """Compare a policy with the logging policy, on rows that trained neither the policy nor the cost model.

    Arguments are those of :func:`drcrm.certificates.policy_certificate`; ``logging_policy`` is π0 where it is known,
    not where it is imitated. Without a cost model, or the policy's probabilities of all actions, "dr" is by "snips".
    """
    policy = policy_for_log(policy, log)
    if estimate == "dr" and (cost_model is None or getattr(policy, "mean", policy) is None):
        estimate = "snips"
    known = None if getattr(policy, "mean", policy) is None else logging_policy
    of_both = {"cost_model": cost_model, "logging_policy": known, "groups": groups}
    of_certificates = of_both | {"confidence": confidence, "choices": choices, "cost_range": cost_range}
    certificates, refused = [None, None], ""
    with warnings.catch_warnings(action="ignore"):
        options = of_both | {"clip": None, "baseline": LOGGING, "confidence": confidence}
        difference = off_policy_value(policy, log, estimate, **options)
        for place, baseline in enumerate((LOGGING, None)):
            try:
                certificates[place] = policy_certificate(policy, log, estimate, baseline=baseline, **of_certificates)
            except InputError as error:
                refused = str(error)
        least = _least(policy, log, estimate, of_certificates)
    return Comparison(difference, *certificates, refused, choices, least)


@dataclass(frozen=True)
class _Negated:
    """A cost model of the negated costs."""

    model: object

    def action_effects(self, X, actions) -> np.ndarray:
        return -action_effects(self.model, X, actions)


def _least(policy, log: BanditLog, estimate: str, options: dict) -> float:
    """The certificate of the negated costs, at half of δ/K: its tail is the long one, and few rows hardly show it."""
    model, costs = options["cost_model"], options["cost_range"]
    options = options | {
        "cost_model": None if model is None else _Negated(model),
        "cost_range": None if costs is None else (-costs[1], -costs[0]),
        "choices": 2 * options["choices"],
    }
    try:
        return -policy_certificate(policy, log.with_cost(-log.cost), estimate, baseline=LOGGING, **options).bound
    except InputError:
        return -np.inf


def untested(diagnosis: Diagnosis) -> str:
    """The condition of a claim by propensities that could not be tested."""
    return UNTESTED if any(each.name == "propensity audit" for each in diagnosis.diagnostics) else ""


def reach_verdict(
    comparison: Comparison, diagnosis: Diagnosis, *, label: str = "the policy", reward: bool = False
) -> Verdict:
    """Return the verdict on a policy.

    The log is wrong where its propensities fail their audit; it cannot say where another diagnostic fails, or no
    certificate can be given. The policy is better where the bound of the difference is below 0, and worse where the
    lower bound is above 0, at levels δ/K and δ/2K; else nothing is shown. Numbers are those of ``reward``s where rows
    were.
    """
    failed = [each for each in diagnosis.diagnostics if each.level == "fail"]
    wrong = [each for each in failed if each.name.startswith(AUDIT)]
    said, cautions = _Words(comparison, label, reward), _cautions(diagnosis)
    if wrong:
        return Verdict("the log is wrong", f"{capitalize(wrong[0].sentence)}.", REPAIRS, cautions)
    if failed or None in (comparison.certificate, comparison.own):
        why = failed[0].sentence if failed else comparison.refused
        return Verdict("the log cannot say", f"What {label} is worth is open: {why}.", _to_open(diagnosis), cautions)
    rounding = ROUNDING * max(map(abs, comparison.certificate.costs))
    condition = untested(diagnosis)
    if comparison.certificate.bound < -rounding:
        return Verdict("better", said.claim(is_better=True) + condition, [], cautions)
    if comparison.least > rounding:
        return Verdict("worse", said.claim(is_better=False) + condition, [], cautions)
    return Verdict("not shown", said.not_shown(), [_rows_needed(comparison, diagnosis.rows)], cautions)


@dataclass(frozen=True)
class _Words:
    """Sentences with the numbers of a comparison."""

    comparison: Comparison
    label: str
    reward: bool

    @property
    def what(self) -> str:
        return "reward" if self.reward else "cost"

    @property
    def level(self) -> str:
        choices = self.comparison.choices
        counted = f", {choices} choices counted" if choices > 1 else ""
        return f"with {percent(self.comparison.difference.confidence)} confidence{counted}"

    def claim(self, is_better: bool) -> str:
        sign = -1 if is_better else 1
        least = self.comparison.certificate.bound if is_better else self.comparison.least
        more = "more" if self.reward == is_better else "less"
        difference, least = sign * self.comparison.difference, sign * least
        return (
            f"{self.label} is {'better' if is_better else 'worse'} than what logged: its {self.what} is "
            f"{difference:.4g} {more} a row, and at least {least:.4g} {more} {self.level}."
        )

    def not_shown(self) -> str:
        sign, found = (-1 if self.reward else 1), self.comparison.difference
        ends = self.comparison.least, self.comparison.certificate.bound
        low, high = sorted(sign * each for each in ends)
        return (
            f"It is not shown that {self.label} is better than what logged: its {self.what} differs by "
            f"{sign * found:.4g} a row, at least {low:.4g} and at most {high:.4g} {self.level}."
        )


def percent(level: float) -> str:
    """Return a level in per cent, with all its digits: 95%, 99.5%."""
    return f"{100 * level:.10g}%"


def _rows_needed(comparison: Comparison, rows: int) -> str:
    """Return how many rows would show the difference if it is as estimated, t² s² n/d², or that rows do not help."""
    found = comparison.difference
    if not (found < 0 and found.standard_error > 0):
        return "Another policy: this one does not look better, so more rows would not help."
    level = 1 - (1 - found.confidence) / comparison.choices
    needed = rows * (stdtrit(max(found.n - 1, 1), level) * found.standard_error / float(found)) ** 2
    if needed > MOST_ROWS:
        return "Another policy: no number of rows that one could log would show a difference this small."
    times = f"{max(needed / rows, 1.01):.3g} times as many"
    return f"More rows: {_rounded(needed)} to judge by, {times}, would show such a difference half of the time."


def _to_open(diagnosis: Diagnosis) -> list[str]:
    """Return what would remove the failed checks: of leakage the advice, of others how to explore."""
    if LEAKAGE not in diagnosis.failed:
        return _to_explore(diagnosis)
    return [f"{ADVICE}.", *(_to_explore(diagnosis) if len(diagnosis.failed) > 1 else [])]


def _to_explore(diagnosis: Diagnosis) -> list[str]:
    """Which actions to explore, and how many rows a sample of the same overlap would have to have."""
    if "exploration" in diagnosis.failed:
        return [RANDOMISE]
    changes = []
    lacking = sorted(diagnosis.actions, key=lambda each: -(each["unsupported"] or 0))[:NAMED]
    lacking = [each for each in lacking if (each["unsupported"] or 0) > RARE]
    if lacking:
        named = ", ".join(f"{each['action']} ({each['unsupported']:.1%} of the policy's choices)" for each in lacking)
        changes.append(f"Explore actions that are hardly logged where the policy takes them: {named}.")
    else:
        rare = sorted(diagnosis.actions, key=lambda each: each["logging"] - (each["policy"] or 0))[:NAMED]
        rare = [each for each in rare if (each["policy"] or 0) > each["logging"] + RARE]
        if rare:
            named = ", ".join(f"{each['action']} ({each['logging']:.1%} logged, {each['policy']:.1%})" for each in rare)
            changes.append(f"Log more of the actions that the policy takes more often: {named}.")
    changes.append("Or compare a policy that is nearer to the one that logged.")
    return changes


def _cautions(diagnosis: Diagnosis) -> list[str]:
    """Return a sentence for each check that is a caution."""
    return [f"Mind that {each.sentence}." for each in diagnosis.diagnostics if each.level == "caution"]


def _rounded(rows: float) -> str:
    """A number of rows with two digits, in full."""
    digits = max(len(str(int(rows))) - 2, 0)
    return f"{int(-(-rows // 10**digits)) * 10**digits:,}".replace(",", " ")


def _said(certificate: Certificate) -> dict[str, object]:
    """A certificate as it goes into JSON."""
    keys = (
        "estimate",
        "value",
        "bound",
        "confidence",
        "choices",
        "n",
        "by",
        "missing",
        "effective_size",
        "mean_weight",
    )
    return {key: to_json_number(getattr(certificate, key)) for key in keys}
