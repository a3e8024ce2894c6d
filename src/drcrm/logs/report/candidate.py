"""A policy in an answer: its estimates, and its difference from the reference. The page and the terminal read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from drcrm.arrays.formats import ConfidenceInterval, Units, clean, format_number, is_number
from drcrm.evaluation.bounds.independent_units import Interval

ESTIMATES = {"dr": "DR", "snips": "SNIPS", "clipped_ips": "clipped IPS", "ips": "IPS", "dm": "DM"}  # preferred first
HYPERPARAMETERS = {"ridge": 0.0, "step": 1.0, "sharpness": 1.0}  # with their usual values


@dataclass(frozen=True)
class Candidate:
    """A policy that a command evaluated, or the reference.

    Attributes
    ----------
    name, label : str
        Its name in JSON, and in sentences.
    estimates : mapping of Interval or None
        Its cost by every estimate; None if inputs are missing.
    comparison : mapping
        The values of :meth:`drcrm.logs.diagnostics.comparison.policy_comparison.Comparison.as_dict`; empty for the
        reference.
    settings : mapping
        The hyper-parameter of its algorithm, the ridge penalty, the step and the sharpness.
    units : Units
    is_chosen, is_best : bool
        Whether it is the policy to run, and whether the verdict is about it.
    is_logging, is_baseline : bool
        Whether it is the logging policy, or the baseline.
    is_corrected : bool
        Whether its difference is corrected for the choice among the candidates: see
        :attr:`drcrm.logs.diagnostics.comparison.policy_comparison.Comparison.corrected`.
    """

    name: str
    label: str
    estimates: Mapping[str, Interval | None]
    comparison: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    units: Units = field(default_factory=Units)
    is_chosen: bool = False
    is_best: bool = False
    is_logging: bool = False
    is_baseline: bool = False
    is_corrected: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the estimates, the comparison and the settings as JSON values."""
        estimates = {key: None if value is None else value.as_dict() for key, value in self.estimates.items()}
        values = {"name": self.name, "label": self.label, "estimates": estimates, "chosen": self.is_chosen}
        if self.is_reference:
            return values | {"is_baseline" if self.is_baseline else "is_logging": True}
        settings = {"parameter": None, "value": None, **HYPERPARAMETERS, **self.settings}
        return {**values, **self.comparison, **settings, "best": self.is_best}

    @property
    def is_reference(self) -> bool:
        """Whether it is the logging policy or the baseline, with which the other policies are compared."""
        return self.is_logging or self.is_baseline

    @property
    def certificate(self) -> Mapping[str, Any]:
        """Its certificate, or why there is none; empty for the reference."""
        return self.comparison.get("certificate", {})

    @property
    def difference_from_reference(self) -> Mapping[str, Any]:
        """The difference of its cost from that of the reference, without a correction; empty for the reference."""
        return self.comparison.get("difference", {})

    @property
    def described_settings(self) -> str:
        """The settings that distinguish it from other candidates of its algorithm."""
        parameter = clean(self.settings.get("parameter") or "").replace("_", " ")
        parts = [(parameter, self.settings.get("value"), None)]
        parts += [(key, self.settings.get(key), usual) for key, usual in HYPERPARAMETERS.items()]
        return ", ".join(
            f"{name} {format_number(value)}"
            for name, value, usual in parts
            if name and is_number(value) and value != usual
        )

    @cached_property
    def known_estimates(self) -> dict[str, ConfidenceInterval]:
        """Its known estimates by key, the preferred one first."""
        intervals = {key: self.units.estimate(self.estimates.get(key)) for key in ESTIMATES}
        return {key: interval for key, interval in intervals.items() if is_number(interval.value)}

    @cached_property
    def main_estimate(self) -> str:
        """The key of the certificate's estimate, by default of the preferred one; empty without estimates."""
        wanted = self.certificate.get("estimate")
        return min(self.known_estimates, key=lambda key: key != wanted, default="")

    @property
    def interval(self) -> ConfidenceInterval:
        """Its main estimate."""
        return self.known_estimates.get(self.main_estimate, ConfidenceInterval())

    @property
    def bound(self) -> float | None:
        """The certified bound on its cost or reward."""
        return self.units.convert(self.certificate.get("bound"))

    @cached_property
    def difference(self) -> ConfidenceInterval:
        """Its cost or reward minus the reference's."""
        part = self.comparison.get("corrected") if self.is_corrected else None
        return self.units.interval(part or self.difference_from_reference)

    @property
    def value(self) -> float | None:
        """Its cost or reward by the main estimate, with the correction of the difference."""
        value, corrected = self.interval.value, self.difference.value
        raw = self.units.convert(self.difference_from_reference.get("value"))
        return value + corrected - raw if is_number(value) and is_number(raw) and is_number(corrected) else value

    @property
    def difference_bound(self) -> float | None:
        """The bound on the difference at the level of the certificate."""
        return self.units.convert(self.difference_from_reference.get("bound"))

    @property
    def rank(self) -> tuple[float, ...]:
        """Sort key: the bound on the cost difference, then its estimate."""
        numbers = (self.difference_from_reference.get(key) for key in ("bound", "value"))
        return tuple(number if is_number(number) else float("inf") for number in numbers)
