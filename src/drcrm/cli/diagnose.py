"""``drcrm diagnose``: check a log's propensities, repeated rows, drift, and how much a cost model explains."""

from __future__ import annotations

import argparse

from drcrm.cli.common.answers import require_separate_outputs, write_answer
from drcrm.cli.common.evaluation import build_answer, diagnose_log
from drcrm.diagnostics.opened_log import log_folder, open_log
from drcrm.logs.mapping import as_mapping
from drcrm.progress import show_progress


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    require_separate_outputs(options)
    mapping = as_mapping(options.config)
    with show_progress(options.verbose, options.jobs) as report, log_folder(options.log) as folder:
        opened = open_log(options.log, mapping, report, folder)
        report("diagnosing")
        answer = build_answer("diagnose", opened, diagnose_log(opened), options.confidence)
    write_answer(answer, options)
