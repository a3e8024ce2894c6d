"""Runs and ``drcrm learn`` that are killed, interrupted, started twice, or short of memory or disk."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fixtures.pipeline import command, in_group, interrupt, running, wait
from fixtures.user_logs import MAPPING, decisions

from faults import (
    AFTER_FIT,
    FIT,
    KILLED_WHILE_WRITING,
    OUT_OF_MEMORY,
    TABLE,
    WAITING,
    assert_results_complete,
    assert_same_files,
    copy_unfinished,
    fault,
    run,
    single_line,
)


@pytest.fixture
def unfinished(finished, tmp_path):
    """A run with data and log, but without a fit and the results of that fit."""
    return copy_unfinished(finished, tmp_path, *AFTER_FIT)


@pytest.mark.parametrize(
    ("python", "message"),
    [
        (KILLED_WHILE_WRITING, "Error in rule fit"),
        (OUT_OF_MEMORY, "drcrm fit: Unable to allocate 1.00 GiB"),
    ],
    ids=["killed", "memory"],
)
def test_a_run_resumes_after_a_fit_that_failed(unfinished, config, finished, tmp_path, python, message):
    """The fit is killed while it writes, or runs out of memory."""
    with fault(tmp_path, "fit", FIT, python):
        single_line(run(unfinished, config, fails=True), message)
    assert_results_complete(unfinished, finished)
    assert not (unfinished / FIT).exists()
    run(unfinished, config)
    assert_same_files(unfinished, finished)


def test_a_run_resumes_after_all_its_processes_were_killed(unfinished, config, finished, tmp_path):
    """The next run explains how to remove the remaining lock and changes no results."""
    with (
        fault(tmp_path, "fit", FIT, WAITING + KILLED_WHILE_WRITING),
        running(command(unfinished, config, TABLE), (unfinished / "started").exists) as process,
    ):
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        (unfinished / "go").touch()
        wait(lambda: not in_group(process.pid))
    assert list(unfinished.rglob(".part-*"))
    assert_results_complete(unfinished, finished)
    assert "--unlock" in single_line(
        run(unfinished, config, fails=True), "If you are sure that no other instances of snakemake"
    )
    assert_results_complete(unfinished, finished)
    run(unfinished, config, "--unlock")
    run(unfinished, config)
    assert_same_files(unfinished, finished)


def test_an_interrupted_run_resumes(unfinished, config, finished, tmp_path):
    with fault(tmp_path, "fit", FIT, WAITING):
        interrupt(command(unfinished, config, TABLE), lambda: list(unfinished.glob("started")))
    assert_results_complete(unfinished, finished)
    assert not list(unfinished.rglob(".part-*"))
    run(unfinished, config)
    assert_same_files(unfinished, finished)


TABLES = "results/tiny/tables"
FULL = "head -c 1G /dev/zero > ballast; truncate -s -4K ballast"  # a page is left for the log


@contextmanager
def mounted(at: Path, *options: str) -> Iterator[None]:
    """Mount a file system inside the block. Skip the test if mounting is not allowed."""
    done = subprocess.run(["mount", *options, at], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", at], check=True)


def test_a_run_resumes_after_a_full_disk(config, finished, tmp_path):
    """The disk is full when the fit writes its result."""
    (work := tmp_path / "work").mkdir()
    with mounted(work, "-t", "tmpfs", "-o", "size=16m", "tmpfs"):
        copy_unfinished(finished, tmp_path, *AFTER_FIT)
        with fault(tmp_path, "fit", FIT, shell=FULL):
            assert "No space left on device" in run(work, config, fails=True)
        assert_results_complete(work, finished)
        (work / "ballast").unlink()
        run(work, config)
        assert_same_files(work, finished)


def test_a_run_resumes_after_a_limit_on_file_sizes(config, finished, tmp_path):
    """The limit stops the step that writes the tables."""
    work = copy_unfinished(finished, tmp_path)
    with fault(tmp_path, "tables", TABLES, shell="ulimit -f 1"):
        message = run(work, config, fails=True)
    assert "'results/tiny/" in single_line(message, "drcrm tables: [Errno 27] File too large: ")
    assert_results_complete(work, finished)
    run(work, config)
    assert_same_files(work, finished)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    decisions(800).to_csv(folder / "log.csv", index=False)
    return folder / "log.csv"


def learn_command(log, folder) -> list[str]:
    options = ["--output", folder / "policy.npz", "--json", folder / "answer.json", "--report", folder / "report.html"]
    return [sys.executable, "-m", "drcrm", "learn", str(log), "--config", json.dumps(MAPPING), *map(str, options)]


def test_learn_reports_a_full_disk_and_leaves_no_files(log, tmp_path):
    (folder := tmp_path / "full").mkdir()
    with mounted(folder, "-t", "tmpfs", "-o", "size=64k", "tmpfs"):
        (folder / "ballast").write_bytes(b"0" * 60_000)
        done = subprocess.run(learn_command(log, folder), capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr.startswith("drcrm learn: [Errno 28] No space left on device")
        assert done.stderr.count("\n") == 1
        assert [path.name for path in folder.iterdir()] == ["ballast"]


@pytest.mark.parametrize("seconds", [0.5, 2, 3])
def test_a_killed_learn_leaves_complete_files(log, tmp_path, seconds):
    """Files under their final names are complete, and a second run replaces them."""
    learning = subprocess.Popen(learn_command(log, tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    learning.kill()
    learning.wait()
    names = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".part-")}
    assert names <= {"policy.npz", "answer.json", "report.html"}
    if "answer.json" in names:
        assert json.loads((tmp_path / "answer.json").read_text())["command"] == "learn"
    subprocess.run(learn_command(log, tmp_path), check=True, stdout=subprocess.DEVNULL)
    assert {"policy.npz", "answer.json", "report.html"} <= {path.name for path in tmp_path.iterdir()}
