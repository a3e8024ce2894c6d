"""Runs that are killed, interrupted, short of memory, or started twice in one folder."""

import os
import signal

import pytest
from fixtures.pipeline import command, in_group, interrupt

from faults.harness import (
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
    running,
    single_line,
    wait,
)


@pytest.fixture
def work(finished, tmp_path):
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
def test_a_run_resumes_after_a_fit_that_failed(work, config, finished, tmp_path, python, message):
    """The fit is killed while it writes, or runs out of memory."""
    with fault(tmp_path, "fit", FIT, python):
        single_line(run(work, config, fails=True), message)
    assert_results_complete(work, finished)
    assert not (work / FIT).exists()
    run(work, config)
    assert_same_files(work, finished)


def test_a_run_resumes_after_all_its_processes_were_killed(work, config, finished, tmp_path):
    """The next run explains how to remove the remaining lock and changes no results."""
    with (
        fault(tmp_path, "fit", FIT, WAITING + KILLED_WHILE_WRITING),
        running(work, config, (work / "started").exists) as process,
    ):
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        (work / "go").touch()
        wait(lambda: not in_group(process.pid))
    assert list(work.rglob(".part-*"))
    assert_results_complete(work, finished)
    assert "--unlock" in single_line(
        run(work, config, fails=True), "If you are sure that no other instances of snakemake"
    )
    assert_results_complete(work, finished)
    run(work, config, "--unlock")
    run(work, config)
    assert_same_files(work, finished)


def test_an_interrupted_run_resumes(work, config, finished, tmp_path):
    with fault(tmp_path, "fit", FIT, WAITING):
        interrupt(command(work, config, TABLE), lambda: list(work.glob("started")))
    assert_results_complete(work, finished)
    assert not list(work.rglob(".part-*"))
    run(work, config)
    assert_same_files(work, finished)
