"""Bound what a policy costs, and what it costs more than the one that logged, with a stated probability.

Reads   POLICY, LOG, --config: as evaluate_policy does.
Writes  --report: the page, HTML; --json: the answer.

Where a check fails, it says so in place of a certificate. On the log that the policy was learned from, the rows held
out certify it, at level δ/K of K choices; on another log all rows, at level δ.
"""

from __future__ import annotations

import argparse

from ..errors import InputError
from ..logs.diagnostic import capital
from ..logs.verdict import REFUSED, Comparison, Verdict, percent, untested, verdict
from .answers import answer, diagnosed, give, logging_dict
from .arguments import add_answers, add_policy, require_apart
from .judging import case
from .progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_policy(parser)
    parser.add_argument("--estimate", choices=("dr", "snips", "ips"), help="dr where the policy has a cost model")
    add_answers(parser)


def run(options: argparse.Namespace) -> None:
    require_apart(options)
    tell = Progress(options.verbose)
    found = case(options, tell)
    tell("certifying")
    part, confidence = found.part, options.confidence
    if options.estimate == "dr" and found.judged.model is None:
        raise InputError(f"{options.policy} has no cost model, which dr needs; expected snips or ips")
    estimate = options.estimate or ("snips" if found.judged.model is None else "dr")
    diagnosis = diagnosed(part, found.judged)
    comparison = found.judged.compared(part, estimate, found.choices, confidence, diagnosis.units)
    concluded = verdict(comparison, diagnosis, label=found.judged.label, reward=part.records.reward)
    if concluded.verdict not in REFUSED:
        said = _said(comparison, confidence, part.records.reward) + untested(diagnosis)
        concluded = Verdict("certified", said, [*concluded.changes, f"{capital(found.said)}."])
    said = answer(
        "certify",
        part,
        confidence=confidence,
        choices=found.choices,
        logging=logging_dict(part, confidence, diagnosis.units),
        candidates=[found.judged.as_dict(part, comparison, confidence, diagnosis.units) | {"chosen": True}],
        **diagnosis.as_dict(),
        verdict=concluded.as_dict(),
        judged_by=found.said,
    )
    tell.done()
    give(said, options.json, options.report)


def _said(comparison: Comparison, confidence: float, reward: bool) -> str:
    """The certificates in a sentence."""
    what, way, sign = ("reward", "at least", -1) if reward else ("cost", "at most", 1)
    said = f"With {percent(confidence)} confidence each, its {what} is {way} {sign * comparison.own.bound:.4g} a row"
    return f"{said}, and {way} {sign * comparison.certificate.bound:+.4g} beside what logged."
