"""Relations of ``learn``: which rows test, that blocks follow one another, and that a constant changes nothing.

The algorithm is ``kl_dro_dr`` with one radius, which takes little time.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np

from matrix.cases import Case
from matrix.commands import run
from matrix.logs import SmallLog, mapping_of, write_log
from matrix.relations import relation

FAST = {
    "estimator": "KLDRO",
    "parameter": "radius",
    "grid": [0.01],
    "options": {"estimate": "dr", "start": "model", "tilt": "auto"},
}


def learn(case: Case, log: SmallLog) -> dict:
    """Return the answer of ``learn`` with held-out rows or with blocks."""
    row, folder = case.row, case.new_folder()
    content = {key: value for key, value in mapping_of(log).items() if value != "absent" and key != "slice"}
    files, options = write_log(log, folder), ["--validation", row.validation, "--output", folder / "policy.npz"]
    options += ["--baseline", case.policies[1]] if row.reference == "baseline" else []
    answer = run("learn", *files, "--config", json.dumps(content | {"algorithm": FAST}), *options)
    assert answer.status == 0, answer.error
    return answer.json


@relation()
def learn_tests_on_rows_that_follow(case: Case) -> None:
    """Blocks follow one another, and are inside their intervals; without blocks, a share of the rows is held out."""
    answer, row = learn(case, case.log), case.row
    if row.validation == "holdout":
        log = answer["log"]
        assert "blocks" not in answer
        assert 0 < log["heldout"] <= log["rows"] - log["training"] < log["rows"]
        return
    blocks = answer["blocks"]
    assert len(blocks) == 3
    assert all(block["low"] <= block["change"] <= block["high"] for block in blocks)
    if row.extra == "time":  # texts of dates; a group is in the block of its first row
        assert all(block["first"] <= block["last"] for block in blocks)
        assert all(block["first"] < later["first"] for block, later in pairwise(blocks))
    else:
        assert all(later["first"] == block["last"] + 1 for block, later in pairwise(blocks))
        assert all(block["rows"] == block["last"] - block["first"] + 1 for block in blocks)
        assert blocks[0]["first"] == 1 + blocks[-1]["last"] - sum(block["rows"] for block in blocks)


@relation(lambda row: row.outcome == "cost" and row.guardrail != "percent")
def learn_does_not_depend_on_a_constant(case: Case) -> None:
    low, high = case.log.cost_range
    moved = replace(case.log, cost=case.log.cost + 5, cost_range=(low + 5, high + 5))
    first, second = (np.array(changes_of(learn(case, log))) for log in (case.log, moved))
    np.testing.assert_allclose(second, first, rtol=1e-3, atol=1e-6)


def changes_of(answer: dict) -> list[float]:
    """Return the estimated change of each block, or else of the best candidate."""
    if "blocks" in answer:
        return [block["change"] for block in answer["blocks"]]
    return [entry["difference"]["value"] for entry in answer["candidates"] if "difference" in entry][:1]
