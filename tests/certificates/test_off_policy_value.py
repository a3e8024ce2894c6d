"""IPS and SNIPS of a policy on dsjson equal Vowpal Wabbit's own estimators, read by its own parser."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from vw_lines import LINES, candidate

from drcrm import off_policy_value, read_log

STATED = json.loads((Path(__file__).parents[1] / "data/vw_estimates.json").read_text())


@pytest.mark.parametrize("estimate", ["ips", "snips"])
def test_estimates_of_dsjson_equal_those_of_vowpal_wabbit(estimate, tmp_path):
    (tmp_path / "log.dsjson").write_text("\n".join(LINES) + "\n")
    log = read_log(tmp_path / "log.dsjson")
    sizes = np.diff(log.actions.starts)
    assert (len(log.Y), sum(log.skipped.values())) == (STATED["events"], 200 - STATED["events"])
    probability = np.array([candidate(action, size) for action, size in zip(log.Y, sizes, strict=True)])
    assert -off_policy_value(probability, log, estimate, clip=None) == pytest.approx(STATED[estimate], rel=1e-9)
