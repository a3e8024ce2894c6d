"""Estimate what a policy would have cost, and say whether the log can tell."""

from __future__ import annotations

import argparse

from drcrm.cli.answers import write_answer
from drcrm.cli.evaluation import evaluation_answer, open_evaluation
from drcrm.cli.outputs import require_apart
from drcrm.progress import show_progress


def run(options: argparse.Namespace) -> None:
    require_apart(options)
    with show_progress(options.verbose, options.jobs) as tell, open_evaluation(options, tell) as found:
        tell("judging")
        said = evaluation_answer("evaluate_policy", found, options.confidence)
    write_answer(said, options)
