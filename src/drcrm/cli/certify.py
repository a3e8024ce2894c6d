"""``drcrm certify``: bound the cost of a policy, and its difference to the logging policy's cost."""

from __future__ import annotations

import argparse

from drcrm.cli.evaluate_policy import answer_on_policy
from drcrm.errors import InputError
from drcrm.estimates import ROBUST, UNBIASED


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.asymptotic and not options.anytime:
        raise InputError("--asymptotic chooses the bounds of --anytime, so it needs --anytime")
    if options.anytime and options.estimate not in (None, UNBIASED, ROBUST if options.asymptotic else None):
        raise InputError(
            f"--anytime needs --estimate {UNBIASED}, or {ROBUST} with --asymptotic, got {options.estimate}; "
            "or leave it out"
        )
    return answer_on_policy("certify", options)
