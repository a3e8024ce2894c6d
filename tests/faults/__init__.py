"""Runs of the workflow with a fault in one job, and checks of the folder after the fault.

The same command then finishes the run. ``make test-faults`` runs the tests.
docs/user-guide/reliability.md describes their results.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fixtures.pipeline import TOY, contents, copied, remove, snakemake

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
# Python that a job runs before its step. The process is killed while it writes the first file of more than 300 bytes.
KILLED_WHILE_WRITING = """
import os, resource, signal
signal.signal(signal.SIGXFSZ, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
"""
# The step asks for more memory than its limit.
OUT_OF_MEMORY = """
import resource
import numpy as np
import drcrm.paper.steps.learn as learning

def fit(*arguments, fit=learning.fit):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, used + 2**26))
    np.ones(2**27)
    fit(*arguments)

learning.fit = fit
"""
# The step waits, as a job of its run, until a file `go` exists.
WAITING = """
import pathlib, time
import drcrm.paper.steps.learn as learning

def fit(*arguments, fit=learning.fit):
    pathlib.Path("started").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    fit(*arguments)

learning.fit = fit
"""


def copy_unfinished(finished: Path, to: Path, *lost: str) -> Path:
    """Return a copy of a finished run's folder without the tables and the ``lost`` files."""
    work = copied(finished, to / "work")
    remove(work, [*lost, *(path.relative_to(work) for path in work.glob("results/tiny/tables/*"))])
    return work


@contextmanager
def fault(folder: Path, step: str, output: str, python: str = "", shell: str = "") -> Iterator[None]:
    """Make the job of ``step`` that writes ``output`` run lines of shell and Python first."""
    programs = folder / "programs"
    programs.mkdir()
    end = "import sys\nfrom drcrm.paper.steps.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
    (programs / "before.py").write_text(f"{python}\n{end}")
    (programs / "python").write_text(  # called as: python -P -m drcrm.paper.steps MODULE.STEP --NAME=PATH …
        f'#!/bin/bash\nif [[ "$4" != *.{step} || "$*" != *"{output}"* ]]; then exec "{sys.executable}" "$@"; fi\n'
        f'{shell}\nexec "{sys.executable}" "{programs}/before.py" "${{@:4}}"\n'
    )
    (programs / "python").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        yield
    shutil.rmtree(programs)


def run(work: Path, config: Path, *arguments: str, fails: bool = False) -> str:
    """Run the workflow with the command that all tests share, and return its output."""
    return snakemake(work, config, TABLE, *arguments, fails=fails)


def assert_results_complete(work: Path, finished: Path) -> None:
    """Check that every file with the name of a result equals the file of an undisturbed run."""
    expected = contents(finished)
    for name, content in contents(work).items():
        assert ".part-" in name or content == expected[name], f"{name} is incomplete"


def assert_same_files(work: Path, finished: Path) -> None:
    """Check that the folder has exactly the files of an undisturbed run, and folders that killed processes left."""
    expected, actual = contents(finished), contents(work)
    actual = {name: content for name, content in actual.items() if ".part-" not in name}
    assert not [name for name in {*expected, *actual} if actual.get(name) != expected.get(name)]


def single_line(output: str, start: str) -> str:
    """Return the only distinct line of an output that begins with ``start``. The output may repeat it."""
    lines = [text.strip() for text in output.splitlines() if text.strip().startswith(start)]
    assert len(set(lines)) == 1, output
    assert "Traceback" not in output
    return lines[0]
