"""Runs on full disks and with a limit on the size of files."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faults.harness import (
    AFTER_FIT,
    FIT,
    assert_results_complete,
    assert_same_files,
    copy_unfinished,
    fault,
    run,
    single_line,
)

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
