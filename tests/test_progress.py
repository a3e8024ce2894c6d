"""Progress bars on a terminal, and the lines of --verbose."""

import io
import json
import re
import time

import pytest
from fixtures.user_logs import MAPPING, decisions

from drcrm.__main__ import main
from drcrm.progress import report_pass, report_progress, show_progress

REFRESH_TIME = 0.11  # seconds between two updates of a tqdm bar
COMMANDS = {
    "learn log.csv --config map.json --output policy.npz": ["reading log.csv", "encoding", "learning: ", "evaluating"],
    "certify policy.npz log.csv": ["reading the policy", "reading log.csv", "encoding", "evaluating"],
    "predict policy.npz log.csv --output o.csv": ["choosing actions for log.csv"],
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def open_terminal(monkeypatch):
    """Return a function that replaces standard error by a terminal; pytest sets standard error after the fixtures."""

    def replace_stderr() -> Terminal:
        terminal = Terminal()
        monkeypatch.setattr("sys.stderr", terminal)
        monkeypatch.setattr("tqdm.tqdm.monitor_interval", 0)  # no thread that outlives the test
        return terminal

    return replace_stderr


def test_a_terminal_shows_the_task_and_the_remaining_work(open_terminal):
    terminal = open_terminal()
    with show_progress() as report:
        report("reading")
        assert terminal.getvalue() == "\rreading …"
        report("learning")
        report_pass(2_000_000)
        time.sleep(REFRESH_TIME)
        report_pass(2_000_000)
        assert re.search(r"\rlearning …, [\d.e+]+ million rows a second *$", terminal.getvalue())
        report_progress(0, "fits", 4)
        time.sleep(REFRESH_TIME)
        report_progress(1, "fits")
        bar = r"\rlearning:  25%\|.*\| 1 of 4 fits, 00:00 left, .* million rows a second$"
        assert re.search(bar, terminal.getvalue())
    assert "\n" not in terminal.getvalue()
    assert re.search(r"\r +\r$", terminal.getvalue())
    before = terminal.getvalue()
    report_pass(10)
    report_progress(1, "fits", 2)
    assert terminal.getvalue() == before, "reports outside the block are ignored"


def test_a_file_gets_lines_only_if_verbose(capsys):
    with show_progress() as report:
        report("learning")
        report_pass(10)
    assert capsys.readouterr() == ("", "")
    with show_progress(verbose=True) as report:
        report("reading")
        report("learning")
        report_pass(10)
        report_progress(1, "fits", 2)
    lines = r"reading: \d+\.\d s\nlearning: \d+\.\d s, 1 passes, [\d.e+-]+ million rows a second\n"
    assert re.fullmatch(lines, capsys.readouterr().err)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a log, its mapping and a policy."""
    folder = tmp_path_factory.mktemp("log")
    decisions(400).to_csv(folder / "log.csv", index=False)
    (folder / "map.json").write_text(json.dumps(MAPPING | {"algorithm": "cips"}))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["learn", "log.csv", "--config", "map.json", "--output", "policy.npz"]) == 0
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_show_their_tasks(command, folder, open_terminal, monkeypatch):
    monkeypatch.chdir(folder)
    terminal = open_terminal()
    assert main(command.split()) == 0
    text, tasks = terminal.getvalue(), [f"loading {command.split()[0]} …", *COMMANDS[command]]
    places = [text.index(f"\r{task}") for task in tasks]
    assert places == sorted(places)
    assert places[0] == 0
    assert re.search(r"\r +\r[^…\r]*\s*$", text), "the bar is removed; a remark may follow"
