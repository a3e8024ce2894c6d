"""What a command found, as the JSON that the page, the terminal and other programs read."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from drcrm.certificates.off_policy_value import off_policy_value
from drcrm.cli.outputs import WRITTEN
from drcrm.diagnostics.diagnosis import Diagnosis, diagnose
from drcrm.diagnostics.verdict import Comparison, compare_with_logging, estimate_values
from drcrm.files import standard_descriptor, write_json, write_text
from drcrm.logs.opened_log import OpenedLog
from drcrm.reports.log_report.page import page
from drcrm.reports.log_report.terminal import text
from drcrm.version import __version__


@dataclass(frozen=True)
class JudgedPolicy:
    """A policy, what it is called, and what it may be judged by."""

    name: str
    label: str
    policy: object
    model: object = None
    clip: float | str | None = "auto"
    chosen: Mapping[str, object] | None = None

    def compared(self, part: OpenedLog, estimate: str, choices: int, confidence: float, units) -> Comparison:
        """Compare the policy with the logging policy on held-out rows."""
        with warnings.catch_warnings(action="ignore"):  # diagnostics report the same
            return compare_with_logging(
                self.policy,
                part.log,
                estimate,
                cost_model=self.model,
                confidence=confidence,
                choices=choices,
                groups=units,
                cost_range=part.records.mapping.cost_range,
            )

    def as_dict(self, part: OpenedLog, comparison: Comparison, confidence: float, units) -> dict:
        """Return the policy's part of the answer."""
        with warnings.catch_warnings(action="ignore"):
            found = estimate_values(
                self.policy, part.log, cost_model=self.model, clip=self.clip, groups=units, confidence=confidence
            )
        known = {"name": self.name, "label": self.label, "estimates": found, **comparison.as_dict()}
        return known | {"parameter": None, "value": None, "ridge": 0.0, "step": 1.0, **(self.chosen or {})}


def logging_estimate(part: OpenedLog, confidence: float, units) -> dict:
    """Return what π0 cost, as it logged."""
    logged = off_policy_value(part.log.propensity, part.log, groups=units, confidence=confidence, clip=None)
    return logged.as_dict()


def diagnose_log(part: OpenedLog, judged: JudgedPolicy | None = None) -> Diagnosis:
    """Return the diagnostics of a policy on a log, or of the log only."""
    known = {} if judged is None else {"policy": judged.policy, "cost_model": judged.model}
    return diagnose(
        part.log,
        **known,
        slices=part.records.row_slices,
        groups=part.units,
        imitated=part.log.imitated_propensities,
        names=part.log.encoding.names,
        rows=part.records.rows,
        time=part.records.time,
        checks=part.checks.diagnostics,
        columns=getattr(part.log.encoding, "columns", None),
    )


def build_answer(command: str, part: OpenedLog, **parts) -> dict:
    """Return the answer of a command."""
    said = {"command": command, "version": __version__, "unit": "cost", "log": part.as_dict()}
    return said | {"reward": part.records.reward, **parts}


def write_answer(found: dict, options: argparse.Namespace) -> None:
    """Write the answer as JSON and as a page if the options name files, and print its short form.

    The short form goes to standard error if an output of the command goes to standard output.
    """
    found = _plain(found)
    outputs = [getattr(options, name, None) for name in WRITTEN]
    is_taken = any(path is not None and standard_descriptor(path) == 1 for path in outputs)
    if options.json:
        write_json(options.json, found)
    if options.report:
        write_text(options.report, page(found))
    print(text(found), end="", file=sys.stderr if is_taken else sys.stdout)


def _plain(value):
    """Return a value that JSON can hold: no NaN, no infinity, no numpy type."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
