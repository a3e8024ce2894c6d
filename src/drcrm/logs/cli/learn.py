"""``drcrm learn``: learn a policy from a log, and decide whether it is better than the logging policy."""

from __future__ import annotations

import argparse
import sys

from drcrm.errors import InputError
from drcrm.files import is_stream, is_terminal
from drcrm.logs.cli.common.answers import exit_status, require_separate_outputs, write_answer
from drcrm.logs.decisions.learning import learn
from drcrm.logs.policy_file import require_replaceable
from drcrm.progress import show_progress

OPTIONS = (
    *(
        "seed",
        "exportable",
        "readable",
        "curve",
        "cluster",
        "confidence",
        "baseline",
        "sensitivity",
        "shift",
        "validation",
    ),
    "deploy",
)


def run(options: argparse.Namespace) -> int:
    """Run the command: check the outputs, learn, and write policies and answer."""
    if options.best is None and not is_stream(options.output):
        options.best = options.output.with_suffix(f".candidate{options.output.suffix}")
    require_separate_outputs(options)
    has_earlier = bool(options.best) and require_replaceable(options.best, "--best")
    if is_terminal(options.output):
        raise InputError(f"--output {options.output} is a terminal, expected a file or a pipe: a policy is binary")
    keywords = {name: value for name, value in vars(options).items() if name in OPTIONS}
    with show_progress(options.verbose, options.jobs) as tell:
        answer = learn(
            options.log, options.config, output=options.output, candidate=options.best, tell=tell, **keywords
        )
    write_answer(answer, options)
    if has_earlier and answer.is_better:
        print(f"{options.best} is the candidate of an earlier log, and is kept.", file=sys.stderr)
    return exit_status(answer, options.fail_unless)
