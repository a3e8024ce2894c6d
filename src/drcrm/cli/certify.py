"""Bound the cost of a policy, and its difference to the logging policy's cost, at a stated confidence."""

from __future__ import annotations

import argparse

from drcrm.cli.answers import write_answer
from drcrm.cli.evaluation import evaluation_answer, open_evaluation
from drcrm.cli.outputs import require_apart
from drcrm.diagnostics.diagnosis import Diagnosis
from drcrm.diagnostics.verdict import WITHOUT_CERTIFICATE, Comparison, Verdict, percent, untested
from drcrm.errors import InputError
from drcrm.progress import show_progress


def run(options: argparse.Namespace) -> None:
    require_apart(options)
    with show_progress(options.verbose, options.jobs) as tell, open_evaluation(options, tell) as found:
        tell("certifying")
        if options.estimate == "dr" and found.judged.model is None:
            raise InputError(f"{options.policy} has no cost model, which dr needs; expected snips or ips")
        said = evaluation_answer("certify", found, options.confidence, options.estimate, _certified)
    write_answer(said, options)


def _certified(concluded: Verdict, comparison: Comparison, diagnosis: Diagnosis, reward: bool) -> Verdict:
    """The certificates in place of a verdict, where there are some."""
    if concluded.verdict in WITHOUT_CERTIFICATE:
        return concluded
    return Verdict("certified", _said(comparison, reward) + untested(diagnosis), [], concluded.cautions)


def _said(comparison: Comparison, reward: bool) -> str:
    """The certificates in a sentence."""
    what, way, sign = ("reward", "at least", -1) if reward else ("cost", "at most", 1)
    level = percent(comparison.own.confidence)
    said = f"With {level} confidence each, its {what} is {way} {sign * comparison.own.bound:.4g} a row"
    return f"{said}, and {way} {sign * comparison.certificate.bound:+.4g} beside what logged."
