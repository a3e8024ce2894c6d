"""The hand-written documentation stays short. Generated blocks and the blank lines after them do not count."""

import re
import subprocess

import pytest
from page_numbers import ROOT

GENERATED = re.compile(r"<!-- (?!end )[^\n]+ -->\n.*?<!-- end -->\n*", re.DOTALL)
MAX_LINES, MAX_WORDS = 2840, 1000


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The text of every committed page, without generated blocks."""
    command = ["git", "ls-files", "README.md", "CONTRIBUTING.md", "docs/*.md"]
    paths = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return {path: GENERATED.sub("", (ROOT / path).read_text(encoding="utf-8")) for path in paths}


def test_pages_together_have_few_lines(pages):
    lines = {path: len(text.splitlines()) for path, text in pages.items()}
    assert sum(lines.values()) <= MAX_LINES, sorted(lines.items(), key=lambda item: -item[1])[:10]


def test_every_page_has_few_words(pages):
    words = {path: sum(any(map(str.isalpha, word)) for word in text.split()) for path, text in pages.items()}
    assert {path: count for path, count in words.items() if count > MAX_WORDS} == {}
