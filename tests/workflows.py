"""The workflow run from tests: a synthetic data set, the command and its environment, and the files of a run."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import yaml

PROJECT = Path(__file__).resolve().parents[1]
TOY = {"train": ["train.svm"], "test": ["test.svm"], "features": 3, "labels": 3, "rows": [40, 20]}


def write_data(folder: Path) -> None:
    """Write 40 training and 20 test contexts as LibSVM text."""
    rng = np.random.default_rng(0)
    weights = np.array([[1, -1, 0.5], [-1, 1, 1], [0.5, 1, -1]])
    for name, rows in zip(("train.svm", "test.svm"), TOY["rows"], strict=True):
        X = rng.normal(size=(rows, 3))
        labels = X @ weights + rng.normal(size=(rows, 3)) > 0
        with open(folder / name, "w") as stream:
            for x, present in zip(X, labels, strict=True):
                features = " ".join(f"{index}:{value:.4f}" for index, value in enumerate(x, start=1))
                stream.write(f"{','.join(map(str, np.flatnonzero(present)))} {features}\n")


def command(work: Path, config: Path | None = None, *arguments: str, project: Path = PROJECT) -> list[str]:
    """Return the command that runs the workflow in a folder, by default on two cores."""
    start = [sys.executable, "-m", "snakemake", "--snakefile", f"{project}/Snakefile", "--directory", f"{work}"]
    return [*start, "--cores=2", *arguments, *(["--configfile", f"{config}"] if config else [])]


def snakemake(work: Path, config: Path, *arguments: str, project: Path = PROJECT, fails: bool = False) -> str:
    """Run the workflow and return its output."""
    return check(command(work, config, *arguments, project=project), fails)


def check(command: list[str], fails: bool = False) -> str:
    """Run a command in the project's folder, check that it succeeds or fails, and return its output."""
    done = subprocess.run(
        command,
        cwd=PROJECT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1200,
        check=False,
    )
    assert (done.returncode != 0) == fails, done.stdout
    return done.stdout


def environment() -> dict[str, str]:
    """Return an environment in which processes import this project and Snakemake has its defaults."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SNAKEMAKE_")}
    return kept | {"PYTHONPATH": f"{PROJECT / 'src'}"}


def write_config(folder: Path, config: dict) -> Path:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def contents(work: Path) -> dict[str, bytes]:
    """Return the pipeline's files by name, without logs, the report and the origin of data."""
    paths = [path for folder in ("resources", "results") for path in (work / folder).rglob("*") if path.is_file()]
    kept = [path for path in paths if path.suffix != ".log" and path.name not in ("report.html", "origin.json")]
    return {path.relative_to(work).as_posix(): path.read_bytes() for path in kept}


def copied(work: Path, to: Path) -> Path:
    """Copy a working folder with its modification times, which Snakemake compares."""
    return shutil.copytree(work, to, dirs_exist_ok=True)


def remove(work: Path, names: list[str]) -> None:
    for name in names:
        (work / name).unlink()


def jobs(output: str) -> dict[str, int]:
    """Return the number of jobs of each rule in the table of a run or a dry run."""
    planned = re.findall(r"^(\w+) +(\d+)$", output, flags=re.MULTILINE)
    return {rule: int(count) for rule, count in planned if rule != "total"}


def interrupt(command: list[str], look: Callable[[], list[Path]]) -> Path:
    """Start a command, interrupt it like Ctrl-C once ``look`` finds a file, and return that file."""
    process = subprocess.Popen(
        command,
        cwd=PROJECT,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background processes may ignore it
    )
    try:
        deadline = time.monotonic() + 120
        while not (files := look()):
            assert process.poll() is None, "ended before it could be interrupted"
            assert time.monotonic() < deadline, "nothing to interrupt"
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=60) != 0
        while in_group(process.pid):  # jobs may end after the process that started them
            assert time.monotonic() < deadline + 60, "jobs go on after an interruption"
            time.sleep(0.02)
    finally:
        process.kill()
    return files[0]


def in_group(group: int) -> bool:
    """Return whether a process group has any process left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
