"""The question about a policy on a log: the level, the reference and the kind of bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drcrm.actions.base import largest_probability
from drcrm.arrays.validation import to_float
from drcrm.errors import InputError
from drcrm.estimates import EVALUATIONS, NORMALISED, RATIO, ROBUST, UNBIASED, default_estimate
from drcrm.logs.decisions.watching.running_bounds import Watch
from drcrm.logs.diagnostics.comparison.policy_comparison import ComparisonSettings
from drcrm.logs.diagnostics.comparison.reference import BASELINE, Reference
from drcrm.logs.policy_file import read_policy
from drcrm.mapping.log_mapping import LogMapping, as_mapping
from drcrm.selection.multiplicity import EffectiveNumbers


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
        if not 0.5 < to_float(self.confidence) < 1:
            raise InputError(f"confidence must be above ½ and below 1, got {self.confidence!r}")
        if self.estimate not in (None, ROBUST, RATIO, UNBIASED):
            raise InputError(f"estimate must be {ROBUST}, {RATIO} or {UNBIASED}, got {self.estimate!r}")
        if self.sensitivity is not None and not 1 <= to_float(self.sensitivity) < float("inf"):
            raise InputError(f"sensitivity must be a factor of at least 1, got {self.sensitivity!r}")
        if self.shift is not None and not 0 < to_float(self.shift) < float("inf"):
            raise InputError(f"shift must be above 0, got {self.shift!r}")
        if self.baseline is not None and self.sensitivity is not None:
            raise InputError("--sensitivity compares with the logging policy, so it cannot be used with --baseline")
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
        return Watch(settings.confidence, settings.divisor, self.asymptotic, limits=limits)
