"""Jobs and runs that are killed, that have too little memory, or that are two at once."""

from __future__ import annotations

import os
import signal
import time

import pytest
from workflows import command, in_group, interrupt

from faults.harness import (
    AFTER_FIT,
    FIT,
    KILLED_WHILE_WRITING,
    OUT_OF_MEMORY,
    TABLE,
    WAITING,
    fault,
    line,
    run,
    running,
    same,
    unfinished,
    wait,
    whole,
)


@pytest.fixture
def work(finished, tmp_path):
    """A run whose data and log are there; a fit and what comes from it is missing."""
    return unfinished(finished, tmp_path, *AFTER_FIT)


@pytest.mark.parametrize(
    ("python", "message"),
    [
        (KILLED_WHILE_WRITING, "Error in rule fit"),
        (OUT_OF_MEMORY, "drcrm fit: Unable to allocate 1.00 GiB"),
    ],
    ids=["killed", "memory"],
)
def test_a_fit_that_ends_too_soon(work, config, finished, tmp_path, python, message):
    """Killed in the midst of its writing, or out of memory: with more memory it runs."""
    with fault(tmp_path, "fit", FIT, python):
        line(run(work, config, fails=True), message)
    whole(work, finished)
    assert not (work / FIT).exists()
    run(work, config)
    same(work, finished)


def test_all_processes_killed_while_a_fit_is_written(work, config, finished, tmp_path):
    """The next run says how to lift the lock that stays, and changes nothing; then the same command goes on."""
    with (
        fault(tmp_path, "fit", FIT, WAITING + KILLED_WHILE_WRITING),
        running(work, config, (work / "started").exists) as process,
    ):
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        (work / "go").touch()
        wait(lambda: not in_group(process.pid))
    assert list(work.rglob(".part-*"))
    whole(work, finished)
    assert "--unlock" in line(run(work, config, fails=True), "If you are sure that no other instances of snakemake")
    whole(work, finished)
    run(work, config, "--unlock")
    run(work, config)
    same(work, finished)


def test_a_run_that_is_interrupted(work, config, finished, tmp_path):
    with fault(tmp_path, "fit", FIT, WAITING):
        interrupt(command(work, config, TABLE), lambda: list(work.glob("started")))
    whole(work, finished)
    assert not list(work.rglob(".part-*"))
    run(work, config)
    same(work, finished)


def test_two_runs_at_once(work, config, finished, tmp_path):
    with (
        fault(tmp_path, "fit", FIT, WAITING),
        running(work, config, (work / "started").exists) as process,
    ):
        line(run(work, config, fails=True), "Error: Directory cannot be locked.")
        whole(work, finished)
        time.sleep(0.1)
        (work / "go").touch()
        assert process.wait() == 0
    same(work, finished)
