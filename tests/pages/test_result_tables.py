"""Generated tables of the pages are current."""

import re

import pytest
from page_numbers import ROOT
from pages.result_tables import TABLES

PAGES = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*/*.md")))


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_current(name):
    [block] = re.findall(rf"<!-- table {name} -->\n\n(.*?)\n<!-- end -->", PAGES, re.S)
    assert block == TABLES[name](), "run `make docs`"
