"""What is said while something works."""

import io
import re

import pytest

from drcrm import progress
from drcrm.core.passes import passed
from drcrm.progress import working


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def shown(monkeypatch):
    """Begin to write to a terminal: within a test, as pytest sets stderr after the fixtures."""

    def begin() -> Terminal:
        terminal = Terminal()
        monkeypatch.setattr("sys.stderr", terminal)
        monkeypatch.setattr(progress, "OFTEN", 0)
        return terminal

    return begin


def test_a_terminal_has_one_line_which_is_gone_in_the_end(shown):
    terminal = shown()
    with working() as tell:
        tell("learning")
        passed(2_000_000)
        passed(2_000_000)
    said = terminal.getvalue()
    assert "\n" not in said
    assert re.search(r"\r\x1b\[Klearning … 2 passes, [\d.e+]+ million rows a second\r\x1b\[K$", said)


def test_a_file_has_nothing_unless_it_is_asked_for(capsys):
    with working() as tell:
        tell("learning")
        passed(10)
    assert capsys.readouterr() == ("", "")
    with working(verbose=True) as tell:
        tell("reading")
        tell("learning")
        passed(10)
    assert re.fullmatch(
        r"reading: \d+\.\d s\nlearning: \d+\.\d s, 1 passes, [\d.e+-]+ million rows a second\n", capsys.readouterr().err
    )


def test_nobody_hears_of_passes_outside(shown):
    terminal = shown()
    with working() as tell:
        tell("learning")
    before = terminal.getvalue()
    passed(10)
    assert terminal.getvalue() == before
