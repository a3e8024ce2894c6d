"""``drcrm evaluate_policy``: estimate what a policy would have cost on rows of a log that did not train it."""

from __future__ import annotations

import argparse

from drcrm.logs.cli.common.answers import exit_status, require_separate_outputs, write_answer
from drcrm.logs.decisions.certification import evaluate
from drcrm.progress import show_progress

OPTIONS = "confidence", "baseline", "sensitivity", "shift"


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    require_separate_outputs(options)
    keywords = {name: value for name, value in vars(options).items() if name in OPTIONS}
    with show_progress(options.verbose, options.jobs) as tell:
        answer = evaluate(options.policy, options.log, options.config, tell=tell, **keywords)
    write_answer(answer, options)
    return exit_status(answer, options.fail_unless)
