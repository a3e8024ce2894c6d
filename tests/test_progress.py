"""Progress bars on a terminal, and the lines of --verbose."""

import io
import json
import re
import sys
import time

import numpy as np
import pytest
from shop import MAPPING, decisions

from drcrm.__main__ import main
from drcrm.data.bandit_log import BanditLog
from drcrm.data.listeners import Listener, report_pass, report_progress, use_listener
from drcrm.progress import show_progress
from drcrm.selection.grid_search import learn
from drcrm.selection.registry.algorithms import Algorithm

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


class Recorder(Listener):
    """Total and sum of the reports by unit."""

    def __init__(self):
        self.totals, self.sums = {}, {}

    def receive_progress(self, amount, unit, total=None):
        self.sums[unit] = self.sums.get(unit, 0) + amount
        if total is not None:
            self.totals[unit] = total


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


def test_without_tqdm_there_are_only_verbose_lines(open_terminal, monkeypatch):
    terminal = open_terminal()
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with show_progress(verbose=True) as report:
        report("reading")
        report_progress(1, "bytes", 2)
    assert re.fullmatch(r"reading: \d+\.\d s\n", terminal.getvalue())


@pytest.mark.parametrize(("safe", "fits", "candidates"), [(False, 2, 2), (True, 5, 10)])
def test_learning_reports_all_fits_and_candidates(safe, fits, candidates):
    rng, recorder = np.random.default_rng(0), Recorder()
    Y, p = np.eye(2)[rng.integers(0, 2, 60)], np.full(60, 0.5)
    train, heldout = (BanditLog(rng.normal(size=(60, 2)), Y, p, -rng.random(60)) for _ in range(2))
    with use_listener(recorder):
        learn(train, Algorithm("KLDRO", "radius", (0.01, 0.1), {"estimate": "dr", "safe": safe}), heldout)
    assert recorder.totals == recorder.sums == {"fits": fits, "candidates": candidates}


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
