"""``drcrm certify``: bound the cost of a policy, and its difference to the logging policy's cost."""

from __future__ import annotations

import argparse

from drcrm.logs.cli.common.answers import judge_policy
from drcrm.logs.decisions.certification import certify

OPTIONS = "confidence", "baseline", "estimate", "anytime", "asymptotic", "sensitivity", "shift"


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.candidates:
        options.policy = [options.policy, *options.candidates]
    return judge_policy(certify, options, OPTIONS)
