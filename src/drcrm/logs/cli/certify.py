"""``drcrm certify``: bound the cost of a policy, and its difference to the logging policy's cost."""

from __future__ import annotations

from typing import Any

from drcrm.logs.cli.common.answers import judge_policy
from drcrm.logs.decisions.api import certify


def run(policy: str, candidates: list[str] | None, **options: Any) -> int:
    """Run the command."""
    return judge_policy(certify, [policy, *candidates] if candidates else policy, **options)
