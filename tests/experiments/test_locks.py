"""A lock of a folder: shared by a run and its jobs, refused to another run until they all have ended."""

from __future__ import annotations

import subprocess
import sys

from drcrm.experiments.locks import hold

JOB = "import sys; from drcrm.experiments.locks import hold; print(hold(sys.argv[1]), flush=True); sys.stdin.read()"


def test_no_run_starts_before_the_jobs_of_another_have_ended(tmp_path):
    path = str(tmp_path / "lock")
    with subprocess.Popen([sys.executable, "-c", JOB, path], stdin=-1, stdout=-1, text=True) as job:
        assert job.stdout.readline() == "True\n"
        assert not hold(path, alone=True)
    assert hold(path, alone=True)
    assert hold(path)  # a job of it
    assert not hold(path, alone=True)


def test_where_there_are_no_locks_nobody_has_one(tmp_path):
    assert hold(str(tmp_path / "gone/lock"), alone=True)
