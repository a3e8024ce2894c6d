"""Estimate what a policy would have cost, and say whether a log can tell.

Reads   POLICY: the file of a learned policy, or column:NAME, a column of LOG with the policy's probability of the
        logged action; LOG; --config: the mapping, by default that the policy was learned with.
Writes  --report: the page, HTML; --json: the answer.
"""

from __future__ import annotations

import argparse

from ..logs.diagnostic import capital
from ..logs.verdict import verdict
from .answers import answer, diagnosed, give, logging_dict
from .arguments import add_answers, add_policy, require_apart
from .judging import case
from .progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_policy(parser)
    add_answers(parser)


def run(options: argparse.Namespace) -> None:
    require_apart(options)
    tell = Progress(options.verbose)
    found = case(options, tell)
    tell("judging")
    part, confidence = found.part, options.confidence
    diagnosis = diagnosed(part, found.judged)
    estimate = "snips" if found.judged.model is None else "dr"
    comparison = found.judged.compared(part, estimate, found.choices, confidence, diagnosis.units)
    concluded = verdict(comparison, diagnosis, label=found.judged.label, reward=part.records.reward)
    said = answer(
        "evaluate_policy",
        part,
        confidence=confidence,
        choices=found.choices,
        logging=logging_dict(part, confidence, diagnosis.units),
        candidates=[found.judged.as_dict(part, comparison, confidence, diagnosis.units) | {"chosen": True}],
        **diagnosis.as_dict(),
        verdict=concluded.as_dict() | {"changes": [*concluded.changes, f"{capital(found.said)}."]},
        judged_by=found.said,
    )
    tell.done()
    give(said, options.json, options.report)
