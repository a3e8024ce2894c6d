"""``drcrm diagnose``: check a log's propensities, repeated rows, drift, and how much a cost model explains."""

from __future__ import annotations

from typing import Any

from drcrm.logs.cli.common.answers import Outputs, require_separate_outputs
from drcrm.logs.decisions.api import diagnose
from drcrm.progress import show_progress


def run(log: Any, config: Any, confidence: float, jobs: int, verbose: bool, **files: Any) -> None:
    """Run the command."""
    require_separate_outputs(log=log, config=config, **files)
    with show_progress(verbose, jobs) as tell:
        answer = diagnose(log, config, confidence=confidence, tell=tell)
    Outputs(**files).write(answer)
