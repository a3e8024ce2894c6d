"""Estimate what a policy would have cost, and say whether the log can tell."""

from __future__ import annotations

import argparse

from drcrm.cli.answers import give
from drcrm.cli.judging import case, judged_answer
from drcrm.cli.outputs import require_apart
from drcrm.progress import working


def run(options: argparse.Namespace) -> None:
    require_apart(options)
    with working(options.verbose, options.jobs) as tell, case(options, tell) as found:
        tell("judging")
        said = judged_answer("evaluate_policy", found, options.confidence)
    give(said, options)
