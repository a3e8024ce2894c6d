"""Check a log: its propensities, repeated rows, drift, and how much a cost model explains."""

from __future__ import annotations

import argparse

from drcrm.cli.answers import build_answer, diagnose_log, logging_estimate, write_answer
from drcrm.cli.outputs import require_apart
from drcrm.logs.mapping import as_mapping
from drcrm.logs.opened_log import log_folder, open_log
from drcrm.progress import show_progress


def run(options: argparse.Namespace) -> None:
    require_apart(options)
    mapping = as_mapping(options.config)
    with show_progress(options.verbose, options.jobs) as tell, log_folder(options.log) as folder:
        part = open_log(options.log, mapping, tell, folder)
        tell("diagnosing")
        diagnosis = diagnose_log(part)
        logging = logging_estimate(part, options.confidence, diagnosis.units)
        said = build_answer("diagnose", part, confidence=options.confidence, logging=logging, **diagnosis.as_dict())
    write_answer(said, options)
