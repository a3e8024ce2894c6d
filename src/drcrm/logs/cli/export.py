"""``drcrm export``: write a policy for other systems."""

from __future__ import annotations

import argparse

from drcrm.errors import prefix_errors
from drcrm.files import write_text
from drcrm.logs.cli.common.answers import require_separate_outputs
from drcrm.logs.serving.served_policy import load_policy


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    require_separate_outputs(options)
    policy = load_policy(options.policy)
    with prefix_errors(options.policy):
        content = policy.export(options.format)
    write_text(options.output, content + "\n")
