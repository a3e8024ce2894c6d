"""Numbers on docs/user-guide/large-logs.md are constants of the code."""

import re
from pathlib import Path

import pytest

from drcrm import cluster
from drcrm.data import chunked_log, folds
from drcrm.logs.decisions import opened_log
from drcrm.optimization import lbfgs as optimiser
from drcrm.optimization import objective
from drcrm.policies import prepared_log
from drcrm.selection import successive_halving

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/user-guide/large-logs.md").read_text(encoding="utf-8")
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def table(first: str) -> list[list[str]]:
    """Return the cells of the table whose heading begins with ``first``."""
    block = next(text for text in PAGE.split("\n\n") if text.startswith(f"| {first} "))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()[2:]]


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
        ("Larger than memory", {opened_log.LARGE, folds.MOST, objective.MAX_KEPT_SCORES}),
        ("Fewer passes", {prepared_log.LARGE, prepared_log.SAMPLE, 4 * prepared_log.SAMPLE}),
        ("Threads", {chunked_log.LARGE, chunked_log.MOST_CONTEXTS, chunked_log.BLOCK_SCORES}),
        ("Clusters", {cluster.FEW}),
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
    assert (prepared_log.GROWTH, optimiser.LARGE_TOLERANCE) == (8, 2e-4)


def test_the_first_table_has_the_sizes_of_the_code():
    rows = table("size of the log | method") + table("size of the log | shortcut")
    text = " ".join(row[0] for row in rows)
    sizes = {opened_log.LARGE, chunked_log.LARGE, 4 * prepared_log.SAMPLE, successive_halving.MANY_SCORES}
    assert sizes | {successive_halving.MANY_ACTIONS} <= numbers_of(text)
