"""``drcrm evaluate_policy``: estimate what a policy would have cost on rows of a log that did not train it."""

from __future__ import annotations

import argparse

from drcrm.logs.cli.common.answers import judge_policy
from drcrm.logs.decisions.certification import evaluate

OPTIONS = "confidence", "baseline", "sensitivity", "shift"


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    return judge_policy(evaluate, options, OPTIONS)
