"""Estimate what a policy would have cost, and say whether a log can tell.

Reads   POLICY: the file of a learned policy, or column:NAME, a column of LOG with the policy's probability of the
        logged action; LOG; --config: the mapping, by default that the policy was learned with.
Writes  --report: the page, HTML; --json: the answer.
"""

from __future__ import annotations

import argparse

from ..progress import working
from .answers import give
from .arguments import add_answers, add_policy, require_apart
from .judging import case, judged_answer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_policy(parser)
    add_answers(parser)


def run(options: argparse.Namespace) -> None:
    require_apart(options)
    with working(options.verbose, options.jobs) as tell, case(options, tell) as found:
        tell("judging")
        said = judged_answer("evaluate_policy", found, options.confidence)
    give(said, options)
