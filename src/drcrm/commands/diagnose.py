"""Say what is wrong with a log: its propensities, rows that are told twice, drift, what a cost model explains.

Reads   LOG; --config: the mapping, YAML or JSON.
Writes  --report: the page, HTML; --json: the answer.
"""

from __future__ import annotations

import argparse

from ..progress import working
from .answers import answer, diagnosed, give, logging_dict
from .arguments import add_answers, add_log, require_apart
from .opening import mapping_of
from .storing import rows_that_judge


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_log(parser)
    add_answers(parser)


def run(options: argparse.Namespace) -> None:
    require_apart(options)
    mapping = mapping_of(options.config)
    with working(options.verbose, options.jobs) as tell, rows_that_judge(options.log, mapping, tell) as part:
        tell("diagnosing")
        diagnosis = diagnosed(part)
        logging = logging_dict(part, options.confidence, diagnosis.units)
        said = answer("diagnose", part.about, confidence=options.confidence, logging=logging, **diagnosis.as_dict())
    give(said, options)
