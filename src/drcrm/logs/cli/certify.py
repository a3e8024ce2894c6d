"""``drcrm certify``: bound the cost of a policy, and its difference to the logging policy's cost."""

from __future__ import annotations

import argparse

from drcrm.logs.cli.common.answers import exit_status, require_separate_outputs, write_answer
from drcrm.logs.decisions.certification import certify
from drcrm.progress import show_progress

OPTIONS = "confidence", "baseline", "estimate", "anytime", "asymptotic", "sensitivity", "shift"


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    require_separate_outputs(options)
    keywords = {name: value for name, value in vars(options).items() if name in OPTIONS}
    with show_progress(options.verbose, options.jobs) as tell:
        answer = certify(options.policy, options.log, options.config, tell=tell, **keywords)
    write_answer(answer, options)
    return exit_status(answer, options.fail_unless)
