"""Progress on a terminal, and the lines of --verbose."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from shop import MAPPING, decisions
from text_logs import vw_single

from drcrm.data.bandit_log import BanditLog
from drcrm.data.listeners import Listener, report_pass, report_progress, use_listener
from drcrm.logs.readers import table_files as table_reader
from drcrm.logs.readers.log_files import read_records
from drcrm.progress import show_progress
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.grid_search import learn

SOURCE = str(Path(__file__).parent.parent / "src")
REFRESHED = 0.11  # seconds after which tqdm shows something new


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def shown(monkeypatch):
    """Begin to write to a terminal: within a test, as pytest sets stderr after the fixtures."""

    def begin() -> Terminal:
        terminal = Terminal()
        monkeypatch.setattr("sys.stderr", terminal)
        monkeypatch.setattr("tqdm.tqdm.monitor_interval", 0)  # no thread that outlives the test
        return terminal

    return begin


class Recorder(Listener):
    """Total and sum of the reports by unit."""

    def __init__(self):
        self.total, self.done = {}, {}

    def receive_progress(self, amount, unit, total=None):
        self.done[unit] = self.done.get(unit, 0) + amount
        if total is not None:
            self.total[unit] = total


def test_a_terminal_shows_what_is_done_and_how_much_is_left(shown):
    terminal = shown()
    with show_progress() as tell:
        tell("reading")
        assert terminal.getvalue() == "\rreading …"
        tell("learning")
        report_pass(2_000_000)
        time.sleep(REFRESHED)
        report_pass(2_000_000)
        assert re.search(r"\rlearning …, [\d.e+]+ million rows a second *$", terminal.getvalue())
        report_progress(0, "fits", 4)
        time.sleep(REFRESHED)
        report_progress(1, "fits")
        assert re.search(
            r"\rlearning:  25%\|.*\| 1 of 4 fits, 00:00 left, .* million rows a second$", terminal.getvalue()
        )
    assert "\n" not in terminal.getvalue()
    assert re.search(r"\r +\r$", terminal.getvalue())


def test_a_file_has_nothing_unless_it_is_asked_for(capsys):
    with show_progress() as tell:
        tell("learning")
        report_pass(10)
    assert capsys.readouterr() == ("", "")
    with show_progress(verbose=True) as tell:
        tell("reading")
        tell("learning")
        report_pass(10)
        report_progress(1, "fits", 2)
    assert re.fullmatch(
        r"reading: \d+\.\d s\nlearning: \d+\.\d s, 1 passes, [\d.e+-]+ million rows a second\n", capsys.readouterr().err
    )


def test_without_tqdm_only_the_lines_are_left(shown, monkeypatch):
    terminal = shown()
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with show_progress(verbose=True) as tell:
        tell("reading")
        report_progress(1, "bytes", 2)
    assert re.fullmatch(r"reading: \d+\.\d s\n", terminal.getvalue())


def test_a_closed_standard_error_is_none_to_write_to(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    with show_progress(verbose=True) as tell:
        tell("reading")


def test_nobody_hears_of_passes_outside(shown):
    terminal = shown()
    with show_progress() as tell:
        tell("learning")
    before = terminal.getvalue()
    report_pass(10)
    report_progress(1, "fits", 2)
    assert terminal.getvalue() == before


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.parquet", "log.vw", "folder"])
def test_reading_reports_all_bytes(tmp_path, monkeypatch, name):
    monkeypatch.setattr(table_reader, "REPORTED", 1)
    path, frame, mapping = tmp_path / name, decisions(300), MAPPING
    if name == "log.vw":
        path.write_text(vw_single(300))
        mapping = None
    elif name == "log.parquet":
        frame.to_parquet(path, row_group_size=100)
    elif name == "folder":
        path.mkdir()
        for part in "ab":
            frame.to_csv(path / f"{part}.csv", index=False)
    else:
        frame.to_csv(path, index=False)
    size = sum(each.stat().st_size for each in ([path] if path.is_file() else path.iterdir()))
    recorder = Recorder()
    with use_listener(recorder):
        read_records(path, mapping)
    assert recorder.total == {"bytes": size}
    assert 0.98 * size < recorder.done["bytes"] <= size


@pytest.mark.parametrize(("safe", "fits", "candidates"), [(False, 2, 2), (True, 5, 10)])
def test_learning_reports_all_fits_and_candidates(safe, fits, candidates):
    rng, recorder = np.random.default_rng(0), Recorder()
    Y = np.eye(2)[rng.integers(0, 2, 60)]
    train, heldout = (
        BanditLog(rng.normal(size=(60, 2)), Y, propensity=np.full(60, 0.5), cost=-rng.random(60)) for _ in "ab"
    )
    with use_listener(recorder):
        learn(train, Algorithm("KLDRO", "radius", (0.01, 0.1), {"estimate": "dr", "safe": safe}), heldout)
    assert recorder.total == recorder.done == {"fits": fits, "candidates": candidates}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A log, its mapping and a policy."""
    folder = tmp_path_factory.mktemp("log")
    decisions(400).to_csv(folder / "log.csv", index=False)
    (folder / "map.json").write_text(json.dumps(MAPPING | {"algorithm": "cips"}))
    run = [sys.executable, "-m", "drcrm", "learn", "log.csv", "--config", "map.json", "--output", "policy.npz"]
    subprocess.run(run, cwd=folder, env=os.environ | {"PYTHONPATH": SOURCE}, check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("learn log.csv --config map.json --output p.npz", ["reading log.csv", "encoding", "learning: ", "judging"]),
        ("certify policy.npz log.csv", ["reading the policy", "reading log.csv", "encoding", "certifying"]),
        ("evaluate_policy policy.npz log.csv", ["reading the policy", "reading log.csv", "encoding", "judging"]),
        ("diagnose log.csv --config map.json", ["reading log.csv", "encoding", "diagnosing"]),
        ("predict policy.npz log.csv --output o.csv", ["choosing actions for log.csv"]),
    ],
)
def test_every_command_shows_from_its_start_what_it_does(folder, arguments, parts):
    terminal, stderr = pty.openpty()
    command = [sys.executable, "-m", "drcrm", *arguments.split()]
    environment = os.environ | {"PYTHONPATH": SOURCE, "PYTHONUTF8": "1"}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=stderr) as process:
        os.close(stderr)
        said = b""
        try:
            while block := os.read(terminal, 2**16):
                said += block
        except OSError:  # how Linux ends a terminal that nobody writes to any more
            pass
        os.close(terminal)
    assert process.returncode == 0
    text = said.decode()
    places = [text.index(part) for part in [f"\rloading {arguments.split()[0]} …", *(f"\r{part}" for part in parts)]]
    assert places == sorted(places)
    assert places[0] == 0
    assert re.search(r"\r +\r[^…\r]*\s*$", text)  # the bar is gone; predict may add a remark
