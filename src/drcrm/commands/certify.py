"""Bound what a policy costs, and what it costs more than the one that logged, with a stated probability.

Reads   POLICY, LOG, --config: as evaluate_policy does.
Writes  --report: the page, HTML; --json: the answer.

On the log that the policy was learned from, the rows held out certify it, at level δ/K of K choices; on another log all
rows, at level δ.
"""

from __future__ import annotations

import argparse

from ..logs.verdict import Comparison
from .answers import answer, give, logging_dict
from .arguments import add_answers, add_policy
from .judging import case
from .progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_policy(parser)
    parser.add_argument("--estimate", choices=("dr", "snips", "ips"), help="dr where the policy has a cost model")
    add_answers(parser)


def run(options: argparse.Namespace) -> None:
    tell = Progress(options.verbose)
    found = case(options, tell)
    tell("certifying")
    part, confidence = found.part, options.confidence
    estimate = options.estimate or ("snips" if found.judged.model is None else "dr")
    comparison = found.judged.compared(part, estimate, found.choices, confidence, part.records.groups)
    said = answer(
        "certify",
        part,
        confidence=confidence,
        choices=found.choices,
        logging=logging_dict(part, confidence, part.records.groups),
        candidates=[found.judged.as_dict(part, comparison, confidence, part.records.groups) | {"chosen": True}],
        verdict={"verdict": "certified", "sentence": _said(comparison, confidence, part.records.reward), "changes": []},
        judged_by=found.said,
    )
    tell.done()
    give(said, options.json, options.report)


def _said(comparison: Comparison, confidence: float, reward: bool) -> str:
    """The certificates in a sentence."""
    if comparison.own is None:
        return f"No certificate can be given: {comparison.refused}."
    what, way, sign = ("reward", "at least", -1) if reward else ("cost", "at most", 1)
    said = f"With {confidence:.0%} confidence its {what} is {way} {sign * comparison.own.bound:.4g} a row"
    if comparison.certificate is None:
        return f"{said}; beside what logged it has no bound: {comparison.refused}."
    return f"{said}, and {way} {sign * comparison.certificate.bound:+.4g} beside what logged."
