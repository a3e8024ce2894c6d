"""Check a log: its propensities, repeated rows, drift, and how much a cost model explains."""

from __future__ import annotations

import argparse

from ..progress import working
from .answers import answer, diagnosed, give, logging_dict
from .opening import mapping_of
from .outputs import require_apart
from .storing import rows_that_judge


def run(options: argparse.Namespace) -> None:
    require_apart(options)
    mapping = mapping_of(options.config)
    with working(options.verbose, options.jobs) as tell, rows_that_judge(options.log, mapping, tell) as part:
        tell("diagnosing")
        diagnosis = diagnosed(part)
        logging = logging_dict(part, options.confidence, diagnosis.units)
        said = answer("diagnose", part.about, confidence=options.confidence, logging=logging, **diagnosis.as_dict())
    give(said, options)
