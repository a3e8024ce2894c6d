"""Disks that are full, files that may grow no further, folders that may not be written to."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faults.harness import AFTER_FIT, FIT, fault, line, run, same, unfinished, whole

TABLES = "results/tiny/tables"
JOBS = {"fit": (FIT, f"{FIT}'"), "tables": (TABLES, f"{TABLES}/")}  # output, and how the file that is named begins
FULL = "head -c 1G /dev/zero > ballast"


@contextmanager
def mounted(at: Path, *options: str) -> Iterator[None]:
    """A file system mounted for a while; the test is skipped where that is not allowed."""
    done = subprocess.run(["mount", *options, at], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", at], check=True)


def lost(step: str) -> tuple[str, ...]:
    return AFTER_FIT if step == "fit" else ()


@pytest.mark.parametrize("step", JOBS)
def test_a_full_disk(config, finished, tmp_path, step):
    (work := tmp_path / "work").mkdir()
    output, _ = JOBS[step]
    with mounted(work, "-t", "tmpfs", "-o", "size=16m", "tmpfs"):
        unfinished(finished, tmp_path, *lost(step))
        with fault(tmp_path, step, output, shell=FULL):
            assert "No space left on device" in run(work, config, fails=True)
        whole(work, finished)
        (work / "ballast").unlink()
        run(work, config)
        same(work, finished)


@pytest.mark.parametrize("step", JOBS)
def test_a_limit_on_the_size_of_files(config, finished, tmp_path, step):
    work = unfinished(finished, tmp_path, *lost(step))
    output, named = JOBS[step]
    with fault(tmp_path, step, output, shell="ulimit -f 1"):
        said = run(work, config, fails=True)
    assert named in line(said, f"drcrm {step}: [Errno 27] File too large: ")
    whole(work, finished)
    run(work, config)
    same(work, finished)
