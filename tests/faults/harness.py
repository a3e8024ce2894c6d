"""Runs of the workflow with a fault in one of their jobs, and what must be true of a folder after one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from workflows import PROJECT, TOY, command, contents, copied, environment, in_group, snakemake

TABLE = "results/tiny/tables/expected_loss.csv"
FOLDER = "results/tiny/runs/toy/seed0/replay2"
FIT = f"{FOLDER}/my_dro.npz"
AFTER_FIT = (FIT, f"{FOLDER}/metrics.csv", f"{FOLDER}/grids.csv", "results/tiny/metrics.csv")
CONFIG = {
    "run": ["tiny"],
    "datasets": {"toy": TOY},
    "algorithms": {"my_dro": {"estimator": "KLDRO", "parameter": "radius", "grid": [0.01, 0.1]}},
    "experiments": {
        "tiny": {
            "datasets": ["toy"],
            "seeds": 1,
            "replay_count": 2,
            "selection": ["snips"],
            "logging_fraction": 0.5,
            "algorithms": ["cips", "my_dro"],
        }
    },
}
# Python that a job runs before its step: the kernel ends it in the midst of the first file of more than 300 bytes.
KILLED_WHILE_WRITING = """
import os, resource, signal
signal.signal(signal.SIGXFSZ, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
"""
# It asks for more memory than it may have.
OUT_OF_MEMORY = """
import resource
import numpy as np
import drcrm.experiments.steps.learning as learning

def fit(*arguments, fit=learning.fit):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, used + 2**26))
    np.ones(2**27)
    fit(*arguments)

learning.fit = fit
"""
# As a job of its run, it waits until there is a file `go`.
WAITING = """
import pathlib, time
import drcrm.experiments.steps.learning as learning

def fit(*arguments, fit=learning.fit):
    pathlib.Path("started").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    fit(*arguments)

learning.fit = fit
"""


def unfinished(finished: Path, to: Path, *lost: str) -> Path:
    """A copy of a finished run's folder without the files named and the tables."""
    work = copied(finished, to / "work")
    for name in (*lost, *(path.relative_to(work) for path in work.glob("results/tiny/tables/*"))):
        (work / name).unlink()
    return work


@contextmanager
def fault(folder: Path, step: str, output: str, python: str = "", shell: str = "") -> Iterator[None]:
    """Let the job of a step that writes ``output`` run lines of the shell, and of Python, before it."""
    programs = folder / "programs"
    programs.mkdir()
    end = "import sys\nfrom drcrm.experiments.steps.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
    (programs / "before.py").write_text(f"{python}\n{end}")
    (programs / "python").write_text(  # called as: python -P -m drcrm.experiments.steps STEP FILES PARAMETERS
        f'#!/bin/bash\nif [[ "$4" == "{step}" && "$5" == *"{output}"* ]]; then\n{shell}\n'
        f'exec "{sys.executable}" "{programs}/before.py" "${{@:4}}"\nfi\nexec "{sys.executable}" "$@"\n'
    )
    (programs / "python").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        yield
    shutil.rmtree(programs)


@contextmanager
def running(work: Path, config: Path, look: Callable[[], bool]) -> Iterator[subprocess.Popen]:
    """A run in a process group of its own, from when ``look`` is true; at the end nothing of it is left."""
    process = subprocess.Popen(
        command(work, config, TABLE),
        cwd=PROJECT,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait(lambda: look() or process.poll() is not None)
        assert process.poll() is None, "ended before the fault"
        yield process
    finally:
        if in_group(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait(until: Callable[[], bool], seconds: float = 240) -> None:
    """Wait for something to be true."""
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def run(work: Path, config: Path, *arguments: str, fails: bool = False) -> str:
    """The command of which every test runs the same, and what it says."""
    return snakemake(work, config, TABLE, *arguments, fails=fails)


def whole(work: Path, finished: Path) -> None:
    """Every file that is there, under the name of a result, is what an undisturbed run has."""
    expected = contents(finished)
    for name, content in contents(work).items():
        assert ".part-" in name or content == expected[name], f"{name} is not whole"


def same(work: Path, finished: Path) -> None:
    """All files are those of an undisturbed run, and no others."""
    expected, found = contents(finished), contents(work)
    assert not [name for name in {*expected, *found} if found.get(name) != expected.get(name)]
    assert not [path for path in work.rglob("*") if ".part-" in path.name]


def line(output: str, start: str) -> str:
    """The one line of an output that starts so; what the log says of a failed job is in it."""
    found = [each.strip() for each in output.splitlines() if each.strip().startswith(start)]
    assert len(set(found)) == 1, output
    assert "Traceback" not in output
    return found[0]
