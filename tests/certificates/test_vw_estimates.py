"""IPS and SNIPS of a policy on dsjson are those of Vowpal Wabbit's own estimators, by its own parser."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from vw_lines import LINES, candidate

from drcrm import off_policy_value, read_log

STATED = json.loads((Path(__file__).parents[1] / "data/vw_estimates.json").read_text())


@pytest.mark.parametrize("estimate", ["ips", "snips"])
def test_estimates_of_dsjson(estimate, tmp_path):
    (tmp_path / "log.dsjson").write_text("\n".join(LINES) + "\n")
    log = read_log(tmp_path / "log.dsjson")
    many = np.diff(log.actions.starts)
    assert (len(log.Y), sum(log.skipped.values())) == (STATED["events"], 200 - STATED["events"])
    probability = np.array([candidate(chosen, of) for chosen, of in zip(log.Y, many, strict=True)])
    assert -off_policy_value(probability, log, estimate, clip=None) == pytest.approx(STATED[estimate], rel=1e-9)
