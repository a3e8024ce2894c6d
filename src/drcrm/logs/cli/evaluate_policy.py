"""``drcrm evaluate_policy``: estimate what a policy would have cost on rows of a log that did not train it."""

from __future__ import annotations

from functools import partial

from drcrm.logs.cli.common.answers import judge_policy
from drcrm.logs.decisions.api import evaluate

run = partial(judge_policy, evaluate)
