"""Runs of the workflow, on a Slurm or without, and what they leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from cluster import Cluster

PROJECT = Path(__file__).resolve().parents[2]
PROFILE = ["--workflow-profile", f"{PROJECT}/profiles/slurm"]
QUICK = [  # a private Slurm may be polled more often; it has no accounting database
    "--slurm-init-seconds-before-status-checks=2",
    "--latency-wait=10",
    "--slurm-status-command=squeue",
]
LIMIT = 1200  # seconds that a run may take
FOREIGN = ("SNAKEMAKE_", "DRCRM_", "PYTHONPATH")  # variables that would change the workflow


class Run:
    """The workflow in a folder, submitted to a Slurm through the project's profile."""

    def __init__(self, cluster: Cluster, work: Path, *arguments: str):
        work.mkdir(parents=True, exist_ok=True)
        self.said = work / "said.log"
        with open(self.said, "a") as stream:
            self.process = subprocess.Popen(
                [*command(*arguments), *PROFILE, *QUICK],
                cwd=work,
                env=environment(cluster.environment()),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # pytest may have been told to ignore it, in the background of a script
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def end(self) -> str:
        """Wait for the end, see that it is a good one, and return what was said."""
        code = self.process.wait(timeout=LIMIT)
        said = self.said.read_text()
        assert code == 0, said[-8000:]
        return said

    def interrupt(self) -> None:
        """Stop it as Ctrl-C does, if it still runs: Snakemake then cancels its jobs."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(timeout=120)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def run_here(work: Path, *arguments: str) -> None:
    """Run the workflow in a folder without Slurm."""
    given = {"cwd": work, "env": environment(os.environ), "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command("--cores=2", *arguments), **given, text=True, check=False)
    assert done.returncode == 0, done.stdout


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "snakemake", "--snakefile", f"{PROJECT}/Snakefile", *arguments]


def environment(variables) -> dict[str, str]:
    """Variables without what would change the workflow; the Python that runs is the first on the path."""
    kept = {name: value for name, value in variables.items() if not name.startswith(FOREIGN)}
    return {**kept, "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}"}


def results(work: Path, experiment: str) -> dict[str, bytes]:
    """All that an experiment leaves, by name, but logs, benchmarks, its provenance and the report."""
    folder = work / "results" / experiment
    left_out = {".log", ".tsv", "provenance.json", "report.html"}
    kept = (path for path in folder.rglob("*") if path.is_file() and not {path.suffix, path.name} & left_out)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in kept}
