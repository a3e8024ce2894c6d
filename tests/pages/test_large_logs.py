"""Numbers on large-logs.md are constants of the code; those on vowpal-wabbit.md come from docs/results/scale.csv."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from drcrm.data import chunked_log, dask_executor
from drcrm.logs import opened_log, split
from drcrm.optimization import lbfgs as optimiser
from drcrm.optimization import objective
from drcrm.policies import linear_predictor as design
from drcrm.selection import successive_halving

ROOT = Path(__file__).parents[2]
PAGE, COMPARISON = (
    (ROOT / f"docs/user-guide/{name}.md").read_text(encoding="utf-8") for name in ("large-logs", "vowpal-wabbit")
)
RESULTS = ROOT / "docs/results/scale.csv"
ROWS = {"10⁵": 10**5, "10⁶": 10**6, "10⁷": 10**7}
LABELS = ", 5 of 2"  # Vowpal Wabbit has no label vectors: a choice of two for each label
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def table(first: str, page: str = PAGE) -> list[list[str]]:
    """Return the cells of the table whose heading begins with ``first``."""
    block = next(text for text in page.split("\n\n") if text.startswith(f"| {first} "))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()[2:]]


def equals_rounded(cell: str, value: float) -> bool:
    """Return whether a cell is a value, rounded to the digits of the cell."""
    digits = len(cell.partition(".")[2])
    return abs(float(cell.replace("−", "-")) - value) <= 0.5001 * 10.0**-digits


def numbers_of(text: str) -> set[int]:
    """Return the whole numbers and the powers of 2 in a text."""
    powers = {2 ** int(power.translate(SUPERSCRIPTS)) for power in re.findall(r"2([⁰-⁹¹²³]+)", text)}
    numbers = re.findall(r"(?<![\d.])\d+(?: \d{3})*(?!\d|\.\d)", text)
    return powers | {int(number.replace(" ", "")) for number in numbers}


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize(
    ("title", "constants"),
    [
        ("Larger than memory", {opened_log.LARGE, split.MOST, objective.MAX_KEPT_SCORES}),
        ("Fewer passes", {design.LARGE, design.SAMPLE, 4 * design.SAMPLE}),
        ("Threads", {chunked_log.LARGE, chunked_log.MOST_CONTEXTS, chunked_log.BLOCK_SCORES}),
        ("Clusters", {dask_executor.FEW}),
        (
            "Many actions",
            {
                successive_halving.MANY_SCORES,
                successive_halving.MANY_ACTIONS,
                successive_halving.LARGEST_SAMPLE,
                successive_halving.FEW_UNITS,
            },
        ),
    ],
)
def test_sizes_on_the_page_are_those_of_the_code(title, constants):
    assert constants <= numbers_of(section(title))


def test_shares_and_tolerances_on_the_page_are_those_of_the_code():
    assert successive_halving.STAGES == ((1 / 8, 3), (1 / 4, 1))
    assert successive_halving.VALIDATION == 1 / 3
    assert (design.GROWTH, optimiser.LARGE_TOLERANCE) == (8, 2e-4)


def test_the_first_table_has_the_sizes_of_the_code():
    rows = table("training contexts × features | method") + table("log | shortcut")
    text = " ".join(row[0] for row in rows)
    sizes = {opened_log.LARGE, chunked_log.LARGE, 4 * design.SAMPLE, successive_halving.MANY_SCORES}
    assert sizes | {successive_halving.MANY_ACTIONS} <= numbers_of(text)


def test_comparison_with_vowpal_wabbit():
    runs = pd.read_csv(RESULTS)
    page = table("rows | kind | VW setting", COMPARISON)
    assert [(row[0], row[1]) for row in page] == [(rows, kind) for rows in ROWS for kind in ("single", "labels")]
    for rows, kind, learner, passes, vw_cpu, vw_cost, cpu, mb, cost in page:
        of_log = runs[(runs["rows"] == ROWS[rows]) & (runs["kind"] == kind)]
        drcrm = of_log[of_log["learner"] == "drcrm parquet"].iloc[0]
        vw = of_log[of_log["learner"].str.startswith("vw ") & of_log["passes"].le(8)]
        reaching = vw[vw["greedy"] <= drcrm["greedy"]].sort_values("cpu")
        best = (vw.sort_values("greedy") if reaching.empty else reaching).iloc[0]
        assert (f"vw {learner}{LABELS * (kind == 'labels')}", int(passes)) == (best["learner"], best["passes"])
        values = best["cpu"], best["greedy"], drcrm["cpu"], drcrm["MB"], drcrm["greedy"]
        assert all(map(equals_rounded, (vw_cpu, vw_cost, cpu, mb, cost), values)), (rows, kind)
