"""``drcrm learn``: learn a policy from a log, and decide whether it is better than the logging policy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from drcrm.errors import InputError
from drcrm.files import is_stream, is_terminal
from drcrm.logs.cli.common.answers import Outputs, exit_status, require_separate_outputs
from drcrm.logs.decisions.api import learn
from drcrm.logs.policy_file import require_replaceable
from drcrm.progress import show_progress


def run(
    log: Any,
    config: Any,
    output: Path,
    best: Path | None,
    report: Path | None,
    json: Path | None,
    fail_unless: str | None,
    jobs: int,
    verbose: bool,
    **options: Any,
) -> int:
    """Run the command: check the outputs, learn, and write policies and answer."""
    if best is None and not is_stream(output):
        best = output.with_suffix(f".candidate{output.suffix}")
    outputs = Outputs(report, json, output, best)
    require_separate_outputs(log=log, config=config, **vars(outputs), **options)
    has_earlier = best is not None and require_replaceable(best, "--best")
    if is_terminal(output):
        raise InputError(f"--output {output} is a terminal, expected a file or a pipe: a policy is binary")
    with show_progress(verbose, jobs) as tell:
        answer = learn(log, config, output=output, candidate=best, tell=tell, **options)
    outputs.write(answer)
    if has_earlier and answer.is_better:
        print(f"{best} is the candidate of an earlier log, and is kept.", file=sys.stderr)
    return exit_status(answer, fail_unless)
