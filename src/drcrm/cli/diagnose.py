"""``drcrm diagnose``: check a log's propensities, repeated rows, drift, and how much a cost model explains."""

from __future__ import annotations

import argparse

from drcrm.cli.answers import build_answer, require_separate_outputs, write_answer
from drcrm.cli.evaluation import diagnose_log, estimate_logging
from drcrm.diagnostics.opened_log import log_folder, open_log
from drcrm.logs.mapping import as_mapping
from drcrm.progress import show_progress


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    require_separate_outputs(options)
    mapping, confidence = as_mapping(options.config), options.confidence
    with show_progress(options.verbose, options.jobs) as report, log_folder(options.log) as folder:
        opened = open_log(options.log, mapping, report, folder)
        report("diagnosing")
        diagnosis = diagnose_log(opened)
        logging = estimate_logging(opened, diagnosis, confidence)
        answer = build_answer("diagnose", opened, confidence=confidence, logging=logging, **diagnosis.as_dict())
    write_answer(answer, options)
