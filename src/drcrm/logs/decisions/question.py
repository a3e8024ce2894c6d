"""A question about a policy on a log, and its case: the policy that the user names, and the rows that evaluate it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from drcrm.actions.base import largest_probability
from drcrm.arrays.validation import to_float
from drcrm.errors import InputError
from drcrm.evaluation import EVALUATIONS, NORMALISED, RATIO, ROBUST, UNBIASED, default_estimate
from drcrm.logs.decisions.every_look import Watch
from drcrm.logs.decisions.judgement import EvaluatedPolicy
from drcrm.logs.decisions.opened_log import OpenedLog, Tell, log_folder, open_log
from drcrm.logs.diagnostics.comparison.reference import BASELINE, ComparisonSettings, Reference, find_rows
from drcrm.logs.diagnostics.repeated_rows import RowChecks
from drcrm.logs.policy_file import StoredPolicy, read_policy
from drcrm.logs.read_log import Source
from drcrm.logs.row_identity import RecognisedRows
from drcrm.mapping.log_mapping import LogMapping, as_mapping
from drcrm.selection.candidates import EffectiveNumbers

COLUMN = "column:"
COLUMN_ROWS = "all rows, on the assumption that none of them was used to make the policy"
HELDOUT_ROWS = "the rows held out from learning, with their outcomes in this log"
ALL_ROWS = "all rows; no row was recognised as one that the policy was learned from"
UNDECIDED_ROWS = "all rows, which may include rows that the policy was learned from"


@dataclass(frozen=True)
class Question:
    """A question about a policy: see :func:`drcrm.certify`.

    Raises
    ------
    InputError
        If a value is invalid, or two of them exclude each other.
    """

    confidence: float = 0.95
    baseline: str | Path | None = None
    sensitivity: float | None = None
    shift: float | None = None
    estimate: str | None = None
    anytime: bool = False
    asymptotic: bool = False

    def __post_init__(self) -> None:
        permitted = {
            "confidence": (0.5 < to_float(self.confidence) < 1, "above ½ and below 1"),
            "estimate": (self.estimate in (None, ROBUST, RATIO, UNBIASED), f"{ROBUST}, {RATIO} or {UNBIASED}"),
            "sensitivity": (
                self.sensitivity is None or 1 <= to_float(self.sensitivity) < float("inf"),
                "a factor of at least 1",
            ),
            "shift": (self.shift is None or 0 < to_float(self.shift) < float("inf"), "above 0"),
        }
        for name, (is_valid, expected) in permitted.items():
            if not is_valid:
                raise InputError(f"{name} must be {expected}, got {getattr(self, name)!r}")
        if self.baseline is not None and self.sensitivity is not None:
            raise InputError("--sensitivity compares with the logging policy, so it cannot be used with --baseline")
        if self.anytime and self.sensitivity is not None:
            raise InputError("--sensitivity has bounds for one look, so it cannot be used with --anytime")
        if self.asymptotic and not self.anytime:
            raise InputError("--asymptotic chooses the bounds of --anytime, so it needs --anytime")
        if self.anytime and self.estimate not in (None, UNBIASED, ROBUST if self.asymptotic else None):
            raise InputError(
                f"--anytime needs --estimate {UNBIASED}, or {ROBUST} with --asymptotic, got {self.estimate}; "
                "or leave it out"
            )

    def require_single(self, policies: Sequence[str | Path]) -> None:
        """Raise InputError unless there is one policy, or bounds permit several."""
        if not policies:
            raise InputError("expected at least one policy")
        if len(policies) > 1 and (not self.anytime or self.asymptotic):
            raise InputError(
                f"{len(policies)} policies are compared by bounds that hold at every look: use --anytime without "
                "--asymptotic, or certify a single policy"
            )

    def mapping(self, content: Any) -> LogMapping:
        """Return the mapping, in which a shift replaces its own; InputError if the question excludes a shift.

        ``content`` is a dict, the path of a YAML or JSON file, or a LogMapping.
        """
        mapping = as_mapping(content)
        mapping = mapping if self.shift is None else replace(mapping, shift=self.shift)
        for name, reason in {"anytime": "bounds the mean cost", "sensitivity": "compares mean costs"}.items():
            if mapping.shift is not None and (self.anytime if name == "anytime" else self.sensitivity):
                raise InputError(
                    f"--{name} {reason}, but shift is {mapping.shift:g}; leave out one of them: the option --{name}, "
                    "or --shift and the key shift of the mapping"
                )
        return mapping

    def reference(self, mapping: LogMapping) -> Reference:
        """Return what policies are compared with: the logging policy, or the stored policy of the baseline's file."""
        if self.baseline is None:
            return Reference(radius=mapping.shift)
        stored = read_policy(self.baseline, with_rows=True)
        largest = largest_probability(stored.policy.actions, stored.policy.explore)
        return Reference(f"{BASELINE} {Path(self.baseline).name}", stored, 1.0, mapping.shift, largest)

    def choose_estimate(self, has_model: bool, label: str, radius: float | None) -> str:
        """Return the estimate: by default "dr" for a policy with a cost model, else "snips", or that of the bounds.

        Raise InputError if the policy ``label`` lacks the cost model, or the estimate has no worst case at the radius.
        """
        is_robust = has_model and (self.asymptotic or not self.anytime)
        usual = default_estimate(is_robust, UNBIASED) if self.anytime else default_estimate(is_robust)
        estimate = self.estimate or usual
        if EVALUATIONS[estimate].kind.uses_model and not has_model:
            raise InputError(
                f"--estimate {estimate} needs a cost model of this outcome, which {label} lacks; use {RATIO} or "
                f"{UNBIASED}"
            )
        if radius is not None and estimate not in NORMALISED:
            raise InputError(
                f"--estimate {estimate} has no worst case for shift {radius:g}; use {' or '.join(NORMALISED)}"
            )
        return estimate

    def settings(
        self,
        mapping: LogMapping,
        estimate: str,
        numbers: EffectiveNumbers,
    ) -> ComparisonSettings:
        """Return the settings of a comparison, adjusted for the number of candidates."""
        return ComparisonSettings(
            estimate=estimate,
            confidence=self.confidence,
            choices=numbers.candidates,
            effective_choices=numbers.main.at(self.confidence),
            guardrail_choices={name: part.at(self.confidence) for name, part in numbers.of_guardrails.items()},
            cost_range=mapping.cost_range,
            gamma=self.sensitivity,
            full_support=mapping.has_full_support,
        )

    def watching(self, settings: ComparisonSettings, mapping: LogMapping, reference: Reference) -> Watch:
        """Return how a policy is watched at every look; the weights of a baseline have a limit if p has one."""
        least, largest_weight = mapping.least_propensity, None
        if reference.is_baseline and not self.asymptotic and least is not None:
            largest_weight = reference.largest_probability / least
        least = least if mapping.has_full_support else None
        limits = {"largest_weight": largest_weight, "least_propensity": least, "most_rows": mapping.most_rows}
        return Watch(settings.confidence, settings.divisor, self.asymptotic, None, limits, settings.choices_of)


@dataclass(frozen=True)
class Case:
    """A policy that the user names, and the rows of the log that evaluate it.

    Attributes
    ----------
    policy : EvaluatedPolicy
        None if the options name no policy, which only ``plan`` permits.
    opened : OpenedLog
        The rows that did not train the policy.
    rows : str
        Description of the rows for the answer.
    counts : dict or None
        Numbers of training, held-out and new rows of the log; None if they are unknown.
    numbers : EffectiveNumbers
        Effective numbers of the candidates that competed on these rows.
    """

    policy: Any
    opened: OpenedLog
    rows: str
    counts: dict[str, int] | None = None
    numbers: EffectiveNumbers = field(default_factory=EffectiveNumbers)


@contextmanager
def open_case(policy: str | Path | None, logs: Source, mapping: Any, question: Question, tell: Tell) -> Iterator[Case]:
    """Yield the policy and the rows of the log that evaluate it.

    Rows that trained the policy are left out. On the rows that were held out from learning, the policy is the best of
    all candidates that competed there, so the bounds are adjusted for their number. On a new log, it is the only one.

    The policy ``column:NAME`` is a column of the log with the policy's probability of the logged action. Rows that
    trained the policy of --baseline are left out, too.
    """
    stored, name = None, policy and str(policy).removeprefix(COLUMN)
    if name and name == str(policy):
        tell("reading the policy")
        stored = read_policy(Path(name), with_rows=True)
        mapping = stored.header.get("mapping") if mapping is None else mapping
    elif mapping is None:
        raise InputError(f"{policy or 'plan without --policy'} needs --config, the mapping of the log")
    mapping = question.mapping(mapping)
    if stored is not None:
        mapping = replace(mapping, interactions=stored.encoding.interactions)
    elif name is not None:
        mapping = as_mapping(mapping.as_dict() | {"candidate": name})
    reference, recognised_rows = question.reference(mapping), []

    def recognise(checks: RowChecks, digest: str) -> RecognisedRows:
        recognised_rows.append(_recognise(stored, mapping, checks, digest))
        return recognised_rows[0]

    with log_folder(logs) as folder:
        read_rows = partial(open_log, logs, mapping, tell, folder, reference=reference)
        if stored is None:
            opened = read_rows()
            column = None
            if name is not None:
                column = EvaluatedPolicy(name, name, opened.evaluated.column("candidate"), may_have_logged=True)
            yield Case(column, opened, COLUMN_ROWS if column else "all rows")
            return
        opened, [recognised] = read_rows(stored.encoding, recognise).mark_missing(stored.cells), recognised_rows
        counts, rows = None if recognised.undecided else recognised.counts, _describe(recognised, mapping)
        if left_out := opened.recognised.training.sum() - recognised.training.sum():
            rows += f"; without {left_out} other rows that the baseline was learned from"
        rows = "; ".join([rows, *(f"{reason} in {number} rows" for reason, number in opened.unseen.items())])
        is_known = bool(counts and counts["training"] + counts["heldout"])
        numbers = stored.numbers(mapping) if is_known else EffectiveNumbers()
        yield Case(_evaluated(stored, mapping), opened, rows, counts, numbers)


def _evaluated(stored: StoredPolicy, mapping: LogMapping) -> EvaluatedPolicy:
    """Return the policy, with its cost model if the mapping has the same outcome as the policy's log."""
    name = str(stored.header.get("kept", "policy"))
    algorithm: Any = stored.header.get("algorithm", {})
    settings = dict(algorithm) if name != "logging" else {}
    label = "the estimated logging policy" if name == "logging" else settings.pop("label", name)
    model = stored.model if mapping.has_outcome_of(stored.mapping) else None
    return EvaluatedPolicy(name, label, stored.policy, model, settings={**settings, "name": name}, may_have_logged=True)


def _recognise(stored: StoredPolicy, mapping: LogMapping, checks: RowChecks, digest: str) -> RecognisedRows:
    """Return the rows of a log that trained a policy, and those held out from its learning.

    Raise InputError if all rows trained the policy, or if held-out rows are split in another way.
    """
    recognised = find_rows(stored, checks.hashes, checks.propensity, digest)
    trained = stored.mapping
    for key in ("split", "group", "time") if recognised.heldout.any() else ():
        value, expected = getattr(mapping, key), getattr(trained, key)
        if value != expected:
            raise InputError(f"{key} must be {expected!r}, as when the policy was learned from this log, got {value!r}")
    if recognised.training.all():
        n = len(checks.propensity)
        raise InputError(f"the policy was learned from all {n} rows, expected held-out or new rows")
    return recognised


def _describe(recognised: RecognisedRows, mapping: LogMapping) -> str:
    """Return a description of the rows that evaluate a policy."""
    if recognised.undecided:
        return UNDECIDED_ROWS
    training, heldout, new = recognised.counts.values()
    if not (new and training + heldout):
        return HELDOUT_ROWS if heldout else ALL_ROWS
    used = " and ".join([f"{heldout} rows held out from learning"] * bool(heldout) + [f"{new} new rows"])
    used = f"{used}, without {training} rows that the policy was learned from"
    return used + (f", but new rows may share a {mapping.group!r} with these" if mapping.group and training else "")
