"""The tables of docs/scale.md are those of docs/results/passes.csv and scale.csv."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/scale.md").read_text(encoding="utf-8")
ROWS = {"10⁵": 10**5, "10⁶": 10**6, "10⁷": 10**7}


def table(first: str) -> list[list[str]]:
    """The rows of the table whose heading begins so; an empty cell of the first two columns is that above."""
    block = next(each for each in PAGE.split("\n\n") if each.startswith(f"| {first} "))
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()[2:]]
    for above, row in pairwise(found):
        row[:2] = [cell or before for cell, before in zip(row[:2], above[:2], strict=True)]
    return found


def numbers(cell: str) -> list[float]:
    return [float(each.replace("−", "-")) for each in cell.split(";")]


def rounded_to(said: str, value: float) -> bool:
    """Whether a number is another, rounded to its digits."""
    digits = len(said.partition(".")[2])
    return abs(numbers(said)[0] - value) <= 0.5001 * 10.0**-digits


def test_what_fewer_passes_save_and_change():
    found = pd.read_csv(ROOT / "docs/results/passes.csv")
    page = table("rows | kind | way")
    assert len(page) == 8
    for rows, kind, way, cpu, passes, cost, old in page:
        [row] = found[(found["rows"] == ROWS[rows]) & (found["kind"] == kind) & (found["way"] == way)].to_dict(
            "records"
        )
        assert rounded_to(passes, row["passes"])
        assert rounded_to(cost, row["cost"])
        assert rounded_to(cpu, row["cpu s"])
        assert not old or rounded_to(old, row["old"])
    small = found[found["rows"] == 10**4]
    assert small.groupby("kind")["passes"].nunique().eq(1).all(), "both ways are the same"


def test_what_vowpal_wabbit_takes():
    found = pd.read_csv(ROOT / "docs/results/scale.csv")
    page = table("rows | kind | learner")
    assert {(row[0], row[1]) for row in page} == {(rows, kind) for rows in ROWS for kind in ("single", "labels")}
    for rows, kind, learner, passes, cpu, mb, cost, closed in page:
        of = found[(found["rows"] == ROWS[rows]) & (found["kind"] == kind)]
        ends = found[(found["rows"] == 10**5) & (found["kind"] == kind)].set_index("learner")
        none, best = ends.loc["π0", "drawn"], ends.loc["best policy", "greedy"]
        if learner.startswith("old policy"):
            assert numbers(cost) == [round(none, 4), round(best, 4)]
            continue
        if learner.startswith("vw"):
            names = learner.removesuffix(", a label each").removeprefix("vw ").split("; ")
            runs = of[of["passes"] == int(passes)].set_index("learner")
            runs = runs.loc[[f"vw {name}" + ", 5 of 2" * (kind == "labels") for name in names]]
        else:
            runs = of[of["learner"] == "drcrm parquet"]
        for said, values in (
            (cpu, runs["cpu"]),
            (cost, runs["greedy"]),
            (closed, (none - runs["greedy"]) / (none - best)),
        ):
            assert all(map(rounded_to, map(str.strip, said.split(";")), values)), (rows, kind, learner, said)
            assert said.count(";") == len(runs) - 1
        assert rounded_to(mb, runs["MB"].max())
