"""Generated tables of the pages are current."""

import re

import build
import pytest

BLOCK = re.compile(r"<!-- (?:table|study|losses)\b[^\n]*? -->\n.*?<!-- end -->", re.DOTALL)
BLOCKS = {
    block[0].split(" -->")[0]: block[0]
    for path in build.hand_written_pages()
    for block in BLOCK.finditer(path.read_text(encoding="utf-8"))
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_table_is_current(name):
    assert build.fill(BLOCKS[name]) == BLOCKS[name], "run `make docs`"


def test_every_table_is_on_a_page():
    assert {f"<!-- table {name}" for name in build.TABLES} <= set(BLOCKS)
