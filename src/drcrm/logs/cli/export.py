"""``drcrm export``: write a policy for other systems."""

from __future__ import annotations

from pathlib import Path

from drcrm.errors import prefix_errors
from drcrm.files import write_text
from drcrm.logs.cli.common.answers import require_separate_outputs
from drcrm.logs.serving.served_policy import load_policy


def run(policy: Path, output: Path, format: str) -> None:
    """Run the command."""
    require_separate_outputs(policy=policy, output=output)
    served = load_policy(policy)
    with prefix_errors(policy):
        content = served.export(format)
    write_text(output, content + "\n")
