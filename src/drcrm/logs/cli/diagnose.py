"""``drcrm diagnose``: check a log's propensities, repeated rows, drift, and how much a cost model explains."""

from __future__ import annotations

import argparse

from drcrm.logs.cli.common.answers import require_separate_outputs, write_answer
from drcrm.logs.decisions.certification import diagnose
from drcrm.progress import show_progress


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    require_separate_outputs(options)
    with show_progress(options.verbose, options.jobs) as tell:
        answer = diagnose(options.log, options.config, confidence=options.confidence, tell=tell)
    write_answer(answer, options)
