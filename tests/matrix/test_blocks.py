"""``learn --validation blocks`` on rows of the matrix: blocks follow one another, and a constant changes nothing."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from matrix.cases import Case
from matrix.commands import Answer, run
from matrix.logs import SmallLog, mapping_of, write_log
from matrix.options import covering_array

ROWS = covering_array()
COSTS = [number for number, row in enumerate(ROWS) if row.outcome == "cost"][:2]
NUMBERS = [*range(0, len(ROWS), 9), *COSTS]


def learn(case: Case, log: SmallLog) -> Answer:
    folder = case.new_folder()
    unused = "candidate", "split", "slice", "estimate"
    content = {key: value for key, value in mapping_of(log).items() if value != "absent" and key not in unused}
    files, options = write_log(log, folder), ["--validation", "blocks", "--output", folder / "policy.npz"]
    if case.row.reference == "baseline":
        options += ["--baseline", case.policies[1]]
    return run("learn", *files, "--config", json.dumps(content | {"algorithm": "kl_dro_dr"}), *options)


@pytest.mark.slow
@pytest.mark.parametrize("number", NUMBERS)
def test_blocks_follow_one_another_and_do_not_depend_on_a_constant(number, tmp_path):
    case = Case(ROWS[number], tmp_path)
    answer = learn(case, case.log)
    assert answer.status == 0, answer.error
    blocks = answer.json["blocks"]
    assert len(blocks) == 3
    if case.row.extra == "time":  # texts of dates; a group is in the block of its first row
        assert all(block["first"] <= block["last"] for block in blocks)
        assert all(block["first"] < later["first"] for block, later in pairwise(blocks))
    else:
        assert all(later["first"] == block["last"] + 1 for block, later in pairwise(blocks))
        assert all(block["rows"] == block["last"] - block["first"] + 1 for block in blocks)
    assert all(block["low"] <= block["change"] <= block["high"] for block in blocks)
    if number not in COSTS:
        return
    low, high = case.log.cost_range
    moved = replace(case.log, cost=case.log.cost + 5, cost_range=(low + 5, high + 5))
    of_moved = learn(case, moved).json["blocks"]
    changes, of_constant = (np.array([block["change"] for block in part]) for part in (blocks, of_moved))
    assert of_constant == pytest.approx(changes, rel=1e-3, abs=1e-6)
