"""Check a log: its propensities, repeated rows, drift, and how much a cost model explains."""

from __future__ import annotations

import argparse

from drcrm.cli.answers import answer, diagnosed, give, logging_dict
from drcrm.cli.outputs import require_apart
from drcrm.logs.mapping import as_mapping
from drcrm.logs.opened_log import log_folder, open_log
from drcrm.progress import working


def run(options: argparse.Namespace) -> None:
    require_apart(options)
    mapping = as_mapping(options.config)
    with working(options.verbose, options.jobs) as tell, log_folder(options.log) as folder:
        part = open_log(options.log, mapping, tell, folder)
        tell("diagnosing")
        diagnosis = diagnosed(part)
        logging = logging_dict(part, options.confidence, diagnosis.units)
        said = answer("diagnose", part, confidence=options.confidence, logging=logging, **diagnosis.as_dict())
    give(said, options)
